//! What the inside looks like: the whole file system read-only, without homes, sockets and this program's own state,
//! with the workspace in it. A list of mounts, each laid over those before it.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use machine::policy::protected;
use machine::policy::sandbox::{Level, Network};
use rustix::fs::{MemfdFlags, memfd_create};

use super::git::Repository;
use super::masks::{Cover, Masks, bare_names, names};
use super::{Access, Sandbox};

/// Folders of a home that hold programs and no secrets. Shown read-only where they exist.
const TOOLCHAINS: [&str; 32] = [
    ".asdf",
    ".bun",
    ".cargo/bin",
    ".cargo/config.toml",
    ".cargo/env",
    ".cargo/git",
    ".cargo/registry",
    ".deno",
    ".dotnet",
    ".elan",
    ".fnm",
    ".ghcup",
    ".juliaup",
    ".local/bin",
    ".local/lib",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pnpm",
    ".local/share/rtx",
    ".local/share/uv",
    ".m2/repository",
    ".nix-profile",
    ".nodenv",
    ".nvm",
    ".opam",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rvm",
    ".sdkman",
    ".volta",
    "go",
];

/// Folders right below those in which programs keep secrets all the same: what `uv auth login` was told, keys of .NET.
const KEPT_BACK: [&str; 2] = [".dotnet/corefx", ".local/share/uv/credentials"];

/// Names in a home that programs read when they start.
const STARTS: [&str; 20] = [
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".config",
    ".gitconfig",
    ".inputrc",
    ".kshrc",
    ".local",
    ".netrc",
    ".npmrc",
    ".pam_environment",
    ".profile",
    ".ssh",
    ".tmux.conf",
    ".vimrc",
    ".zlogin",
    ".zprofile",
    ".zshenv",
    ".zshrc",
];

/// Folders that hold other people's files, sockets or what nobody else shall see.
const HIDDEN: [&str; 7] = ["/home", "/media", "/root", "/run", "/tmp", "/var/run", "/var/tmp"];

/// Files that only root can read: nobody misses them, and a runtime of root would show them.
const SECRETS: [&str; 17] = [
    "/etc/NetworkManager/system-connections",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/krb5.keytab",
    "/etc/letsencrypt",
    "/etc/security/opasswd",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssl/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/wireguard",
    "/lost+found",
    "/var/spool/cron",
];

/// Devices that every program may use, where there is no `/dev` of its own: the others are disks, terminals and memory that
/// others share.
const DEVICES: [&str; 7] =
    ["/dev/full", "/dev/null", "/dev/ptmx", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero"];

/// As deep as folders of `/etc` are looked into.
const DEEPEST: usize = 8;

/// Folders that every program needs: nothing that is hidden may hold one of them.
const SYSTEM: [&str; 11] =
    ["/", "/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr", "/var"];

/// Folders whose other entries are no strangers to what lies in them.
const SHARED: [&str; 9] =
    ["/", "/opt", "/srv", "/usr", "/usr/local", "/usr/src", "/var", "/var/lib", "/mnt"];

/// One step in laying out the inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mount {
    /// As it is outside, but read-only.
    Show(PathBuf),
    /// The first at the place of the second, read-only.
    ShowAt(PathBuf, PathBuf),
    /// As it is outside, writable.
    Write(PathBuf),
    /// An empty folder of its own.
    Hide(PathBuf),
    /// Nothing that could be opened.
    Close(PathBuf),
    /// A file with this text, read-only.
    Fill(PathBuf, String),
}

