//! Checks a claim: runs every criterion and says what was seen. A criterion passes only if it was seen to pass:
//! whatever cannot be run, read or understood has failed, and its evidence says why.
//!
//! A tree that was frozen is checked in clean checkouts of it (`checkout`), one for each command; without one, criteria
//! run in the workspace itself. `Ground` is what each kind of criterion gets to look at.

mod checkout;
pub(crate) mod command;
mod converted;
mod copy;
mod difference;
mod environment;
mod file;
mod git_clean;
mod planted;
mod plugin;
mod repository;
mod sides;
mod tests_count;
mod touched;

use std::path::{Path, PathBuf};
use std::time::Instant;

use machine::policy::sandbox::SandboxSpec;
use machine::task::{Criterion, CriterionResult, CustomCheck, Workspace, WorkspaceSpec};
use machine::verdict::{Checkpoint, Place, Verdict};
use regex::bytes::{Regex, RegexBuilder};

use crate::beneath::Root;
use crate::process::Cancel;
use crate::room;
use crate::tool::ToolServices;
pub(crate) use checkout::clear_away;
use checkout::{Checkout, Context, Scratch};
use command::{Command, Ended, Wanted, millis_since};
pub(crate) use difference::Difference;

/// What is checked: `Effect::Verify`, borrowed.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// The task's id.
    pub task: &'a str,
    /// The task's goal.
    pub goal: &'a str,
    /// As frozen at the start.
    pub criteria: &'a [Criterion],
    /// Where the worker worked.
    pub workspace: &'a Workspace,
    /// How a checkout is made ready.
    pub spec: &'a WorkspaceSpec,
    /// The state before the worker changed anything.
    pub base: Option<&'a Checkpoint>,
    /// The state that is handed over.
    pub frozen: Option<&'a Checkpoint>,
    /// The walls around what they run.
    pub sandbox: &'a SandboxSpec,
}

/// Where things are kept.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// The folder of all state.
    pub state_home: &'a Path,
    /// The folder that clean checkouts are made in.
    pub checkouts: &'a Path,
}

impl<'a> Places<'a> {
    /// Where checks write.
    fn disks(&self, workspace: &'a Workspace) -> Vec<&'a Path> {
        let place = workspace.path.as_deref().map(Path::new);
        [self.state_home, self.checkouts].into_iter().chain(place).collect()
    }
}

/// Runs every criterion and gives a result for each, in the order of the criteria. The error is for what concerns them
/// all: no folder to run in, no checkout to be had, or stopped.
pub fn verify(
    claim: &Claim<'_>,
    places: &Places<'_>,
    services: &ToolServices,
    cancel: &Cancel,
) -> Result<Verdict, String> {
    let environment = environment::of(claim.sandbox);
    if claim.criteria.is_empty() {
        return Ok(Verdict { environment, ..Verdict::default() });
    }
    let context = Context { claim, places, services, cancel };
    let mut ground = Ground::new(context)?;
    let mut results: Vec<Option<CriterionResult>> = vec![None; claim.criteria.len()];
    // What only looks comes first where commands get files of their own: those need not be made anew for it.
    let looks_first = ground.place() == Place::CleanCheckout;
    for runs_commands in [false, true] {
        for (criterion, result) in claim.criteria.iter().zip(&mut results) {
            if result.is_some() || (looks_first && uses(criterion).0 > 0 && !runs_commands) {
                continue;
            }
            let started = Instant::now();
            let seen = match ground.check(criterion) {
                Ok(seen) => seen,
                Err(Trouble::Failed(evidence)) => {
                    CriterionResult { evidence, ..CriterionResult::default() }
                }
                Err(Trouble::Broken(reason)) => return Err(reason),
            };
            if cancel.is_triggered() {
                return Err("stopped before all criteria had run".to_owned());
            }
            // What runs on a full disk fails, and what filled it is gone with the checkout.
            if !seen.passed && room::is_missing(&places.disks(claim.workspace)) {
                return Err(room::NO_ROOM.to_owned());
            }
            *result = Some(CriterionResult {
                title: criterion.title(),
                millis: millis_since(started),
                ..seen
            });
        }
    }
    let Difference { changes, lines, patch, .. } = ground.difference;
    Ok(Verdict {
        results: results.into_iter().flatten().collect(),
        place: match &ground.files {
            Files::Checkouts { .. } => Place::CleanCheckout,
            Files::Workspace { .. } => Place::Workspace,
        },
        environment,
        touched: difference::touched(&changes),
        touched_total: changes.len() as u64,
        diff_lines: lines,
        patch: difference::text(&patch),
    })
}

/// How many commands a criterion runs, on what was handed over and on the base.
fn uses(criterion: &Criterion) -> (usize, usize) {
    match criterion {
        Criterion::Shell { repeat, red_first, .. } => {
            (usize::try_from(*repeat).unwrap_or(1).max(1), usize::from(*red_first))
        }
        Criterion::Custom(CustomCheck::TestsNotFewer { .. }) => (1, 1),
        Criterion::Custom(
            CustomCheck::GitClean
            | CustomCheck::NoPathsTouched { .. }
            | CustomCheck::OnlyPathsTouched { .. }
            | CustomCheck::MaxDiffLines { .. }
            | CustomCheck::Plugin { .. },
        )
        | Criterion::File { .. }
        | Criterion::Judge { .. }
        | Criterion::Protect { .. } => (0, 0),
    }
}

/// Why a criterion has no result of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It has failed by this.
    Failed(String),
    /// Nothing can be said about the claim.
    Broken(String),
}

