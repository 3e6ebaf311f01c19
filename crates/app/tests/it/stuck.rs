//! The stuck suite through the real binary: a model that gets nowhere ends as stuck, with what repeated itself, and the
//! requests it wasted are bounded by what the task says and printed.

use serde_json::Value;

use crate::environment::TestEnvironment;
use crate::fake::Server;
use crate::model::count;

/// A task of a scripted model, with whatever is added to its file.
pub(crate) fn task(place: &TestEnvironment, script: &str, more: &str) {
    place.write("replies.toml", script);
    place.write(
        "task.toml",
        &format!(
            "[task]\ngoal = \"get there\"\ndriver = \"llm\"\n[task.driver_config]\nmodel = \
             \"script/replies.toml\"\n[workspace]\nkind = \"in_place\"\n{more}"
        ),
    );
}

pub(crate) fn last(place: &TestEnvironment) -> Value {
    place.events(&place.id()).pop().unwrap()
}

/// Runs a task that gets nowhere: how many requests it took, and its last event.
fn runs(script: &str, more: &str) -> (TestEnvironment, usize, Value) {
    let place = TestEnvironment::new();
    task(&place, script, more);
    let ran = place.run(&["run", "task.toml", "--unattended"]);
    let end = last(&place);
    assert_eq!(end["exit_code"], ran.code, "{}{}", ran.out, ran.err);
    let asked = count(&place.events(&place.id()), "model_called");
    (place, asked, end)
}

#[test]
fn every_kind_of_circle_ends_as_stuck_within_its_bound() {
    let again = "[end]\nthen = \"repeat\"\n";
    let shell = |command: &str| {
        format!(
            "[[reply]]\ntool_calls = [{{ tool = \"shell\", input = {{ command = \"{command}\" }} }}]\n"
        )
    };
    let read = "[[reply]]\ntool_calls = [{ tool = \"read\", input = { path = \"none.txt\" } }]\n";
    let list = "[[reply]]\ntool_calls = [{ tool = \"read\", input = { path = \"task.toml\" } }]\n";
    let done = "[[reply]]\ntext = \"Done.\"\n";
    let ask =
        "[[reply]]\ntool_calls = [{ tool = \"ask\", input = { question = \"which port?\" } }]\n";
    let check = "[[acceptance]]\nkind = \"shell\"\ncommand = \"echo run $$ took 0.$$s; exit 1\"\n";
    let flip = "[[acceptance]]\nkind = \"shell\"\ncommand = \"if mkdir d 2>/dev/null; then echo a; else rmdir d; echo b; fi; exit 1\"\n";
    let mut table = Vec::new();
    for (name, script, more, bound, what) in [
        ("a blocked tool", shell("curl x"), "", 5, "blocked_call"),
        (
            "a blocked tool, told to look twice",
            shell("curl x"),
            "[stuck]\nsame_denied = 2\n",
            2,
            "blocked_call",
        ),
        ("the same error", read.to_owned(), "", 5, "same_action"),
        ("two actions in turn", format!("{read}{list}").repeat(20), "", 8, "cycle"),
        ("the same failed check", done.to_owned(), check, 3, "same_failure"),
        ("a check that alternates", done.to_owned(), flip, 8, "cycle"),
    ] {
        let (place, asked, end) = runs(&format!("{script}{again}"), more);
        table.push(format!("{name:36} {asked:3} requests of at most {bound:2}: {}", end["reason"]));
        assert_eq!(
            (end["outcome"].as_str(), &end["exit_code"]),
            (Some("stuck"), &14.into()),
            "{end}"
        );
        assert_eq!(end["cause"]["kind"], "no_progress", "{end}");
        assert_eq!(end["cause"]["what"], what, "{name}: {end}");
        assert!(asked <= bound, "{name}: {asked}");
        let why = place.ok(&["why", &place.id()]);
        assert!(why.contains("It is stuck"), "{why}");
    }
    // Nobody is there to answer: it waits for a person, and asks for nothing more meanwhile.
    let (_, asked, end) = runs(&format!("{ask}{again}"), "");
    assert_eq!(
        (asked, &end["exit_code"], &end["cause"]["kind"]),
        (1, &13.into(), &"asks_person".into())
    );
    println!("{}", table.join("\n"));
}

#[test]
fn an_endless_question_is_answered_only_so_often() {
    let place = TestEnvironment::new();
    let script = "[[reply]]\ntool_calls = [{ tool = \"ask\", input = { question = \"which port?\" } }]\n[end]\nthen = \"repeat\"\n";
    task(&place, script, "[stuck]\nsame_question = 3\n");
    assert_eq!(place.run(&["run", "task.toml", "--unattended"]).code, 13);
    let id = place.id();
    for expected in [13, 13, 14] {
        place.ok(&["answer", &id, "8080"]);
        let ran = place.run(&["resume", &id, "--unattended"]);
        assert_eq!(ran.code, expected, "{}{}", ran.out, ran.err);
    }
    let end = last(&place);
    assert!(end["reason"].as_str().unwrap().contains("asked 3 times: which port?"), "{end}");
}

