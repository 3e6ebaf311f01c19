//! What a model costs, and a conversation that grows too long: over HTTP, to the figures a person sees.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::environment::TestEnvironment;
use crate::fake::Server;

pub(crate) const TWO_STEPS: &str = r#"
[[reply]]
tool_calls = [{ tool = "read", input = { path = "a.txt" } }]
usage = { input = 1000000, output = 100000 }

[[reply]]
text = "Done."
usage = { input = 1000000, output = 100000 }
"#;

/// A provider of the project at the server, and what `models` says of its models.
pub(crate) fn provider(place: &TestEnvironment, server: &Server, models: &str) {
    place.write("a.txt", "one\n");
    place.write(
        ".drivetrain/models.toml",
        &format!(
            "[provider.fake]\ndialect = \"anthropic_messages\"\nbase_url = \"http://127.0.0.1:{}\"\n{models}",
            server.port
        ),
    );
}

pub(crate) fn run(place: &TestEnvironment, more: &[&str]) -> (u8, String) {
    let mut args = vec!["run", "x y", "--model", "fake/m", "--in-place"];
    args.extend(more);
    let ran = place.run(&args);
    (u8::try_from(ran.code).unwrap(), format!("{}{}", ran.out, ran.err))
}

const PRICED: &str = "[model.\"fake/m\"]\nprice = { input = 3, output = 15 }\n";

