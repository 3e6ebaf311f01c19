//! How long it takes to load workflow files: found, judged, read and checked, all of them.

use std::path::Path;
use std::time::Instant;

use machine::file::lookup::Kind;
use runtime::home::Home;
use runtime::library::Library;
use serde_json::{Value, json};

/// One workflow of a usual size: a prompt, a condition, a back edge.
fn text(number: u64) -> String {
    format!(
        "[workflow]\nname = \"w{number}\"\nversion = \"1.0\"\ndescription = \"number {number}\"\n\
         [workflow.limits]\nmax_steps = 20\ntimeout_seconds = 600\n\
         [workflow.inputs.deep]\ntype = \"boolean\"\ndefault = false\n\
         [workflow.llm]\nmodel = \"script/replies.toml\"\nsystem_prompt = \"@prompts/terse\"\n\
         [[workflow.steps]]\nname = \"look\"\ntool = \"shell\"\nparameters = {{ command = \"git status\" }}\n\
         [[workflow.steps]]\nname = \"check\"\ntool = \"shell\"\nparameters = {{ command = \"make {number}\" }}\non_error = \"skip\"\n\
         [[workflow.steps]]\nname = \"think\"\nprompt = \"@prompts/repair-engine\"\ninput_from = \"check\"\n\
         [[workflow.steps]]\nname = \"again\"\ntool = \"shell\"\nwhen = \"inputs.deep and steps.look.ok\"\nparameters = {{ command = \"make {{{{ inputs.deep }}}}\" }}\n"
    )
}

/// Writes so many files and loads them a few times; the best and the worst time.
pub(crate) fn loads(folder: &Path, files: u64) -> Value {
    let workflows = folder.join(".drivetrain/workflows");
    std::fs::create_dir_all(&workflows).unwrap();
    for number in 0..files {
        std::fs::write(workflows.join(format!("w{number}.toml")), text(number)).unwrap();
    }
    let home = Home::at(folder.join("home"));
    let mut times = Vec::new();
    for _ in 0..10 {
        let start = Instant::now();
        let library = Library::of(folder).judged_by(&home, folder);
        let items = library.items(Kind::Workflow).unwrap();
        let mut loaded = 0;
        for item in items.iter().filter(|item| item.path.is_some()) {
            let text = library.look(Kind::Workflow, item).unwrap();
            library.read_workflow(&text, &item.file).unwrap();
            loaded += 1;
        }
        assert_eq!(loaded, files);
        times.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    times.sort_by(f64::total_cmp);
    json!({ "case": format!("load {files} workflow files"), "best_ms": times[0], "median_ms": times[5], "worst_ms": times[9] })
}
