//! Models behind encryption, as all are that are not on this machine: OpenSSL stands before the scripted one.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;

use crate::environment::{Ran, TestEnvironment};
use crate::fake::Server;
use crate::model::SCRIPT;

/// A program that listens, says where, and then a line for each connection. Ends with its test.
struct Listening {
    child: Child,
    port: u16,
    lines: Receiver<String>,
}

impl Listening {
    fn between(args: &[&OsStr]) -> Listening {
        let mut child = Command::new("python3")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/between.py"))
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let port = said.next().unwrap().parse().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || said.try_for_each(|line| sender.send(line)));
        Listening { child, port, lines }
    }

    /// What it has said since it was asked last.
    fn said(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Encrypts for a server, with a certificate for a host that nobody vouches for.
struct Front {
    listening: Listening,
    certificate: PathBuf,
}

impl Front {
    fn of(place: &TestEnvironment, host: &str, server: &Server) -> Front {
        let folder = place.home().with_file_name("certificates");
        std::fs::create_dir(&folder).unwrap();
        // Each speaks for itself alone.
        let root = folder.parent().and_then(Path::file_name).unwrap();
        let subject = format!("/CN={}", root.display());
        let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| folder.join(name));
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
            .args(["-nodes", "-days", "2", "-subj", &subject])
            .args(["-addext", &format!("subjectAltName=DNS:{host}")])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .args(["-out".as_ref(), certificate.as_os_str(), "-keyout".as_ref(), key.as_os_str()])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let port = server.port.to_string();
        let args = [port.as_ref(), certificate.as_os_str(), key.as_os_str()];
        Front { listening: Listening::between(&args), certificate }
    }

    /// Runs a task whose models are behind it, as this host.
    fn run(&self, place: &TestEnvironment, host: &str, believed: &Path, args: &[&str]) -> Ran {
        let base = format!("https://{host}:{}", self.listening.port);
        let output = place
            .command(&[&["run", "two lines", "--in-place"], args].concat())
            .env("ANTHROPIC_API_KEY", place.key())
            .env("OPENAI_API_KEY", place.key())
            .env("ANTHROPIC_BASE_URL", &base)
            .env("OPENAI_BASE_URL", format!("{base}/v1"))
            .env("SSL_CERT_FILE", believed)
            .output();
        place.ran(output.unwrap())
    }
}

#[test]
fn a_whole_conversation_goes_over_one_encrypted_connection() {
    for model in ["anthropic/claude", "openai/gpt"] {
        let place = TestEnvironment::new();
        let server = Server::of(&place, SCRIPT);
        let front = Front::of(&place, "localhost", &server);
        let check = "test $(wc -l < a.txt) -eq 2";
        let args = ["--model", model, "--check", check];
        let ran = front.run(&place, "localhost", &front.certificate, &args);
        assert_eq!(ran.code, 0, "{model}: {}{}", ran.out, ran.err);
        assert!(ran.out.contains("verified: Now there are two."), "{}", ran.out);
        let asked = server.requests().as_array().map_or(0, Vec::len);
        assert_eq!((asked, front.listening.said().len()), (4, 1), "{model}");
    }
}

#[test]
fn a_server_that_nobody_vouches_for_is_told_nothing() {
    let (place, elsewhere) = (TestEnvironment::new(), TestEnvironment::new());
    let server = Server::of(&place, SCRIPT);
    let front = Front::of(&place, "localhost", &server);
    let other = Front::of(&elsewhere, "localhost", &server);
    let believed = [&other.certificate, &front.certificate];
    for (host, believed, why) in [
        ("localhost", believed[0], "nobody whom this machine believes vouches for its certificate"),
        ("127.0.0.1", believed[1], "its certificate is for localhost, not for 127.0.0.1"),
    ] {
        let args = ["--model", "anthropic/claude", "--max-time", "1s"];
        let ran = front.run(&place, host, believed, &args);
        assert_eq!(ran.code, 11, "{}{}", ran.out, ran.err);
        let told = format!("cannot reach https://{host}:{}: {why}", front.listening.port);
        assert!(ran.out.contains(&told), "{}", ran.out);
        assert_eq!(server.requests(), Value::Array(Vec::new()));
    }
}

#[test]
fn what_goes_through_a_proxy_is_encrypted_beyond_it_and_the_proxy_sees_only_the_host() {
    let proxy = Listening::between(&[]);
    let place = TestEnvironment::new()
        .with_variable("HTTPS_PROXY", &format!("http://me:hunter2@127.0.0.1:{}", proxy.port));
    let server = Server::of(&place, SCRIPT);
    let front = Front::of(&place, "models.example", &server);
    let args = ["--model", "anthropic/claude"];
    let ran = front.run(&place, "models.example", &front.certificate, &args);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let asked = format!("CONNECT models.example:{} HTTP/1.1", front.listening.port);
    assert_eq!((proxy.said(), front.listening.said().len()), (vec![asked], 1));
    assert!(!format!("{}{}", ran.out, place.ok(&["log", &place.id()])).contains("hunter2"));
}