/// The inside, laid out.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) mounts: Vec<Mount>,
    /// What can be written, for the second wall.
    pub(super) write: Vec<PathBuf>,
    /// Which of it is private to the inside.
    private: Vec<PathBuf>,
    /// Which of that is so wherever the workspace is.
    strangers: Vec<PathBuf>,
    /// Folders of secrets in what is shown.
    kept_back: Vec<PathBuf>,
    /// What can be read where nothing is hidden by mounts.
    pub(super) read: Vec<PathBuf>,
    /// The repository, if there is one that can be written.
    pub(super) repository: Option<Repository>,
    pub(super) masks: Masks,
    /// Names that are covered only where they are missing.
    stood_in: Vec<PathBuf>,
    /// Whether anything can be mounted: else what must not be there is removed afterwards.
    can_mount: bool,
}

impl View {
    /// Lays out the inside for a sandbox. The error says what cannot be had.
    pub(super) fn of(sandbox: &Sandbox) -> Result<View, String> {
        let can_mount = sandbox.spec.level == Level::Full;
        let mut view = View { can_mount, ..View::default() };
        let home = home();
        view.hide_strangers(sandbox, home.as_deref())?;
        view.show_tools(home.as_deref(), &sandbox.spec.network);
        let ground = ground(sandbox);
        for path in &sandbox.spec.read {
            view.show(&asked_for(path, &ground)?);
        }
        for path in &sandbox.spec.write {
            let path = asked_for(path, &ground)?;
            check_writable(&path, home.as_deref())?;
            view.write(path);
        }
        for path in &sandbox.shown {
            if let (Ok(real), false) = (path.canonicalize(), is_turned(path, &ground))
                && !view.holds_strangers(&real)
            {
                view.show(&real);
            }
        }
        view.place_workspace(sandbox, home.as_deref())?;
        for (from, to) in &sandbox.shared {
            view.mounts.push(Mount::ShowAt(from.clone(), to.clone()));
        }
        Ok(view)
    }

