//! The programs that are driven, and how a scripted model uses their tools.

use std::path::{Path, PathBuf};

/// One program.
pub(crate) struct Program {
    /// The variable that names it: a script for node if it ends in `.js`.
    pub(crate) variable: &'static str,
    /// The name of an agent that needs no file; others are described by one.
    pub(crate) built_in: Option<&'static str>,
    /// The protocol, as its file says.
    pub(crate) protocol: &'static str,
    /// The variable that holds its key.
    pub(crate) key: &'static str,
    /// Where its model is, as variables of its file; of drivetrain itself for an agent that has none.
    pub(crate) variables: fn(&str) -> Vec<(&'static str, String)>,
    /// A reply that runs a command line.
    pub(crate) shell: fn(&str) -> String,
    /// A reply that leaves a command line running in the background.
    pub(crate) background: fn(&str) -> String,
    /// A reply that turns `hello world` in `hello.txt` into `hello driver`.
    pub(crate) edit: fn() -> String,
    /// A reply that calls a tool of drivetrain's own; none if it is offered none.
    pub(crate) own: Option<fn(&str, &str) -> String>,
    /// It can be told something in the middle of a turn.
    pub(crate) steers: bool,
    /// A conversation in which it used tools goes on in another process; otherwise it begins afresh, with what counts.
    pub(crate) resumes: bool,
    /// How often its model must fail until it says so: more often than it asks again by itself, a little.
    pub(crate) tries: u32,
    /// The model, as it names it.
    pub(crate) model: &'static str,
    /// Arguments of its own, for an agent that is described by a file.
    pub(crate) arguments: &'static [&'static str],
    /// The mode of permission, as its file says; empty if it says nothing.
    pub(crate) mode: &'static str,
    /// Where it departs from the protocol, as its file says.
    pub(crate) quirks: &'static str,
}

pub(crate) const CLAUDE: Program = Program {
    variable: "DRIVETRAIN_CLAUDE",
    built_in: None,
    protocol: "claude",
    key: "ANTHROPIC_API_KEY",
    variables: |url| {
        vec![("ANTHROPIC_BASE_URL", url.to_owned()), ("CLAUDE_CODE_MAX_RETRIES", "1".to_owned())]
    },
    shell: bash,
    background: |command| {
        let input = format!(
            "{{ command = {}, description = \"run it\", run_in_background = true }}",
            quoted(command)
        );
        call("Bash", &input)
    },
    edit: claude_edit,
    own: Some(|tool, input| call(&format!("mcp__drivetrain__{tool}"), input)),
    steers: true,
    resumes: true,
    tries: 3,
    model: "claude-sonnet-4-5",
    arguments: &[],
    mode: "",
    quirks: "[]",
};

pub(crate) const CODEX: Program = Program {
    variable: "DRIVETRAIN_CODEX",
    built_in: None,
    protocol: "codex",
    key: "OPENAI_API_KEY",
    variables: |url| vec![("OPENAI_BASE_URL", format!("{url}/v1"))],
    tries: 10,
    shell: |command| call("exec_command", &format!("{{ cmd = {} }}", quoted(command))),
    background: |command| {
        let input = format!("{{ cmd = {}, yield_time_ms = 500 }}", quoted(command));
        call("exec_command", &input)
    },
    edit: || {
        let patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: hello.txt\n@@\n-hello world\n+hello driver\n \
                     second line\n*** End Patch\nEOF";
        call("exec_command", &format!("{{ cmd = {} }}", quoted(patch)))
    },
    own: None,
    steers: true,
    resumes: true,
    model: "scripted-1",
    arguments: &[],
    mode: "",
    quirks: "[]",
};

