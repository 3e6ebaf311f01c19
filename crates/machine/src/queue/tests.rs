//! Order, what follows from what was tried, and the shape on disk.

use super::*;

fn task(name: &str) -> TaskId {
    TaskId(name.to_owned())
}

fn lane(branch: &str) -> Lane {
    Lane { repository: "/repo".to_owned(), branch: branch.to_owned() }
}

fn queue(names: &[(&str, &str)]) -> Queue {
    let mut queue = Queue::default();
    for (name, branch) in names {
        queue.add(task(name), lane(branch), End::Back, Timestamp(1)).unwrap();
    }
    queue
}

fn order(queue: &Queue) -> Vec<&str> {
    let open = queue.entries.iter().filter(|entry| entry.stage.is_open());
    open.map(|entry| entry.task.as_str()).collect()
}

fn next(queue: &Queue, held: &[&str]) -> Option<String> {
    let held = held.iter().map(|branch| lane(branch)).collect();
    queue.next(&held).map(|entry| entry.task.0.clone())
}

#[test]
fn the_first_comes_first_unless_one_is_put_to_the_front() {
    let mut queue = queue(&[("a", "main"), ("b", "main")]);
    assert!(queue.add(task("a"), lane("main"), End::Back, Timestamp(2)).is_err());
    queue.add(task("c"), lane("main"), End::Front, Timestamp(2)).unwrap();
    assert_eq!(order(&queue), ["c", "a", "b"]);
    assert_eq!(next(&queue, &[]).as_deref(), Some("c"));
}

#[test]
fn a_branch_that_is_held_up_holds_up_only_its_own() {
    let queue = queue(&[("a", "main"), ("b", "main"), ("c", "next")]);
    assert_eq!(next(&queue, &["main"]).as_deref(), Some("c"));
    assert_eq!(next(&queue, &["main", "next"]), None);
}

#[test]
fn what_a_crash_left_in_the_middle_comes_before_everything() {
    let mut queue = queue(&[("a", "main"), ("b", "main")]);
    queue.settle(&task("b"), Stage::Integrating);
    assert_eq!(next(&queue, &[]).as_deref(), Some("b"));
    assert!(queue.drop_task(&task("b"), Timestamp(3)).is_err());
    queue.add(task("c"), lane("main"), End::Front, Timestamp(2)).unwrap();
    assert_eq!(next(&queue, &[]).as_deref(), Some("b"));
}

#[test]
fn what_came_back_can_come_again_and_what_was_dropped_is_not_taken() {
    let mut queue = queue(&[("a", "main"), ("b", "main")]);
    queue.settle(&task("a"), Stage::Reopened { reason: "r".into(), at: Timestamp(2) });
    queue.drop_task(&task("b"), Timestamp(2)).unwrap();
    assert_eq!(next(&queue, &[]), None);
    assert!(queue.drop_task(&task("b"), Timestamp(2)).is_err());
    queue.add(task("a"), lane("main"), End::Back, Timestamp(3)).unwrap();
    assert_eq!(order(&queue), ["a"]);
    assert_eq!(queue.entry(&task("a")).unwrap().stage, Stage::Waiting);
}

#[test]
fn only_so_many_that_are_through_are_remembered_and_none_that_waits_is_forgotten() {
    let mut queue = queue(&[("first", "main")]);
    for n in 0..REMEMBERED + 10 {
        let name = format!("t{n}");
        queue.add(task(&name), lane("main"), End::Back, Timestamp(1)).unwrap();
        queue.settle(&task(&name), Stage::Dropped { at: Timestamp(2) });
    }
    assert_eq!(queue.entries.len(), REMEMBERED + 1);
    assert_eq!(order(&queue), ["first"]);
    assert_eq!(queue.entries[1].task, task("t10"));
}

#[test]
fn a_moved_branch_is_tried_again_so_often_and_no_more() {
    for moves in 0..MOST_MOVES {
        assert_eq!(follow(Tried::Moved, "main", moves), Follow::Again);
    }
    assert!(matches!(follow(Tried::Moved, "main", MOST_MOVES), Follow::Hold(_)));
}

#[test]
fn what_does_not_hold_on_the_branch_goes_back_with_the_failure() {
    let failed = CriterionResult { title: "shell: make".into(), ..CriterionResult::default() };
    let passed = CriterionResult { title: "other".into(), passed: true, ..failed.clone() };
    let tried = Tried::Failed { results: vec![failed, passed], rebase: None };
    let Follow::Reopen { reason, results, .. } = follow(tried, "main", 0) else { panic!() };
    assert_eq!(reason, "together with main it does not pass: shell: make");
    assert_eq!(results[0].title, "shell: make (together with main)");
    assert_eq!(results[1].title, "other");
    let tried = Tried::Collided { paths: vec!["a.rs".into()], rebase: None };
    let Follow::Reopen { reason, results, .. } = follow(tried, "main", 0) else { panic!() };
    assert_eq!(reason, "it collides with main in a.rs");
    assert!(results[0].fails() && results[0].evidence.contains("a.rs"));
}

#[test]
fn the_shape_on_disk_is_stable() {
    let queue = queue(&[("a", "main")]);
    let text = serde_json::to_string(&queue).unwrap();
    assert_eq!(
        text,
        r#"{"v":0,"entries":[{"task":"a","repository":"/repo","branch":"main","added":1,"stage":"waiting"}]}"#
    );
    assert_eq!(serde_json::from_str::<Queue>(&text).unwrap(), queue);
}
