//! Weighs the parts of a call against rules and profile. The strictest word decides.

use serde::Serialize;
use serde_json::json;

use super::glob::Reach;
use super::parts::{self, Call, Deed, Named, Part, Subject};
use super::place::Folders;
use super::profile::Terms;
use super::{
    Access, Author, Decide, Fit, Judgement, Layer, Policy, Question, Rule, Unattended, command,
};
use crate::server;
use crate::shell::Run;
use crate::shell::known::Kind;
use crate::tool::EffectClass;

/// What the gate says of one part of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartJudgement {
    /// The part: one command, one path, one host; empty for the call itself.
    pub part: String,
    /// What it says.
    pub decide: Decide,
    /// Which rule, or which profile.
    pub by: String,
    /// What was looked at.
    pub layer: Layer,
    /// Why.
    pub reason: String,
}

/// Judges one call.
///
/// A rule's word counts for everybody. Where no rule says anything, what the operator wrote is allowed, and what a
/// worker wants is as the profile says. A question that nobody can answer ends as the policy declares.
pub fn judge(policy: &Policy, question: &Question<'_>) -> Judgement {
    let mut strictest: Option<(Opinion, String)> = None;
    weigh(policy, question, |part, opinion| {
        let is_new = match &strictest {
            None => true,
            // Of parts that are all allowed, one that a rule names says more than the profile.
            Some((best, _)) => (opinion.decide, opinion.weight()) > (best.decide, best.weight()),
        };
        if is_new {
            let is_named = opinion.decide != Decide::Allow && opinion.layer != Layer::Tool;
            strictest = Some((opinion, if is_named { part.text() } else { String::new() }));
        }
    });
    let (opinion, part) = strictest.unwrap_or_else(|| (Opinion::allow(By::Default), String::new()));
    let by = opinion.by.text(policy);
    let unanswerable = !question.attended && policy.unattended == Unattended::Deny;
    let nobody = opinion.decide == Decide::Ask && unanswerable;
    let decide = if nobody { Decide::Deny } else { opinion.decide };
    Judgement { decide, by, layer: opinion.layer, reason: opinion.reason, part, nobody }
}

/// What the gate says of each part of a call, in the order of its text.
pub fn explain(policy: &Policy, question: &Question<'_>) -> Vec<PartJudgement> {
    let mut all = Vec::new();
    weigh(policy, question, |part, opinion| {
        // What a guess at an argument has found harmless is not worth a line.
        let is_guess = matches!(part.subject, Subject::Path { named: Named::Guess, .. });
        if is_guess && opinion.decide == Decide::Allow {
            return;
        }
        let by = opinion.by.text(policy);
        let Opinion { decide, layer, reason, .. } = opinion;
        all.push(PartJudgement { part: part.text(), decide, by, layer, reason });
    });
    // The call as a whole says nothing beside its parts, unless a rule is about it.
    if all.len() > 1 && all[0].decide == Decide::Allow {
        all.remove(0);
    }
    all
}

/// What is said of one part.
#[derive(Debug)]
struct Opinion {
    decide: Decide,
    by: By,
    layer: Layer,
    reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Rule(usize),
    Profile,
    Protected,
    Default,
}

impl By {
    fn is_rule(self) -> bool {
        matches!(self, By::Rule(_))
    }

    fn text(self, policy: &Policy) -> String {
        match self {
            By::Rule(index) => match &policy.rules[index].from {
                Some(from) => format!("rule {} of {}:{}", from.number, from.file, from.line),
                None => format!("rule {}", index + 1),
            },
            By::Profile => match policy.profile {
                Some(profile) => format!("profile {}", profile.word()),
                None => "default".to_owned(),
            },
            By::Protected => "protected names".to_owned(),
            By::Default => "default".to_owned(),
        }
    }
}

impl Opinion {
    fn allow(by: By) -> Opinion {
        Opinion { decide: Decide::Allow, by, layer: Layer::Tool, reason: String::new() }
    }

    fn weight(&self) -> u8 {
        u8::from(self.decide == Decide::Allow && self.by.is_rule())
    }
}

/// What stands in the way of a path whatever a rule about commands says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guard {
    None,
    Secret,
    Protected,
}

