//! One example of each kind, and what hostile ones come to.

use proptest::prelude::*;

use super::{Imported, import};
use crate::file::lookup::{Found, Kind, Lookup, NotFound, Origin};
use crate::file::{prompt, workflow};

fn shown(text: &str, file: &str) -> String {
    let imported = match import(text, file) {
        Ok(imported) => imported,
        Err(errors) => {
            return errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        }
    };
    check(&imported);
    let files = imported.files.iter().map(|file| format!("== {}\n{}", file.path, file.text));
    let remarks =
        imported.remarks.iter().map(|remark| format!("-- line {}: {}", remark.line, remark.text));
    files.chain(remarks).collect::<Vec<_>>().join("\n")
}

/// What holds for everything that is imported: our own readers take it, and it stays in its two folders.
fn check(imported: &Imported) {
    for file in &imported.files {
        let (folder, name) = file.path.split_once('/').unwrap();
        assert!(["prompts", "workflows"].contains(&folder), "{}", file.path);
        assert!(
            !name.contains('/') && !name.starts_with('.') && name.ends_with(".toml"),
            "{}",
            file.path
        );
        if folder == "prompts" {
            prompt::parse(&file.text, &file.path)
                .unwrap_or_else(|errors| panic!("{}\n{}", errors[0], file.text));
        } else {
            workflow::parse(&file.text, &file.path, &Made(imported))
                .unwrap_or_else(|errors| panic!("{}\n{}", errors[0], file.text));
        }
    }
}

/// Finds what was made together.
struct Made<'i>(&'i Imported);

impl Lookup for Made<'_> {
    fn find(&self, kind: Kind, name: &str) -> Result<Found, NotFound> {
        let path = format!("{}/{name}.toml", kind.folder());
        let file = self.0.files.iter().find(|file| file.path == path);
        let file =
            file.ok_or_else(|| NotFound { known: Vec::new(), why: "it was not made".to_owned() })?;
        Ok(Found { text: file.text.clone(), file: path, origin: Origin::Project })
    }
}

const RECIPE: &str = r#"version: "1.0.0"
title: Review my Code!
description: Looks at one file
instructions: |
  You review {{ language }} code.
prompt: Review {{ path }}{% if deep == "true" %} in depth{% endif %}.
parameters:
  - key: path
    input_type: file
    requirement: required
    description: What to review
  - key: language
    input_type: select
    requirement: optional
    default: rust
    options: [rust, go]
  - key: deep
    input_type: boolean
    requirement: optional
    default: "false"
  - key: when
    input_type: date
    requirement: user_prompt
extensions:
  - type: builtin
    name: developer
  - type: stdio
    name: github
    cmd: npx
    args: ["-y", "some-server"]
settings:
  goose_provider: anthropic
  goose_model: claude-x
  temperature: 0.2
  max_turns: 30
  odd: 1
retry:
  max_retries: 3
  checks:
    - type: shell
      command: test -f review.md
    - type: shell
      command: grep {{ path }} review.md
  on_failure: rm -f review.md
response:
  json_schema: { type: object, properties: { ok: { type: boolean } } }
sub_recipes:
  - name: lint
    path: ./lint.yaml
activities: [one]
author: { contact: somebody }
"#;

