//! What is found, by whose word, and what is said of what is not.

use machine::driver::Registry;
use machine::file::lookup::{Kind, Lookup, Origin};
use machine::task::{Criterion, DriverSpec};
use machine::time::Timestamp;
use serde_json::Value;

use super::*;

fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for path in [".git/refs", ".drivetrain/workflows", ".drivetrain/drivers", "deep/er"] {
        fs::create_dir_all(folder.path().join(path)).unwrap();
    }
    let step = "[workflow]\n[[workflow.steps]]\nname = \"one\"\ntool = \"shell\"\nparameters = { command = \"true\" }\n";
    fs::write(folder.path().join(".drivetrain/workflows/count.toml"), step).unwrap();
    fs::write(
        folder.path().join(".drivetrain/drivers/echo.toml"),
        "[driver]\nname = \"echo\"\ncommand = [\"./echo.py\"]\n",
    )
    .unwrap();
    folder
}

#[test]
fn a_project_is_found_from_below_and_not_beyond_its_repository() {
    let folder = project();
    let library = Library::at(project_folders(&folder.path().join("deep/er")));
    assert_eq!(library.folders(), [folder.path().join(".drivetrain")]);
    fs::create_dir_all(folder.path().join("deep/.git/refs")).unwrap();
    assert!(project_folders(&folder.path().join("deep/er")).is_empty());
}

#[test]
fn policies_add_up_and_the_user_comes_first() {
    let folder = project();
    let (user, nested) = (folder.path().join("user"), folder.path().join("deep/.drivetrain"));
    for (place, text) in [
        (&user, "[[rule]]\ncommand = \"git push\"\ndecide = \"deny\"\n"),
        (&folder.path().join(".drivetrain"), "profile = \"open\"\nunattended = \"wait\"\n"),
        (&nested, "[[rule]]\ncommand = \"git\"\ndecide = \"allow\"\n"),
    ] {
        fs::create_dir_all(place).unwrap();
        fs::write(place.join("policy.toml"), text).unwrap();
    }
    let mut folders = project_folders(&folder.path().join("deep/er"));
    folders.push(user);
    let library = Library::at(folders);
    let policy = library.policy().unwrap();
    assert_eq!(policy.profile.map(|profile| profile.word()), Some("open"));
    assert_eq!(policy.unattended, machine::policy::permission::Unattended::Wait);
    let files: Vec<&str> =
        policy.rules.iter().map(|rule| rule.from.as_ref().unwrap().file.as_str()).collect();
    assert!(files[0].ends_with("user/policy.toml"), "{files:?}");
    assert_eq!(files[1], "deep/.drivetrain/policy.toml");
}

#[test]
fn an_example_that_comes_out_otherwise_is_an_error_before_anything_starts() {
    let folder = project();
    let text = "[[rule]]\ncommand = \"git push\"\ndecide = \"deny\"\nallow = [\"git push\"]\n";
    fs::write(folder.path().join(".drivetrain/policy.toml"), text).unwrap();
    let library = Library::at(project_folders(folder.path()));
    let error = library.policy().unwrap_err().to_string();
    assert!(error.contains("must be allowed"), "{error}");
    assert!(error.contains("--> .drivetrain/policy.toml:4:"), "{error}");
}

#[test]
fn names_inside_composites_are_put_in_their_places() {
    let folder = project();
    let library = Library::at(project_folders(folder.path()));
    let path = folder.path().join("task.toml");
    let text = "[task]\ngoal = \"g\"\ndriver = \"sequence\"\n\
        [[task.driver_config.drivers]]\ndriver = \"workflow\"\nconfig = { workflow = \"count\" }\n\
        [[task.driver_config.drivers]]\ndriver = \"external:echo\"\nconfig = { loud = true }\n";
    fs::write(&path, text).unwrap();
    let task = library.task(&path, &Registry::builtin()).unwrap();
    let drivers = &task.driver.config["drivers"];
    assert_eq!(drivers[0]["config"]["steps"][0]["tool"], "shell");
    assert_eq!(drivers[1]["config"]["plugin"]["command"][0], "./echo.py");
    assert_eq!(drivers[1]["config"]["plugin"]["folder"], folder.path().to_str().unwrap());
    assert_eq!(drivers[1]["config"]["config"]["loud"], true);
}

#[test]
fn an_unknown_name_says_what_there_is() {
    let folder = project();
    let library = Library::at(project_folders(folder.path()));
    let error = library.workflow("cuont", folder.path()).unwrap_err();
    assert!(
        matches!(&error, LibraryError::Unknown { known, .. } if known.contains(&"count".to_owned())),
        "{error}"
    );
    let error = library.workflow("../count.toml", folder.path()).unwrap_err();
    assert!(error.to_string().contains("there is no such file"), "{error}");
}

#[test]
fn a_wrong_pattern_is_found_before_anything_starts() {
    let criterion =
        Criterion::File { path: "a".to_owned(), pattern: Some("(".to_owned()), forbidden: false };
    let driver = DriverSpec::new("user", Value::Null);
    let error = check(&driver, &[criterion], &Registry::builtin()).unwrap_err();
    assert!(error.to_string().contains("not a regular expression"), "{error}");
}