/// Gives what is said of each part of a call, and of the command that only its title names.
///
/// A title may be cut, or tell something else than what runs: it can hold a call back, and lets none through. It does so by a
/// rule that stands before the one which decides of the call itself.
fn weigh(policy: &Policy, question: &Question<'_>, mut take: impl FnMut(&Part<'_>, Opinion)) {
    let mut decided = policy.rules.len();
    weigh_parts(policy, question, |part, opinion| {
        if let By::Rule(index) = opinion.by {
            decided = decided.min(index);
        }
        take(part, opinion);
    });
    let Some(line) = parts::titled(question) else { return };
    let input = json!({ "command": line });
    let titled = Question { tool: "shell", input: &input, ..*question };
    weigh_parts(policy, &titled, |part, opinion| match opinion.by {
        By::Rule(index) if opinion.decide != Decide::Allow && index < decided => {
            take(part, opinion)
        }
        _ => {}
    });
}

fn weigh_parts(policy: &Policy, question: &Question<'_>, mut take: impl FnMut(&Part<'_>, Opinion)) {
    let folders = Folders { workspace: question.workspace, home: policy.home.as_deref() };
    // Nothing is read that nobody looks at.
    let looks_inside = policy.profile.is_some() && question.author == Author::Worker
        || policy.rules.iter().any(|rule| !rule.is_bare());
    let call = if looks_inside { Call::read(question) } else { Call::default() };
    let mut rules: Vec<Active<'_>> = Vec::new();
    for (index, rule) in policy.rules.iter().enumerate() {
        if is_about(rule, question) {
            let reach = if rule.decide == Decide::Allow { Reach::Narrow } else { Reach::Wide };
            rules.push(Active { index, rule, reach, of_command: Fit::No });
        }
    }
    let mut last: Option<Option<&Run>> = None;
    call.each(folders, |part| {
        // The parts of a command come one after the other: it is compared with the patterns once.
        let is_same = match (last, part.run) {
            (Some(Some(last)), Some(run)) => std::ptr::eq(last, run),
            (Some(None), None) => true,
            _ => false,
        };
        if !is_same {
            last = Some(part.run);
            rules.iter_mut().for_each(|active| active.of_command = command_fit(active, &part));
        }
        let opinion = opinion(policy, question, &part, &rules, folders);
        take(&part, opinion);
    });
}

/// A rule that is about calls of this tool, driver and attendance.
struct Active<'p> {
    index: usize,
    rule: &'p Rule,
    reach: Reach,
    /// Whether its commands mean the command that is looked at; yes if it names none.
    of_command: Fit,
}

fn is_about(rule: &Rule, question: &Question<'_>) -> bool {
    server::names(&rule.tool, question.tool)
        && rule.attended.is_none_or(|attended| attended == question.attended)
        && (rule.driver.is_empty() || rule.driver.iter().any(|name| is_by(rule, name, question)))
}

/// Whether a call is of this driver. Which one of several wished for it is not said with the call, so what holds back holds
/// for each of them, and what allows only for the one that decides in the task. A step that was written down is of no worker.
fn is_by(rule: &Rule, name: &String, question: &Question<'_>) -> bool {
    let is_within = rule.decide != Decide::Allow
        && question.author == Author::Worker
        && question.within.contains(name);
    is_within || name == question.driver
}