#[test]
fn a_recipe_becomes_prompts_and_a_workflow() {
    insta::assert_snapshot!(shown(RECIPE, "recipes/review.yaml"), @r#"
    == prompts/review-my-code.toml
    [meta]
    name = "review-my-code"
    description = "Looks at one file"
    version = "1.0.0"

    [prompt]
    text = "Review {{ inputs.path }}{% if inputs.deep == \"true\" %} in depth{% endif %}."

    [prompt.inputs.path]
    type = "string"
    description = "What to review"

    [prompt.inputs.deep]
    type = "string"
    default = "false"

    == prompts/review-my-code-instructions.toml
    [meta]
    name = "review-my-code-instructions"
    description = "Looks at one file"
    version = "1.0.0"

    [prompt]
    text = """
    You review {{ inputs.language }} code.
    """

    [prompt.inputs.language]
    type = "string"
    default = "rust"

    == workflows/review-my-code.toml
    [workflow]
    name = "review-my-code"
    description = "Looks at one file"
    version = "1.0.0"

    [workflow.inputs.path]
    type = "string"
    description = "What to review"

    [workflow.inputs.language]
    type = "string"
    default = "rust"
    choices = ["rust", "go"]

    [workflow.inputs.deep]
    type = "string"
    default = "false"
    choices = ["true", "false"]

    [workflow.inputs.when]
    type = "string"

    [workflow.budget]
    max_turns = 30

    [workflow.llm]
    model = "anthropic/claude-x"
    temperature = 0.2
    system_prompt = "@prompts/review-my-code-instructions"

    [[workflow.acceptance]]
    kind = "shell"
    command = "test -f review.md"

    [[workflow.steps]]
    name = "work"
    type = "llm"
    prompt = "@prompts/review-my-code"
    tools = ["read", "grep", "glob", "edit", "write", "shell"]
    schema = { "properties" = { "ok" = { "type" = "boolean" } }, "type" = "object" }

    -- line 8: parameters: path: what goose reads from the file is not put in its place; the input is the path, and a model with tools can look
    -- line 21: parameters: when: a date is a text here, and not checked
    -- line 21: parameters: when: nobody is asked for it; give it with --input when=…
    -- line 27: extensions: github: no program or address is taken over from a recipe; if you trust this stdio server, add it to .drivetrain/mcp.toml
    -- line 36: settings: odd: has no meaning here and is left out
    -- line 38: retry: max_retries: not carried; the checks are criteria here, and what follows a failed one is said by [retry] of a task
    -- line 42: retry: a criterion is frozen when the task is made and takes no inputs; write this command out
    -- line 44: retry: on_failure: not carried; the checks are criteria here, and what follows a failed one is said by [retry] of a task
    -- line 48: sub_recipes: lint: import its file too, then call it by a step with workflow = "@workflows/…"
    -- line 50: activities: examples for a desktop; left out
    -- line 51: author: has no meaning here and is left out
    "#);
}

#[test]
fn a_recipe_of_the_desktop_program_and_one_in_json_are_read() {
    insta::assert_snapshot!(shown(r#"{"name": "x", "recipe": {"title": "T", "prompt": "do it"}, "isGlobal": true}"#, "r.json"), @r#"
    == prompts/t.toml
    [meta]
    name = "t"

    [prompt]
    text = "do it"

    == workflows/t.toml
    [workflow]
    name = "t"

    [[workflow.steps]]
    name = "work"
    type = "llm"
    prompt = "@prompts/t"

    -- line 1: isGlobal: has no meaning here and is left out
    -- line 1: name: has no meaning here and is left out
    "#);
}

#[test]
fn an_argument_in_braces_stays_in_them() {
    let shown = shown("Use {$1} and {$ARGUMENTS}.\n", ".claude/commands/braces.md");
    let text = r#"Use {{ "{" }}{{ inputs.argument_1 }}} and {{ "{" }}{{ inputs.arguments }}}."#;
    assert!(shown.contains(text), "{shown}");
}

#[test]
fn a_command_becomes_a_prompt() {
    let text = "---\ndescription: Fix an issue\nallowed-tools: Bash(git add:*), Read\nargument-hint: [number] [priority]\nmodel: opus\n---\n\nFix issue $1 with $ARGUMENTS[1] now: $ARGUMENTS.\n\nState: !`git status`\nSee @src/lib.rs and mail me@example.com; it costs $100, or $1.50.\nA template {{ stays }} and {% so %} {# does #} this {brace}.\n";
    insta::assert_snapshot!(shown(text, ".claude/commands/fix-issue.md"), @r#"
    == prompts/fix-issue.toml
    [meta]
    name = "fix-issue"
    description = "Fix an issue"

    [prompt]
    text = """
    Fix issue {{ inputs.argument_1 }} with {{ inputs.argument_2 }} now: {{ inputs.arguments }}.

    State: !`git status`
    See @src/lib.rs and mail me@example.com; it costs $100, or $1.50.
    A template {{ "{{" }} stays }} and {{ "{%" }} so %} {{ "{#" }} does #} this {brace}.
    """

    [prompt.inputs.arguments]
    type = "string"
    description = "[number] [priority]"
    default = ""

    [prompt.inputs.argument_1]
    type = "string"
    description = "[number] [priority]"
    default = ""

    [prompt.inputs.argument_2]
    type = "string"
    description = "[number] [priority]"
    default = ""

    -- line 3: allowed-tools: a prompt has no tools of its own; name them in the step or agent that uses it (tools = […]), or in a policy
    -- line 5: model: a prompt has no model of its own; give it to the step (model = …) or to the run (--model)
    -- line 10: !`command`: nothing is run when a prompt is made; put a shell step before it and name its text
    -- line 11: @file: no file is put in its place; the words stay, and a model with tools can look
    "#);
}

#[test]
fn a_skill_becomes_a_prompt() {
    let text = "---\nname: PDF forms\ndescription: >-\n  Fill in forms\n  of any kind\nlicense: MIT\nmetadata:\n  version: \"1\"\n---\n# Forms\nRun ${CLAUDE_SKILL_DIR}/fill.py \"\"\"quoted\"\"\" \\ back\n";
    insta::assert_snapshot!(shown(text, "skills/pdf/SKILL.md"), @r#"
    == prompts/pdf-forms.toml
    [meta]
    name = "pdf-forms"
    description = "Fill in forms of any kind"

    [prompt]
    text = """
    # Forms
    Run ${CLAUDE_SKILL_DIR}/fill.py "\"\"quoted"\"\" \\ back
    """

    -- line 1: files beside SKILL.md are not copied; what the text says about them holds only where they are
    -- line 6: license: has no meaning here and is left out
    -- line 7: metadata: has no meaning here and is left out
    -- line 11: ${CLAUDE_…}: there is no such variable here; the words stay
    "#);
}

#[test]
fn a_workflow_page_becomes_a_workflow_with_an_agent() {
    let text = "---\ntracker:\n  kind: linear\n  api_key: $LINEAR\npolling: { interval_ms: 5000 }\nworkspace:\n  root: ~/code\nhooks:\n  after_create: |\n    git clone x .\n    echo {{ hi }}\n  before_run: make\n  after_run: make clean\n  before_remove: rm\nagent:\n  max_concurrent_agents: 10\n  max_turns: 20\ncodex:\n  command: codex app-server\n  approval_policy: never\n  turn_timeout_ms: 3600000\n---\nWork on {{ issue.identifier }}: {{ issue.title }}.\n{% if attempt %}Attempt {{ attempt }}.{% elsif issue.blocked %}Blocked.{% endif %}\n";
    insta::assert_snapshot!(shown(text, "WORKFLOW.md"), @r#"
    == prompts/work-on-issue.toml
    [meta]
    name = "work-on-issue"

    [prompt]
    text = """
    Work on {{ inputs.issue.identifier }}: {{ inputs.issue.title }}.
    {% if inputs.attempt %}Attempt {{ inputs.attempt }}.{% elif inputs.issue.blocked %}Blocked.{% endif %}"""

    [prompt.inputs.issue]
    type = "table"
    description = "identifier, title, description and whatever else the prompt names"

    [prompt.inputs.attempt]
    type = "integer"
    description = "how often it was tried before"
    default = 0

    == workflows/work-on-issue.toml
    [workflow]
    name = "work-on-issue"

    [workflow.inputs.issue]
    type = "table"
    description = "identifier, title, description and whatever else the prompt names"

    [workflow.inputs.attempt]
    type = "integer"
    description = "how often it was tried before"
    default = 0

    [workflow.budget]
    max_turns = 20

    [[workflow.steps]]
    name = "after-create"
    tool = "shell"
    parameters = { command = "git clone x .\necho {{ \"{{\" }} hi }}" }

    [[workflow.steps]]
    name = "before-run"
    tool = "shell"
    parameters = { command = "make" }

    [[workflow.steps]]
    name = "work"
    agent = "codex"
    prompt = "@prompts/work-on-issue"
    timeout = "3600s"

    [[workflow.steps]]
    name = "after-run"
    tool = "shell"
    parameters = { command = "make clean" }
    on_error = "skip"

    -- line 2: tracker: no tracker is asked; give an issue with --input issue=…
    -- line 5: polling: nothing is polled; start a task for each issue
    -- line 6: workspace: each task has a worktree of its own; the folder is not carried
    -- line 14: hooks: before_remove: has no place here and is left out
    -- line 16: agent: max_concurrent_agents: each run is one task; start as many as you like
    -- line 19: codex: command: no program is taken over from a page; the agent codex is used
    -- line 20: codex: approval_policy: the gate and the sandbox of drivetrain decide; write a policy
    "#);
}

#[test]
fn what_cannot_be_read_is_kept_as_text_and_said() {
    insta::assert_snapshot!(shown("Do {% unless x %}it{% endunless %}", "WORKFLOW.md"), @r#"
    == prompts/work-on-issue.toml
    [meta]
    name = "work-on-issue"

    [prompt]
    text = "Do {{ \"{%\" }} unless x %}it{{ \"{%\" }} endunless %}"

    == workflows/work-on-issue.toml
    [workflow]
    name = "work-on-issue"

    [[workflow.steps]]
    name = "work"
    agent = "codex"
    prompt = "@prompts/work-on-issue"

    -- line 1: the template cannot be read here (cannot read the template: unknown statement unless); it is kept as plain text, nothing in it is filled in
    "#);
    insta::assert_snapshot!(shown("title: t\nprompt: read {{ unknown }} in {{ recipe_dir }}\n", "a.yaml"), @r#"
    == prompts/t.toml
    [meta]
    name = "t"

    [prompt]
    text = "read {{ \"{{\" }} unknown }} in {{ \"{{\" }} recipe_dir }}"

    == workflows/t.toml
    [workflow]
    name = "t"

    [[workflow.steps]]
    name = "work"
    type = "llm"
    prompt = "@prompts/t"

    -- line 2: unknown: no parameter of the recipe; its place is kept as plain text with the whole template
    "#);
}

#[test]
fn wrong_files_are_errors_with_their_place() {
    insta::assert_snapshot!(shown("---\ndescription: do this: and that\n---\nbody", "x.md"), @r#"
    error: mapping values are not allowed in this context
     --> x.md:2:21
      |
    2 | description: do this: and that
      |                     ^
      = help: a value with ": " or a bracket in it needs quotes
    "#);
    insta::assert_snapshot!(shown("---\nname: x\nbody", "SKILL.md"), @r"
    error: the front matter has no end
     --> SKILL.md:1:1
      |
    1 | ---
      | ^^^
      = help: close it with a line ---
    ");
    insta::assert_snapshot!(shown("title: nothing else", "a.yaml"), @r"
    error: the recipe has neither a prompt nor instructions
     --> a.yaml:1:1
      |
    1 | title: nothing else
      | ^
      = help: a recipe of goose has at least one of them
    ");
    insta::assert_snapshot!(shown("x", "notes.txt"), @r"
    error: nothing is known about files of this name
     --> notes.txt:1:1
      |
    1 | x
      | ^
      = help: a goose recipe ends in .yaml or .json, a command in .md; the others are SKILL.md and WORKFLOW.md
    ");
    insta::assert_snapshot!(shown("---\nname: x\n---\n", "SKILL.md"), @r"
    error: the prompt is empty
     --> SKILL.md:1:1
      |
    1 | ---
      | ^
      = help: write what the model is told
    ");
}

#[test]
fn hostile_files_stay_in_their_folder_and_end() {
    for name in [
        "../../etc/passwd",
        "/etc/passwd",
        "..",
        ".git/hooks/pre-commit",
        "a\u{202e}b",
        "CON",
        "x/../../y",
        "",
    ] {
        let name = serde_json::Value::from(name);
        let text = format!("title: {name}\nprompt: do it\n");
        check(&import(&text, "a.yaml").unwrap());
        let text = format!("---\nname: {name}\n---\ndo it\n");
        check(&import(&text, "SKILL.md").unwrap());
    }
    for file in ["../../.claude/commands/..md", "/.md", "a/..\\..\\b.md"] {
        check(&import("do it", file).unwrap());
    }
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d,*d]\n";
    assert!(import(bomb, "a.yaml").is_err());
    assert!(import(&format!("---\n{bomb}---\nx"), "SKILL.md").is_err());
    assert!(import(&"[".repeat(100_000), "a.yaml").is_err());
    assert!(import(&"x".repeat(2 << 20), "a.md").is_err());
    assert!(import("a\0b", "a.md").is_err());
    check(&import(&format!("title: t\nprompt: {:?}\n", "{{ x }}".repeat(1000)), "a.yaml").unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 2, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_page_comes_out_as_a_prompt_that_says_the_same(body in "[a-z\"'\\\\{}%#$0-9 \n\t!`@./é\u{7f}\u{1b}-]{1,80}") {
        let Ok(imported) = import(&body, "c.md") else { return Ok(()) };
        check(&imported);
        let prompt = prompt::parse(&imported.files[0].text, "prompts/c.toml").unwrap();
        let template = crate::template::Template::parse(&prompt.text).unwrap();
        let inputs: serde_json::Map<String, serde_json::Value> =
            (1..=20).map(|n| (format!("argument_{n}"), format!("${n}").into())).collect();
        let given = template.render(&serde_json::json!({ "inputs": inputs })).unwrap();
        let wanted = body.trim_end().trim_start_matches('\n');
        // A leading zero of a number is lost when it is asked for again; such texts are left out.
        if !wanted.contains("$0") {
            prop_assert_eq!(given.trim_end(), wanted.replace("\r\n", "\n"));
        }
    }

    #[test]
    fn nothing_panics(text in "(?s).{0,120}", yaml in "[a-z:\\[\\]{}\"'&* \n-]{0,80}") {
        for file in ["a.yaml", "SKILL.md", "WORKFLOW.md", "c.md"] {
            for text in [text.clone(), yaml.clone(), format!("---\n{yaml}\n---\n{text}")] {
                if let Ok(imported) = import(&text, file) {
                    check(&imported);
                }
            }
        }
    }
}