    /// Homes, sockets, temporary files, and what lies beside the workspace.
    fn hide_strangers(&mut self, sandbox: &Sandbox, home: Option<&Path>) -> Result<(), String> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let named = HIDDEN.iter().map(PathBuf::from).chain(home.map(Path::to_owned));
        let real = |path: PathBuf| path.canonicalize().ok().filter(|path| path.is_dir());
        let windows = homes_of_windows(Path::new("/mnt"));
        self.strangers = named.chain(runtime).chain(windows).filter_map(real).collect();
        let beside = sandbox.workspace.clone().and_then(real).and_then(|workspace| {
            let top = self.repository_of(&workspace).map(|found| found.top);
            let parent = top.as_deref().unwrap_or(&workspace).parent()?;
            (!SHARED.iter().any(|shared| Path::new(shared) == parent)).then(|| parent.to_owned())
        });
        let mut hidden = self.strangers.clone();
        hidden.extend(beside.and_then(real));
        hidden.sort();
        hidden.dedup();
        for path in hidden {
            if SYSTEM.iter().any(|system| Path::new(system).starts_with(&path)) {
                if Some(path.as_path()) == home {
                    return Err(format!(
                        "your home folder is {}, which cannot be hidden from commands; set HOME to a folder of your own",
                        path.display()
                    ));
                }
                continue;
            }
            self.mounts.push(Mount::Hide(path.clone()));
            self.private.push(path.clone());
            self.write.push(path);
        }
        // What the runtime itself cannot read is closed by the kernel as it is: each mount has its price at every start.
        let is_open = |path: &&Path| {
            let may = |how| rustix::fs::access(*path, how).is_ok();
            may(rustix::fs::Access::READ_OK) || may(rustix::fs::Access::EXEC_OK)
        };
        for path in SECRETS.iter().map(Path::new).filter(is_open) {
            let closed = if path.is_dir() { Mount::Hide } else { Mount::Close };
            self.mounts.push(closed(path.to_owned()));
        }
        self.read.extend(
            [
                "/bin", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/nix", "/opt", "/proc",
                "/sbin", "/sys", "/usr",
            ]
            .map(PathBuf::from),
        );
        self.write.push(PathBuf::from("/dev"));
        // What a process may change of itself is there, and for root the settings of the kernel are beside it, which
        // bubblewrap leaves open: one of them names a program that is started outside.
        if !rustix::process::geteuid().is_root() {
            self.write.push(PathBuf::from("/proc"));
        }
        Ok(())
    }

    /// The repository that a folder is in. One that is around what is hidden, as where somebody keeps all of a home in
    /// git, is not that of a folder below: its files would be seen.
    fn repository_of(&self, folder: &Path) -> Option<Repository> {
        Repository::find(folder)
            .filter(|found| found.top == folder || !self.holds_strangers(&found.top))
    }

    /// Whether a folder is one that is hidden wherever the workspace is, or holds one.
    fn holds_strangers(&self, folder: &Path) -> bool {
        self.strangers.iter().any(|hidden| hidden.starts_with(folder))
    }

    /// Programs that live in hidden places.
    fn show_tools(&mut self, home: Option<&Path>, network: &Network) {
        if let Some(home) = home {
            for name in TOOLCHAINS {
                let path = home.join(name);
                // The place for tokens is another file, but some write them here.
                let holds_token = name.ends_with("config.toml")
                    && fs::read_to_string(&path).is_ok_and(|text| text.contains("token"));
                if let (Ok(path), false) = (path.canonicalize(), holds_token) {
                    self.show(&path);
                }
            }
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        for folder in std::env::split_paths(&path).filter(|folder| folder.is_absolute()) {
            let Ok(mut folder) = folder.canonicalize() else { continue };
            // Programs of a toolchain need the rest of it.
            let root = folder.ancestors().find(|above| {
                TOOLCHAINS.iter().any(|name| name.starts_with('.') && above.ends_with(name))
            });
            if let Some(root) = root.map(Path::to_owned) {
                folder = root;
            }
            if self.mounts.contains(&Mount::Show(folder.clone())) {
                continue;
            }
            if folder.is_dir() && self.hides(&folder) && !self.holds_strangers(&folder) {
                self.show(&folder);
            }
        }
        let kept_back = |name: &str| home.and_then(|home| home.join(name).canonicalize().ok());
        for path in KEPT_BACK.into_iter().filter_map(kept_back).filter(|path| path.is_dir()) {
            self.mounts.push(Mount::Hide(path.clone()));
            self.kept_back.push(path);
        }
        let mut more = vec![PathBuf::from("/run/current-system")];
        if *network == Network::Open {
            more.extend(["/etc/resolv.conf", "/etc/hosts"].map(PathBuf::from));
        }
        for path in more.iter().filter_map(|path| path.canonicalize().ok()) {
            if self.hides(&path) {
                self.show(&path);
            }
        }
    }

    /// The workspace, its repository, this program's own state, and the names that nobody writes.
    fn place_workspace(&mut self, sandbox: &Sandbox, home: Option<&Path>) -> Result<(), String> {
        let workspace = match &sandbox.workspace {
            Some(path) => Some(path.canonicalize().map_err(|error| {
                format!("the workspace {} cannot be used: {error}", path.display())
            })?),
            None => None,
        };
        let state: Vec<PathBuf> =
            sandbox.hidden.iter().filter_map(|path| path.canonicalize().ok()).collect();
        let repository = workspace.as_deref().and_then(|path| self.repository_of(path));
        let top = match (&workspace, &repository) {
            // A working tree in this program's own state was made for the task: all of it is the worker's.
            (Some(path), Some(found)) if state.iter().any(|state| found.top.starts_with(state)) => {
                Some((path.clone(), found.top.clone()))
            }
            (Some(path), _) => Some((path.clone(), path.clone())),
            (None, _) => None,
        };
        if let (Some(found), Some((_, top))) = (&repository, &top)
            && found.top != *top
        {
            self.show(&found.top);
        }
        let is_home = |path: &Path| self.can_mount && home == Some(path);
        let works_at_home = top.as_ref().is_some_and(|(path, _)| is_home(path));
        if let (Some((path, _)), false) = (&top, works_at_home) {
            check_writable(path, home)?;
        }
        let inside_state =
            top.as_ref().is_some_and(|(_, top)| state.iter().any(|state| top.starts_with(state)));
        let place = |view: &mut View| match (&top, sandbox.access) {
            (Some((_, top)), Access::Write) => view.write(top.clone()),
            (Some((_, top)), Access::Read) => view.show(top),
            (None, _) => {}
        };
        if !inside_state {
            place(self);
        }
        for path in &state {
            self.mounts.push(Mount::Hide(path.clone()));
        }
        if inside_state {
            place(self);
        }
        if let (Some(home), true) = (home, works_at_home) {
            self.close_home(home)?;
            self.show_tools(Some(home), &sandbox.spec.network);
        }
        if let Some(gate) = sandbox.gate.as_ref().and_then(|gate| gate.canonicalize().ok()) {
            self.show(&gate);
        }
        if let Some(own) = &sandbox.own {
            let own = own
                .canonicalize()
                .map_err(|error| format!("the folder {} cannot be used: {error}", own.display()))?;
            self.write(own);
        }
        if let Some(found) = repository {
            self.place_repository(&found, sandbox.access)?;
            self.repository = Some(found);
        }
        if let (Some((path, top)), Access::Write) = (top, sandbox.access) {
            self.close_names(&path, &top)?;
            if let Some(found) = &self.repository {
                let ignored = ignored(&found.top, &self.stood_in);
                self.mounts.push(Mount::Fill(IGNORED.into(), ignored));
            }
        }
        Ok(())
    }

    /// Where the home itself is worked in, all that is the user's own in it is out of sight, and what would start with the
    /// user's next shell cannot be made.
    fn close_home(&mut self, home: &Path) -> Result<(), String> {
        let failed = |error: &io::Error| unprotected(home, error);
        for entry in fs::read_dir(home).map_err(|error| failed(&error))? {
            let entry = entry.map_err(|error| failed(&error))?;
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if !name.starts_with('.') || protected::part(&name).is_some() {
                continue;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.mounts.push(Mount::Hide(path)),
                Ok(kind) if kind.is_file() => self.mounts.push(Mount::Close(path)),
                _ => {
                    self.masks.cover(&path).map_err(|error| unprotected(&path, &error))?;
                }
            }
        }
        for path in STARTS.iter().map(|name| home.join(name)).filter(|path| !path.exists()) {
            self.lay_over(path)?;
        }
        Ok(())
    }

    /// Covers a name, and mounts what that takes.
    fn lay_over(&mut self, path: PathBuf) -> Result<(), String> {
        match self.masks.cover(&path).map_err(|error| unprotected(&path, &error))? {
            Cover::Frozen => self.mounts.push(Mount::Show(path)),
            Cover::Closed => self.mounts.push(Mount::Close(path)),
            Cover::Watched | Cover::Needless => {}
        }
        Ok(())
    }

    fn place_repository(&mut self, found: &Repository, access: Access) -> Result<(), String> {
        // Where nothing can be mounted, a worker can write into a repository from whom it borrows.
        for lent in if self.can_mount { found.borrowed() } else { Vec::new() } {
            self.show(&lent);
        }
        if access == Access::Read {
            self.show(&found.common);
            return Ok(());
        }
        if !found.is_main() {
            self.show_shared(found);
        }
        for folder in found.writable() {
            self.write(folder);
        }
        if self.can_mount {
            found.make_frozen();
        }
        for path in found.frozen() {
            if path.ends_with("commondir") {
                let covered = self.can_mount && self.masks.cover_common(&path).is_ok();
                if !covered {
                    self.masks.keep_absent(path.clone());
                }
            }
            if path.ends_with("hooks") && self.can_mount {
                self.masks.folder(&path).map_err(|error| unprotected(&path, &error))?;
            }
            match fs::symlink_metadata(&path) {
                Ok(meta) if !meta.is_symlink() => self.mounts.push(Mount::Show(path)),
                Ok(_) => {
                    self.masks.cover(&path).map_err(|error| unprotected(&path, &error))?;
                }
                // Where git reads it, it would be believed while it is there.
                Err(_)
                    if path.ends_with("config.worktree")
                        && self.can_mount
                        && found.has_settings_of_trees() =>
                {
                    self.masks.cover(&path).map_err(|error| unprotected(&path, &error))?;
                    // Git has to read it.
                    self.mounts.push(Mount::Show(path));
                }
                Err(_) if path.ends_with("config.worktree") => {
                    self.masks.keep_absent(path);
                }
                Err(_) => {}
            }
        }
        for folder in found.written() {
            self.masks.no_new_links(folder);
        }
        Ok(())
    }

    /// What all working trees of a repository share, read-only, in a folder of its own: git locks what it does not
    /// change, and complains where it cannot. What others have there for a moment (their locks, what they fetch, a
    /// rebase that is under way) is for those others, and could be gone before it is shown.
    fn show_shared(&mut self, found: &Repository) {
        self.mounts.push(Mount::Hide(found.common.clone()));
        if self.can_mount {
            self.write.push(found.common.clone());
        }
        let packed = found.common.join("packed-refs");
        let mut is_packed = false;
        for path in found.shared() {
            is_packed |= path == packed;
            self.show(&path);
        }
        // Branches that are packed away inside would be gone outside.
        if !is_packed {
            self.mounts.push(Mount::Fill(packed, String::new()));
        }
    }

    /// Makes the names that steer other programs unwritable, from the top of what is writable down to the folder that
    /// commands run in.
    fn close_names(&mut self, folder: &Path, top: &Path) -> Result<(), String> {
        let mut levels: Vec<&Path> =
            folder.ancestors().take_while(|above| above.starts_with(top)).collect();
        levels.reverse();
        for level in levels {
            if level != top {
                // A folder that is mounted on cannot be renamed away from what is closed in it.
                self.mounts.push(Mount::Write(level.to_owned()));
            }
            for path in names(level) {
                // The repository in it has been placed already.
                let is_repository = self.repository.as_ref().is_some_and(|found| found.own == path);
                if is_repository {
                    continue;
                }
                if !self.can_mount {
                    self.masks.watch(path).map_err(|error| unprotected(level, &error))?;
                    continue;
                }
                self.lay_over(path)?;
            }
            // Where `.git` is a file that is kept as it is, git looks no further.
            let is_linked =
                level == top && self.repository.as_ref().is_some_and(|found| !found.is_main());
            if is_linked {
                continue;
            }
            if !self.can_mount {
                let head = level.join("HEAD");
                self.masks.watch(head).map_err(|error| unprotected(level, &error))?;
                continue;
            }
            for path in bare_names(level) {
                self.lay_over(path.clone())?;
                self.stood_in.push(path);
            }
        }
        Ok(())
    }

    fn show(&mut self, path: &Path) {
        self.mounts.push(Mount::Show(path.to_owned()));
        self.read.push(path.to_owned());
    }

    fn write(&mut self, path: PathBuf) {
        self.mounts.push(Mount::Write(path.clone()));
        self.read.push(path.clone());
        self.write.push(path);
    }

    fn hides(&self, path: &Path) -> bool {
        self.mounts.iter().any(|mount| match mount {
            Mount::Hide(hidden) => path.starts_with(hidden),
            Mount::Show(_)
            | Mount::ShowAt(..)
            | Mount::Write(_)
            | Mount::Close(_)
            | Mount::Fill(..) => false,
        })
    }

    /// What can be written where nothing is private: the workspace, and a folder for temporary files.
    pub(super) fn write_reduced(&self, scratch: &Path) -> Vec<PathBuf> {
        let shared = |path: &&PathBuf| {
            !self.private.contains(path) && !path.starts_with("/proc") && *path != Path::new("/dev")
        };
        let mut write: Vec<PathBuf> = self.write.iter().filter(shared).cloned().collect();
        write.extend(DEVICES.map(PathBuf::from));
        write.push(scratch.to_owned());
        write
    }

    /// What can be read where nothing can be covered, and the folders of which only the names can be read.
    pub(super) fn read_reduced(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let (mut read, mut listed) = (Vec::new(), Vec::new());
        let is_root = rustix::process::geteuid().is_root();
        for path in &self.read {
            match path.to_str() {
                Some("/dev") => {}
                // What is root's alone, root reads without any right of root: it is the owner.
                Some("/etc") if is_root => {
                    if !open_to_all(path, DEEPEST, &mut read) {
                        listed.push(path.clone());
                    }
                }
                _ if self.kept_back.iter().any(|kept| kept.parent() == Some(path)) => {
                    let entries = fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
                    let paths = entries.map(|entry| entry.path());
                    read.extend(paths.filter(|path| !self.kept_back.contains(path)));
                }
                _ => read.push(path.clone()),
            }
        }
        (read, listed)
    }

    /// The mounts as bubblewrap takes them, after the root and before the command; and the descriptors that they name.
    pub(super) fn arguments(
        &self,
        private_size: u64,
    ) -> Result<(Vec<OsString>, Vec<OwnedFd>), String> {
        let (mut arguments, mut texts): (Vec<OsString>, Vec<OwnedFd>) = (Vec::new(), Vec::new());
        let size = private_size.to_string();
        for mount in &self.mounts {
            match mount {
                Mount::Show(path) => {
                    arguments.extend(["--ro-bind".into(), path.into(), path.into()])
                }
                Mount::ShowAt(from, to) => {
                    arguments.extend(["--ro-bind".into(), from.into(), to.into()])
                }
                Mount::Write(path) => arguments.extend(["--bind".into(), path.into(), path.into()]),
                Mount::Hide(path) => {
                    arguments.extend([
                        "--size".into(),
                        (&size).into(),
                        "--tmpfs".into(),
                        path.into(),
                    ]);
                }
                Mount::Close(path) => {
                    arguments.extend(["--ro-bind".into(), "/dev/null".into(), path.into()]);
                }
                Mount::Fill(path, text) => {
                    let held = memory_file(text).map_err(|error| format!("no memory: {error}"))?;
                    let number = held.as_raw_fd().to_string();
                    arguments.extend(["--ro-bind-data".into(), number.into(), path.into()]);
                    texts.push(held);
                }
            }
        }
        Ok((arguments, texts))
    }
}