fn opinion(
    policy: &Policy,
    question: &Question<'_>,
    part: &Part<'_>,
    rules: &[Active<'_>],
    folders: Folders<'_>,
) -> Opinion {
    let guard = guard(policy, question, part);
    // The word of a rule that may mean the part: it is not more than asked about.
    let mut doubt: Option<Opinion> = None;
    let mut said: Option<Opinion> = None;
    for active in rules {
        let (rule, by) = (active.rule, By::Rule(active.index));
        let layer = if rule.is_bare() { Layer::Tool } else { layer_of(part) };
        match fit(active, part, folders) {
            Fit::No => {}
            Fit::Maybe => {
                if doubt.is_none() && rule.decide != Decide::Allow {
                    let reason = doubt_text(rule, part);
                    doubt = Some(Opinion { decide: Decide::Ask, by, layer, reason });
                }
            }
            Fit::Yes => {
                // A secret is given out only by a rule that names its path.
                let covered = rule.decide != Decide::Allow
                    || guard == Guard::None
                    || (guard == Guard::Secret && !rule.path.is_empty());
                if covered {
                    let (decide, reason) = (rule.decide, rule.reason.clone());
                    said = Some(Opinion { decide, by, layer, reason });
                    break;
                }
            }
        }
    }
    let said = match said {
        Some(said) if guard != Guard::Protected || said.decide == Decide::Deny => said,
        _ => default_opinion(policy, question, part, guard),
    };
    match doubt {
        // A rule that may be meant says more than a profile that asks as well.
        Some(doubt) if (doubt.decide, 1) > (said.decide, u8::from(said.by.is_rule())) => doubt,
        _ => said,
    }
}

fn doubt_text(rule: &Rule, part: &Part<'_>) -> String {
    let verb = match rule.decide {
        Decide::Deny => "denies",
        Decide::Ask | Decide::Allow => "asks about",
    };
    let reason = if rule.reason.is_empty() { String::new() } else { format!(" ({})", rule.reason) };
    let why = match &part.subject {
        Subject::Unclear(unclear) => format!(", {}", unclear.why),
        _ => String::new(),
    };
    format!("it may be what the rule {verb}{reason}{why}")
}

fn layer_of(part: &Part<'_>) -> Layer {
    match &part.subject {
        Subject::Call { .. } => Layer::Tool,
        Subject::Command(_) | Subject::Unclear(_) => Layer::Command,
        Subject::Path { .. } => Layer::Path,
        Subject::Host(_) => Layer::Host,
    }
}

fn guard(policy: &Policy, question: &Question<'_>, part: &Part<'_>) -> Guard {
    let Subject::Path { place, access, named, .. } = &part.subject else { return Guard::None };
    if policy.profile.is_none() || question.author == Author::Operator {
        return Guard::None;
    }
    if *access == Access::Write && *named != Named::Guess && place.is_protected() {
        return Guard::Protected;
    }
    if place.is_secret() { Guard::Secret } else { Guard::None }
}

/// Whether a rule means a part.
fn fit(active: &Active<'_>, part: &Part<'_>, folders: Folders<'_>) -> Fit {
    let Active { rule, reach, of_command, .. } = *active;
    if rule.is_bare() {
        // What is only guessed to be a path is an argument of its command, for which it speaks.
        let is_beside = match part.subject {
            Subject::Call { alone } => !alone && rule.decide != Decide::Allow,
            Subject::Path { named: Named::Guess, .. } => true,
            _ => false,
        };
        return if is_beside { Fit::No } else { Fit::Yes };
    }
    match &part.subject {
        Subject::Call { .. } => Fit::No,
        Subject::Unclear(_) => match reach {
            Reach::Narrow => Fit::No,
            Reach::Wide => Fit::Maybe,
        },
        _ if of_command == Fit::No => Fit::No,
        Subject::Command(_) if rule.path.is_empty() && rule.host.is_empty() => of_command,
        Subject::Command(_) => Fit::No,
        Subject::Path { place, access, whole, named, .. } => {
            if !rule.host.is_empty() {
                return Fit::No;
            }
            if rule.path.is_empty() {
                return if *named == Named::Program { of_command } else { Fit::No };
            }
            let is_guess = *named == Named::Guess;
            let other_access = rule.access.is_some_and(|wanted| wanted != *access);
            if is_guess && reach == Reach::Narrow || !is_guess && other_access {
                return Fit::No;
            }
            let fits = rule.path.iter().map(|path| place.fits(path, reach, *whole, folders));
            fits.max().unwrap_or(Fit::No).min(of_command)
        }
        Subject::Host(_) if !rule.path.is_empty() => Fit::No,
        Subject::Host(_) if rule.host.is_empty() => of_command,
        Subject::Host(host) => {
            let fits = rule.host.iter().map(|name| command::host_fits(name, host, reach));
            fits.max().unwrap_or(Fit::No).min(of_command)
        }
    }
}

fn command_fit(active: &Active<'_>, part: &Part<'_>) -> Fit {
    if active.rule.command.is_empty() {
        return Fit::Yes;
    }
    let Some(run) = part.run else { return Fit::No };
    let fits = active.rule.command.iter().map(|pattern| match active.reach {
        Reach::Narrow => pattern.allows(run),
        Reach::Wide => pattern.reaches(run, part.opaque),
    });
    fits.max().unwrap_or(Fit::No)
}

/// What is said where no rule says anything.
fn default_opinion(
    policy: &Policy,
    question: &Question<'_>,
    part: &Part<'_>,
    guard: Guard,
) -> Opinion {
    if question.author == Author::Operator {
        return Opinion::allow(By::Default);
    }
    let layer = layer_of(part);
    let Some(profile) = policy.profile else {
        let unsafe_call = question.class == EffectClass::Unsafe;
        let asks = match &part.subject {
            // Where commands are looked at, they speak for the call.
            Subject::Call { .. } => {
                unsafe_call && (question.tool != "shell" || policy.rules.iter().all(Rule::is_bare))
            }
            Subject::Command(_) | Subject::Unclear(_) => unsafe_call,
            Subject::Path { .. } | Subject::Host(_) => false,
        };
        if !asks {
            return Opinion::allow(By::Default);
        }
        let reason = format!("no rule allows {}", question.tool);
        return Opinion { decide: Decide::Ask, by: By::Default, layer: Layer::Tool, reason };
    };
    if guard == Guard::Protected {
        let reason = "it steers other programs, and no tool may write it".to_owned();
        return Opinion { decide: Decide::Deny, by: By::Protected, layer, reason };
    }
    let by = By::Profile;
    if guard == Guard::Secret {
        let reason = "it looks like a file that holds secrets".to_owned();
        return Opinion { decide: Decide::Ask, by, layer, reason };
    }
    let terms = profile.terms(question.sandboxed);
    let (decide, reason) = match &part.subject {
        Subject::Call { .. } => of_call(question, &terms),
        Subject::Command(deed) => of_command(*deed, part, &terms),
        Subject::Unclear(unclear) => {
            (terms.unknown, format!("it is not understood: {}", unclear.why))
        }
        Subject::Path { named: Named::Guess, .. } => (Decide::Allow, String::new()),
        Subject::Path { place, access, named, .. } => {
            // File tools hold their own paths beneath the workspace, with or without a sandbox.
            let terms = if *named == Named::Tool { profile.terms(true) } else { terms };
            let word = of_path(place, *access, &terms);
            (word, path_reason(place, *access).to_owned())
        }
        Subject::Host(_) => (terms.reach, "it needs the network".to_owned()),
    };
    let reason = match decide {
        Decide::Allow => String::new(),
        Decide::Ask | Decide::Deny if question.sandboxed => reason,
        Decide::Ask | Decide::Deny => format!("{reason}; no sandbox holds it"),
    };
    Opinion { decide, by, layer, reason }
}

fn of_call(question: &Question<'_>, terms: &Terms) -> (Decide, String) {
    let tool = question.tool;
    let word = match (tool, question.class) {
        // Judged by what the line says, and by the paths.
        ("shell" | "ask" | "say", _) => Decide::Allow,
        ("validator.run", _) => terms.build,
        ("write" | "edit" | "patch", _) => Decide::Allow,
        ("memory", _) if matches!(question.input["action"].as_str(), Some("list" | "read")) => {
            Decide::Allow
        }
        (_, EffectClass::Pure) => Decide::Allow,
        (_, EffectClass::Keyed | EffectClass::Checkable) => terms.keep,
        (_, EffectClass::Unsafe) => terms.unsafe_tool,
    };
    (word, format!("no rule allows {tool}"))
}

fn of_command(deed: Deed<'_>, part: &Part<'_>, terms: &Terms) -> (Decide, String) {
    let program = part.run.map(parts::program).unwrap_or_default();
    let (word, what) = match deed {
        Deed::Nothing | Deed::Speaks => (Decide::Allow, ""),
        Deed::Work(Kind::Look) => (terms.look, "reads"),
        Deed::Work(Kind::Change) => (terms.change, "changes files"),
        Deed::Work(Kind::Build) => (terms.build, "runs the project's code"),
        Deed::Work(Kind::Record) => (terms.record, "records changes"),
        Deed::Work(Kind::Reach) => (terms.reach, "needs the network"),
        Deed::Unknown(why) if terms.unknown == Decide::Allow => (Decide::Allow, why),
        Deed::Unknown(why) => {
            return (terms.unknown, format!("what {program} does is not known: {why}"));
        }
    };
    (word, format!("{program} {what}"))
}

fn of_path(place: &super::place::Place, access: Access, terms: &Terms) -> Decide {
    match access {
        _ if place.is_stream() => Decide::Allow,
        Access::Read if place.is_inside() || place.is_system() => terms.read_here,
        Access::Read => terms.read_elsewhere,
        Access::Write if place.is_inside() => terms.write_here,
        Access::Write => terms.write_elsewhere,
    }
}

fn path_reason(place: &super::place::Place, access: Access) -> &'static str {
    match (place.is_known(), place.is_inside(), access) {
        (false, _, Access::Read) => "only the run can tell what it reads",
        (false, _, Access::Write) => "only the run can tell what it writes",
        (true, false, Access::Read) => "it reads outside the workspace",
        (true, false, Access::Write) => "it writes outside the workspace",
        (true, true, Access::Read) => "it reads in the workspace",
        (true, true, Access::Write) => "it writes in the workspace",
    }
}
