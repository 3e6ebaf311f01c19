//! Mistakes in workflows.

super::mistakes! {
    Workflow "w.toml" "no workflow in the file" "# nothing\n";
    Workflow "w.toml" "a workflow and a machine" "[workflow]\n[machine]\n";
    Workflow "w.toml" "a misspelled key of a workflow" "[workflow]\ndescripton = \"x\"\n[[workflow.steps]]\nname = \"a\"\ntool = \"shell\"\nparameters = { command = \"true\" }\n";
    Workflow "w.toml" "a workflow without steps" "[workflow]\nname = \"w\"\n";
}