/// Adds what everybody can read of a folder; true if that is all of it.
fn open_to_all(folder: &Path, deepest: usize, read: &mut Vec<PathBuf>) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let (mut found, mut all) = (Vec::new(), true);
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        let mode = meta.mode();
        if meta.is_dir() {
            let is_open = mode & 0o005 == 0o005 && deepest > 0;
            all &= is_open && open_to_all(&path, deepest - 1, &mut found);
        } else if meta.is_file() && mode & 0o004 != 0 {
            found.push(path);
        } else {
            // Where a link leads is asked about that place.
            all &= meta.is_symlink();
        }
    }
    if all {
        read.push(folder.to_owned());
    } else {
        read.append(&mut found);
    }
    all
}

/// A file without a name, at its beginning.
fn memory_file(text: &str) -> io::Result<OwnedFd> {
    let held = memfd_create("drivetrain", MemfdFlags::CLOEXEC)?;
    let mut file = fs::File::from(held);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}

/// Where git inside is told what to ignore.
pub(super) const IGNORED: &str = "/run/drivetrain/ignored";

/// Stand-ins for missing files are seen by a worker's git, and are not for it. Some stand in for a name only where they
/// are.
fn ignored(top: &Path, stood_in: &[PathBuf]) -> String {
    let names = protected::NAMES.iter().chain(&protected::MORE).map(|name| (*name).to_owned());
    let places = stood_in.iter().filter_map(|path| path.strip_prefix(top).ok()?.to_str());
    let places = places.map(|place| {
        let is_special = |c: char| matches!(c, '\\' | '*' | '?' | '[');
        let mut line = String::from("/");
        for c in place.chars() {
            if is_special(c) {
                line.push('\\');
            }
            line.push(c);
        }
        line
    });
    names.chain(places).map(|line| line + "\n").collect()
}

