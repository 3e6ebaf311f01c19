//! Every test here runs with a mark as the user's key at every provider, and fails if it leaves the mark behind. That the
//! search can fail is what these show.

use super::environment::TestEnvironment;

#[test]
#[should_panic(expected = "the user's key is in")]
fn a_key_in_a_file_is_found() {
    let place = TestEnvironment::new();
    place.write("left.txt", &format!("before {} after", place.key()));
}

#[test]
#[should_panic(expected = "the user's key is in")]
fn a_key_in_hex_is_found() {
    let place = TestEnvironment::new();
    let hex: String = place.key().bytes().map(|byte| format!("{byte:02x}")).collect();
    place.write("left.txt", &hex);
}

#[test]
#[should_panic(expected = "the user's key is in")]
fn a_key_in_an_object_of_a_repository_is_found() {
    let place = TestEnvironment::new();
    place.git(&["init", "--quiet"]);
    place.write("left.txt", place.key());
    place.git(&["add", "left.txt"]);
    std::fs::remove_file(place.folder().join("left.txt")).unwrap();
}

#[test]
#[should_panic(expected = "the user's key was printed")]
fn a_key_that_is_printed_is_found() {
    let place = TestEnvironment::new();
    let printed = std::process::Command::new("echo").arg(place.key()).output().unwrap();
    place.ran(printed);
}

/// The mark as a file can hold it without holding the mark.
fn escaped(place: &TestEnvironment) -> String {
    place.key().replacen("mk-", "\\u006dk-", 1)
}

#[test]
fn a_key_that_a_model_says_is_shown_nowhere_while_it_streams() {
    let place = TestEnvironment::new();
    let key = escaped(&place);
    place.write(
        "script.toml",
        &format!(
            "[[reply]]\nthinking = \"it is {key}\"\ntext = \"The key is {key}, and that is all.\"\n\
             tool_calls = [{{ tool = \"shell\", input = {{ command = \"echo {key}\" }} }}]\n\
             [[reply]]\ntext = \"Done with {key}\"\n"
        ),
    );
    // What was printed is searched by the rig.
    for flags in [&["--json", "--stream"][..], &[]] {
        let run = ["run", "say it", "--model", "script/script.toml", "--in-place"];
        let ran = place.run(&[&run[..], flags].concat());
        assert!(ran.out.contains("[redacted: "), "{}{}", ran.out, ran.err);
    }
}

#[test]
fn a_key_in_a_file_with_a_mistake_is_not_in_the_error() {
    let place = TestEnvironment::new();
    let task = |line: String| format!("goal = \"x\"\n[task]\n{line}\n");
    for line in ["modle = \"{key}\"", "\"{key}\" = 1", "goal = \"{key}"] {
        std::fs::write(place.folder().join("task.toml"), task(line.replace("{key}", place.key())))
            .unwrap();
        let ran = place.run(&["run", "task.toml"]);
        assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
        assert!(ran.err.contains("[redacted: "), "{}", ran.err);
        let ran = place.run(&["run", "task.toml", "--json"]);
        assert!(ran.err.contains("[redacted: "), "{}", ran.err);
    }
    std::fs::remove_file(place.folder().join("task.toml")).unwrap();
}
