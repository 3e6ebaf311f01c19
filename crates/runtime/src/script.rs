//! Workflows that a file cannot say: a script in rhai, a pure function from what is known to a list of steps.
//!
//! A script defines `fn steps(context)` and may define `fn workflow()`, which gives name, description, inputs, limits
//! and whatever else stands beside the steps of a workflow. It is run once, when a task is made: what it gives is
//! read as strictly as a file and frozen in the journal, so that a replay never runs it again.
//!
//! It may come with a cloned repository, so it can do nothing but compute: no clock, no files, no network, no
//! terminal, no `eval`. What it computes is bounded in operations, depth and size (`engine`), and it runs on a thread
//! whose stack is large enough for the deepest value within those bounds.

mod data;
mod engine;
#[cfg(test)]
mod tests;

use std::ops::Range;

use machine::file::SourceError;
use rhai::{AST, CallFnOptions, Dynamic, Engine, EvalAltResult, Position, Scope};
use serde_json::{Map, Value, json};

/// How the name of a script's file ends.
pub const ENDING: &str = "rhai";

/// Larger scripts are not read.
pub const MAX_BYTES: usize = 256 << 10;

/// The deepest value within the limits has 60,000 levels; dropping or comparing one takes a frame a level.
const STACK: usize = 256 << 20;

/// What a script is told.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Context {
    /// What the task is for.
    pub goal: String,
    /// The workflow's inputs, defaults included.
    pub inputs: Map<String, Value>,
    /// What is known about the project.
    pub facts: Value,
}

/// What a script gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// The same data that a workflow file holds: `{"workflow": {…}}`.
    pub file: Value,
    /// What it printed, a line each; for `workflow check`.
    pub printed: Vec<String>,
    /// The place of `fn steps` in the text: errors in what it gave are shown there.
    pub place: Range<usize>,
}

/// What stands beside the steps (`fn workflow()`), without running `fn steps`: its inputs must be known before they can
/// be given.
pub fn head(text: &str, file: &str) -> Result<Made, SourceError> {
    on_own_stack(text, file, || run(text, file, None))
}

/// The whole workflow.
pub fn make(text: &str, file: &str, context: &Context) -> Result<Made, SourceError> {
    on_own_stack(text, file, || run(text, file, Some(context)))
}

/// A thread that dies takes its script with it, not the process.
fn on_own_stack(
    text: &str,
    file: &str,
    work: impl FnOnce() -> Result<Made, SourceError> + Send,
) -> Result<Made, SourceError> {
    let whole = |message: String| Err(SourceError::at(file, text, (1, 1), message, None));
    if text.len() > MAX_BYTES {
        return whole(format!("the script has {} bytes: at most {MAX_BYTES} are read", text.len()));
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("script".to_owned()).stack_size(STACK);
        match thread.spawn_scoped(scope, work) {
            Ok(thread) => thread.join().unwrap_or_else(|_| {
                whole("the script broke its interpreter: please report this script".to_owned())
            }),
            Err(error) => whole(format!("no thread for the script is to be had: {error}")),
        }
    })
}

fn run(text: &str, file: &str, context: Option<&Context>) -> Result<Made, SourceError> {
    let (engine, printed) = engine::new();
    let placed = Placed { text, file, context };
    let ast = engine.compile(text).map_err(|error| placed.error(&error.into()))?;
    let functions = functions(&ast, &placed)?;
    let mut workflow = match functions.has_head {
        true => match call(&engine, &ast, "workflow", ()).map_err(|error| placed.error(&error))? {
            Value::Object(table) => table,
            other => return Err(placed.gave("workflow", "a map", &other)),
        },
        false => Map::new(),
    };
    if workflow.contains_key("steps") || workflow.contains_key("states") {
        let message = "fn workflow() gives what stands beside the steps, not the steps";
        let hint = "give them from fn steps(context)".to_owned();
        return Err(placed.at_function("workflow", message.to_owned(), Some(hint)));
    }
    if let Some(context) = context {
        let told =
            json!({ "goal": context.goal, "inputs": context.inputs, "facts": context.facts });
        let steps = call(&engine, &ast, "steps", (data::dynamic(&told),));
        match steps.map_err(|error| placed.error(&error))? {
            steps @ Value::Array(_) => workflow.insert("steps".to_owned(), steps),
            other => return Err(placed.gave("steps", "a list of maps", &other)),
        };
    }
    let printed = std::mem::take(&mut *printed.lock().unwrap_or_else(|broken| broken.into_inner()));
    Ok(Made { file: json!({ "workflow": workflow }), printed, place: placed.function("steps") })
}