#[test]
fn edge_case_22_a_goto_cycle_stops_with_the_name_of_its_edge() {
    let place = TestEnvironment::new();
    place.write(
        "task.toml",
        "[task]\ngoal = \"x\"\n[workspace]\nkind = \"in_place\"\n[machine]\nname = \"m\"\ninitial = \"a\"\n\
         [machine.states.a]\naction = { tool = \"shell\", parameters = { command = \"true\" } }\n\
         transitions = [{ to = \"b\" }]\n[machine.states.b]\naction = { tool = \"shell\", parameters = { command = \
         \"true\" } }\ntransitions = [{ to = \"a\", when = \"ok\", max = 2 }, { to = \"c\", when = \"error\" }]\n\
         [machine.states.c]\nterminal = true\n",
    );
    let ran = place.run(&["run", "task.toml", "--unattended"]);
    assert_eq!(ran.code, 14, "{}{}", ran.out, ran.err);
    let end = last(&place);
    assert_eq!(
        (&end["cause"]["kind"], &end["cause"]["what"]),
        (&"no_progress".into(), &"driver".into())
    );
    let reason = end["reason"].as_str().unwrap();
    assert!(reason.contains("b -> a was taken 2 times"), "{reason}");
}

#[test]
fn requests_wasted_on_429_are_bounded_waited_out_and_printed() {
    let place = TestEnvironment::new();
    let server = Server::of(
        &place,
        "[[reply]]\nstatus = 429\nretry_after = \"0s\"\nrepeat = 3\n[[reply]]\ntext = \"Done.\"\n",
    );
    place.write(
        ".drivetrain/models.toml",
        &format!(
            "[provider.fake]\ndialect = \"anthropic_messages\"\nbase_url = \"http://127.0.0.1:{}\"\n",
            server.port
        ),
    );
    let ran = place.run(&["run", "x y", "--model", "fake/m", "--in-place"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("3 requests were wasted: 3 on 429"), "{}", ran.out);
    assert_eq!(last(&place)["spend"]["wasted"]["rate_limited"], 3);
    assert_eq!(place.show(&place.id())["spend"]["wasted"]["rate_limited"], 3);
}

#[test]
fn hours_of_429_are_a_moment_in_the_journal_and_not_more_requests() {
    let script = "[[reply]]\nstatus = 429\nretry_after = \"5h\"\nrepeat = true\n";
    let (place, asked, end) = runs(script, "");
    assert_eq!(
        (asked, &end["exit_code"], &end["cause"]["kind"]),
        (1, &13.into(), &"usage_limit".into())
    );
    let id = place.id();
    for _ in 0..3 {
        // Whoever takes it up, however often, waits for the moment that was named.
        assert_eq!(place.run(&["resume", &id, "--unattended"]).code, 13);
    }
    assert_eq!(place.run(&["resume", "--all", "--unattended"]).code, 0, "it is left alone");
    assert_eq!(count(&place.events(&id), "model_called"), 1);
    assert!(place.ok(&["why", &id]).contains("is asked again in"), "{}", place.ok(&["why", &id]));
    place.ok(&["cancel", &id]);
    assert_eq!(last(&place)["cause"]["kind"], "cancelled");
    let (_, asked, end) = runs(script, "[budget]\nmax_time = \"1h\"\n");
    assert_eq!((asked, &end["exit_code"]), (1, &11.into()));
    assert_eq!(end["cause"]["axes"][0], "max_time");
    let (_, asked, end) = runs(script, "[retry]\nlongest_wait = \"1h\"\n");
    assert_eq!((asked, &end["exit_code"]), (1, &10.into()), "longer than the task waits: {end}");
    assert_eq!(end["cause"]["failure"], "rate_limited");
}

#[test]
fn edge_case_20_unparsable_answers_are_bounded_by_the_task() {
    let script = "[[reply]]\nstatus = 529\nretry_after = \"0s\"\nrepeat = true\n";
    let (_, asked, end) = runs(script, "[retry]\nattempts = 3\n");
    assert_eq!(
        (asked, &end["exit_code"], &end["cause"]["failure"]),
        (3, &10.into(), &"overloaded".into())
    );
    assert_eq!(end["spend"]["wasted"]["overloaded"], 3);
    let (_, asked, end) = runs(script, "[retry]\nattempts = 100\nmax_wasted = 4\n");
    assert_eq!((asked, &end["exit_code"]), (4, &10.into()), "{end}");
}
