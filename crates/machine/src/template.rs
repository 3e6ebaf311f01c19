//! The one language of prompts, parameters and conditions: templates and expressions, checked before they are used.
//!
//! A [`Template`] gives text, an [`Expression`] gives a value. Both are read strictly: what is not known (a filter, a
//! test, a function) is an error with its place, and so is everything that could grow without bound. [`Template::uses`]
//! tells which names a text needs, so that whoever loads it can say that one of them does not exist. What is left for run
//! time is strict too: a name that has no value is an error, never an empty text.
//!
//! The language is minijinja's without files (no include, import, extends), without macros and blocks, and without values
//! that feed on themselves: a name can be given to a part of what came in, not to a text that was put together. That is
//! why the size of everything is bounded by the size of the text and of the values, beside the fuel that bounds time.

mod compiled;
mod memo;
mod syntax;
#[cfg(test)]
mod tests;
mod words;

use std::fmt;
use std::sync::{Arc, OnceLock};

use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde_json::Value;

use compiled::Compiled;
#[cfg(test)]
pub(crate) use compiled::count;
pub use syntax::{Comparison, Kind, Use};

/// Longer texts are no prompts.
const MAX_SOURCE: usize = 1 << 20;
/// What a template may give, in bytes.
const MAX_OUTPUT: usize = 4 << 20;
/// What a template is called in its own environment.
const NAME: &str = "<string>";
/// Instructions of one evaluation: a loop over some ten thousand elements.
const FUEL: u64 = 1_000_000;

/// What is wrong with a template or an expression, and where: a range of bytes in its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    /// What is wrong, and what to do about it.
    pub message: String,
    /// The first byte that is meant.
    pub start: usize,
    /// The byte after the last one that is meant.
    pub end: usize,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TemplateError {}

/// A text with places that are filled in, such as `Fix {{ inputs.issue }}`.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    text: Arc<str>,
    facts: Arc<syntax::Facts>,
    /// The language with this one template in it.
    compiled: Compiled<Environment<'static>>,
}

impl Template {
    /// Reads a template.
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        memo::TEMPLATES.with(|known| {
            memo::read(known, text, || {
                let facts = Arc::new(syntax::template(text)?);
                Ok(Template { text: text.into(), facts, compiled: Compiled::default() })
            })
        })
    }

    /// The text as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// True if nothing is filled in and the text is given as it stands.
    pub fn is_plain(&self) -> bool {
        !self.text.contains("{{") && !self.text.contains("{%") && !self.text.contains("{#")
    }

    /// The names that it needs from outside, each as the way to it (`steps.look.ok` is `["steps", "look", "ok"]`), sorted.
    pub fn names(&self) -> Vec<Vec<String>> {
        self.facts.names()
    }

    /// As [`Template::names`], in the order of the text, with the place of each.
    pub fn uses(&self) -> &[Use] {
        &self.facts.uses
    }

    /// Where a name is held against literals.
    pub fn comparisons(&self) -> &[Comparison] {
        &self.facts.comparisons
    }

    /// The text for these values. The error says what is missing or wrong.
    pub fn render(&self, values: &Value) -> Result<String, String> {
        if self.is_plain() {
            return Ok(self.text.to_string());
        }
        let context = minijinja::Value::from(Serde(values));
        let mut output = Bounded { text: Vec::new(), is_full: false };
        let rendered = self.compiled.with(
            || {
                let mut own = environment().clone();
                own.add_template_owned(NAME, self.text.to_string()).map(|()| own)
            },
            |own| own.get_template(NAME)?.render_captured_to(context, &mut output).map(drop),
        );
        if output.is_full {
            return Err(format!("the text is longer than {MAX_OUTPUT} bytes"));
        }
        rendered.flatten().map_err(|error| explain(&error, &self.text))?;
        String::from_utf8(output.text).map_err(|_| "the template gave no text".to_owned())
    }
}

/// Something that has a value, such as `steps.look.ok and inputs.deep`.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    text: Arc<str>,
    facts: Arc<syntax::Facts>,
    compiled: Compiled<minijinja::Expression<'static, 'static>>,
}

