//! `.drivetrain/policy.toml`: who may do what.
//!
//! A file is read alone (`parse`) and judged together with the others (`combine`): the rules of all of them stand in
//! one order, and each example in a rule must come out as it says under all of them and the profile.

mod example;
mod shadow;

use super::check::{Cursor, Problems, suggest};
use super::sandbox::{self, Says};
use super::shape::policy as shape;
use super::source::Source;
use super::{Format, SourceError, deciders};
use crate::driver::Registry;
use crate::policy::decider::Decider;
use crate::policy::permission::{
    Access, CommandPattern, Decide, Origin, PathPattern, Policy, Profile, Rule, Unattended,
};
use crate::policy::sandbox::Wishes;
use crate::{server, tool};

pub use example::{Checked, Example, check};

/// One policy file, as read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PolicyFile {
    /// The file, as a person names it.
    pub file: String,
    /// The profile it names.
    pub profile: Option<Profile>,
    /// What it says becomes of questions that nobody is there to answer.
    pub unattended: Option<Unattended>,
    /// Who it says is asked in a person's place.
    pub deciders: Vec<Decider>,
    /// What it wants of the sandbox.
    pub sandbox: Wishes,
    /// Its rules, in order.
    pub rules: Vec<Rule>,
    /// The examples in its rules.
    pub examples: Vec<Example>,
    /// What is odd but not wrong.
    pub warnings: Vec<String>,
}

/// Several files as one policy.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Combined {
    /// The policy.
    pub policy: Policy,
    /// What the files want of the sandbox; a later one changes what an earlier one said.
    pub sandbox: Vec<Wishes>,
    /// The files, in the order in which their rules count.
    pub files: Vec<FileSummary>,
    /// The examples of all files.
    pub examples: Vec<Example>,
    /// What is odd but not wrong.
    pub warnings: Vec<String>,
}

/// What a file brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSummary {
    /// The file, as a person names it.
    pub file: String,
    /// How many rules.
    pub rules: usize,
    /// How many examples.
    pub examples: usize,
}

/// Reads a policy file. TOML unless the file's name says YAML.
pub fn parse(text: &str, file: &str) -> Result<PolicyFile, Vec<SourceError>> {
    let is_blank =
        text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
    if is_blank {
        return Ok(PolicyFile { file: file.to_owned(), ..PolicyFile::default() });
    }
    let source = Source::read(file, text, Format::of(file))?;
    let mut problems = Problems::default();
    let top = Cursor::top(&source.value);
    top.keys(&mut problems, &shape::TOP);
    let profile = top.get("profile").and_then(|word| word.choice(&mut problems, &shape::PROFILES));
    let unattended =
        top.get("unattended").and_then(|word| word.choice(&mut problems, &shape::UNATTENDED));
    let deciders = deciders::read(&top, unattended == Some("escalate"), &mut problems);
    let mut read = PolicyFile {
        file: file.to_owned(),
        deciders,
        profile: profile.and_then(Profile::named),
        unattended: unattended.map(|word| match word {
            "wait" => Unattended::Wait,
            "escalate" => Unattended::Escalate,
            _ => Unattended::Deny,
        }),
        ..PolicyFile::default()
    };
    let wishes = top.get("sandbox");
    read.sandbox =
        wishes.map(|at| sandbox::read(&at, Says::Policy, &mut problems)).unwrap_or_default();
    let items = top.get("rule").map(|rules| rules.items(&mut problems)).unwrap_or_default();
    for (index, item) in items.iter().enumerate() {
        let line = place(&source, item).map_or(0, |place| place.line);
        let from = Origin { file: file.to_owned(), line, number: index + 1 };
        let Some(rule) = read_rule(item, from, &mut problems, &mut read.warnings) else { continue };
        for (key, expected) in
            [("allow", Decide::Allow), ("ask", Decide::Ask), ("deny", Decide::Deny)]
        {
            let lines = item.get(key).map(|lines| one_or_more(&lines, &mut problems));
            for line in lines.unwrap_or_default() {
                let Some(text) = line.text(&mut problems) else { continue };
                let Some(place) = place(&source, &line) else { continue };
                match Example::read(text, expected, &rule, place) {
                    Ok(example) => read.examples.push(example),
                    Err(message) => {
                        let hint = "an example is a command line, or tool: {\"parameter\": value}";
                        problems.push(&line, message, Some(hint.to_owned()));
                    }
                }
            }
        }
        read.rules.push(rule);
    }
    read.examples.sort_by_key(Example::place);
    if problems.is_empty() {
        // Only whole rules can be compared with each other.
        for (index, (rule, item)) in read.rules.iter().zip(&items).enumerate() {
            let hiding = |earlier: &&Rule| shadow::hides(earlier, rule);
            if let Some(earlier) = read.rules[..index].iter().find(hiding) {
                problems.push_key(item, shadow::said(earlier, rule), shadow::hint(earlier, rule));
            }
        }
    }
    if problems.is_empty() { Ok(read) } else { Err(source.errors(problems)) }
}

