//! Servers that fail, and answers that outlive the process they came to.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use machine::message::{Message, Retry};
use runtime::http::Limits;
use runtime::model::Models;
use runtime::process::Cancel;
use runtime::providers::Environment;

use super::server::{Server, plain, whole};
use super::{ANTHROPIC, CHAT, KEY, Rig, call};

#[test]
fn a_server_that_fails_again_and_again_is_left_alone_and_others_are_not() {
    let server = Server::repeating(plain("500 Oops", "", "{}"));
    let rig = Rig::new(&server);
    for _ in 0..5 {
        assert_eq!(rig.fails("anthropic/claude").kind, "server");
    }
    for _ in 0..3 {
        let failure = rig.fails("anthropic/claude");
        assert_eq!(failure.kind, "circuit_open");
        let Retry::After(millis) = failure.retry else { panic!("{failure:?}") };
        assert!((1..=30_000).contains(&millis), "{millis}");
    }
    assert_eq!(server.requests().len(), 5, "nobody asked it again");
    // Another base URL, if on the same machine.
    assert_eq!(rig.fails("here/small").kind, "server");
    // A new process looks for itself.
    assert_eq!(Rig::new(&server).fails("anthropic/claude").kind, "server");
}

#[test]
fn refusals_and_answers_keep_a_server_in_use() {
    let refused = plain("401 Unauthorized", "", r#"{"error":{"message":"no"}}"#);
    let server = Server::repeating(refused);
    let rig = Rig::new(&server);
    for _ in 0..8 {
        assert_eq!(rig.fails("anthropic/claude").kind, "auth");
    }
    let server = Server::new(|number, stream| {
        let answer = if number % 5 == 4 { whole(CHAT) } else { plain("500 Oops", "", "{}") };
        stream.write_all(&answer).is_ok()
    });
    let rig = Rig::new(&server);
    for number in 0..15 {
        match rig.ask("here/small") {
            Ok(_) => assert_eq!(number % 5, 4),
            Err(failure) => assert_eq!(failure.kind, "server", "{number}"),
        }
    }
}

/// A process with this home, which is asked with this number of the question.
fn ask(server: &Server, home: &std::path::Path, question: u64, text: &str) -> String {
    let variables = [("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", &server.url())];
    let environment = Environment::fixed(&variables, None);
    let models = Models::new(environment, Limits::default()).keeping(home.join("answers"));
    let mut call = call("anthropic/claude");
    call.messages = Arc::new(vec![Message::user(text).into()]);
    call.question = question;
    let reply = models.call("task", &call, home, &Cancel::new(), &mut |_| {});
    reply.map_or_else(|failure| failure.kind, |reply| reply.message.text())
}

/// Every file that keeps answers.
fn kept(home: &std::path::Path) -> Vec<std::path::PathBuf> {
    let files = |folder: &str| std::fs::read_dir(home.join(folder)).unwrap();
    let all = files("answers").chain(files("answers/under-way")).map(|entry| entry.unwrap().path());
    all.filter(|path| path.is_file()).collect()
}

#[test]
fn an_answer_that_came_before_a_crash_is_not_paid_for_again() {
    let server = Server::repeating(whole(ANTHROPIC));
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let first = ask(&server, home, 1, "a");
    // The process died before the answer was journaled: the same question comes again, in a new one.
    for _ in 0..3 {
        assert_eq!(ask(&server, home, 1, "a"), first);
    }
    assert_eq!(server.requests().len(), 1);
    // The answer was journaled: the next question is another, even if it says the same.
    ask(&server, home, 2, "a");
    assert_eq!(server.requests().len(), 2);
    // A number that was given to another question (the journal was set back) is not enough.
    ask(&server, home, 2, "b");
    assert_eq!(server.requests().len(), 3);
    let kept = kept(home);
    assert_eq!(kept.len(), 1, "only the last is kept: {kept:?}");
}

#[test]
fn a_failure_is_not_kept_and_what_is_damaged_is_asked_again() {
    let up = Arc::new(AtomicBool::new(false));
    let is_up = Arc::clone(&up);
    let server = Server::new(move |_, stream| {
        let up = is_up.load(Ordering::SeqCst);
        let answer = if up { whole(ANTHROPIC) } else { plain("500 Oops", "", "{}") };
        stream.write_all(&answer).is_ok()
    });
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    assert_eq!(ask(&server, home, 1, "a"), "server");
    up.store(true, Ordering::SeqCst);
    assert_eq!(ask(&server, home, 1, "a"), "Grüße, wörld");
    assert_eq!(server.requests().len(), 2);
    let path = home.join("answers/task.json");
    let mut half = std::fs::read(&path).unwrap();
    half.truncate(half.len() / 2);
    std::fs::write(&path, half).unwrap();
    assert_eq!(ask(&server, home, 1, "a"), "Grüße, wörld");
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn the_answer_of_a_task_that_has_ended_is_removed() {
    let server = Server::repeating(whole(ANTHROPIC));
    let home = tempfile::tempdir().unwrap();
    ask(&server, home.path(), 1, "a");
    let models = Models::new(Environment::fixed(&[], None), Limits::default())
        .keeping(home.path().join("answers"));
    models.finished("task");
    models.finished("../task");
    assert_eq!(kept(home.path()), [] as [std::path::PathBuf; 0]);
}