struct Functions {
    has_head: bool,
}

/// What a script must define, and that there is nothing beside functions: it would never run.
fn functions(ast: &AST, placed: &Placed<'_>) -> Result<Functions, SourceError> {
    if let Some(statement) = ast.statements().first() {
        let hint = "put it into a function; constants are functions without parameters".to_owned();
        let message = "only functions stand at the top of a script".to_owned();
        return Err(placed.at(statement.position(), message, Some(hint)));
    }
    let mut found = (None, None);
    for function in ast.iter_functions() {
        match function.name {
            "steps" => found.0 = Some(function.params.len()),
            "workflow" => found.1 = Some(function.params.len()),
            _ => {}
        }
    }
    let missing = "a script defines fn steps(context)";
    let hint = || {
        Some("fn steps(context) { [#{ name: \"test\", tool: \"shell\", parameters: #{ command: \"make\" } }] }".to_owned())
    };
    match found.0 {
        Some(1) => {}
        Some(_) => {
            return Err(placed.at_function(
                "steps",
                "steps takes one parameter".to_owned(),
                hint(),
            ));
        }
        None => return Err(placed.at(Position::NONE, missing.to_owned(), hint())),
    }
    if found.1.is_some_and(|parameters| parameters != 0) {
        let message = "workflow takes no parameters".to_owned();
        let hint = "inputs are known only after it was run: use them in steps(context)".to_owned();
        return Err(placed.at_function("workflow", message, Some(hint)));
    }
    Ok(Functions { has_head: found.1.is_some() })
}

fn call(
    engine: &Engine,
    ast: &AST,
    name: &str,
    args: impl rhai::FuncArgs,
) -> Result<Value, Box<EvalAltResult>> {
    let options = CallFnOptions::new().eval_ast(false);
    let given: Dynamic =
        engine.call_fn_with_options(options, &mut Scope::new(), ast, name, args)?;
    data::value(&given).map_err(|message| message.into())
}

/// Puts errors at their places.
struct Placed<'t> {
    text: &'t str,
    file: &'t str,
    context: Option<&'t Context>,
}

impl Placed<'_> {
    fn at(&self, position: Position, message: String, hint: Option<String>) -> SourceError {
        let place = (position.line().unwrap_or(1), position.position().unwrap_or(1));
        SourceError::at(self.file, self.text, place, message, hint)
    }

    /// The name of a function where it is defined.
    fn function(&self, name: &str) -> Range<usize> {
        let mut from = 0;
        while let Some(at) = self.text[from..].find("fn ").map(|at| from + at + 3) {
            let rest = &self.text[at..];
            let start = at + rest.len() - rest.trim_start().len();
            let after = self.text[start..].strip_prefix(name);
            if after.is_some_and(|after| after.trim_start().starts_with('(')) {
                return start..start + name.len();
            }
            from = at;
        }
        0..0
    }

    fn at_function(&self, name: &str, message: String, hint: Option<String>) -> SourceError {
        SourceError::within(self.file, self.text, self.function(name), message, hint)
    }

    fn gave(&self, name: &str, wanted: &str, given: &Value) -> SourceError {
        let given = match given {
            Value::Null => "nothing",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::String(_) => "text",
            Value::Array(_) => "a list",
            Value::Object(_) => "a map",
        };
        let hint = "what a function gives is its last expression, or what it returns";
        let message = format!("fn {name} must give {wanted}, it gave {given}");
        self.at_function(name, message, Some(hint.to_owned()))
    }

    /// The innermost error that knows its place, in words.
    fn error(&self, error: &EvalAltResult) -> SourceError {
        let mut place = error.position();
        let mut inner = error;
        while let EvalAltResult::ErrorInFunctionCall(_, _, cause, _) = inner {
            inner = cause;
            if !inner.position().is_none() {
                place = inner.position();
            }
        }
        let (message, hint) = engine::words(inner, self.context);
        self.at(place, message, hint)
    }
}