fn write(folder: &Path, file: &str, text: &str) {
    let path = folder.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn a_prompt_is_the_projects_only_once_it_is_trusted_and_only_as_it_was_seen() {
    let folder = project();
    write(folder.path(), ".drivetrain/prompts/terse.txt", "Be long.");
    let home = Home::at(folder.path().join("home"));
    let library = || Library::at(project_folders(folder.path())).judged_by(&home, folder.path());
    let find = || library().find(Kind::Prompt, "terse").unwrap();
    assert_eq!(find().origin, Origin::BuiltIn, "a file that nobody trusts takes no place");
    let path = folder.path().join(".drivetrain/prompts/terse.txt");
    let (seen, _) = trust::read_file(&path, MAX_FILE).unwrap().unwrap();
    trust::trust(&home, folder.path(), &[seen], Timestamp(1)).unwrap();
    assert_eq!((find().origin, find().text.as_str()), (Origin::Project, "Be long."));
    fs::write(&path, "Be evil.").unwrap();
    assert_eq!(find().origin, Origin::BuiltIn, "a changed one asks again");
    let items = library().items(Kind::Prompt).unwrap();
    let terse: Vec<Item> = items.into_iter().filter(|item| item.name == "terse").collect();
    let layers: Vec<(Origin, bool)> =
        terse.iter().map(|item| (item.origin, item.is_trusted)).collect();
    assert_eq!(layers, [(Origin::Project, false), (Origin::BuiltIn, true)]);
    assert_eq!(Item::chosen(&terse).unwrap().origin, Origin::BuiltIn);
}

#[test]
fn a_name_that_only_the_project_has_counts_by_the_word_of_whoever_names_it_and_is_noted() {
    let folder = project();
    write(folder.path(), ".drivetrain/prompts/ours.md", "# Ours\n");
    let home = Home::at(folder.path().join("home"));
    let library = Library::at(project_folders(folder.path())).judged_by(&home, folder.path());
    let found = library.find(Kind::Prompt, "ours").unwrap();
    assert_eq!((found.origin, found.text.as_str()), (Origin::Project, "# Ours\n"));
    let noted = library.named_files();
    assert_eq!(noted[0].role, FileRole::Prompt);
    assert!(noted[0].path.ends_with("ours.md"));
    let missing = library.find(Kind::Prompt, "oursss").unwrap_err();
    assert!(
        missing.known.contains(&"ours".to_owned()) && missing.known.contains(&"terse".to_owned())
    );
}

#[test]
fn the_nearest_is_taken_and_a_link_does_not_lead_out_of_the_project() {
    let folder = project();
    write(folder.path(), ".drivetrain/prompts/a.txt", "far");
    write(folder.path(), "deep/.drivetrain/prompts/a.md", "near");
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "secret.txt", "secret");
    let link = folder.path().join(".drivetrain/prompts/lnk.txt");
    std::os::unix::fs::symlink(outside.path().join("secret.txt"), &link).unwrap();
    let library = Library::at(project_folders(&folder.path().join("deep/er")));
    assert_eq!(library.find(Kind::Prompt, "a").unwrap().text, "near");
    let error = library.find(Kind::Prompt, "lnk").unwrap_err();
    assert!(error.why.contains("leads out of the project"), "{}", error.why);
    for hostile in ["../count", "/etc/passwd", "..", ".", "", "a/b", "a\0b"] {
        assert!(library.find(Kind::Workflow, hostile).is_err(), "{hostile:?}");
    }
}

#[test]
fn what_was_judged_is_what_is_used() {
    let folder = project();
    let home = Home::at(folder.path().join("home"));
    let library = Library::at(project_folders(folder.path())).judged_by(&home, folder.path());
    let items = library.items(Kind::Workflow).unwrap();
    let count = items.iter().find(|item| item.name == "count").unwrap();
    let judged = library.asked.read.borrow().values().next().unwrap().1.clone();
    // Somebody writes to it between the look that judges it and the look that reads it.
    write(folder.path(), ".drivetrain/workflows/count.toml", "[workflow]\nname = \"other\"\n");
    let text = library.look(Kind::Workflow, count).unwrap();
    assert_eq!(trust::hash(text.as_bytes()), judged.sha256);
    assert!(text.contains("name = \"one\""), "{text}");
}

#[test]
fn a_prompt_is_read_once_for_all_who_name_it() {
    let folder = project();
    write(folder.path(), ".drivetrain/prompts/short.txt", "Be brief.");
    let library = Library::at(project_folders(folder.path()));
    let first = library.find(Kind::Prompt, "short").unwrap();
    fs::remove_file(folder.path().join(".drivetrain/prompts/short.txt")).unwrap();
    assert_eq!(library.find(Kind::Prompt, "short").unwrap(), first);
}

#[test]
fn a_file_that_is_a_link_inside_the_project_is_judged_where_it_lies() {
    let folder = project();
    write(folder.path(), "elsewhere/real.txt", "Be brief.");
    write(folder.path(), ".drivetrain/prompts/plain.txt", "Be plain.");
    let link = folder.path().join(".drivetrain/prompts/linked.txt");
    std::os::unix::fs::symlink(folder.path().join("elsewhere/real.txt"), link).unwrap();
    let library = Library::at(project_folders(folder.path()));
    let found = library.find(Kind::Prompt, "linked").unwrap();
    assert_eq!(found.text, "Be brief.");
    library.find(Kind::Prompt, "plain").unwrap();
    let read = library.asked.read.borrow();
    let real: Vec<PathBuf> = read.values().map(|(_, seen)| seen.path.clone()).collect();
    let root = fs::canonicalize(folder.path()).unwrap();
    let wanted = ["elsewhere/real.txt", ".drivetrain/prompts/plain.txt"];
    assert_eq!(real, wanted.map(|path| root.join(path)));
}
