//! The coding agents of a folder: where each is, which version, and what can be done with it.

use machine::agent::{AgentAbilities, AgentSupport};

use crate::{Line, Tone, text};

/// One agent of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Where its file is; nothing if it needs none.
    pub file: Option<String>,
    /// What is wrong with its file.
    pub problem: Option<String>,
    /// Where its program is.
    pub installed: Option<String>,
    /// The command that installs it, if one is known.
    pub install: Option<String>,
    /// What it says of its version, or why that is not known.
    pub version: Result<String, String>,
    /// Whether that was tried.
    pub support: Option<AgentSupport>,
    /// The oldest and the newest that were tried.
    pub tested: Option<(String, String)>,
    /// What can be done with it.
    pub can: Option<AgentAbilities>,
    /// Cells of that which only the running agent knows.
    pub says_itself: Vec<&'static str>,
    /// What its version lacks.
    pub limits: Vec<String>,
}

/// The agents with their versions, then the table of what can be done with them.
pub fn lines(rows: &[Row]) -> Vec<Line> {
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let mut lines: Vec<Line> = rows.iter().flat_map(|row| about(row, width)).collect();
    lines.push(Line::empty());
    lines.extend(table(rows, width));
    lines
}

fn about(row: &Row, width: usize) -> Vec<Line> {
    let name = format!("{:width$}", text::visible(&row.name));
    if let Some(problem) = &row.problem {
        let mut said = text::lines(problem).into_iter();
        let first = said.next().unwrap_or_default();
        let mut lines = vec![Line::new(Tone::Bad, format!("{name}  {first}"))];
        lines.extend(said.map(|line| Line::new(Tone::Bad, format!("{:width$}  {line}", ""))));
        return lines;
    }
    let Some(place) = &row.installed else {
        let how = row.install.iter().map(|command| format!(": {}", text::visible(command)));
        let how: String = how.collect();
        return vec![Line::new(Tone::Faint, format!("{name}  not installed{how}"))];
    };
    let tested = match &row.tested {
        Some((oldest, newest)) if oldest == newest => format!("; tried is {oldest}"),
        Some((oldest, newest)) => format!("; tried are {oldest} to {newest}"),
        None => String::new(),
    };
    let (tone, said) = match (&row.version, row.support) {
        (Ok(version), Some(AgentSupport::Tested)) => (Tone::Good, format!("{version}, supported")),
        (Ok(version), Some(AgentSupport::Older)) => {
            (Tone::Ask, format!("{version}, older than what was tried{tested}"))
        }
        (Ok(version), Some(AgentSupport::Newer)) => {
            (Tone::Ask, format!("{version}, newer than what was tried{tested}"))
        }
        (Ok(version), _) if row.tested.is_none() => {
            (Tone::Plain, format!("{version}, never tried"))
        }
        (Ok(version), _) => (Tone::Ask, format!("{version:?} names no version{tested}")),
        (Err(reason), _) => (Tone::Ask, format!("version unknown: {reason}{tested}")),
    };
    let mut lines = vec![Line::new(tone, format!("{name}  {}", text::visible(&said)))];
    let mut beside = vec![format!("in {}", text::visible(place))];
    beside.extend(row.file.iter().map(|file| format!("by {}", text::visible(file))));
    beside.extend(row.limits.iter().map(|limit| format!("- {}", text::visible(limit))));
    lines.extend(
        beside.into_iter().map(|line| Line::new(Tone::Faint, format!("{:width$}  {line}", ""))),
    );
    lines
}

/// What can be done with each, a line an agent.
fn table(rows: &[Row], width: usize) -> Vec<Line> {
    const HEAD: [&str; 10] = [
        "resume",
        "fork",
        "steer",
        "interrupt",
        "pause",
        "gate",
        "usage",
        "cost",
        "compaction",
        "tools",
    ];
    let head: Vec<String> = HEAD.iter().map(|word| format!("{word:10}")).collect();
    let mut lines =
        vec![Line::new(Tone::Strong, format!("{:width$}  {}", "", head.join(" ").trim_end()))];
    for row in rows {
        let Some(can) = row.can else { continue };
        let cell = |name: &str, yes: bool| match yes {
            true => "yes",
            false if row.says_itself.contains(&name) => "it says",
            false => "no",
        };
        let cells = [
            cell("resume", can.resume),
            cell("fork", can.fork),
            cell("steer", can.steer),
            cell("interrupt", can.interrupt),
            can.pause.word(),
            can.gate.word(),
            cell("usage", can.usage),
            cell("cost", can.cost),
            cell("compact", can.compact),
            cell("tools", can.tools),
        ];
        let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:10}")).collect();
        let line = format!("{:width$}  {}", text::visible(&row.name), cells.join(" ").trim_end());
        lines.push(Line::plain(line));
    }
    if rows.iter().any(|row| !row.says_itself.is_empty()) {
        lines.push(Line::new(Tone::Faint, "it says: the agent itself tells once it runs"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use machine::agent::{AgentProgram, AgentProtocol};

    use super::*;

    fn row(name: &str) -> Row {
        Row {
            name: name.to_owned(),
            file: None,
            problem: None,
            installed: None,
            install: None,
            version: Err("not installed".to_owned()),
            support: None,
            tested: Some(("1.0.0".to_owned(), "1.2.0".to_owned())),
            can: AgentProgram::built_in(name).map(|program| program.can()),
            says_itself: Vec::new(),
            limits: Vec::new(),
        }
    }

    #[test]
    fn each_agent_is_told_with_its_version_and_what_can_be_done_with_it() {
        let there = |name: &str, version: &str, support| Row {
            installed: Some(format!("/usr/bin/{name}")),
            version: Ok(version.to_owned()),
            support: Some(support),
            ..row(name)
        };
        let mine = Row {
            file: Some("/p/.drivetrain/agents/mine.toml".to_owned()),
            version: Err("not asked: the project's file is not trusted".to_owned()),
            tested: None,
            can: Some(AgentProtocol::Acp.can()),
            says_itself: AgentProtocol::Acp.says_itself().to_vec(),
            ..there("mine", "", AgentSupport::Unknown)
        };
        let broken =
            Row { problem: Some("1:3: no such key\nsecond".to_owned()), can: None, ..row("bad") };
        let rows = [
            there("claude", "1.1.0", AgentSupport::Tested),
            there("codex", "codex-cli 2.0.0", AgentSupport::Newer),
            Row { install: Some("npm install -g gemini@1.2.0".to_owned()), ..row("gemini") },
            row("own"),
            mine,
            broken,
        ];
        insta::assert_snapshot!(crate::join(&lines(&rows)), @"
        claude  1.1.0, supported
                in /usr/bin/claude
        codex   codex-cli 2.0.0, newer than what was tried; tried are 1.0.0 to 1.2.0
                in /usr/bin/codex
        gemini  not installed: npm install -g gemini@1.2.0
        own     not installed
        mine    version unknown: not asked: the project's file is not trusted
                in /usr/bin/mine
                by /p/.drivetrain/agents/mine.toml
        bad     1:3: no such key
                second

                resume     fork       steer      interrupt  pause      gate       usage      cost       compaction tools
        claude  yes        yes        yes        yes        call       hook       yes        yes        yes        yes
        codex   yes        yes        yes        yes        question   ask        yes        no         yes        no
        gemini  no         no         no         yes        question   protocol   no         no         no         no
        mine    it says    it says    no         yes        question   protocol   it says    it says    it says    no
        it says: the agent itself tells once it runs
        ");
    }
}
