//! A folder shared by processes, opened for reading, made by others, and rebuilt.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use journal::sqlite::SqliteJournal;
use journal::{Damage, DamageKind, Entry, Journal, JournalError};

use crate::support::{bodies, copy, create, database, open, record, scratch, sound};

#[test]
fn two_processes_drive_their_own_tasks_in_one_folder() {
    let folder = scratch();
    let (mut one, mut two) = (open(folder.path()), open(folder.path()));
    one.commit(&[create("a", 1)]).unwrap();
    two.commit(&[create("b", 1)]).unwrap();
    for n in 1..=200 {
        one.commit(&[record("a", n, format!("a{n}").as_bytes())]).unwrap();
        if n % 3 != 0 {
            let n = n - n / 3;
            two.commit(&[record("b", n, format!("b{n}").as_bytes())]).unwrap();
        }
        if n == 100 {
            assert_eq!(two.records("a", 98).unwrap().len(), 2);
        }
    }
    let all = |task: &str, last| (1..=last).map(|n| format!("{task}{n}").into_bytes()).collect();
    for reader in [&one, &two] {
        let expected: Vec<_> = all("a", 200);
        assert_eq!(bodies(&reader.records("a", 0).unwrap()), expected);
        let expected: Vec<_> = all("b", 134);
        assert_eq!(bodies(&reader.records("b", 0).unwrap()), expected);
        sound(reader);
    }
    assert_eq!(two.claim("a").unwrap(), 200);
    // The takeover is noticed although the first writes another task in between.
    one.commit(&[create("c", 1)]).unwrap();
    assert!(matches!(
        one.commit(&[record("c", 1, b""), record("a", 201, b"")]),
        Err(JournalError::Fenced { task, .. }) if task == "a"
    ));
    one.commit(&[record("c", 1, b"")]).unwrap();
    two.commit(&[record("a", 201, b"")]).unwrap();
    sound(&one);
}

#[test]
fn threads_commit_to_one_folder_at_the_same_time() {
    let folder = scratch();
    let ids: Vec<String> = (0..4).map(|task| format!("t{task}")).collect();
    std::thread::scope(|scope| {
        for id in &ids {
            let folder = folder.path();
            scope.spawn(move || {
                let mut journal = open(folder);
                journal.commit(&[create(id, 1)]).unwrap();
                for n in 1..=150 {
                    journal.commit(&[record(id, n, id.as_bytes())]).unwrap();
                    if n % 50 == 0 {
                        assert_eq!(journal.records(id, 0).unwrap().len() as u64, n);
                    }
                }
            });
        }
        let reader = SqliteJournal::read(folder.path()).unwrap();
        // A reader never takes work in progress for damage.
        for _ in 0..20 {
            for row in reader.list(10, None).unwrap_or_default() {
                reader.records(&row.id, 0).unwrap();
            }
        }
    });
    let journal = open(folder.path());
    for id in &ids {
        assert_eq!(journal.records(id, 0).unwrap().len(), 150);
    }
    sound(&journal);
}

#[test]
fn a_reader_changes_nothing() {
    let folder = scratch();
    let missing = folder.path().join("none");
    let reader = SqliteJournal::read(&missing).unwrap();
    assert_eq!(reader.list(10, None).unwrap(), []);
    sound(&reader);
    assert!(!missing.exists());

    let mut journal = open(folder.path());
    journal
        .commit(&[create("a", 1), record("a", 1, b"{\"x\":1}"), record("a", 2, &[255])])
        .unwrap();
    let mut reader = SqliteJournal::read(folder.path()).unwrap();
    assert_eq!(reader.owner(), 0);
    assert_eq!(reader.list(10, None).unwrap().len(), 1);
    assert!(matches!(reader.claim("a"), Err(JournalError::Store(_))));
    assert!(matches!(reader.commit(&[create("b", 1)]), Err(JournalError::Store(_))));
    journal.commit(&[record("a", 3, b"")]).unwrap();
    assert_eq!(reader.records("a", 0).unwrap().len(), 3);
    sound(&reader);
    let mut text = Vec::new();
    reader.export("a", &mut text).unwrap();
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "{\"n\":1,\"time\":1700000000001,\"version\":1,\"body\":{\"x\":1}}\n\
         {\"n\":2,\"time\":1700000000002,\"version\":1,\"hex\":\"ff\"}\n\
         {\"n\":3,\"time\":1700000000003,\"version\":1,\"hex\":\"\"}\n"
    );
    drop((journal, reader));
    let reader = SqliteJournal::read(folder.path()).unwrap();
    assert_eq!(reader.records("a", 0).unwrap().len(), 3);
    assert_eq!(open(folder.path()).owner(), 2);
}

