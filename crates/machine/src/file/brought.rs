//! What a workflow brings beside its driver: limits and criteria, which are those of the task that it is a part of.

use std::collections::BTreeMap;

use super::workflow::Workflow;
use crate::policy::budget::Budget;
use crate::task::Criterion;

/// Limits and criteria.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Brought {
    /// What may be spent.
    pub budget: Budget,
    /// What decides whether it is done.
    pub acceptance: Vec<Criterion>,
    /// The files that hold the rubrics of judges, by the judge's place among the criteria.
    pub rubric_files: BTreeMap<usize, String>,
}

impl Brought {
    pub(super) fn by(workflow: &Workflow) -> Brought {
        Brought {
            budget: workflow.budget.clone(),
            acceptance: workflow.acceptance.clone(),
            rubric_files: workflow.rubric_files.clone(),
        }
    }

    /// Whether there is nothing of it.
    pub fn is_empty(&self) -> bool {
        *self == Brought::default()
    }

    /// Adds what another one brings.
    pub(super) fn add(&mut self, other: Brought) {
        other.join(&mut self.budget, &mut self.acceptance, &mut self.rubric_files);
    }

    /// Adds it to what is there: every criterion counts, once, and the tighter limit.
    pub(super) fn join(
        self,
        budget: &mut Budget,
        acceptance: &mut Vec<Criterion>,
        rubric_files: &mut BTreeMap<usize, String>,
    ) {
        tighten(budget, &self.budget);
        for (at, criterion) in self.acceptance.into_iter().enumerate() {
            let rubric = self.rubric_files.get(&at);
            let is_known = acceptance.iter().enumerate().any(|(place, known)| {
                // A judge whose rubric has not been read yet is told by the file.
                *known == criterion && rubric_files.get(&place) == rubric
            });
            if !is_known {
                rubric_files.extend(rubric.map(|path| (acceptance.len(), path.clone())));
                acceptance.push(criterion);
            }
        }
    }
}

/// Takes the smaller limit where both have one.
pub(crate) fn tighten(budget: &mut Budget, by: &Budget) {
    fn smaller<T: PartialOrd>(mine: Option<T>, other: Option<T>) -> Option<T> {
        match (mine, other) {
            (Some(mine), Some(other)) => Some(if other < mine { other } else { mine }),
            (mine, other) => mine.or(other),
        }
    }
    *budget = Budget {
        max_turns: smaller(budget.max_turns, by.max_turns),
        max_time: smaller(budget.max_time, by.max_time),
        max_tokens: smaller(budget.max_tokens, by.max_tokens),
        max_usd: smaller(budget.max_usd, by.max_usd),
        max_tool_calls: smaller(budget.max_tool_calls, by.max_tool_calls),
        max_consecutive_denies: smaller(budget.max_consecutive_denies, by.max_consecutive_denies),
        max_consecutive_errors: smaller(budget.max_consecutive_errors, by.max_consecutive_errors),
        max_context_overflows: smaller(budget.max_context_overflows, by.max_context_overflows),
    };
}

#[cfg(test)]
mod tests {
    use super::super::lookup::{Found, Kind, Lookup, NotFound, Origin};
    use super::super::workflow;
    use super::*;
    use crate::time::Span;

    /// Knows workflows that are all alike.
    struct Alike;

    const LOOK: &str =
        "[[workflow.steps]]\nname = \"a\"\ntool = \"shell\"\nparameters = { command = \"ls\" }\n";

    impl Lookup for Alike {
        fn find(&self, _: Kind, name: &str) -> Result<Found, NotFound> {
            let text = format!(
                "[workflow]\nlimits = {{ token_budget = 50, timeout_seconds = 60 }}\nbudget = {{ max_turns = 7 }}\n\
                 acceptance = [{{ shell = \"make\" }}, {{ judge = {{ model = \"a/b\", rubric_file = \"{name}.md\" }} }}]\n{LOOK}"
            );
            Ok(Found { text, file: format!("{name}.toml"), origin: Origin::Project })
        }
    }

    #[test]
    fn what_is_called_brings_each_criterion_once_and_all_limits_but_its_time() {
        let call = |step: &str, name: &str| {
            format!("[[workflow.steps]]\nname = \"{step}\"\nworkflow = \"@workflows/{name}\"\n")
        };
        let text = format!(
            "[workflow]\nbudget = {{ max_turns = 9, max_tokens = 20 }}\nacceptance = [{{ file = \"f\" }}]\n{}{}{}",
            call("x", "one"),
            call("y", "two"),
            call("z", "one"),
        );
        let read = workflow::parse(&text, "w.toml", &Alike).unwrap();
        let titles: Vec<String> = read.acceptance.iter().map(Criterion::title).collect();
        assert_eq!(titles.len(), 4, "{titles:?}");
        assert_eq!(titles[1], "shell: make");
        let files: Vec<(usize, &str)> =
            read.rubric_files.iter().map(|(at, path)| (*at, path.as_str())).collect();
        assert_eq!(files, [(2, "one.md"), (3, "two.md")]);
        let limits = (read.budget.max_turns, read.budget.max_tokens, read.budget.max_time);
        assert_eq!(limits, (Some(7), Some(20), None));
        let time = &read.driver.config["steps"][0]["workflow"]["timeout"];
        assert_eq!(*time, Span::seconds(60).to_string());
    }
}