/// Puts files together, the one that others may not overrule first. The strictest profile that a file names counts,
/// the first word on what becomes of unattended questions, and every rule.
pub fn combine(files: Vec<PolicyFile>, home: Option<String>) -> Combined {
    let profile = files.iter().filter_map(|file| file.profile).reduce(Profile::stricter);
    // Whoever says that somebody else decides also says who.
    let spoken = files.iter().find(|file| file.unattended.is_some());
    let unattended = spoken.and_then(|file| file.unattended).unwrap_or_default();
    let deciders = spoken.map(|file| file.deciders.clone()).unwrap_or_default();
    let profile = Some(profile.unwrap_or_default());
    let policy =
        Policy { profile, rules: Vec::new(), unattended, home, deciders, ..Policy::default() };
    let mut combined = Combined { policy, ..Combined::default() };
    for file in files {
        let hidden = file.rules.iter().filter_map(|rule| {
            let mut earlier = combined.policy.rules.iter();
            let earlier = earlier.find(|earlier| shadow::hides(earlier, rule))?;
            let from = rule.from.as_ref()?;
            Some(format!("{}:{}: {}", from.file, from.line, shadow::said(earlier, rule)))
        });
        let hidden: Vec<String> = hidden.collect();
        combined.files.push(FileSummary {
            file: file.file,
            rules: file.rules.len(),
            examples: file.examples.len(),
        });
        combined.sandbox.push(file.sandbox);
        combined.warnings.extend(file.warnings);
        combined.warnings.extend(hidden);
        combined.policy.rules.extend(file.rules);
        combined.examples.extend(file.examples);
    }
    combined
}

/// Where a value stands, as an error that says nothing yet.
fn place(source: &Source<'_>, at: &Cursor<'_>) -> Option<SourceError> {
    let mut problems = Problems::default();
    problems.push(at, "", None);
    source.errors(problems).pop()
}

fn read_rule(
    at: &Cursor<'_>,
    from: Origin,
    problems: &mut Problems,
    warnings: &mut Vec<String>,
) -> Option<Rule> {
    if !at.keys(problems, &shape::RULE) {
        return None;
    }
    let decide = at.need(problems, "decide");
    let decide = decide.and_then(|word| word.choice(problems, &shape::DECIDE));
    let mut rule = Rule {
        reason: at
            .get("reason")
            .and_then(|reason| reason.text(problems))
            .unwrap_or_default()
            .to_owned(),
        attended: at.get("attended").and_then(|flag| flag.flag(problems)),
        ..Rule::default()
    };
    let matchers = ["tool", "command", "path", "host", "driver", "attended"];
    if !matchers.iter().any(|key| at.get(key).is_some()) {
        let hint =
            "name a tool, a command, a path or a host; tool = \"*\" is every call".to_owned();
        problems.push_key(at, "the rule does not say which calls it is about", Some(hint));
    }
    for command in given(at, "command", problems) {
        rule.command.extend(read_command(&command, problems));
    }
    for path in given(at, "path", problems) {
        rule.path.extend(read_path(&path, problems));
    }
    for host in given(at, "host", problems) {
        rule.host.extend(read_host(&host, problems));
    }
    for driver in given(at, "driver", problems) {
        let Some(name) = driver.text(problems) else { continue };
        let registry = Registry::builtin();
        if !name.starts_with("external:") && !registry.names().any(|known| known == name) {
            let hint = suggest(name, registry.names()).map(|hint| format!("; {hint}"));
            let (place, hint) = (format!("{}:{}", from.file, from.line), hint.unwrap_or_default());
            warnings.push(format!("{place}: there is no built-in driver {name:?}{hint}"));
        }
        rule.driver.push(name.to_owned());
    }
    rule.access = at.get("access").and_then(|access| {
        if rule.path.is_empty() {
            problems.push_key(
                &access,
                "access is about paths, and the rule names none",
                Some("add path = \"…\", or leave access out".to_owned()),
            );
        }
        match access.choice(problems, &shape::ACCESS)? {
            "read" => Some(Access::Read),
            _ => Some(Access::Write),
        }
    });
    if let Some(tool) = at.get("tool") {
        rule.tool = read_tool(&tool, &rule, problems)?;
    } else if !rule.command.is_empty() || !rule.host.is_empty() {
        rule.tool = "shell".to_owned();
    }
    rule.decide = match decide? {
        "allow" => Decide::Allow,
        "ask" => Decide::Ask,
        _ => Decide::Deny,
    };
    rule.from = Some(from);
    Some(rule)
}

