//! What the gate says of a shell case: the policy that the case names, as one of our policy files, and the decision.

use machine::file::policy;
use machine::policy::permission::{Author, Decide, Judgement, Policy, Question, judge};
use machine::tool::EffectClass;
use serde_json::json;

use crate::Verdict;
use crate::case::Case;
use crate::rig::Rig;

/// Whether the gate decides as the case expects. A case that is about effects alone has no expectation to miss.
pub(crate) fn gate(case: &Case, rig: &Rig) -> Verdict {
    let Some(judgement) = judged(case, rig) else {
        let name = case.text("policy");
        return Verdict::Skip(format!("the policy {name:?} or the input is not known"));
    };
    let fits = match (case.expect.as_str(), judgement.decide) {
        ("contained", _) => true,
        ("allow", decide) => decide == Decide::Allow,
        // A program cannot be denied by name where the text does not tell which one runs; to ask is enough.
        ("not-allow" | "deny", decide) => decide != Decide::Allow,
        (other, _) => return Verdict::Skip(format!("the outcome {other:?} is not known")),
    };
    if fits {
        Verdict::Pass
    } else {
        Verdict::Fail(format!("expected {}: {}", case.expect, judgement.said()))
    }
}

/// What the gate says, with a person to ask.
pub(crate) fn judged(case: &Case, rig: &Rig) -> Option<Judgement> {
    let policy = policy_of(case.text("policy"), rig)?;
    // A call's parameters are text: bytes that are none reach the gate as they would reach a shell.
    let line = rig.fill(&String::from_utf8_lossy(&case.bytes()?));
    let workspace = rig.worktree().display().to_string();
    let question = Question {
        tool: "shell",
        input: &json!({ "command": line }),
        class: EffectClass::Unsafe,
        author: Author::Worker,
        driver: "llm",
        within: &[],
        attended: true,
        workspace: Some(&workspace),
        sandboxed: true,
    };
    Some(judge(&policy, &question))
}

/// The policies of `policies.json`, by meaning.
fn policy_of(name: &str, rig: &Rig) -> Option<Policy> {
    let text = match name {
        "readonly" => "profile = \"read-only\"\n".to_owned(),
        "readonly-deny-secret" => format!(
            "profile = \"read-only\"\n[[rule]]\npath = [{:?}, {:?}]\ndecide = \"deny\"\n",
            rig.secret_file().display().to_string(),
            format!("{}/**", rig.outside().display()),
        ),
        "deny-touch" => {
            "profile = \"open\"\n[[rule]]\ncommand = \"touch\"\ndecide = \"deny\"\n".to_owned()
        }
        "dev" => "profile = \"dev\"\n".to_owned(),
        "allow-all-in-sandbox" => "profile = \"open\"\n".to_owned(),
        _ => return None,
    };
    let file = policy::parse(&text, "policy.toml").unwrap();
    Some(policy::combine(vec![file], Some(rig.user().display().to_string())).policy)
}
