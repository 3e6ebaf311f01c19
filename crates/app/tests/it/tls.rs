//! Models behind encryption, as all are that are not on this machine: OpenSSL stands before the scripted one.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;

use crate::environment::{Ran, TestEnvironment};
use crate::fake::Server;
use crate::model::SCRIPT;

/// Encrypts for a server, with a certificate for `localhost` that nobody vouches for. Ends with its test.
struct Front {
    child: Child,
    port: u16,
    certificate: PathBuf,
    connections: Receiver<String>,
}

impl Front {
    fn of(place: &TestEnvironment, server: &Server) -> Front {
        let folder = place.home().with_file_name("certificates");
        std::fs::create_dir(&folder).unwrap();
        // Each speaks for itself alone.
        let root = folder.parent().and_then(Path::file_name).unwrap();
        let subject = format!("/CN={}", root.display());
        let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| folder.join(name));
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
            .args(["-nodes", "-days", "2", "-subj", &subject])
            .args(["-addext", "subjectAltName=DNS:localhost"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .args(["-out".as_ref(), certificate.as_os_str(), "-keyout".as_ref(), key.as_os_str()])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tls_front.py");
        let mut child = Command::new("python3")
            .arg(script)
            .args([&certificate, &key])
            .arg(server.port.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let port = said.next().unwrap().parse().unwrap();
        let (sender, connections) = channel();
        std::thread::spawn(move || said.try_for_each(|line| sender.send(line)));
        Front { child, port, certificate, connections }
    }

    /// How many connections came about since it was asked last.
    fn connections(&self) -> usize {
        self.connections.try_iter().count()
    }

    fn run(&self, place: &TestEnvironment, host: &str, believed: &str, args: &[&str]) -> Ran {
        let base = format!("https://{host}:{}", self.port);
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

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_whole_conversation_goes_over_one_encrypted_connection() {
    for model in ["anthropic/claude", "openai/gpt"] {
        let place = TestEnvironment::new();
        let server = Server::of(&place, SCRIPT);
        let front = Front::of(&place, &server);
        let believed = front.certificate.to_str().unwrap();
        let check = "test $(wc -l < a.txt) -eq 2";
        let ran = front.run(&place, "localhost", believed, &["--model", model, "--check", check]);
        assert_eq!(ran.code, 0, "{model}: {}{}", ran.out, ran.err);
        assert!(ran.out.contains("verified: Now there are two."), "{}", ran.out);
        let asked = server.requests().as_array().map_or(0, Vec::len);
        assert_eq!((asked, front.connections()), (4, 1), "{model}");
    }
}

#[test]
fn a_server_that_nobody_vouches_for_is_told_nothing() {
    let (place, elsewhere) = (TestEnvironment::new(), TestEnvironment::new());
    let server = Server::of(&place, SCRIPT);
    let (front, other) = (Front::of(&place, &server), Front::of(&elsewhere, &server));
    let believed = [other.certificate.to_str().unwrap(), front.certificate.to_str().unwrap()];
    for (host, believed, why) in [
        ("localhost", believed[0], "nobody whom this machine believes vouches for its certificate"),
        ("127.0.0.1", believed[1], "its certificate is for localhost, not for 127.0.0.1"),
    ] {
        let args = ["--model", "anthropic/claude", "--max-time", "1s"];
        let ran = front.run(&place, host, believed, &args);
        assert_eq!(ran.code, 11, "{}{}", ran.out, ran.err);
        let told = format!("cannot reach https://{host}:{}: {why}", front.port);
        assert!(ran.out.contains(&told), "{}", ran.out);
        assert_eq!(server.requests(), Value::Array(Vec::new()));
    }
}