#[test]
fn files_of_others_and_of_newer_versions_are_refused_untouched() {
    let folder = scratch();
    drop(open(folder.path()));
    database(folder.path()).execute_batch("pragma user_version = 2").unwrap();
    for opened in [SqliteJournal::open(folder.path()), SqliteJournal::read(folder.path())] {
        assert!(matches!(opened, Err(JournalError::Newer { found: 2, known: 1, .. })));
    }
    let other = scratch();
    database(other.path()).execute_batch("create table x(y); insert into x values(1)").unwrap();
    let before = fs::read(other.path().join("journal.db")).unwrap();
    assert!(matches!(SqliteJournal::open(other.path()), Err(JournalError::Foreign(_))));
    assert_eq!(fs::read(other.path().join("journal.db")).unwrap(), before);
    let text = scratch();
    fs::write(text.path().join("journal.db"), "not a database, but long enough".repeat(50))
        .unwrap();
    assert!(matches!(SqliteJournal::open(text.path()), Err(JournalError::Damaged(_))));
}

#[test]
fn nobody_else_can_read_the_files() {
    let folder = scratch();
    let path = folder.path().join("state/journal");
    let mut journal = open(&path);
    journal.commit(&[create("a", 1)]).unwrap();
    journal.blobs().put(b"large").unwrap();
    let mode = |name: &str| fs::metadata(path.join(name)).unwrap().permissions().mode() & 0o777;
    for name in ["journal.db", "journal.db-wal", "journal.db-shm", "tips"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    assert_eq!(mode(""), 0o700);
    drop(journal);
    for name in ["journal.db", "tips"] {
        fs::set_permissions(path.join(name), fs::Permissions::from_mode(0o666)).unwrap();
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    drop(open(&path));
    assert_eq!((mode("journal.db"), mode("tips"), mode("")), (0o600, 0o600, 0o700));
}

#[test]
fn a_restored_old_copy_is_named_and_other_tasks_go_on() {
    let (folder, old) = (scratch(), scratch());
    let mut journal = open(folder.path());
    journal.commit(&[create("a", 1), create("b", 1), record("a", 1, b"1")]).unwrap();
    journal.commit(&[record("b", 1, b"1")]).unwrap();
    copy(folder.path(), old.path());
    journal.commit(&[record("a", 2, b"2"), record("a", 3, b"3")]).unwrap();
    journal.commit(&[create("c", 1), record("c", 1, b"1")]).unwrap();
    fs::copy(folder.path().join("tips"), old.path().join("tips")).unwrap();
    drop(journal);

    let mut journal = open(old.path());
    let lost = |result: Result<(), JournalError>| match result {
        Err(JournalError::Damaged(damage)) => {
            assert_eq!(damage.kind, DamageKind::LostTail);
            (damage.task.unwrap(), damage.n.unwrap())
        }
        other => panic!("expected a lost tail, got {other:?}"),
    };
    assert_eq!(lost(journal.load("a").map(drop)), ("a".to_owned(), 2));
    assert_eq!(lost(journal.claim("a").map(drop)), ("a".to_owned(), 2));
    assert_eq!(lost(journal.load("c").map(drop)), ("c".to_owned(), 1));
    assert_eq!(journal.claim("b").unwrap(), 1);
    journal.commit(&[record("b", 2, b"2"), create("d", 1), record("d", 1, b"1")]).unwrap();
    // A new task does not wipe out what the witness knows of the lost one.
    let named: Vec<_> =
        journal.verify().damages.into_iter().filter_map(|damage| damage.task).collect();
    assert_eq!(named, ["a", "c"]);
    drop(journal);

    let report = SqliteJournal::rebuild(old.path()).unwrap();
    assert_eq!((report.tasks, report.records), (3, 4));
    assert!(report.damages.iter().any(|damage| damage.task.as_deref() == Some("c")));
    assert!(old.path().join("damaged-1/journal.db").exists());
    assert!(old.path().join("damaged-1/tips").exists());
    let mut journal = open(old.path());
    sound(&journal);
    assert_eq!(journal.claim("a").unwrap(), 1);
    assert_eq!(journal.claim("b").unwrap(), 2);
    journal.commit(&[record("a", 2, b"again")]).unwrap();
    assert_eq!(bodies(&journal.records("a", 0).unwrap()), [b"1".to_vec(), b"again".to_vec()]);
    assert!(matches!(journal.load("c"), Err(JournalError::UnknownTask(_))));
    sound(&journal);
    assert!(matches!(SqliteJournal::rebuild(old.path()), Err(JournalError::Store(_))));
}

#[test]
fn a_rebuild_keeps_the_records_before_the_damage_and_the_snapshot() {
    let folder = scratch();
    let mut journal = open(folder.path());
    journal.commit(&[create("a", 7), create("b", 8)]).unwrap();
    for n in 1..=20 {
        journal.commit(&[record("a", n, &[n as u8]), record("b", n, &[n as u8; 50])]).unwrap();
    }
    journal
        .commit(&[
            Entry::Snapshot { task: "a", n: 10, body: b"ten" },
            Entry::Snapshot { task: "b", n: 20, body: b"twenty" },
            Entry::Summary { task: "b", open: false, body: "{\"outcome\":\"verified\"}" },
        ])
        .unwrap();
    drop(journal);
    database(folder.path())
        .execute_batch("update record set body = x'00' where task = 1 and n = 15")
        .unwrap();
    let report = SqliteJournal::inspect(folder.path());
    assert_eq!(report.damages.len(), 1);
    assert_eq!((report.damages[0].task.as_deref(), report.damages[0].n), (Some("a"), Some(15)));
    assert_eq!(report.damages[0].kind, DamageKind::Altered);

    let before = open(folder.path());
    let row = before.task("b").unwrap();
    assert!(before.load("a").is_err());
    assert_eq!(before.load("b").unwrap().snapshot.unwrap().body, b"twenty");
    drop(before);
    let report = SqliteJournal::rebuild(folder.path()).unwrap();
    assert_eq!((report.tasks, report.records), (2, 34));
    let journal = open(folder.path());
    let loaded = journal.load("a").unwrap();
    assert_eq!(loaded.snapshot.unwrap().n, 10);
    assert_eq!(loaded.records.len(), 4);
    assert_eq!(journal.records("b", 0).unwrap().len(), 20);
    assert_eq!(journal.task("b").unwrap(), row);
    sound(&journal);
}

#[test]
fn a_lost_database_is_not_taken_for_a_new_one() {
    for empty in [false, true] {
        let folder = scratch();
        let mut journal = open(folder.path());
        journal.commit(&[create("a", 1), record("a", 1, b"1")]).unwrap();
        drop(journal);
        let path = folder.path().join("journal.db");
        if empty {
            fs::write(&path, b"").unwrap();
        } else {
            fs::remove_file(&path).unwrap();
        }
        for opened in [SqliteJournal::open(folder.path()), SqliteJournal::read(folder.path())] {
            match opened {
                Err(JournalError::Damaged(damage)) => {
                    assert_eq!(damage.task.as_deref(), Some("a"));
                }
                other => panic!("expected damage, got {other:?}"),
            }
        }
        assert_eq!(SqliteJournal::inspect(folder.path()).damages.len(), 1);
    }
}

#[test]
fn a_witness_that_was_lost_is_told_until_the_rebuild() {
    let folder = scratch();
    let mut journal = open(folder.path());
    journal.commit(&[create("a", 1), record("a", 1, b"1")]).unwrap();
    drop(journal);
    fs::remove_file(folder.path().join("tips")).unwrap();
    for _ in 0..2 {
        let mut journal = open(folder.path());
        let n = journal.claim("a").unwrap() + 1;
        journal.commit(&[record("a", n, b"more")]).unwrap();
        assert!(journal.verify().damages.iter().all(|one| one.kind == DamageKind::Witness));
        assert!(!journal.verify().damages.is_empty());
    }
    SqliteJournal::rebuild(folder.path()).unwrap();
    let journal = open(folder.path());
    assert_eq!(journal.records("a", 0).unwrap().len(), 3);
    sound(&journal);
}

#[test]
fn a_journal_that_is_removed_while_it_is_in_use_takes_nothing_more() {
    let folder = scratch();
    let home = folder.path().join("journal");
    let mut journal = open(&home);
    journal.commit(&[create("a", 0), record("a", 1, b"one")]).unwrap();
    std::fs::remove_dir_all(&home).unwrap();
    let mut refused = || match journal.commit(&[record("a", 2, b"two")]) {
        Err(JournalError::Store(why)) => why,
        other => panic!("{other:?}"),
    };
    let why = refused();
    assert!(why.contains("was removed while it was in use"), "{why}");
    refused();
}

#[test]
fn a_blob_that_records_name_and_that_is_gone_is_missed() {
    let folder = scratch();
    let mut journal = open(folder.path());
    let hash = journal.blobs().put(b"all of it").unwrap();
    let body = format!(r#"[7,{{"status":"ok","text":"a","blob":{{"sha256":"{hash}","size":9}}}}]"#);
    journal
        .commit(&[create("a", 1), record("a", 1, b"{}"), record("a", 2, body.as_bytes())])
        .unwrap();
    assert_eq!(journal.verify().damages, []);
    drop(journal);
    fs::remove_dir_all(folder.path().join("blobs")).unwrap();
    for _ in 0..2 {
        let damages = SqliteJournal::inspect(folder.path()).damages;
        let detail = format!("blob {hash}, which record 2 of task a names, is missing");
        let damage =
            Damage { task: Some("a".to_owned()), n: Some(2), kind: DamageKind::Blob, detail };
        assert_eq!(damages, [damage]);
        // The records are whole, so it can be rebuilt, which brings no blob back.
        assert_eq!(SqliteJournal::rebuild(folder.path()).unwrap().records, 2);
    }
}

#[test]
fn what_was_being_stored_when_its_process_died_is_gone_after_the_next_start() {
    let folder = scratch();
    let journal = open(folder.path());
    let hash = journal.blobs().put(b"whole").unwrap();
    let blobs = folder.path().join("blobs");
    // More than any process has for its number, and this one's own.
    let (dead, own) = (blobs.join("new-4194305-0"), format!("new-{}-99", std::process::id()));
    let own = blobs.join(own);
    for file in [&dead, &own] {
        fs::write(file, "the beginning of").unwrap();
    }
    drop(open(folder.path()));
    assert!(dead.exists(), "somebody else has the journal, and may be storing it");
    drop(SqliteJournal::read(folder.path()).unwrap());
    drop(journal);
    drop(SqliteJournal::read(folder.path()).unwrap());
    assert!(dead.exists(), "whoever only reads changes nothing");
    let journal = open(folder.path());
    assert!(!dead.exists(), "nobody else has the journal");
    assert!(own.exists(), "another thread may be storing it");
    assert_eq!(journal.blobs().get(&hash).unwrap(), b"whole");
    sound(&journal);
}
