//! One example of each kind, and what hostile ones come to.

use proptest::prelude::*;

use super::{Imported, import};
use crate::file::prompt;

fn shown(text: &str, file: &str) -> String {
    let imported = match import(text, file) {
        Ok(imported) => imported,
        Err(errors) => return errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
    };
    check(&imported);
    let files = imported.files.iter().map(|file| format!("== {}\n{}", file.path, file.text));
    let remarks = imported.remarks.iter().map(|remark| format!("-- line {}: {}", remark.line, remark.text));
    files.chain(remarks).collect::<Vec<_>>().join("\n")
}

/// What holds for everything that is imported: our own readers take it, and it stays in its two folders.
fn check(imported: &Imported) {
    for file in &imported.files {
        let (folder, name) = file.path.split_once('/').unwrap();
        assert!(["prompts", "workflows"].contains(&folder), "{}", file.path);
        assert!(!name.contains('/') && !name.starts_with('.') && name.ends_with(".toml"), "{}", file.path);
        if folder == "prompts" {
            prompt::parse(&file.text, &file.path).unwrap_or_else(|errors| panic!("{}\n{}", errors[0], file.text));
        } else {
            toml::from_str::<toml::Table>(&file.text).unwrap_or_else(|error| panic!("{error}\n{}", file.text));
        }
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
    insta::assert_snapshot!(shown(RECIPE, "recipes/review.yaml"), @"");
}

#[test]
fn a_recipe_of_the_desktop_program_and_one_in_json_are_read() {
    insta::assert_snapshot!(shown(r#"{"name": "x", "recipe": {"title": "T", "prompt": "do it"}, "isGlobal": true}"#, "r.json"), @"");
}

#[test]
fn a_command_becomes_a_prompt() {
    let text = "---\ndescription: Fix an issue\nallowed-tools: Bash(git add:*), Read\nargument-hint: [number] [priority]\nmodel: opus\n---\n\nFix issue $1 with $ARGUMENTS[1] now: $ARGUMENTS.\n\nState: !`git status`\nSee @src/lib.rs and mail me@example.com; it costs $100, or $1.50.\nA template {{ stays }} and {% so %} {# does #} this {brace}.\n";
    insta::assert_snapshot!(shown(text, ".claude/commands/fix-issue.md"), @"");
}

#[test]
fn a_skill_becomes_a_prompt() {
    let text = "---\nname: PDF forms\ndescription: >-\n  Fill in forms\n  of any kind\nlicense: MIT\nmetadata:\n  version: \"1\"\n---\n# Forms\nRun ${CLAUDE_SKILL_DIR}/fill.py \"\"\"quoted\"\"\" \\ back\n";
    insta::assert_snapshot!(shown(text, "skills/pdf/SKILL.md"), @"");
}

#[test]
fn a_workflow_page_becomes_a_workflow_with_an_agent() {
    let text = "---\ntracker:\n  kind: linear\n  api_key: $LINEAR\npolling: { interval_ms: 5000 }\nworkspace:\n  root: ~/code\nhooks:\n  after_create: |\n    git clone x .\n    echo {{ hi }}\n  before_run: make\n  after_run: make clean\n  before_remove: rm\nagent:\n  max_concurrent_agents: 10\n  max_turns: 20\ncodex:\n  command: codex app-server\n  approval_policy: never\n  turn_timeout_ms: 3600000\n---\nWork on {{ issue.identifier }}: {{ issue.title }}.\n{% if attempt %}Attempt {{ attempt }}.{% elsif issue.blocked %}Blocked.{% endif %}\n";
    insta::assert_snapshot!(shown(text, "WORKFLOW.md"), @"");
}

#[test]
fn what_cannot_be_read_is_kept_as_text_and_said() {
    insta::assert_snapshot!(shown("Do {% unless x %}it{% endunless %}", "WORKFLOW.md"), @"");
    insta::assert_snapshot!(shown("title: t\nprompt: read {{ unknown }} in {{ recipe_dir }}\n", "a.yaml"), @"");
}

#[test]
fn wrong_files_are_errors_with_their_place() {
    insta::assert_snapshot!(shown("---\ndescription: do this: and that\n---\nbody", "x.md"), @"");
    insta::assert_snapshot!(shown("---\nname: x\nbody", "SKILL.md"), @"");
    insta::assert_snapshot!(shown("title: nothing else", "a.yaml"), @"");
    insta::assert_snapshot!(shown("x", "notes.txt"), @"");
    insta::assert_snapshot!(shown("---\nname: x\n---\n", "SKILL.md"), @"");
}

#[test]
fn hostile_files_stay_in_their_folder_and_end() {
    for name in ["../../etc/passwd", "/etc/passwd", "..", ".git/hooks/pre-commit", "a\u{202e}b", "CON", "x/../../y", ""] {
        let text = format!("title: {name:?}\nprompt: do it\n");
        check(&import(&text, "a.yaml").unwrap());
        let text = format!("---\nname: {name:?}\n---\ndo it\n");
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
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

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