/// Where Linux runs within Windows, the disks of that are here by their letters, and the homes there are the same user's.
fn homes_of_windows(disks: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(disks).into_iter().flatten().flatten();
    let is_letter =
        |name: &OsString| name.len() == 1 && name.as_encoded_bytes()[0].is_ascii_alphabetic();
    let letters = names.filter(|disk| is_letter(&disk.file_name()));
    letters.map(|disk| disk.path().join("Users")).filter(|homes| homes.is_dir()).collect()
}

/// The user's home as it really is.
pub(super) fn home() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)?;
    // Where nobody has a home, the root of the file system is named: there is nothing of a user's own to hide.
    home.canonicalize().ok().filter(|home| home != Path::new("/"))
}

/// The folders that something inside can write, or could in an earlier call: a link there leads wherever it likes.
fn ground(sandbox: &Sandbox) -> Vec<PathBuf> {
    let asked = sandbox.spec.write.iter().map(Path::new);
    let all = asked.chain(sandbox.workspace.as_deref());
    all.filter_map(|path| path.canonicalize().ok()).collect()
}

/// Whether a link in such a folder leads a path out of it.
fn is_turned(path: &Path, ground: &[PathBuf]) -> bool {
    let mut here = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                here.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                // That it is missing is told by whoever opens it.
                let Ok(next) = here.join(part).canonicalize() else { return false };
                if ground.iter().any(|ground| here.starts_with(ground) && !next.starts_with(ground))
                {
                    return true;
                }
                here = next;
            }
        }
    }
    false
}