fn given<'v>(at: &Cursor<'v>, key: &str, problems: &mut Problems) -> Vec<Cursor<'v>> {
    let Some(value) = at.get(key) else { return Vec::new() };
    let items = one_or_more(&value, problems);
    if items.is_empty() && value.value.is_array() {
        problems.push(
            &value,
            format!("{key} is an empty list, so the rule can never match"),
            Some("name at least one, or leave the key out".to_owned()),
        );
    }
    items
}

fn one_or_more<'v>(value: &Cursor<'v>, problems: &mut Problems) -> Vec<Cursor<'v>> {
    if value.value.is_array() { value.items(problems) } else { vec![value.clone()] }
}

fn read_tool(given: &Cursor<'_>, rule: &Rule, problems: &mut Problems) -> Option<String> {
    let name = given.text(problems)?;
    if name != "*" && !server::is_offered(name) && tool::find(name).is_none() {
        let names: Vec<&str> = tool::TOOLS.iter().map(|tool| tool.name).collect();
        let hint = suggest(name, names.iter().copied()).or_else(|| {
            Some(format!("the tools are {}, mcp__SERVER__TOOL, or * for all", names.join(", ")))
        });
        problems.push(given, format!("there is no tool {name:?}"), hint);
        return None;
    }
    let takes_path = |name: &str| {
        let files = ["read", "write", "edit", "patch", "glob", "grep", "skeleton", "view"];
        files.contains(&name) || matches!(name, "*" | "shell" | "validator.run")
    };
    let never = if !rule.command.is_empty() && !matches!(name, "shell" | "*") {
        Some("runs no commands")
    } else if !rule.host.is_empty() && !matches!(name, "shell" | "*") {
        Some("is not judged by hosts")
    } else if !rule.path.is_empty() && !takes_path(name) {
        Some("is not judged by paths")
    } else {
        None
    };
    if let Some(why) = never {
        let hint = "leave tool out, or the other matcher".to_owned();
        problems.push(given, format!("the rule can never match: {name} {why}"), Some(hint));
    }
    Some(name.to_owned())
}

fn read_command(given: &Cursor<'_>, problems: &mut Problems) -> Option<CommandPattern> {
    let text = given.text(problems)?;
    let joined = ["&&", "||", ";", "|", "&", "\n"].iter().find(|sign| text.contains(**sign));
    let wrong = if text.trim().is_empty() {
        Some(("an empty pattern can never match".to_owned(), "write a program's name".to_owned()))
    } else if let Some(sign) = joined {
        Some((
            format!("the pattern can never match: it holds {sign:?}"),
            "each command of a line is judged by itself: write a pattern for each".to_owned(),
        ))
    } else if text.contains(['>', '<']) {
        Some((
            "the pattern can never match: redirections are no arguments".to_owned(),
            "say which files with path = \"…\" and access = \"write\"".to_owned(),
        ))
    } else if text.contains(['\'', '"', '\\', '$', '`']) {
        Some((
            "the pattern can never match: patterns are compared after quotes are gone".to_owned(),
            "write the words without quotes; * stands for any word".to_owned(),
        ))
    } else {
        None
    };
    match wrong {
        Some((message, hint)) => {
            problems.push(given, message, Some(hint));
            None
        }
        None => Some(CommandPattern::from(text)),
    }
}

fn read_path(given: &Cursor<'_>, problems: &mut Problems) -> Option<PathPattern> {
    let text = given.text(problems)?;
    let wrong = if text.trim().is_empty() {
        Some("an empty pattern can never match")
    } else if text.split('/').any(|name| name == "..") {
        Some("the pattern can never match: paths are compared without \"..\"")
    } else if text.contains('$') {
        Some("the pattern can never match: variables have no meaning here")
    } else if text.starts_with('~') && !text.starts_with("~/") && text != "~" {
        Some("the pattern can never match: only ~/ is known, not the folders of others")
    } else {
        None
    };
    match wrong {
        Some(message) => {
            let hint = "write it from the workspace on, absolute, or from ~/ on".to_owned();
            problems.push(given, message, Some(hint));
            None
        }
        None => Some(PathPattern::from(text)),
    }
}

fn read_host(given: &Cursor<'_>, problems: &mut Problems) -> Option<String> {
    let text = given.text(problems)?;
    let fits = |c: char| c.is_alphanumeric() || ".-*_:".contains(c);
    if !text.is_empty() && text.chars().all(fits) && !text.contains("://") {
        return Some(text.to_owned());
    }
    let bare = text.split_once("://").map_or(text, |(_, rest)| rest);
    let bare = bare.split(['/', '@']).next().unwrap_or_default();
    let hint = "a host is a name such as crates.io, *.example.com, or * for all".to_owned();
    let hint = if bare.is_empty() || bare == text { hint } else { format!("write {bare:?}") };
    problems.push(given, format!("{text:?} is no host's name, so it can never match"), Some(hint));
    None
}
