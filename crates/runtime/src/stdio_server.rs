//! A server of tools on standard input and output: reads lines, answers what needs no work at once, and performs each
//! call on a thread of its own, those about one task in their order. A call that is withdrawn is told so and not answered.

mod order;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use machine::tool::{Status, ToolResult};
use serde_json::Value;
use wire::agent::lines::{Line, Lines};
use wire::gate::{MAX_FRAME, Reaction, RequestId, Session, Toolbox};

use crate::process::Cancel;
use order::{Order, Turn};

pub use wire::tasks;

/// Calls at once; more are refused.
const MOST_CALLS: usize = 32;
/// How long calls may go on once nothing more is asked.
const SHORT: Duration = Duration::from_secs(2);
/// How long those that were stopped then may take to end.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A call to be performed.
#[derive(Debug)]
pub struct ServedCall {
    /// The tool.
    pub tool: String,
    /// Its parameters.
    pub input: Value,
    /// Triggered when nobody wants the answer any more.
    pub cancel: Cancel,
    /// Who is told how far it is; nobody if nothing was asked for.
    progress: Option<(RequestId, Output)>,
    steps: u64,
}

impl ServedCall {
    /// Tells how far it is.
    pub fn progress(&mut self, message: &str) {
        self.steps += 1;
        if let Some((token, output)) = &self.progress {
            output.line(&wire::tasks::progress(token, self.steps, message));
        }
    }
}

/// Where lines are written, one at a time.
#[derive(Clone)]
struct Output(Arc<Mutex<Box<dyn Write + Send>>>);

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Output")
    }
}

impl Output {
    fn line(&self, line: &str) {
        let mut out = lock(&self.0);
        // Whoever asked may be gone: what it asked for was done.
        let _ = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush());
    }
}

/// Calls under way.
type Open = Arc<Mutex<BTreeMap<RequestId, Cancel>>>;

/// Serves until the input ends, or nothing more of it can be understood. `perform` does the calls.
pub fn serve(
    mut input: impl Read,
    output: Box<dyn Write + Send>,
    toolbox: &Toolbox,
    perform: impl Fn(&mut ServedCall) -> ToolResult + Send + Sync + 'static,
) -> io::Result<()> {
    let (output, open, perform) =
        (Output(Arc::new(Mutex::new(output))), Open::default(), Arc::new(perform));
    let (mut session, mut lines) = (Session::default(), Lines::new(MAX_FRAME));
    let order = Order::default();
    let mut chunk = vec![0u8; 64 << 10];
    let mut go_on = true;
    while go_on {
        let count = match input.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        lines.feed(&chunk[..count], |line| {
            if !go_on {
                return;
            }
            let line = match line {
                Line::Whole(line) => line,
                // What it asked for is not known, and what follows it is as good as before.
                Line::TooLong(beginning) => {
                    return output.line(&wire::gate::too_long(&beginning));
                }
            };
            match session.take(line, toolbox) {
                Reaction::Ignore => {}
                Reaction::Answer(line) => output.line(&line),
                Reaction::Close(line) => {
                    line.iter().for_each(|line| output.line(line));
                    go_on = false;
                }
                Reaction::Withdraw(id) => {
                    if let Some(cancel) = lock(&open).remove(&id) {
                        cancel.trigger();
                    }
                }
                Reaction::Call { id, tool, input, progress, .. } => {
                    let progress = progress.map(|token| (token, output.clone()));
                    let call =
                        ServedCall { tool, input, cancel: Cancel::new(), progress, steps: 0 };
                    let turn = order.join(tasks::About::of(&call.tool, &call.input));
                    begin(id, call, turn, &output, &open, &perform);
                }
            }
        });
    }
    // Whoever says all at once and ends is answered too: what takes long is stopped, and says so.
    settled(&open, SHORT);
    lock(&open).values().for_each(Cancel::trigger);
    settled(&open, LAST_WORDS);
    Ok(())
}