/// A path that somebody asked for must be there, and must lead where they meant it to.
fn asked_for(path: &str, ground: &[PathBuf]) -> Result<PathBuf, String> {
    let real = Path::new(path).canonicalize().map_err(|error| {
        format!("the sandbox cannot open {path}: {error}; make it, or take it out of [sandbox]")
    })?;
    if is_turned(Path::new(path), ground) {
        return Err(format!(
            "the sandbox does not open {path}: a link in a folder that is worked in leads to {}; name that \
             in [sandbox] if it is meant",
            real.display()
        ));
    }
    Ok(real)
}

/// Nobody can have all of a home or of the system writable.
fn check_writable(path: &Path, home: Option<&Path>) -> Result<(), String> {
    let holds = |what: &Path| what.starts_with(path);
    if home.is_some_and(holds) {
        return Err(format!(
            "{} holds your home folder, which is hidden from commands; work in a folder below it",
            path.display()
        ));
    }
    if SYSTEM.iter().map(Path::new).any(holds) {
        return Err(format!(
            "{} holds the system itself and is not made writable; work in a folder of your own",
            path.display()
        ));
    }
    Ok(())
}

fn unprotected(path: &Path, error: &std::io::Error) -> String {
    format!("{} cannot be protected: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_are_found_on_disks_of_windows_and_nowhere_else() {
        let disks = tempfile::tempdir().unwrap();
        for path in ["c/Users/me", "d/data", "data/Users/me", "E/Users"] {
            fs::create_dir_all(disks.path().join(path)).unwrap();
        }
        let mut found = homes_of_windows(disks.path());
        found.sort();
        assert_eq!(found, ["E/Users", "c/Users"].map(|path| disks.path().join(path)));
        assert_eq!(homes_of_windows(Path::new("/nowhere")), Vec::<PathBuf>::new());
    }
}
