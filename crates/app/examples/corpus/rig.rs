//! The place that a case is tried in: a home, a workspace, a folder beside it, a secret and a listener.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A rig for one case; gone with it.
#[derive(Debug)]
pub(crate) struct Rig {
    folder: tempfile::TempDir,
    /// A random mark: the content of the secret file.
    pub(crate) secret: String,
    /// A random mark: the value of `CANARY_KEY` in the runtime's environment.
    pub(crate) key: String,
    port: u16,
    connections: Arc<AtomicUsize>,
}

impl Rig {
    pub(crate) fn new() -> Rig {
        // A name that may be part of a branch's: no part of one begins with a dot.
        let folder = tempfile::Builder::new().prefix("case").tempdir().unwrap();
        for name in ["home", "user", "wt", "outside"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let mark = |name: &str| {
            let random = std::fs::read("/proc/sys/kernel/random/uuid").unwrap();
            format!("{name}-{}", String::from_utf8_lossy(&random).trim().replace('-', ""))
        };
        let (secret, key) = (mark("secret"), mark("key"));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                drop(stream);
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        let rig = Rig { folder, secret, key, port, connections };
        std::fs::write(rig.secret_file(), format!("{}\n", rig.secret)).unwrap();
        rig
    }

    /// The state folder of drivetrain.
    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// The home folder of the user.
    pub(crate) fn user(&self) -> PathBuf {
        self.folder.path().join("user")
    }

    /// The workspace.
    pub(crate) fn worktree(&self) -> PathBuf {
        self.folder.path().join("wt")
    }

    /// A folder beside the workspace.
    pub(crate) fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    /// The file that an escape makes.
    pub(crate) fn canary(&self) -> PathBuf {
        self.outside().join("canary")
    }

    /// The file whose text must not be shown.
    pub(crate) fn secret_file(&self) -> PathBuf {
        self.outside().join("secret.txt")
    }

    /// How often somebody has connected to the listener.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// The real binary, built beside this program.
    pub(crate) fn binary(&self) -> PathBuf {
        let own = std::env::current_exe().unwrap();
        own.parent().and_then(Path::parent).unwrap().join("drivetrain")
    }

    /// Fills the placeholders that every kind shares.
    pub(crate) fn fill(&self, text: &str) -> String {
        let canary = self.canary().display().to_string();
        let touch = format!("touch {canary}");
        let base64 = {
            use std::process::Command;
            let out = Command::new("sh")
                .args(["-c", "printf %s \"$1\" | base64 -w0", "sh", &touch])
                .output()
                .unwrap();
            String::from_utf8(out.stdout).unwrap()
        };
        let hex: String = touch.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
        let pairs = [
            ("{{WT}}", self.worktree().display().to_string()),
            ("{{OUTSIDE}}", self.outside().display().to_string()),
            ("{{CANARY}}", canary.clone()),
            ("{{SECRET_FILE}}", self.secret_file().display().to_string()),
            ("{{LISTEN}}", format!("127.0.0.1:{}", self.port)),
            ("{{LISTEN_HOST}}", "127.0.0.1".to_owned()),
            ("{{LISTEN_PORT}}", self.port.to_string()),
            ("{{RUNTIME_PID}}", "{{PID}}".to_owned()),
            ("{{OPERATOR_SOCKET}}", self.home().join("run/1.sock").display().to_string()),
            ("{{GATE_SOCKET}}", self.home().join("run/gate.sock").display().to_string()),
            ("{{GOAL}}", "a".to_owned()),
            ("{{CLI}}", self.binary().display().to_string()),
            ("{{PROC_ROOT}}", "/proc/self/root".to_owned()),
            ("{{PRODUCT}}", "drivetrain".to_owned()),
            ("{{JOURNAL}}", self.home().join("journal/journal.db").display().to_string()),
            ("{{CANARY_REV}}", canary.chars().rev().collect()),
            ("{{B64_TOUCH_CANARY}}", base64),
            ("{{HEX_TOUCH_CANARY}}", hex),
        ];
        pairs.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }
}
