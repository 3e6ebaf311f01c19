//! The interpreter: what a script may use, and how much of it.
//!
//! Operations, depth and sizes are counted, so the same script with the same context always ends the same way. Some
//! operations are larger than others (sorting ten thousand texts is one), so there is a deadline behind the count, in the
//! work of the thread: it can only turn a result into an error, never into another result.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rhai::packages::{
    ArithmeticPackage, BasicArrayPackage, BasicFnPackage, BasicIteratorPackage, BasicMapPackage,
    BasicMathPackage, BasicStringPackage, LogicPackage, MoreStringPackage, Package,
};
use rhai::{
    Array, Dynamic, Engine, EvalAltResult, FnPtr, ImmutableString, Map, NativeCallContext,
    OptimizationLevel, ParseErrorType, Position,
};
use rustix::time::{ClockId, clock_gettime};

use super::Context;

const OPERATIONS: u64 = 500_000;
const CALLS: usize = 16;
const VARIABLES: usize = 64;
const FUNCTIONS: usize = 256;
/// Of a statement's expressions, inside functions too.
const EXPRESSION_DEPTH: usize = 48;
/// Bytes of all texts in one value.
const TEXT: usize = 256 << 10;
/// Elements of all lists in one value.
const ELEMENTS: usize = 10_000;
/// Entries of all maps in one value: ten thousand steps with five keys.
const ENTRIES: usize = 50_000;
/// Lines and bytes of what is printed; the rest is dropped and said to be.
const PRINTED: (usize, usize) = (200, 16 << 10);
/// Of the thread that runs it.
const DEADLINE: Duration = Duration::from_secs(2);

/// What was printed so far.
pub(super) type Printed = Arc<Mutex<Vec<String>>>;

type Outcome<T> = Result<T, Box<EvalAltResult>>;

/// An interpreter without anything that reaches out: packages are chosen one by one, since the standard ones hold
/// `sleep`, `exit` and `parse_json`.
pub(super) fn new() -> (Engine, Printed) {
    let mut engine = Engine::new_raw();
    ArithmeticPackage::new().register_into_engine(&mut engine);
    LogicPackage::new().register_into_engine(&mut engine);
    BasicMathPackage::new().register_into_engine(&mut engine);
    BasicIteratorPackage::new().register_into_engine(&mut engine);
    BasicFnPackage::new().register_into_engine(&mut engine);
    BasicStringPackage::new().register_into_engine(&mut engine);
    MoreStringPackage::new().register_into_engine(&mut engine);
    BasicArrayPackage::new().register_into_engine(&mut engine);
    BasicMapPackage::new().register_into_engine(&mut engine);
    limit(&mut engine);
    bound(&mut engine);
    let printed = collect(&mut engine);
    (engine, printed)
}

fn limit(engine: &mut Engine) {
    engine.set_max_operations(OPERATIONS);
    engine.set_max_call_levels(CALLS);
    engine.set_max_variables(VARIABLES);
    engine.set_max_functions(FUNCTIONS);
    engine.set_max_expr_depths(EXPRESSION_DEPTH, EXPRESSION_DEPTH);
    engine.set_max_string_size(TEXT);
    engine.set_max_array_size(ELEMENTS);
    engine.set_max_map_size(ENTRIES);
    engine.set_strict_variables(true);
    engine.set_fail_on_invalid_map_property(true);
    // Folding constants would run operations before anything counts them.
    engine.set_optimization_level(OptimizationLevel::None);
    engine.disable_symbol("eval");
    // What is curried is not counted: `f = f.curry(f)` doubles for ever.
    engine.disable_symbol("curry");
    let started = spent();
    engine.on_progress(move |operations| {
        let late = operations.is_multiple_of(64) && spent().saturating_sub(started) > DEADLINE;
        late.then(|| Dynamic::from("deadline"))
    });
}

/// What this thread has worked so far. Not the time of day: a busy machine must not make a script fail.
fn spent() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(spent.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(spent.tv_nsec).unwrap_or_default())
}

/// Takes the place of functions whose result is counted only when it is whole, and may be the square of what is
/// allowed by then.
fn bound(engine: &mut Engine) {
    engine.register_fn(
        "replace",
        |text: &mut ImmutableString, from: ImmutableString, to: ImmutableString| {
            replace(text, &from, &to)
        },
    );
    engine.register_fn("replace", |text: &mut ImmutableString, from: char, to: ImmutableString| {
        replace(text, &from.to_string(), &to)
    });
    engine.register_fn("map", |context: NativeCallContext, list: &mut Array, f: FnPtr| {
        let mut counted = Counted::default();
        let items = list.iter().map(|item| {
            let given: Dynamic = f.call_within_context(&context, (item.clone(),))?;
            counted.add(&given)?;
            Ok(given)
        });
        items.collect::<Outcome<Array>>()
    });
    engine.register_fn("map", |context: NativeCallContext, table: &mut Map, f: FnPtr| {
        let mut counted = Counted::default();
        let entries = table.iter().map(|(key, entry)| {
            let key_text = ImmutableString::from(key.as_str());
            let given: Dynamic = f.call_within_context(&context, (key_text, entry.clone()))?;
            counted.add(&given)?;
            Ok((key.clone(), given))
        });
        entries.collect::<Outcome<Map>>()
    });
    engine.register_fn(
        "zip",
        |context: NativeCallContext, left: &mut Array, right: Array, f: FnPtr| {
            let mut counted = Counted::default();
            let pairs = left.iter().zip(right).map(|(left, right)| {
                let given: Dynamic = f.call_within_context(&context, (left.clone(), right))?;
                counted.add(&given)?;
                Ok(given)
            });
            pairs.collect::<Outcome<Array>>()
        },
    );
}

