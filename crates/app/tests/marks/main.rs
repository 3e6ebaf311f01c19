//! Random marks as keys, then everything that drivetrain does, then a search of everything that it leaves behind: not one
//! mark may be found in the journal, blobs, checkpoints, recordings, workspaces, outputs, or in what children are given.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../support/leaks.rs"]
mod leaks;
mod place;
mod search;

use std::time::Duration;

use place::Place;

/// A workflow that looks around: what a child is given, in files of the workspace and in its output.
const LOOKS: &str = "[task]\ngoal = \"look around\"\ndriver = \"workflow\"\n\
    [[task.driver_config.steps]]\nname = \"dump\"\ntool = \"shell\"\n\
    parameters = { command = \"tr '\\\\000' '\\\\n' < /proc/self/environ > environ.txt; cat /proc/[0-9]*/cmdline > argv.txt; env; true\" }\n";

#[test]
fn no_key_is_found_in_anything_that_is_left_behind() {
    let place = Place::new();
    let watch = search::Watch::start(&place.marks());
    workflows(&place);
    models(&place);
    others(&place);
    killed(&place);
    looked_at(&place);
    let mut found = watch.stop();
    found.extend(search::files(&place));
    found.extend(search::objects(&place));
    found.extend(search::outputs(&place));
    assert!(found.is_empty(), "marks were found:\n{}", found.join("\n"));
    assert!(place.searched() >= 20, "{} places were searched", place.searched());
}

/// Commands, checks and their output, in a worktree and in place.
fn workflows(place: &Place) {
    place.write("task.toml", LOOKS);
    for more in [
        &["--in-place"][..],
        &["--worktree"],
        &["--json"],
        &["--check", "env; cat environ.txt; false"],
    ] {
        place.run(&[&["run", "task.toml"], more].concat());
    }
    // What prints a key: the halves are no mark, together they are.
    let (left, right) = place.anthropic.text.split_at(20);
    let prints = format!(
        "printf '%s%s\\\\n' {left} {right}; printf '%s%s' {left} {right} | base64 -w0; printf '%s%s' x{left} {right} | base64 -w0 >&2; exit 3"
    );
    place.write(
        "prints.toml",
        &format!(
            "[task]\ngoal = \"print it\"\ndriver = \"workflow\"\n[[task.driver_config.steps]]\nname = \"one\"\ntool = \"shell\"\n\
             parameters = {{ command = \"{prints}\" }}\n[[acceptance]]\nkind = \"shell\"\ncommand = \"{prints}\"\n"
        ),
    );
    let ran = place.run(&["run", "prints.toml", "--in-place"]);
    assert!(ran.contains("[redacted: ANTHROPIC_API_KEY]"), "{ran}");
    // More than a result holds: the rest is a blob.
    let many = format!("for i in $(seq 3000); do printf '%s%s %s\\\\n' {left} {right} $i; done");
    place.write(
        "many.toml",
        &format!(
            "[task]\ngoal = \"much of it\"\ndriver = \"workflow\"\n[[task.driver_config.steps]]\nname = \"one\"\ntool = \"shell\"\n\
             parameters = {{ command = \"{many}\" }}\n"
        ),
    );
    place.run(&["run", "many.toml", "--in-place"]);
    place.remove("prints.toml");
}

/// Every way to have a key, with answers and with every kind of failure.
fn models(place: &Place) {
    for model in ["anthropic/m", "openai/m", "bycommand/m", "byvariable/m", "script/replies.toml"] {
        place.run(&["run", "do something", "--model", model, "--in-place", "--json"]);
        place.run(&["chat", "hello", "--model", model, "--in-place"]);
    }
    place.run(&[
        "run",
        "do something",
        "--model",
        "anthropic/m",
        "--record",
        "../recorded",
        "--in-place",
    ]);
    place.run(&[
        "run",
        "do something",
        "--model",
        "anthropic/m",
        "--replay",
        "../recorded",
        "--in-place",
    ]);
    place.run(&["run", "do it", "--model", "quotes/m", "--record", "../recorded2", "--in-place"]);
    place.run(&["run", "do it", "--model", "quotes/m", "--in-place", "--max-turns", "2"]);
    place.run(&["run", "do it", "--model", "gone/m", "--in-place", "--max-time", "2s"]);
    place.run(&["run", "do it", "--model", "broken/m", "--in-place", "--max-time", "2s"]);
}

/// Plugins, servers, people, and everything that is typed wrong.
fn others(place: &Place) {
    place.write(
        ".drivetrain/drivers/dumps.toml",
        "[driver]\nname = \"dumps\"\ncommand = [\"sh\", \"dump.sh\"]\nworkspace = \"write\"\n",
    );
    place.write("dump.sh", "env > plugin-env.txt; env >&2; echo 'no json'; exit 4\n");
    place.run(&["run", "consult", "--driver", "external:dumps", "--in-place"]);
    place.run(&["run", "by hand", "--driver", "user", "--in-place"]);
    place.run(&["tools"]);
    place.run(&["tools", "--json"]);
    place.run(&["run", "use it", "--model", "script/server.toml", "--in-place", "--trust"]);
    for wrong in [
        &["run"][..],
        &["run", "x", "--nope"],
        &["run", "x y", "--model", "nope/x"],
        &["run", "x y", "--model", "anthropic"],
        &["run", "nowhere.toml", "--json"],
        &["run", "x y", "--model", "anthropic/m", "--max-usd", "1"],
        &["nope"],
        &["show", "zzz"],
        &["resume", "zzz", "--json"],
    ] {
        place.run(wrong);
    }
}

/// Killed in the middle, and taken up again.
fn killed(place: &Place) {
    let slow = LOOKS.replace("env; true", "env; sleep 5");
    place.write("slow.toml", &slow);
    for more in ["--in-place", "--worktree"] {
        place.kill_after(&["run", "slow.toml", more], Duration::from_millis(700));
    }
    place
        .kill_after(&["run", "x y", "--model", "slow/m", "--in-place"], Duration::from_millis(700));
    place.run(&["resume", "--all"]);
}

/// Everything that shows what happened.
fn looked_at(place: &Place) {
    for args in [
        &["list", "--all"][..],
        &["list", "--all", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["models"],
        &["models", "--json"],
        &["approvals"],
        &["drivers"],
        &["trust", "--list"],
        &["journal", "verify", "--json"],
    ] {
        place.run(args);
    }
    for id in place.tasks() {
        for command in ["log", "why", "show"] {
            place.run(&[command, &id]);
            place.run(&[command, &id, "--json"]);
        }
        place.run(&["journal", "export", &id]);
    }
}
