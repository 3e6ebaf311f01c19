//! Mistakes in workflows and state machines.

/// A workflow of one step that is fine, and what follows.
macro_rules! after {
    ($text:literal) => {
        concat!("[workflow]\n[[workflow.steps]]\nname = \"a\"\ntool = \"shell\"\nparameters = { command = \"true\" }\n", $text)
    };
}

/// A workflow with one more line in its only step.
macro_rules! step {
    ($text:literal) => {
        concat!("[[workflow.steps]]\nname = \"a\"\n", $text, "\n")
    };
}

super::mistakes! {
    Workflow "w.toml" "no workflow in the file" "# nothing\n";
    Workflow "w.toml" "a workflow and a machine" "[workflow]\n[machine]\n";
    Workflow "w.toml" "a misspelled key of a workflow" "[workflow]\ndescripton = \"x\"\n[[workflow.steps]]\nname = \"a\"\ntool = \"shell\"\nparameters = { command = \"true\" }\n";
    Workflow "w.toml" "a workflow without steps" "[workflow]\nname = \"w\"\n";
    Workflow "w.toml" "an empty list of steps" "[workflow]\nsteps = []\n";
    Workflow "w.toml" "steps and states" "[workflow]\nsteps = [{ name = \"a\", prompt = \"x\" }]\nstates = [{ name = \"b\", terminal = true }]\n";
    Workflow "w.toml" "initial without states" concat!("[workflow]\ninitial = \"a\"\n", step!("prompt = \"x\""));
    Workflow "w.toml" "a limit of nothing" concat!("[workflow.limits]\nmax_steps = 0\n", step!("prompt = \"x\""));
    Workflow "w.toml" "a step without a name" "[[workflow.steps]]\nprompt = \"x\"\n";
    Workflow "w.toml" "a step that does nothing" "[[workflow.steps]]\nname = \"a\"\n";
    Workflow "w.toml" "two steps of one name" after!("[[workflow.steps]]\nname = \"a\"\nprompt = \"x\"\n");
    Workflow "w.toml" "a name that is none" "[[workflow.steps]]\nname = \"a b\"\nprompt = \"x\"\n";
    Workflow "w.toml" "an unknown type" step!("type = \"tol\"\ntool = \"shell\"");
    Workflow "w.toml" "a hybrid step" step!("type = \"hybrid\"\nprompt = \"x\"");
    Workflow "w.toml" "a key of another kind of step" step!("prompt = \"x\"\nparameters = { command = \"true\" }");
    Workflow "w.toml" "a misspelled key of a step" step!("prompt = \"x\"\nretrys = 3");
    Workflow "w.toml" "a tool that does not exist" step!("tool = \"shel\"");
    Workflow "w.toml" "a parameter that does not exist" step!("tool = \"shell\"\nparameters = { comand = \"make\" }");
    Workflow "w.toml" "a parameter that is missing" step!("tool = \"shell\"");
    Workflow "w.toml" "a parameter of another type" step!("tool = \"shell\"\nparameters = { command = 3 }");
    Workflow "w.toml" "a template that is not closed" step!("prompt = \"Mend {{ goal\"");
    Workflow "w.toml" "a name that does not exist" step!("prompt = \"Mend {{ gaol }}\"");
    Workflow "w.toml" "an input that does not exist" concat!("[workflow.inputs.file]\n", step!("prompt = \"Mend {{ inputs.fiel }}\""));
    Workflow "w.toml" "a step that does not exist in a template" after!("[[workflow.steps]]\nname = \"b\"\nprompt = \"{{ steps.c.text }}\"\n");
    Workflow "w.toml" "a field that a step does not have" after!("[[workflow.steps]]\nname = \"b\"\nprompt = \"{{ steps.a.txt }}\"\n");
    Workflow "w.toml" "a step's name without steps" after!("[[workflow.steps]]\nname = \"b\"\nwhen = \"a.ok\"\nprompt = \"x\"\n");
    Workflow "w.toml" "a condition that is no expression" after!("[[workflow.steps]]\nname = \"b\"\nwhen = \"steps.a.ok and\"\nprompt = \"x\"\n");
    Workflow "w.toml" "a condition that is a text" after!("[[workflow.steps]]\nname = \"b\"\nwhen = \"steps.a.text\"\nprompt = \"x\"\n");
    Workflow "w.toml" "a condition that is a literal" after!("[[workflow.steps]]\nname = \"b\"\nwhen = \"'yes'\"\nprompt = \"x\"\n");
    Workflow "w.toml" "a status that never is" after!("[[workflow.steps]]\nname = \"b\"\nwhen = \"steps.a.status == 'okay'\"\nprompt = \"x\"\n");
    Workflow "w.toml" "an answer to errors that is none" step!("prompt = \"x\"\non_error = \"abort\"");
    Workflow "w.toml" "a goto without a target" step!("prompt = \"x\"\non_error = \"goto\"");
    Workflow "w.toml" "a goto to nowhere" step!("prompt = \"x\"\non_error = { action = \"goto\", target = \"fxi\" }");
    Workflow "w.toml" "a target without a goto" step!("prompt = \"x\"\non_error = { action = \"skip\", target = \"a\" }");
    Workflow "w.toml" "too many retries" step!("prompt = \"x\"\nmax_retries = 99999999999");
    Workflow "w.toml" "retries of what is not retried" step!("prompt = \"x\"\non_error = \"fail\"\nmax_retries = 2");
    Workflow "w.toml" "an end of retries without retries" step!("prompt = \"x\"\non_exhausted = \"skip\"");
    Workflow "w.toml" "retries without end" step!("prompt = \"x\"\non_error = \"retry\"\non_exhausted = \"retry\"");
    Workflow "w.toml" "a wait without retries" step!("prompt = \"x\"\nbackoff = \"2s\"");
    Workflow "w.toml" "a way to nowhere" step!("prompt = \"x\"\nthen = \"b\"");
    Workflow "w.toml" "visits without a way" step!("prompt = \"x\"\nmax_visits = 3");
    Workflow "w.toml" "input from nowhere" step!("prompt = \"x\"\ninput_from = \"b\"");
    Workflow "w.toml" "a tool that takes no input" after!("[[workflow.steps]]\nname = \"b\"\ntool = \"grep\"\nparameters = { pattern = \"x\" }\ninput_from = \"a\"\n");
    Workflow "w.toml" "a model without a provider" step!("prompt = \"x\"\nmodel = \"sonnet\"");
    Workflow "w.toml" "a model without a prompt" step!("type = \"llm\"");
    Workflow "w.toml" "tools that do not exist" step!("prompt = \"x\"\ntools = [\"reed\"]");
    Workflow "w.toml" "a schema that is none" step!("prompt = \"x\"\nschema = { type = \"strnig\" }");
    Workflow "w.toml" "a driver that does not exist" step!("driver = \"usr\"");
    Workflow "w.toml" "a question and an approval" step!("ask = \"which?\"\napprove = \"it\"");
    Workflow "w.toml" "choices of an approval" step!("approve = \"it\"\nchoices = [\"a\"]");
    Workflow "w.toml" "nothing to choose from" step!("ask = \"which?\"\nchoices = []");
    Workflow "w.toml" "a question that is denied" step!("ask = \"which?\"\ntimeout = \"1h\"\non_timeout = \"deny\"");
    Workflow "w.toml" "an end of time without a time" step!("approve = \"it\"\non_timeout = \"deny\"");
    Workflow "w.toml" "a list that is none" step!("foreach = \"goal\"\nsteps = [{ name = \"b\", prompt = \"x\" }]");
    Workflow "w.toml" "an element's name that is taken" step!("foreach = \"[1, 2]\"\nas = \"steps\"\nsteps = [{ name = \"b\", prompt = \"x\" }]");
    Workflow "w.toml" "too many at once" step!("foreach = \"[1, 2]\"\nmax_parallel = 0\nsteps = [{ name = \"b\", prompt = \"x\" }]");
    Workflow "w.toml" "an element outside its loop" after!("[[workflow.steps]]\nname = \"b\"\nprompt = \"{{ item }}\"\n");
    Workflow "w.toml" "a join that is none" step!("parallel = { x = [{ name = \"b\", prompt = \"x\" }] }\njoin = \"some\"");
    Workflow "w.toml" "an input of an unknown type" concat!("[workflow.inputs.x]\ntype = \"text\"\n", step!("prompt = \"x\""));
    Workflow "w.toml" "a default of another type" concat!("[workflow.inputs.x]\ntype = \"integer\"\ndefault = \"three\"\n", step!("prompt = \"x\""));
    Workflow "w.toml" "a default that is no choice" concat!("[workflow.inputs.x]\nchoices = [\"a\", \"b\"]\ndefault = \"c\"\n", step!("prompt = \"x\""));
    Workflow "w.toml" "an input's name that is none" concat!("[workflow.inputs.\"a-b\"]\n", step!("prompt = \"x\""));
    Workflow "w.toml" "an output of nothing" concat!("[workflow.outputs]\nx = \"steps.b.text\"\n", step!("prompt = \"x\""));
    Workflow "w.toml" "a prompt that does not exist" step!("prompt = \"@prompts/ters\"");
    Workflow "w.toml" "a prompt with a mistake" step!("prompt = \"@prompts/broken\"");
    Workflow "w.toml" "a reference out of the folder" step!("prompt = \"@prompts/../../etc/passwd\"");
    Workflow "w.toml" "a reference of an unknown kind" step!("prompt = \"@prompt/terse\"");
    Workflow "w.toml" "a workflow where a text belongs" step!("prompt = \"@workflows/test\"");
    Workflow "w.toml" "a workflow that does not exist" step!("workflow = \"@workflows/tset\"");
    Workflow "w.toml" "a workflow without its mark" step!("workflow = \"test\"");
    Workflow "w.toml" "a workflow with a mistake" step!("workflow = \"@workflows/broken\"");
    Workflow "w.toml" "workflows in a circle" step!("workflow = \"@workflows/ring\"");
    Workflow "w.toml" "a machine as a step" step!("workflow = \"@workflows/machine\"");
    Workflow "w.toml" "an input that is not given" step!("workflow = \"@workflows/test\"");
    Workflow "w.toml" "an input that nobody takes" step!("workflow = \"@workflows/test\"\ninputs = { deep = true, depe = 1 }");
    Workflow "w.toml" "an output that nobody gives" concat!(step!("workflow = \"@workflows/test\"\ninputs = { deep = true }"), "[[workflow.steps]]\nname = \"b\"\nprompt = \"{{ steps.a.outputs.siad }}\"\n");
    Workflow "w.toml" "a state that leads nowhere" "[[workflow.states]]\nname = \"a\"\nprompt = \"x\"\n";
    Workflow "w.toml" "a transition to nowhere" "[[workflow.states]]\nname = \"a\"\ntransitions = [{ to = \"dnoe\" }]\n[[workflow.states]]\nname = \"done\"\nterminal = true\n";
    Workflow "w.toml" "a state that cannot be reached" "[[workflow.states]]\nname = \"a\"\nterminal = true\n[[workflow.states]]\nname = \"b\"\nterminal = true\n";
    Workflow "w.toml" "no end that can be reached" "[[workflow.states]]\nname = \"a\"\ntransitions = [{ to = \"b\" }]\n[[workflow.states]]\nname = \"b\"\ntransitions = [{ to = \"a\" }]\n";
    Workflow "w.toml" "an initial state that does not exist" "[workflow]\ninitial = \"x\"\n[[workflow.states]]\nname = \"a\"\nterminal = true\n";
    Workflow "w.toml" "work in a terminal state" "[[workflow.states]]\nname = \"a\"\nprompt = \"x\"\nterminal = true\n";
    Workflow "w.toml" "an outcome before the end" "[[workflow.states]]\nname = \"a\"\noutcome = \"failed\"\ntransitions = [{ to = \"b\" }]\n[[workflow.states]]\nname = \"b\"\nterminal = true\n";
    Workflow "w.toml" "then in a state" "[[workflow.states]]\nname = \"a\"\nthen = \"b\"\ntransitions = [{ to = \"b\" }]\n[[workflow.states]]\nname = \"b\"\nterminal = true\n";
    Workflow "w.toml" "a goto in a state" "[[workflow.states]]\nname = \"a\"\nprompt = \"x\"\non_error = { action = \"goto\", target = \"b\" }\ntransitions = [{ to = \"b\" }]\n[[workflow.states]]\nname = \"b\"\nterminal = true\n";
    Workflow "w.toml" "a way that is never taken" "[[workflow.states]]\nname = \"a\"\ntransitions = [{ to = \"b\", max = 0 }]\n[[workflow.states]]\nname = \"b\"\nterminal = true\n";
    Workflow "w.toml" "a fallback that is no way" "[[workflow.states]]\nname = \"a\"\nchoose = { prompt = \"which?\", fallback = \"a\" }\ntransitions = [{ to = \"b\" }]\n[[workflow.states]]\nname = \"b\"\nterminal = true\n";
    Workflow "m.toml" "a machine without states" "[machine]\ninitial = \"a\"\n";
    Workflow "m.toml" "a machine's state that cannot be reached" "[machine]\ninitial = \"a\"\n[machine.states.a]\nterminal = true\n[machine.states.b]\nterminal = true\n";
    Workflow "m.toml" "a machine's state without a way out" "[machine]\ninitial = \"a\"\n[machine.states.a]\naction = { tool = \"shell\", parameters = { command = \"true\" } }\n";
    Workflow "m.toml" "an unknown condition" "[machine]\ninitial = \"a\"\n[machine.states.a]\ntransitions = [{ to = \"b\", when = \"okay\" }]\n[machine.states.b]\nterminal = true\n";
    Workflow "m.toml" "a transition behind one that always holds" "[machine]\ninitial = \"a\"\n[machine.states.a]\ntransitions = [{ to = \"b\" }, { to = \"b\", when = \"ok\" }]\n[machine.states.b]\nterminal = true\n";
    Workflow "m.toml" "two kinds of work in one state" "[machine]\ninitial = \"a\"\n[machine.states.a]\naction = { tool = \"shell\", parameters = { command = \"true\" } }\nparallel = []\ntransitions = [{ to = \"b\" }]\n[machine.states.b]\nterminal = true\n";
    Workflow "w.toml" "several mistakes in several steps" "[[workflow.steps]]\nname = \"test\"\ntool = \"shel\"\n[[workflow.steps]]\nname = \"fix\"\nprompt = \"{{ steps.tset.text }}\"\nwhen = \"steps.test.okay\"\n[[workflow.steps]]\nname = \"fix\"\nprompt = \"@prompts/ters\"\n";
}