fn replace(text: &mut ImmutableString, from: &str, to: &str) -> Outcome<()> {
    let found = text.matches(from).count();
    let size = text.len().saturating_add(found.saturating_mul(to.len()));
    if size.saturating_sub(found.saturating_mul(from.len())) > TEXT {
        return Err(too_large("Length of string"));
    }
    *text = text.replace(from, to).into();
    Ok(())
}

fn too_large(what: &str) -> Box<EvalAltResult> {
    EvalAltResult::ErrorDataTooLarge(what.to_owned(), Position::NONE).into()
}

/// What has been gathered so far, as the interpreter would count it at the end.
#[derive(Default)]
struct Counted {
    text: usize,
    elements: usize,
    entries: usize,
}

impl Counted {
    fn add(&mut self, given: &Dynamic) -> Outcome<()> {
        self.elements += 1;
        self.walk(given);
        let over = [
            (self.text > TEXT, "Length of string"),
            (self.elements > ELEMENTS, "Size of array/BLOB"),
            (self.entries > ENTRIES, "Size of object map"),
        ];
        match over.into_iter().find(|(over, _)| *over) {
            Some((_, what)) => Err(too_large(what)),
            None => Ok(()),
        }
    }

    fn walk(&mut self, given: &Dynamic) {
        if let Some(text) = given.read_lock::<ImmutableString>() {
            self.text += text.len();
        } else if let Some(items) = given.read_lock::<Array>() {
            self.elements += items.len();
            items.iter().for_each(|item| self.walk(item));
        } else if let Some(entries) = given.read_lock::<Map>() {
            self.entries += entries.len();
            entries.values().for_each(|entry| self.walk(entry));
        }
    }
}

/// Nothing reaches the terminal: what is printed is kept for `workflow check`.
fn collect(engine: &mut Engine) -> Printed {
    let printed = Printed::default();
    let lines = Arc::clone(&printed);
    engine.on_print(move |text| keep(&lines, text.to_owned()));
    let lines = Arc::clone(&printed);
    engine.on_debug(move |text, _, place| {
        keep(&lines, format!("line {}: {text}", place.line().unwrap_or(0)));
    });
    printed
}

fn keep(printed: &Printed, line: String) {
    const MORE: &str = "… (more was printed)";
    let mut kept = printed.lock().unwrap_or_else(|broken| broken.into_inner());
    if kept.last().is_some_and(|last| last == MORE) {
        return;
    }
    let bytes: usize = kept.iter().map(String::len).sum();
    let fits = kept.len() < PRINTED.0 && bytes + line.len() <= PRINTED.1;
    kept.push(if fits { line } else { MORE.to_owned() });
}

/// An error of the interpreter in words that say what to do.
pub(super) fn words(error: &EvalAltResult, context: Option<&Context>) -> (String, Option<String>) {
    let simpler = || Some("let the script do less: it only has to list steps".to_owned());
    match error {
        EvalAltResult::ErrorTooManyOperations(_) => (
            format!("the script takes more than {OPERATIONS} operations: it may never end"),
            simpler(),
        ),
        EvalAltResult::ErrorTerminated(..) => {
            (format!("the script takes longer than {} seconds", DEADLINE.as_secs()), simpler())
        }
        EvalAltResult::ErrorStackOverflow(_) => {
            (format!("functions call each other more than {CALLS} deep"), simpler())
        }
        EvalAltResult::ErrorTooManyVariables(_) => {
            (format!("a function has more than {VARIABLES} variables"), simpler())
        }
        EvalAltResult::ErrorDataTooLarge(what, _) => {
            let limit = match what.as_str() {
                "Length of string" => format!("{TEXT} bytes of text"),
                "Size of object map" => format!("{ENTRIES} entries of maps"),
                _ => format!("{ELEMENTS} elements of lists"),
            };
            (format!("a value is larger than a script may make: at most {limit}"), simpler())
        }
        EvalAltResult::ErrorPropertyNotFound(name, _) => {
            let hint = context.and_then(|context| near(name, context));
            let other = || "ask first whether there is one: \"name\" in map".to_owned();
            (format!("there is no {name:?} here"), Some(hint.unwrap_or_else(other)))
        }
        EvalAltResult::ErrorParsing(kind, _) => match kind {
            ParseErrorType::ExprTooDeep => {
                (format!("the expression nests deeper than {EXPRESSION_DEPTH}"), None)
            }
            ParseErrorType::VariableUndefined(name) => {
                let hint =
                    "functions see their parameters and their own variables, nothing around them";
                (format!("there is no variable {name:?}"), Some(hint.to_owned()))
            }
            ParseErrorType::Reserved(word) => {
                let hint = format!("as a key of a map it is written in quotes: {word:?}");
                let is_key = !matches!(word.as_str(), "eval" | "curry");
                (format!("{word:?} is not to be had in a script"), is_key.then_some(hint))
            }
            other => (plain(&other.to_string()), None),
        },
        EvalAltResult::ErrorFunctionNotFound(name, _) => {
            let hint =
                "a script can only compute: there are no files, clocks, networks or programs";
            (format!("there is no function {name}"), Some(hint.to_owned()))
        }
        EvalAltResult::ErrorRuntime(thrown, _) => (thrown.to_string(), None),
        other => (plain(&other.to_string()), None),
    }
}

/// The message without the interpreter's own place.
fn plain(message: &str) -> String {
    let cut = message.rfind(" (line ").filter(|_| message.ends_with(')'));
    cut.map_or(message, |at| &message[..at]).to_owned()
}

fn near(name: &str, context: &Context) -> Option<String> {
    let facts = context.facts.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let inputs = context.inputs.keys().map(String::as_str);
    let known = facts.chain(inputs).chain(["goal", "inputs", "facts"]);
    machine::file::suggestion(name, known)
}
