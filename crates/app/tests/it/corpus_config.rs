//! The hostile configurations of the corpus, as files of a project and through the binary: none acts before it is trusted,
//! each ends in its class, and nothing panics.

use serde_json::Value;

use crate::environment::TestEnvironment;

const CASES: &str = include_str!("../../../machine/tests/fixtures/config.jsonl");

fn cases() -> Vec<(String, Value)> {
    let read = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let cases = CASES.lines().map(read).filter(|case| case["format"] == "toml");
    cases.filter_map(|case| Some((case["in"].as_str()?.to_owned(), case.clone()))).collect()
}

#[test]
fn every_hostile_workflow_is_checked_in_its_class() {
    let place = TestEnvironment::new();
    for (text, case) in cases() {
        let (id, expect) = (case["id"].as_str().unwrap(), case["expect"].as_str().unwrap());
        if text.is_empty() || expect == "ignored-until-trusted" {
            continue;
        }
        std::fs::create_dir_all(place.folder().join(".drivetrain/prompts")).unwrap();
        let link = place.folder().join(".drivetrain/prompts/lnk.txt");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
        place.write(".drivetrain/workflows/w.toml", &text);
        let ran = place.run(&["workflow", "check", "w"]);
        let met = match expect {
            "accept" | "bounded" => ran.code == 0,
            "reject" => ran.code == 2 && ran.err.contains("-->"),
            "reject-or-cap" | "reject-or-warn" => ran.code == 0 || ran.err.contains("-->"),
            other => panic!("{id}: unknown class {other}"),
        };
        assert!(met, "{id} ({}) should {expect}: {} {}", case["why"], ran.code, ran.err);
        assert!(!ran.err.contains("internal error"), "{id}: {}", ran.err);
    }
}

#[test]
fn a_hostile_file_of_a_project_changes_nothing_before_it_is_trusted() {
    for (text, case) in cases() {
        if case["expect"] != "ignored-until-trusted" {
            continue;
        }
        let place = TestEnvironment::new();
        let own = place.home().with_file_name(".config").join("drivetrain/workflows");
        std::fs::create_dir_all(&own).unwrap();
        let step = "[workflow]\n[[workflow.steps]]\nname = \"one\"\ntool = \"shell\"\n\
                    parameters = { command = \"echo own >> out.txt; command -v sh >> out.txt\" }\n";
        for name in ["repair", "w"] {
            std::fs::write(own.join(format!("{name}.toml")), step).unwrap();
            place.write(&format!(".drivetrain/workflows/{name}.toml"), &text);
        }
        for name in ["repair", "w"] {
            let ran = place.run(&["workflow", "run", name, "--in-place"]);
            assert_eq!(ran.code, 0, "{}: {}{}", case["id"], ran.out, ran.err);
        }
        let out = place.read("out.txt");
        assert_eq!(out.matches("own").count(), 2, "{}: {out}", case["id"]);
        assert!(!out.contains("./bin"), "{}: {out}", case["id"]);
    }
}