pub(crate) const ACP: Program = Program {
    variable: "DRIVETRAIN_ACP",
    built_in: None,
    protocol: "acp",
    key: "ANTHROPIC_API_KEY",
    variables: |url| {
        let mut variables = (CLAUDE.variables)(url);
        variables.push(("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()));
        variables.push(("DISABLE_AUTOUPDATER", "1".to_owned()));
        variables
    },
    shell: bash,
    background: CLAUDE.background,
    edit: claude_edit,
    own: None,
    steers: false,
    resumes: true,
    tries: 3,
    model: "",
    arguments: &[],
    mode: "",
    quirks: "[]",
};

pub(crate) const GEMINI: Program = Program {
    variable: "DRIVETRAIN_GEMINI",
    built_in: Some("gemini"),
    protocol: "acp",
    key: "GEMINI_API_KEY",
    variables: |url| vec![("GOOGLE_GEMINI_BASE_URL", url.to_owned())],
    shell: |command| {
        let input = format!("{{ command = {}, description = \"run it\" }}", quoted(command));
        call("run_shell_command", &input)
    },
    background: |command| {
        let input = format!("{{ command = {}, is_background = true }}", quoted(command));
        call("run_shell_command", &input)
    },
    edit: || {
        let input = "{ file_path = \"hello.txt\", instruction = \"greet the driver\", \
                     old_string = \"hello world\", new_string = \"hello driver\" }";
        [call("read_file", "{ file_path = \"hello.txt\" }"), call("replace", input)].concat()
    },
    own: None,
    steers: false,
    // After a load it sends what its tools gave a second time, which its provider refuses.
    resumes: false,
    tries: 3,
    model: "",
    arguments: &[],
    mode: "",
    quirks: "[]",
};

/// Gemini in a mode in which it changes files without a question: what it has us write is judged all the same.
pub(crate) const GEMINI_EDITS: Program = Program {
    built_in: None,
    arguments: &["--acp", "--skip-trust", "-m", "gemini-2.5-pro"],
    mode: "autoEdit",
    quirks: "[\"reads_itself\"]",
    ..GEMINI
};

pub(crate) const OPENCODE: Program = Program {
    variable: "DRIVETRAIN_OPENCODE",
    built_in: Some("opencode"),
    protocol: "acp",
    key: "ANTHROPIC_API_KEY",
    variables: |url| vec![("ANTHROPIC_BASE_URL", url.to_owned())],
    shell: |command| {
        let input = format!("{{ command = {}, description = \"run it\" }}", quoted(command));
        call("bash", &input)
    },
    background: |command| call("bash", &format!("{{ command = {} }}", quoted(command))),
    edit: || {
        let input = "{ filePath = \"hello.txt\", oldString = \"hello world\", newString = \"hello driver\" }";
        [call("read", "{ filePath = \"hello.txt\" }"), call("edit", input)].concat()
    },
    own: None,
    steers: false,
    resumes: true,
    tries: 3,
    model: "",
    arguments: &[],
    mode: "",
    quirks: "[]",
};

impl Program {
    /// Where it is.
    fn path(&self) -> PathBuf {
        let path = std::env::var_os(self.variable);
        let path = path.unwrap_or_else(|| {
            panic!("{} is not set: run this through scripts/agents", self.variable)
        });
        PathBuf::from(path)
    }

    /// The folder in which it is found by its name, for an agent that needs no file.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        let (name, path) = (self.built_in?, self.path());
        let beside = path.parent().unwrap().to_owned();
        if beside.join(name).exists() {
            return Some(beside);
        }
        let modules = path.ancestors().find(|at| at.ends_with("node_modules")).unwrap();
        Some(modules.join(".bin"))
    }

    /// The command that starts it.
    pub(crate) fn command(&self) -> Vec<String> {
        let program = self.path().into_os_string().into_string().unwrap();
        let is_script = Path::new(&program).extension().is_some_and(|extension| extension == "js");
        let mut command = if is_script { vec!["node".to_owned(), program] } else { vec![program] };
        command.extend(self.arguments.iter().map(|word| (*word).to_owned()));
        command
    }
}

fn bash(command: &str) -> String {
    let input = format!("{{ command = {}, description = \"run it\" }}", quoted(command));
    call("Bash", &input)
}

fn claude_edit() -> String {
    let read = call("Read", "{ file_path = \"hello.txt\" }");
    let input = "{ file_path = \"hello.txt\", old_string = \"hello world\", new_string = \"hello driver\" }";
    [read, call("Edit", input)].concat()
}

/// A reply with one call.
pub(crate) fn call(tool: &str, input: &str) -> String {
    format!(
        "[[reply]]\ntext = \"I use {tool}.\"\ntool_calls = [{{ tool = \"{tool}\", input = {input} }}]\nusage = {{ input = 100, output = 20 }}\n"
    )
}

/// A reply of words.
pub(crate) fn says(text: &str) -> String {
    format!("[[reply]]\ntext = \"{text}\"\nusage = {{ input = 100, output = 20 }}\n")
}

/// A reply that goes wrong, again and again.
pub(crate) fn fails(how: &str, times: u32) -> String {
    format!("[[reply]]\n{how}\nrepeat = {times}\n")
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