#[test]
fn a_known_price_is_counted_and_a_limit_of_money_binds_before_the_next_question() {
    let place = TestEnvironment::new();
    let server = Server::of(&place, TWO_STEPS);
    provider(&place, &server, PRICED);
    let (code, said) = run(&place, &["--max-usd", "20"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(place.show(&place.id())["spend"]["usd"], 9.0);
    assert!(said.contains("$9.00 of $20.00"), "{said}");
    let place = TestEnvironment::new();
    let server = Server::of(&place, TWO_STEPS);
    provider(&place, &server, PRICED);
    let (code, said) = run(&place, &["--max-usd", "4"]);
    assert_eq!(code, 11, "{said}");
    assert_eq!(place.show(&place.id())["spend"]["usd"], 4.5, "one question, not two");
}

#[test]
fn an_unknown_price_is_said_and_a_limit_that_nobody_could_hold_starts_nothing() {
    let place = TestEnvironment::new();
    let server = Server::of(&place, TWO_STEPS);
    provider(&place, &server, "");
    let (code, said) = run(&place, &["--max-usd", "4"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("the price of fake/m is unknown"), "{said}");
    assert!(!place.home().join("journal").exists(), "nothing was recorded");
    let (code, said) = run(&place, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("the unknown price of 2 answers"), "{said}");
}

#[test]
fn a_provider_that_is_to_say_what_it_costs_is_asked_and_where_it_does_not_the_limit_is_reached() {
    let place = TestEnvironment::new();
    let server = Server::of(&place, TWO_STEPS);
    provider(&place, &server, "tells_cost = true\n");
    let (code, said) = run(&place, &["--max-usd", "4"]);
    assert_eq!(code, 11, "{said}");
    assert!(said.contains("the unknown price of 1 answer"), "one question, not two: {said}");
    // What is suggested is of use as it stands.
    let id = place.id();
    assert!(said.contains("drivetrain models "), "{said}");
    assert!(said.contains(&format!("drivetrain raise {id} --max-usd 8.00  allow more")), "{said}");
    let own = place.home().with_file_name(".config").join("drivetrain");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("models.toml"), PRICED).unwrap();
    place.ok(&["raise", &id, "--max-usd", "8.00"]);
    let ran = place.run(&["resume", &id]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("$4.50 and the unknown price of 1 answer of $8.00"), "{}", ran.out);
}

#[test]
fn what_is_suggested_where_a_wait_does_not_fit_into_the_time_makes_room_for_it() {
    let place = TestEnvironment::new();
    let busy = "[[reply]]\nerror = \"rate_limited\"\nretry_after = 40\n";
    let server = Server::of(&place, &format!("{busy}{TWO_STEPS}"));
    provider(&place, &server, "");
    let (code, said) = run(&place, &["--max-time", "30s"]);
    assert_eq!(code, 11, "{said}");
    let id = place.id();
    let suggested = said.lines().find(|line| line.contains("drivetrain raise")).unwrap();
    let words: Vec<&str> = suggested.split_whitespace().skip(1).take(4).collect();
    assert_eq!(words[..3], ["raise", id.as_str(), "--max-time"], "{said}");
    place.ok(&words);
    let resumed = place.start(&["resume", &id]);
    place.until(|| place.types(&id).contains(&"budget_raised".to_owned()).then_some(()));
    assert_eq!(place.show(&id)["outcome"], Value::Null, "it waits for its model");
    resumed.signal("TERM");
    resumed.wait();
}

#[test]
fn an_unknown_provider_and_a_wrong_price_start_nothing() {
    let place = TestEnvironment::new();
    let server = Server::of(&place, TWO_STEPS);
    provider(&place, &server, "[model.\"fake/m\"]\nprice = { input = -3, output = 15 }\n");
    let (code, said) = run(&place, &[]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("models.toml:4: fake/m: price.input: expected dollars"), "{said}");
    provider(&place, &server, "[model.\"anthropic/m\"]\nprice = { input = 0, output = 0 }\n");
    let (code, said) = run(&place, &[]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("a project cannot say what \"anthropic/m\" costs"), "{said}");
    provider(&place, &server, "");
    let ran = place.run(&["run", "x y", "--model", "nobody/m", "--in-place"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("there is no provider"), "{}", ran.err);
    assert!(!place.home().join("journal").exists(), "nothing was recorded");
}

#[test]
fn a_conversation_that_fills_its_context_is_summed_up_and_goes_on() {
    let script = r#"
[[reply]]
tool_calls = [{ tool = "read", input = { path = "a.txt" } }]
usage = { input = 100, output = 10 }

[[reply]]
tool_calls = [{ tool = "read", input = { path = "a.txt" } }]
usage = { input = 900, output = 10 }

[[reply]]
match = "Your context is nearly full"
text = "I read a.txt: it says one."
usage = { input = 950, output = 20 }

[[reply]]
status = 400
body = '{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 1001 tokens > 1000 maximum"}}'

[[reply]]
match = "Your context is nearly full"
text = "Still one."
usage = { input = 500, output = 20 }

[[reply]]
text = "Done."
usage = { input = 200, output = 5 }
"#;
    let place = TestEnvironment::new();
    let server = Server::of(&place, script);
    provider(&place, &server, "[model.\"fake/m\"]\ncontext = 1000\n");
    let (code, said) = run(&place, &["--check", "test -s a.txt"]);
    assert_eq!(code, 0, "{said}");
    let types = place.types(&place.id());
    assert_eq!(types.iter().filter(|kind| *kind == "compacted").count(), 2, "{types:?}");
    let log = place.ok(&["log", &place.id()]);
    for line in ["I read a.txt: it says one.", "this stands for", "context_overflow"] {
        assert!(log.contains(line), "{line}: {log}");
    }
    assert_eq!(place.show(&place.id())["spend"]["context_overflows"], 0, "{types:?}");
}

/// What was asked is paid by the time an answer begins, whether anybody hears the last ones or not.
#[test]
fn an_answer_that_is_cut_off_by_the_end_of_its_task_or_process_is_counted() {
    let stops: [fn(&TestEnvironment, &Child); 2] = [
        |place, _| drop(place.ok(&["cancel", &place.id()])),
        |_, child| {
            let pid = child.id().to_string();
            for _ in 0..2 {
                assert!(Command::new("kill").arg(&pid).status().unwrap().success());
            }
        },
    ];
    for stop in stops {
        let place = TestEnvironment::new();
        let script = "[[reply]]\ntext = \"One. Two.\"\nstall = \"60s\"\n\
                      usage = { input = 1000000, output = 100000 }\n";
        let server = Server::of(&place, script);
        provider(&place, &server, PRICED);
        let args = ["run", "x y", "--model", "fake/m", "--in-place", "--json", "--stream"];
        let mut child = place.command(&args).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        lines.find(|line| line.as_ref().unwrap().contains("message_start")).unwrap().unwrap();
        stop(&place, &child);
        lines.for_each(drop);
        child.wait().unwrap();
        let spend = &place.show(&place.id())["spend"];
        let usd = spend["usd"].as_f64().unwrap();
        assert!((3.0..4.5).contains(&usd), "{spend}");
    }
}
