//! The schemas as they are shipped: what the code gives, and what the files of this repository fit.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::environment::TestEnvironment;

#[path = "../../../machine/tests/support/fit.rs"]
mod fit;

use fit::Fit;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn fit(kind: &str) -> Fit {
    let path = root().join("schemas").join(format!("{kind}.schema.json"));
    Fit::new(serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap())
}

fn toml(text: &str) -> Value {
    toml::from_str::<toml::Value>(text).unwrap().try_into().unwrap()
}

#[test]
fn the_committed_schemas_are_what_the_code_gives() {
    let environment = TestEnvironment::new();
    let ran = environment.run(&["schema", "--all", "--to", "made"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let names = |folder: &Path| {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let made = environment.folder().join("made");
    assert_eq!(names(&made), names(&root().join("schemas")));
    for name in names(&made) {
        let new = fs::read_to_string(made.join(&name)).unwrap();
        let committed = fs::read_to_string(root().join("schemas").join(&name)).unwrap();
        assert!(new == committed, "{name} is old: drivetrain schema --all --to schemas");
        let kind = name.strip_suffix(".schema.json").unwrap();
        assert_eq!(environment.run(&["schema", kind]).out, new);
    }
}

#[test]
fn a_kind_that_does_not_exist_is_told_with_those_that_do() {
    let environment = TestEnvironment::new();
    let ran = environment.run(&["schema", "polcy"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("there is no kind of file \"polcy\""), "{}", ran.err);
    assert!(ran.err.contains("task, ") && ran.err.contains("policy"), "{}", ran.err);
    assert!(environment.run(&["schema"]).out.contains(".drivetrain/policy.toml"));
}

#[test]
fn what_init_writes_and_every_example_fits() {
    let environment = TestEnvironment::new();
    assert_eq!(environment.run(&["init"]).code, 0);
    let read = |path: PathBuf| toml(&fs::read_to_string(path).unwrap());
    let made = environment.folder().join(".drivetrain");
    for (kind, name) in [("policy", "policy.toml"), ("task", "example-task.toml")] {
        assert_eq!(fit(kind).misfit(&read(made.join(name))), None, "{name}");
    }
    let mut looked_at = 0;
    let mut folders = vec![root().join("examples")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.to_string_lossy().into_owned();
            let kind = match name {
                _ if name.ends_with("task.toml") => "task",
                _ => continue,
            };
            assert_eq!(fit(kind).misfit(&read(path)), None, "{name}");
            looked_at += 1;
        }
    }
    assert!(looked_at >= 3, "the examples have moved: {looked_at}");
}
