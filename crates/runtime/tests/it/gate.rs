//! The gate over real sockets: who gets in, what becomes of what they say, and how much of it is held.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use machine::Input;
use machine::id::TaskId;
use machine::input::{Signal, Withdrawal};
use machine::tool::{Status, ToolResult};
use runtime::gate::{self, Door, Gates, MAX_CONNECTIONS};
use runtime::inbox::Inbox;
use serde_json::{Value, json};
use wire::gate::Toolbox;

use crate::read_once;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}"#;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(20);

struct Rig {
    _folder: tempfile::TempDir,
    gates: Gates,
    door: Arc<Door>,
    inbox: Inbox,
}

impl Rig {
    fn new() -> Rig {
        let folder = tempfile::tempdir().unwrap();
        let inbox = Inbox::default();
        let gates = Gates::new(folder.path().join("7.gates"), inbox.clone());
        let door = gates.open(&task(), Toolbox::new(&[], Some("/w".to_owned()))).unwrap();
        Rig { _folder: folder, gates, door, inbox }
    }

    /// A connection without a word said.
    fn knock(&self) -> UnixStream {
        let stream = UnixStream::connect(self.door.path()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    /// A connection that has said its token and been greeted.
    fn enter(&self) -> Client {
        let mut client = self.admitted();
        client.say(INITIALIZE);
        assert!(client.hear().unwrap()["result"].is_object());
        client
    }

    fn admitted(&self) -> Client {
        let stream = gate::connect(self.door.path(), &token(&self.door)).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        Client { reader: BufReader::new(stream) }
    }

    /// The next signals of the task, at least one.
    fn signals(&self) -> Vec<Signal> {
        let batch = self.inbox.take(Some(LONG), 0);
        assert!(!batch.deliveries.is_empty(), "nothing came");
        let signals = batch.deliveries.into_iter().map(|delivery| match delivery.input {
            Input::Signal(signal) => signal,
            other => panic!("{other:?}"),
        });
        signals.collect()
    }

    /// Answers the call that was asked for with this key.
    fn answer(&self, key: &str, tool: &str, input: &Value, answer: Result<ToolResult, String>) {
        self.gates.answer(&task(), key, machine::request::digest(tool, input), &answer);
    }

    fn requested(&self) -> (String, String, Value) {
        match self.signals().remove(0) {
            Signal::Requested { key, tool, input } => (key, tool, (*input).clone()),
            other => panic!("{other:?}"),
        }
    }
}

struct Client {
    reader: BufReader<UnixStream>,
}

impl Client {
    fn say(&mut self, line: &str) {
        self.reader.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn call(&mut self, id: u64, command: &str) {
        let params = json!({ "name": "shell", "arguments": { "command": command } });
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        self.say(&call.to_string());
    }

    /// The next line; none if the connection was closed.
    fn hear(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap()),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("{error}"),
        }
    }
}

fn task() -> TaskId {
    TaskId("t1".to_owned())
}

fn token(door: &Door) -> String {
    door.token_text().to_owned()
}

/// Whether the other end closes without a word.
fn is_closed(mut stream: UnixStream) -> bool {
    match read_once(&mut stream, &mut [0u8; 1]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn a_call_becomes_an_input_and_its_answer_goes_back() {
    let rig = Rig::new();
    let mut client = rig.enter();
    client.call(1, "ls");
    let (key, tool, input) = rig.requested();
    assert_eq!((tool.as_str(), &input), ("shell", &json!({ "command": "ls" })));
    assert!(rig.door.last_owed().is_some_and(|owed| owed.elapsed() < LONG));
    rig.answer(&key, &tool, &input, Ok(ToolResult::ok("files")));
    let said = client.hear().unwrap();
    assert_eq!((&said["id"], &said["result"]["content"][0]["text"]), (&json!(1), &json!("files")));
    client.call(2, "rm");
    let (key, tool, input) = rig.requested();
    rig.answer(&key, &tool, &input, Err("not now".to_owned()));
    assert_eq!(client.hear().unwrap()["error"]["message"], "not now");
}

#[test]
fn the_socket_is_ours_alone_and_gone_with_its_task() {
    let rig = Rig::new();
    let path = rig.door.path().to_owned();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    let mut client = rig.enter();
    let other = rig.gates.open(&TaskId("t2".to_owned()), Toolbox::default()).unwrap();
    assert_ne!(token(&other), token(&rig.door));
    rig.gates.close(&task());
    assert_eq!(client.hear(), None);
    assert!(!path.parent().unwrap().exists());
    assert!(other.path().exists());
}

#[test]
fn nobody_gets_in_without_the_tasks_token() {
    let rig = Rig::new();
    let other = rig.gates.open(&TaskId("t2".to_owned()), Toolbox::default()).unwrap();
    let right = token(&rig.door);
    let long = "a".repeat(4096);
    for said in [INITIALIZE, "", &token(&other), &right[1..], &format!("{right}0"), &long] {
        let mut stream = rig.knock();
        let _ = stream.write_all(format!("{said}\n{INITIALIZE}\n").as_bytes());
        assert!(is_closed(stream), "{said:?}");
    }
    rig.enter();
}

#[test]
fn another_user_is_not_heard() {
    // Only root can act as another user, and only if it opens the folders first.
    if !rustix_is_root() {
        return;
    }
    let rig = Rig::new();
    let mut folder = rig.door.path().to_owned();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o666)).unwrap();
    while folder.pop() && folder.starts_with(std::env::temp_dir()) {
        let mode = std::fs::metadata(&folder).unwrap().mode() | 0o055;
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let script = "$SIG{PIPE} = 'IGNORE'; use Socket; socket(S, PF_UNIX, SOCK_STREAM, 0); connect(S, sockaddr_un($ARGV[0])) or die $!;\n\
                  syswrite(S, \"$ARGV[1]\\n$ARGV[2]\\n\"); my $n = sysread(S, my $said, 100); print $n || 0;";
    let run = |user: &str| {
        let mut command = std::process::Command::new("setpriv");
        command.args([&format!("--reuid={user}"), "--clear-groups", "perl", "-e", script]);
        command.arg(rig.door.path()).args([&token(&rig.door), INITIALIZE]);
        let out = command.output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(run("0"), "100");
    assert_eq!(run("65534"), "0");
}

fn rustix_is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

#[test]
fn a_request_that_is_repeated_has_the_same_key_and_each_connection_its_own() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.enter(), rig.enter());
    one.call(1, "ls");
    let (first, tool, input) = rig.requested();
    one.call(1, "ls");
    assert_eq!(rig.requested().0, first);
    two.call(1, "ls");
    let (other, ..) = rig.requested();
    assert_ne!(other, first);
    // Another call under the key is refused alone; both who asked for the first are told of its end.
    one.call(1, "rm");
    let (_, tool_of_other, other_input) = rig.requested();
    rig.answer(&first, &tool_of_other, &other_input, Err("used for another call".to_owned()));
    assert_eq!(one.hear().unwrap()["error"]["message"], "used for another call");
    rig.answer(&first, &tool, &input, Ok(ToolResult::ok("once")));
    for _ in 0..2 {
        assert_eq!(one.hear().unwrap()["result"]["content"][0]["text"], "once");
    }
    let named = r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"read","arguments":{"path":"p"},"_meta":{"drivetrain/key":"k"}}}"#;
    one.say(named);
    let (key, ..) = rig.requested();
    two.say(named);
    assert_eq!((rig.requested().0.as_str(), key.as_str()), ("key/k", "key/k"));
}