/// Waits for the calls under way to end, so long and no longer.
fn settled(open: &Open, patience: Duration) {
    let until = Instant::now() + patience;
    while !lock(open).is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn begin(
    id: RequestId,
    mut call: ServedCall,
    turn: Option<Turn>,
    output: &Output,
    open: &Open,
    perform: &Arc<impl Fn(&mut ServedCall) -> ToolResult + Send + Sync + 'static>,
) {
    {
        let mut calls = lock(open);
        if calls.len() >= MOST_CALLS || calls.contains_key(&id) {
            let words = if calls.contains_key(&id) {
                "a call with this id is under way".to_owned()
            } else {
                format!("{MOST_CALLS} calls are under way already")
            };
            return output.line(&wire::gate::refused(&id, &words));
        }
        calls.insert(id.clone(), call.cancel.clone());
    }
    let (perform, out, calls) = (Arc::clone(perform), output.clone(), Arc::clone(open));
    let number = id.clone();
    let spawned = std::thread::Builder::new().name("call".to_owned()).spawn(move || {
        turn.iter().for_each(Turn::wait);
        let result = if turn.is_some() && call.cancel.is_triggered() {
            ToolResult::ended(Status::Aborted, "stopped before it began")
        } else {
            // Whoever asked waits for an answer, and the call is one of those that are counted: both must end.
            let performed = catch_unwind(AssertUnwindSafe(|| perform(&mut call)));
            performed.unwrap_or_else(|_| {
                let why =
                    format!("{}: drivetrain failed within; what it did is not known", call.tool);
                ToolResult::ended(Status::Error, &why)
            })
        };
        drop(turn);
        // One that was withdrawn is not there any more, and not answered.
        if lock(&calls).contains_key(&number) {
            out.line(&wire::gate::result(&number, &result));
        }
        lock(&calls).remove(&number);
    });
    if spawned.is_err() {
        lock(open).remove(&id);
        output.line(&wire::gate::refused(&id, "no thread can be started for it"));
    }
}

/// What a panic under a lock leaves is whole: each change is one assignment.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use serde_json::json;

    use super::*;

    /// A client, and what the server does for it: each call says that it begins, and waits until it is let end.
    struct Talk {
        client: UnixStream,
        begun: Receiver<(String, Sender<()>)>,
        served: Option<std::thread::JoinHandle<io::Result<()>>>,
    }

    impl Talk {
        fn begin() -> Talk {
            let (client, server) = UnixStream::pair().unwrap();
            let output = Box::new(server.try_clone().unwrap());
            let (says, begun) = channel::<(String, Sender<()>)>();
            let perform = move |call: &mut ServedCall| {
                let (ends, ended) = channel();
                let what = format!("{} {}", call.tool, call.input["id"].as_str().unwrap());
                says.send((what, ends)).unwrap();
                let _ = ended.recv();
                ToolResult::ended(Status::Ok, "")
            };
            let toolbox = tasks::toolbox(&tasks::Offer::default());
            let served = std::thread::spawn(move || serve(server, output, &toolbox, perform));
            let mut talk = Talk { client, begun, served: Some(served) };
            let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {} });
            talk.ask(0, "initialize", &params);
            talk
        }

        fn ask(&mut self, id: u64, method: &str, params: &Value) {
            let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
            writeln!(self.client, "{line}").unwrap();
        }

        fn call(&mut self, number: u64, tool: &str, id: &str) {
            let arguments = json!({ "id": id, "text": "x" });
            self.ask(number, "tools/call", &json!({ "name": tool, "arguments": arguments }));
        }

        fn next(&self) -> (String, Sender<()>) {
            self.begun.recv().unwrap()
        }
    }

    impl Drop for Talk {
        fn drop(&mut self) {
            let _ = self.client.shutdown(std::net::Shutdown::Write);
            if let Some(served) = self.served.take() {
                served.join().unwrap().unwrap();
            }
        }
    }

    #[test]
    fn calls_about_one_task_take_effect_in_their_order_and_hold_up_no_other() {
        let mut talk = Talk::begin();
        talk.call(1, "wait", "abc");
        let (first, waits) = talk.next();
        assert_eq!(first, "wait abc");
        talk.call(2, "steer", "abc");
        let (second, steers) = talk.next();
        assert_eq!(second, "steer abc", "nobody waits for one that only waits");
        talk.call(3, "cancel", "AB");
        talk.call(4, "inspect", "abc");
        talk.call(5, "steer", "xyz");
        let (third, other) = talk.next();
        assert_eq!(third, "steer xyz", "another task is not held up");
        assert!(talk.begun.try_recv().is_err(), "those about the first one wait");
        drop(steers);
        let (fourth, cancels) = talk.next();
        assert_eq!(fourth, "cancel AB");
        assert!(talk.begun.try_recv().is_err(), "what looks sees what was done before");
        drop(cancels);
        let (last, inspects) = talk.next();
        assert_eq!(last, "inspect abc");
        drop((waits, other, inspects));
    }

    #[test]
    fn a_call_within_which_drivetrain_fails_is_answered_and_no_other_is_held_up() {
        let mut talk = Talk::begin();
        talk.ask(
            1,
            "tools/call",
            &json!({ "name": "steer", "arguments": { "id": 7, "text": "x" } }),
        );
        let mut answers = io::BufReader::new(talk.client.try_clone().unwrap());
        let answer = loop {
            let mut line = String::new();
            io::BufRead::read_line(&mut answers, &mut line).unwrap();
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == 1 {
                break answer;
            }
        };
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("steer: drivetrain failed within"), "{text}");
        talk.call(2, "steer", "abc");
        assert_eq!(talk.next().0, "steer abc");
    }
}