impl Expression {
    /// Reads an expression.
    pub fn parse(text: &str) -> Result<Expression, TemplateError> {
        memo::EXPRESSIONS.with(|known| {
            memo::read(known, text, || {
                let facts = Arc::new(syntax::expression(text)?);
                Ok(Expression { text: text.into(), facts, compiled: Compiled::default() })
            })
        })
    }

    /// The text as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// As [`Template::names`].
    pub fn names(&self) -> Vec<Vec<String>> {
        self.facts.names()
    }

    /// As [`Template::uses`].
    pub fn uses(&self) -> &[Use] {
        &self.facts.uses
    }

    /// As [`Template::comparisons`].
    pub fn comparisons(&self) -> &[Comparison] {
        &self.facts.comparisons
    }

    /// What it gives, as far as that can be known; `kind_of` tells it of the names ([`Kind::Any`] if it does not know).
    pub fn kind(&self, kind_of: &dyn Fn(&[String]) -> Kind) -> Kind {
        // The text was read before, so that it can be read again.
        syntax::kind(&self.text, kind_of).unwrap_or(Kind::Any)
    }

    /// What is wrong with it as a condition: the part of it that can never be true or false, in words and with its place.
    pub fn never_boolean(&self, kind_of: &dyn Fn(&[String]) -> Kind) -> Option<TemplateError> {
        syntax::never_boolean(&self.text, kind_of)
    }

    /// Its value. A value that is not defined is an error.
    pub fn value(&self, values: &Value) -> Result<Value, String> {
        let context = minijinja::Value::from(Serde(values));
        let value = self.compiled.with(
            || environment().compile_expression_owned(self.text.to_string()),
            |expression| expression.eval(context),
        );
        let value = value.flatten().map_err(|error| explain(&error, &self.text))?;
        if value.is_undefined() {
            return Err(format!("{} has no value", quoted(&self.text)));
        }
        words::plain(&value)
    }

    /// Whether it holds. What gives anything but true or false is an error.
    pub fn holds(&self, values: &Value) -> Result<bool, String> {
        match self.value(values)? {
            Value::Bool(holds) => Ok(holds),
            other => Err(format!(
                "{} must give true or false, and gave {}",
                quoted(&self.text),
                crate::file::check::short(&other)
            )),
        }
    }
}

/// Holds the language: made once, never changed.
fn environment() -> &'static Environment<'static> {
    static ENVIRONMENT: OnceLock<Environment<'static>> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let mut environment = Environment::empty();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_fuel(Some(FUEL));
        environment.set_syntax(syntax::config().clone());
        environment.set_debug(true);
        words::add_to(&mut environment);
        environment
    })
}

/// An error of the interpreter in our words, with the part of the text that it is about.
fn explain(error: &minijinja::Error, text: &str) -> String {
    use minijinja::ErrorKind;
    let part =
        error.range().and_then(|range| text.get(range)).filter(|part| !part.trim().is_empty());
    let what = match error.kind() {
        ErrorKind::UndefinedError => {
            // The place of `.b` in `a.b` begins at the dot: the whole says more.
            let part = part.filter(|part| !part.starts_with(['.', '[', '|']));
            return match (part, error.detail()) {
                (Some(part), _) => format!("{} has no value", quoted(part)),
                (None, Some(detail)) => format!("{detail} (in {})", quoted(text)),
                (None, None) => format!("a name in {} has no value", quoted(text)),
            };
        }
        ErrorKind::OutOfFuel => {
            return "the template works for too long: is there a loop in a loop?".to_owned();
        }
        kind => error.detail().map_or_else(|| kind.to_string(), str::to_owned),
    };
    match part {
        Some(part) => format!("{what} (in {})", quoted(part)),
        None => what,
    }
}

fn quoted(text: &str) -> String {
    crate::file::check::short(&Value::String(text.trim().to_owned()))
}

/// Takes what a template gives, up to a bound.
struct Bounded {
    text: Vec<u8>,
    is_full: bool,
}

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.text.len() + bytes.len() > MAX_OUTPUT {
            self.is_full = true;
            return Err(std::io::Error::other("full"));
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