impl Trouble {
    pub(crate) fn into_text(self) -> String {
        match self {
            Trouble::Failed(text) | Trouble::Broken(text) => text,
        }
    }
}

/// One of the two states that a claim is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tree {
    /// What the worker handed over.
    HandedOver,
    /// What it began with.
    Base,
}

/// What a criterion gets to look at and to run in.
pub(crate) struct Ground<'a> {
    pub(crate) context: Context<'a>,
    /// What differs between the base and what was handed over; empty without a base.
    pub(crate) difference: Difference,
    /// Why it is not known what differs, if it is not.
    compared: Result<(), String>,
    files: Files,
}

enum Files {
    /// The workspace itself.
    Workspace { folder: PathBuf },
    /// Clean checkouts, made when they are needed.
    Checkouts { handed_over: Checkout, base: Option<Checkout>, _scratch: Scratch },
}

impl<'a> Ground<'a> {
    fn new(context: Context<'a>) -> Result<Ground<'a>, String> {
        let claim = context.claim;
        let Some(path) = &claim.workspace.path else {
            return Err(
                "the criteria need a folder to run in, and this task's workspace is of the kind \"none\""
                    .to_owned(),
            );
        };
        let Some(frozen) = claim.frozen else {
            let files = Files::Workspace { folder: PathBuf::from(path) };
            let (difference, compared) = Ground::look(&context);
            return Ok(Ground { context, difference, compared, files });
        };
        let scratch = Scratch::new(context.places.checkouts, claim.task)?;
        let all = claim.criteria.iter().map(uses);
        let (after, before) = all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let files = Files::Checkouts {
            handed_over: Checkout::new(&scratch.0, "handed-over", &frozen.name, after),
            base: claim.base.map(|base| Checkout::new(&scratch.0, "base", &base.name, before)),
            _scratch: scratch,
        };
        let (difference, compared) = match claim.base {
            Some(base) => (Difference::between(&context, &base.name, &frozen.name)?, Ok(())),
            None => Ground::look(&context),
        };
        Ok(Ground { context, difference, compared, files })
    }

    /// What differs where no checkpoint of the base was kept: looked at only if a criterion asks.
    fn look(context: &Context<'_>) -> (Difference, Result<(), String>) {
        if !context.claim.criteria.iter().any(touched::concerns) {
            return (Difference::default(), Ok(()));
        }
        match sides::Sides::of(context).and_then(|sides| sides.difference()) {
            Ok(difference) => (difference, Ok(())),
            Err(reason) => (Difference::default(), Err(reason)),
        }
    }

    fn place(&self) -> Place {
        match self.files {
            Files::Workspace { .. } => Place::Workspace,
            Files::Checkouts { .. } => Place::CleanCheckout,
        }
    }

    fn check(&mut self, criterion: &Criterion) -> Result<CriterionResult, Trouble> {
        match criterion {
            Criterion::Shell { command, exit, stdout, timeout, repeat, red_first } => {
                let wanted = Wanted {
                    command,
                    exit: *exit,
                    stdout: stdout.as_deref(),
                    timeout: *timeout,
                    repeat: *repeat,
                    red_first: *red_first,
                };
                command::check(&wanted, self)
            }
            Criterion::File { path, pattern, forbidden } => {
                let root = self.root(Tree::HandedOver)?;
                Ok(file::check(path, pattern.as_deref(), *forbidden, &root).into())
            }
            Criterion::Protect { paths, framework } => {
                touched::check(self, |touching| touching.protected(paths, *framework))
            }
            // A model is asked by the loop, once everything else has passed.
            Criterion::Judge { .. } => Err(Trouble::Failed("not asked yet".to_owned())),
            Criterion::Custom(check) => self.check_custom(check),
        }
    }

    fn check_custom(&mut self, check: &CustomCheck) -> Result<CriterionResult, Trouble> {
        match check {
            CustomCheck::GitClean => git_clean::check(self),
            CustomCheck::NoPathsTouched { paths } => {
                touched::check(self, |touching| touching.none_of(paths))
            }
            CustomCheck::OnlyPathsTouched { paths } => {
                touched::check(self, |touching| touching.only(paths))
            }
            CustomCheck::MaxDiffLines { lines } => touched::check_lines(self, *lines),
            CustomCheck::TestsNotFewer { command, timeout } => {
                tests_count::check(self, command, *timeout)
            }
            CustomCheck::Plugin { plugin, config } => plugin::check(self, plugin, config),
        }
    }

    /// Runs a command in the task's folder, in files that no other criterion has seen; in place, in the workspace.
    pub(crate) fn run(&mut self, tree: Tree, command: &Command<'_>) -> Result<Ended, Trouble> {
        let context = self.context;
        match &mut self.files {
            Files::Workspace { folder } => {
                require_handed_over(tree)?;
                let claim = context.claim;
                let containment = context.services.containment_of(claim.sandbox, claim.workspace);
                command::run(command, folder, containment, context.services, context.cancel)
            }
            Files::Checkouts { handed_over, base, .. } => {
                chosen(tree, handed_over, base)?.run(&context, command)
            }
        }
    }

    /// The task's folder, to be looked at: nothing has run in it but setup commands; in place, the workspace.
    pub(crate) fn files(&mut self, tree: Tree) -> Result<PathBuf, Trouble> {
        let context = self.context;
        match &mut self.files {
            Files::Workspace { folder } => {
                require_handed_over(tree)?;
                Ok(folder.clone())
            }
            Files::Checkouts { handed_over, base, .. } => {
                chosen(tree, handed_over, base)?.files(&context)
            }
        }
    }

    /// The same, with paths that cannot lead out of it.
    pub(crate) fn root(&mut self, tree: Tree) -> Result<Root, Trouble> {
        let folder = self.files(tree)?;
        Root::open(&folder).map_err(|error| {
            Trouble::Broken(format!("cannot open the folder {}: {error}", folder.display()))
        })
    }
}

fn chosen<'a>(
    tree: Tree,
    handed_over: &'a mut Checkout,
    base: &'a mut Option<Checkout>,
) -> Result<&'a mut Checkout, Trouble> {
    match tree {
        Tree::HandedOver => Ok(handed_over),
        Tree::Base => base.as_mut().ok_or_else(no_base),
    }
}

fn require_handed_over(tree: Tree) -> Result<(), Trouble> {
    match tree {
        Tree::HandedOver => Ok(()),
        Tree::Base => Err(no_base()),
    }
}

fn no_base() -> Trouble {
    Trouble::Failed(
        "nothing was kept of the files before the task began; only a task in a worktree has that"
            .to_owned(),
    )
}

struct Outcome {
    passed: bool,
    evidence: String,
}

impl Outcome {
    fn failed(evidence: impl Into<String>) -> Outcome {
        Outcome { passed: false, evidence: evidence.into() }
    }
}

impl From<Outcome> for CriterionResult {
    fn from(outcome: Outcome) -> CriterionResult {
        let Outcome { passed, evidence } = outcome;
        CriterionResult { passed, evidence, ..CriterionResult::default() }
    }
}

/// `^` and `$` mean the ends of lines. Matching takes linear time whatever the expression.
fn pattern(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(text)
        .multi_line(true)
        .build()
        .map_err(|error| format!("{text:?} is not a regular expression: {error}"))
}
