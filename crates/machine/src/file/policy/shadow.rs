//! Rules that can never decide anything, because an earlier one means all that they mean.

use crate::policy::permission::Rule;
use crate::server;

/// Whether everything that `later` plainly means is decided by `earlier`.
pub(super) fn hides(earlier: &Rule, later: &Rule) -> bool {
    let attended = earlier.attended.is_none() || earlier.attended == later.attended;
    let driver = earlier.driver.is_empty()
        || (!later.driver.is_empty()
            && later.driver.iter().all(|name| earlier.driver.contains(name)));
    server::names(&earlier.tool, &later.tool) && attended && driver && means_all(earlier, later)
}

fn means_all(earlier: &Rule, later: &Rule) -> bool {
    if earlier.is_bare() {
        return true;
    }
    let commands = earlier.command.is_empty()
        || (!later.command.is_empty()
            && later
                .command
                .iter()
                .all(|command| earlier.command.iter().any(|pattern| pattern.covers(command))));
    let paths = if earlier.path.is_empty() {
        // A rule about commands says nothing of redirections, which a rule about paths does.
        later.path.is_empty()
    } else {
        let access = earlier.access.is_none() || earlier.access == later.access;
        let within = later.path.iter().all(|path| earlier.path.contains(path));
        !later.path.is_empty() && within && access
    };
    let hosts = earlier.host.is_empty() && later.host.is_empty()
        || !earlier.host.is_empty()
            && !later.host.is_empty()
            && later
                .host
                .iter()
                .all(|host| earlier.host.iter().any(|own| own == host || own == "*"));
    commands && paths && hosts
}

/// What is wrong, in words.
pub(super) fn said(earlier: &Rule, later: &Rule) -> String {
    let place = match (&earlier.from, &later.from) {
        (Some(from), Some(own)) if from.file == own.file => {
            format!("rule {} in line {}", from.number, from.line)
        }
        (Some(from), _) => format!("rule {} of {}:{}", from.number, from.file, from.line),
        (None, _) => "an earlier rule".to_owned(),
    };
    format!("the rule never decides anything: {place} means all of it and comes first")
}

/// What to do about it.
pub(super) fn hint(earlier: &Rule, later: &Rule) -> Option<String> {
    Some(if earlier.decide == later.decide {
        "leave one of them out".to_owned()
    } else {
        "put the narrower rule first".to_owned()
    })
}