#[test]
fn what_a_worker_takes_back_or_leaves_behind_is_withdrawn() {
    let rig = Rig::new();
    let mut client = rig.enter();
    client.call(1, "ls");
    let (key, tool, input) = rig.requested();
    client.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    let cancelled = Signal::Withdrawn { key: key.clone(), how: Withdrawal::Cancelled };
    assert_eq!(rig.signals(), [cancelled]);
    rig.answer(&key, &tool, &input, Ok(ToolResult::ended(Status::Aborted, "taken back")));
    client.call(2, "ls");
    let (key, ..) = rig.requested();
    drop(client);
    assert_eq!(rig.signals(), [Signal::Withdrawn { key, how: Withdrawal::Gone }]);
}

#[test]
fn a_worker_that_has_said_all_still_gets_its_answers() {
    let rig = Rig::new();
    let mut client = rig.enter();
    client.call(1, "ls");
    client.reader.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
    let (key, tool, input) = rig.requested();
    std::thread::sleep(Duration::from_millis(250));
    rig.answer(&key, &tool, &input, Ok(ToolResult::ended(Status::Denied, "no")));
    assert_eq!(client.hear().unwrap()["result"]["isError"], true);
    assert_eq!(client.hear(), None);
}

#[test]
fn connections_beyond_the_limit_are_closed_and_room_is_made_again() {
    let rig = Rig::new();
    // Who has said the token may be silent as long as it likes.
    let open: Vec<Client> = (0..MAX_CONNECTIONS).map(|_| rig.enter()).collect();
    for _ in 0..200 {
        assert!(is_closed(rig.knock()));
    }
    drop(open);
    let until = Instant::now() + LONG;
    while Instant::now() < until {
        let stream = rig.knock();
        let words = format!("{}\n{INITIALIZE}\n", token(&rig.door));
        // While there is no room, the other end may be closed before a word is said.
        let said = (&stream).write_all(words.as_bytes());
        if said.is_ok() && (Client { reader: BufReader::new(stream) }).hear().is_some() {
            return;
        }
    }
    panic!("no room was made");
}

