//! `drivetrain policy`: what the rules say, before anything asks them.

use std::path::Path;

use machine::file::policy::{self, Checked, Combined};
use machine::policy::permission::{Author, Policy, Profile, Question, explain, judge};
use machine::server;
use machine::tool::{self, EffectClass};
use runtime::library::{Library, LibraryError};
use serde_json::{Value, json};

use crate::args::ExplainArgs;
use crate::error::{CommandError, Kind, near};
use crate::{locate, output};

/// Loads everything and says what was found; what is wrong is an error.
pub(crate) fn check(json: bool) -> Result<u8, CommandError> {
    let folder = locate::folder()?;
    let library = Library::of(&folder);
    library.policy()?;
    let combined = library.policies()?;
    tell_untrusted(&folder, json);
    if json {
        let file = |file: &policy::FileSummary| json!({ "file": file.file, "rules": file.rules, "examples": file.examples });
        let files: Vec<Value> = combined.files.iter().map(file).collect();
        output::json(&json!({
            "v": 1,
            "files": files,
            "profile": combined.policy.profile,
            "unattended": combined.policy.unattended,
            "warnings": combined.warnings,
        }));
    } else {
        output::lines(&view::policy::found(&combined));
    }
    Ok(0)
}

/// Tries every example of every rule.
pub(crate) fn test(json: bool) -> Result<u8, CommandError> {
    let folder = locate::folder()?;
    let Combined { policy, examples, .. } = Library::of(&folder).policies()?;
    tell_untrusted(&folder, json);
    let checked = policy::check(&policy, &examples);
    let failed = checked.iter().filter(|one| one.error.is_some()).count();
    if json {
        let examples: Vec<Value> = checked.iter().map(example_json).collect();
        let passed = checked.len() - failed;
        output::json(&json!({ "v": 1, "passed": passed, "failed": failed, "examples": examples }));
    } else {
        output::lines(&view::policy::tested(&checked));
    }
    Ok(if failed == 0 { 0 } else { 2 })
}

/// What is shown here counts for a task only once it is trusted; whoever asks what would happen is told so.
fn tell_untrusted(folder: &Path, json: bool) {
    let Ok(home) = locate::home() else { return };
    let judged = Library::of(folder).judged_by(&home, folder).policies();
    let Err(LibraryError::Untrusted(path)) = judged else { return };
    let path = view::text::visible(&path.to_string_lossy());
    let message = format!("{path} is not trusted: no task begins here before drivetrain trust");
    let notice = json!({ "v": 1, "notice": message });
    output::error(&if json { notice.to_string() } else { format!("note: {message}") });
}

fn example_json(one: &Checked) -> Value {
    json!({
        "file": one.file,
        "line": one.line,
        "example": one.text,
        "expected": one.expected,
        "decided": one.judgement.meant(),
        "by": one.judgement.by,
        "part": one.judgement.part,
        "ok": one.error.is_none(),
    })
}

/// Says what would become of one call, and who decides.
pub(crate) fn explained(args: &ExplainArgs, json: bool) -> Result<u8, CommandError> {
    let folder = locate::folder()?;
    let mut policy = Library::of(&folder).policies()?.policy;
    tell_untrusted(&folder, json);
    choose_profile(&mut policy, args.profile.as_deref())?;
    let (name, input) = call_of(args)?;
    let class = tool::find(&name).map_or(EffectClass::Unsafe, |tool| tool.class);
    let folder = folder.to_string_lossy();
    let question = Question {
        tool: &name,
        input: &input,
        class,
        author: Author::Worker,
        driver: &args.driver,
        within: &[],
        attended: !args.unattended,
        workspace: Some(&folder),
        sandboxed: true,
    };
    let (judgement, parts) = (judge(&policy, &question), explain(&policy, &question));
    if json {
        output::json(&json!({
            "v": 1,
            "tool": name,
            "input": input,
            "decide": judgement.decide,
            "by": judgement.by,
            "layer": judgement.layer,
            "part": judgement.part,
            "reason": judgement.reason,
            "nobody": judgement.nobody,
            "said": judgement.said(),
            "parts": parts,
            "profile": policy.profile,
            "unattended": policy.unattended,
        }));
        return Ok(0);
    }
    let call = match input["command"].as_str() {
        Some(command) if name == "shell" => command.to_owned(),
        _ => format!("{name}: {input}"),
    };
    output::lines(&view::policy::explained(&call, &judgement, &parts, &policy));
    Ok(0)
}

/// Takes the profile of the command line in place of the files'.
pub(crate) fn choose_profile(policy: &mut Policy, named: Option<&str>) -> Result<(), CommandError> {
    let Some(named) = named else { return Ok(()) };
    let Some(profile) = Profile::named(named) else {
        let words = Profile::ALL.map(Profile::word);
        let message = format!("there is no profile {named:?}: expected {}", words.join(", "));
        let error = CommandError::usage(message);
        return Err(match near(named, words.into_iter()) {
            Some(near) => error.hint(format!("did you mean {near:?}?")),
            None => error,
        });
    };
    policy.profile = Some(profile);
    Ok(())
}

fn call_of(args: &ExplainArgs) -> Result<(String, Value), CommandError> {
    let name = args.tool.as_deref().unwrap_or("shell");
    let input = match (&args.line, &args.input) {
        (Some(line), None) if name == "shell" => json!({ "command": line }),
        (None, Some(input)) => serde_json::from_str(input).map_err(|error| {
            CommandError::usage(format!("the parameters of --input are not JSON: {error}"))
        })?,
        (None, None) if name != "shell" => json!({}),
        _ => {
            let message = "a call is a command line, or --tool NAME with --input JSON";
            return Err(CommandError::usage(message)
                .hint("drivetrain policy explain 'git push'")
                .hint("drivetrain policy explain --tool read --input '{\"path\": \"a\"}'"));
        }
    };
    match tool::find(name) {
        Some(spec) => tool::check_input(spec, &input)
            .map_err(|reason| CommandError::usage(format!("it cannot be called: {reason}")))?,
        None if server::is_offered(name) => {}
        None => {
            let error = CommandError::new(Kind::Usage, format!("there is no tool {name:?}"));
            let known = tool::TOOLS.iter().map(|tool| tool.name);
            return Err(match near(name, known) {
                Some(near) => error.hint(format!("did you mean {near:?}?")),
                None => error.hint("drivetrain tools lists them"),
            });
        }
    }
    Ok((name.to_owned(), input))
}
