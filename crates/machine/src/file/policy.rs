//! `.drivetrain/policy.toml`: who may do what.

use super::check::{Cursor, Problems, suggest};
use super::source::Source;
use super::{Format, SourceError};
use crate::policy::permission::{Decide, Policy, Rule, Unattended};
use crate::{server, tool};

/// Reads a policy file. TOML unless the file's name says YAML.
pub fn parse(text: &str, file: &str) -> Result<Policy, Vec<SourceError>> {
    let is_blank =
        text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
    if is_blank {
        return Ok(Policy::default());
    }
    let source = Source::read(file, text, Format::of(file))?;
    let mut problems = Problems::default();
    let top = Cursor::top(&source.value);
    top.table(&mut problems, "a policy", &["unattended", "rule", "sandbox"]);
    let unattended =
        top.get("unattended").and_then(|word| word.choice(&mut problems, &["deny", "wait"]));
    let unattended = if unattended == Some("wait") { Unattended::Wait } else { Unattended::Deny };
    let items = top.get("rule").map(|rules| rules.items(&mut problems)).unwrap_or_default();
    let rules = items.iter().filter_map(|item| read_rule(item, &mut problems)).collect();
    if problems.is_empty() {
        Ok(Policy { rules, unattended })
    } else {
        Err(source.errors(problems))
    }
}

fn read_rule(at: &Cursor<'_>, problems: &mut Problems) -> Option<Rule> {
    if !at.table(problems, "a rule", &["tool", "decide", "reason"]) {
        return None;
    }
    let reason = at.get("reason").and_then(|reason| reason.text(problems)).unwrap_or_default();
    let decide = at.need(problems, "decide");
    let decide = decide.and_then(|word| word.choice(problems, &["allow", "ask", "deny"]));
    let given = at.need(problems, "tool")?;
    let tool = given.text(problems)?;
    if tool != "*" && !server::is_offered(tool) && tool::find(tool).is_none() {
        let names: Vec<&str> = tool::TOOLS.iter().map(|tool| tool.name).collect();
        let hint = suggest(tool, names.iter().copied()).or_else(|| {
            Some(format!("the tools are {}, mcp__SERVER__TOOL, or * for all", names.join(", ")))
        });
        problems.push(&given, format!("there is no tool {tool:?}"), hint);
    }
    let decide = match decide? {
        "allow" => Decide::Allow,
        "ask" => Decide::Ask,
        _ => Decide::Deny,
    };
    Some(Rule { tool: tool.to_owned(), decide, reason: reason.to_owned() })
}