#[test]
fn a_worker_that_never_reads_is_no_longer_read() {
    let rig = Rig::new();
    let client = rig.enter();
    let mut stream = client.reader.into_inner();
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let line = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.to_owned() + "\n";
    let mut written = 0;
    while written < 100_000 && stream.write_all(line.as_bytes()).is_ok() {
        written += 1;
    }
    assert!(written < 50_000, "{written} requests were taken from a worker that reads nothing");

    // Calls that are not answered: only so many become inputs.
    let client = rig.enter();
    let mut stream = client.reader.into_inner();
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut id = 0;
    loop {
        id += 1;
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"read\"}}}}\n"
        );
        if id > 100_000 || stream.write_all(line.as_bytes()).is_err() {
            break;
        }
    }
    assert!(id < 50_000, "{id} calls were taken");
    let mut waiting = 0;
    while waiting < 16 {
        waiting += rig.signals().len();
    }
    assert_eq!(waiting, 16);
    assert!(rig.inbox.take(Some(Duration::ZERO), 0).deliveries.is_empty());
}

#[test]
fn other_protocols_and_lines_without_end_are_closed() {
    let rig = Rig::new();
    let mut client = rig.admitted();
    client.say("GET / HTTP/1.1\r\nHost: x\r\n\r");
    assert_eq!(client.hear().unwrap()["error"]["code"], -32700);
    assert_eq!(client.hear(), None);

    let client = rig.admitted();
    let mut stream = client.reader.into_inner();
    let piece = vec![b'a'; 1 << 20];
    // The other end closes before all of it is taken.
    let _ = stream.write_all(br#"{"jsonrpc":"2.0","id":1,"x":""#);
    let _ = stream.write_all(&piece);
    let _ = stream.write_all(&piece);
    let mut client = Client { reader: BufReader::new(stream) };
    assert_eq!(client.hear().unwrap()["error"]["code"], -32600);
    assert_eq!(client.hear(), None);
}

#[test]
fn a_line_cut_into_bytes_is_the_same_line_and_half_a_line_is_nothing() {
    let rig = Rig::new();
    let mut client = rig.admitted();
    for byte in INITIALIZE.bytes().chain([b'\n']) {
        client.reader.get_mut().write_all(&[byte]).unwrap();
    }
    assert!(client.hear().unwrap()["result"].is_object());
    let half = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shell","argu"#;
    client.reader.get_mut().write_all(half.as_bytes()).unwrap();
    drop(client);
    assert!(rig.inbox.take(Some(Duration::from_millis(300)), 0).deliveries.is_empty());
}
