//! Homes that are not a plain folder at a short name.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::environment::TestEnvironment;
use crate::repository::Repository;

/// `~/.local/state` on another disk, for one.
#[test]
fn a_home_that_is_reached_through_a_link_is_like_any_other() {
    for link_is_above in [false, true] {
        let mut repository = Repository::new();
        let home = repository.place.home();
        let root = home.parent().unwrap().canonicalize().unwrap();
        let real = if link_is_above {
            symlink(&root, root.join("link")).unwrap();
            let through = root.join("link/home");
            repository.place =
                repository.place.with_variable("DRIVETRAIN_HOME", through.to_str().unwrap());
            root.join("home")
        } else {
            fs::create_dir(root.join("elsewhere")).unwrap();
            symlink(root.join("elsewhere"), &home).unwrap();
            root.join("elsewhere")
        };
        let (id, worktree) = repository.task(&["echo n > new"], Some("test -e new"));
        let shown = repository.place.show(&id);
        assert_eq!(shown["outcome"], "verified", "{shown}");
        assert!(worktree.starts_with(&real), "{worktree:?}");
        let kept = repository.json(&["checkpoints", &id]);
        assert!(kept["checkpoints"].as_array().unwrap().len() >= 2, "{kept}");
        assert!(repository.place.ok(&["diff", &id]).contains("+n"));
        repository.json(&["rollback", &id, "--to", "1"]);
        assert!(!worktree.join("new").exists());
        repository.place.ok(&["apply", &id]);
        assert_eq!(repository.place.read("new"), "n\n");
        repository.place.ok(&["receipt", &id]);
    }
}

/// Addresses of sockets hold 107 bytes, and a worker connects by itself.
#[test]
fn a_plugin_reaches_its_gate_from_a_home_with_a_long_name() {
    for walls in [&[][..], &["--no-sandbox"]] {
        let place = TestEnvironment::new();
        let root = place.home().parent().unwrap().to_owned();
        let (home, short) = (root.join("h".repeat(120)), root.join("r"));
        fs::create_dir(&short).unwrap();
        fs::set_permissions(&short, fs::Permissions::from_mode(0o700)).unwrap();
        let place = place
            .with_variable("DRIVETRAIN_HOME", home.to_str().unwrap())
            .with_variable("XDG_RUNTIME_DIR", short.to_str().unwrap());
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/drivers");
        for file in ["asker.py", "asker.task.toml", ".drivetrain/drivers/asker.toml"] {
            place.write(file, &fs::read_to_string(examples.join(file)).unwrap());
        }
        place.write("numbers.txt", "1\n2\n3\n");
        let ran = place.run(&[&["run", "asker.task.toml"], walls].concat());
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        assert_eq!(place.read("numbers.txt.count"), "3\n");
        let left: Vec<_> = fs::read_dir(&short).unwrap().map(Result::unwrap).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Some machines have `/tmp` lead elsewhere, and some users their own folder for temporary files.
#[test]
fn the_walls_are_tried_where_the_folder_for_temporary_files_is_a_link() {
    let place = TestEnvironment::new();
    let root = place.home().parent().unwrap().to_owned();
    fs::create_dir(root.join("temporary")).unwrap();
    symlink(root.join("temporary"), root.join("link")).unwrap();
    let link = root.join("link");
    let place = place.with_variable("TMPDIR", link.to_str().unwrap());
    place.steps("task.toml", &["echo walled > made"], "");
    let ran = place.run(&["run", "task.toml"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(place.read("made"), "walled\n");
}
