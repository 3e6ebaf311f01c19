//! Tells a person who watches what of their work a new worktree does not have. Git is asked aside: in a large repository that
//! takes a while, and nothing waits for it.

use std::path::Path;

use machine::event::{Event, EventKind};
use machine::task::WorkspaceKind;
use view::{Line, Tone};

use crate::screen::Screen;

/// How many files are named.
const NAMED: usize = 4;

/// Looks, once the worktree is there.
pub(crate) fn look(event: &Event, state_home: &Path, screen: &Screen) {
    let EventKind::WorkspaceOpened { workspace } = &event.kind else { return };
    if workspace.kind != WorkspaceKind::Worktree {
        return;
    }
    let (task, state_home, screen) = (event.task.clone(), state_home.to_owned(), screen.clone());
    let look = move || {
        let found = runtime::workspace::left_behind::not_committed(task.as_str(), &state_home);
        screen.lines(lines("without what you have not committed", &found.unwrap_or_default(), ""));
        let empty = runtime::workspace::left_behind::empty_submodules(task.as_str(), &state_home);
        let fill = "; setup = [\"git submodule update --init\"] under [workspace] fills them";
        screen.lines(lines("its submodules are empty", &empty, fill));
    };
    // Without it, less is told.
    let _ = std::thread::Builder::new().name("left behind".to_owned()).spawn(look);
}

fn lines(what: &str, paths: &[String], so: &str) -> Vec<Line> {
    let named: Vec<String> =
        paths.iter().take(NAMED).map(|path| view::text::visible(path)).collect();
    let more = match paths.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match named.is_empty() {
        true => Vec::new(),
        false => vec![Line::new(Tone::Ask, format!("  {what}: {}{more}{so}", named.join(", ")))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_named_and_the_others_counted() {
        let told = |paths: &[&str]| {
            let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
            lines("without", &paths, "; so").into_iter().map(|line| line.text).collect::<Vec<_>>()
        };
        assert_eq!(told(&[]), Vec::<String>::new());
        assert_eq!(told(&["a"]), ["  without: a; so"]);
        assert_eq!(
            told(&["a", "b", "c", "d", "e\u{1b}", "f"]),
            ["  without: a, b, c, d and 2 more; so"]
        );
    }
}
