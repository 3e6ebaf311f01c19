//! Steps that call a tool: the parameters filled in, the result taken.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Run;
use crate::driver::workflow::definition::*;
use crate::driver::workflow::frame::{Address, Came, Stage};
use crate::driver::workflow::result::{self, Ended};
use crate::driver::workflow::scope::Scope;
use crate::tool;

impl Run<'_> {
    pub(super) fn call(
        &mut self,
        work: &ToolWork,
        scope: &Scope<'_>,
        address: &Address,
    ) -> Result<Stage, String> {
        let mut action = work.call.action(self.situation);
        if let Some(shape) = &work.shape {
            action.input = Arc::new(work.fill(shape, scope)?);
        }
        if !address.is_empty() {
            action.path.splice(0..0, address.iter().copied());
        }
        if !self.deadlines.is_empty() {
            action.timeout = self.time_left(action.timeout);
        }
        self.round.actions.push(action);
        Ok(Stage::Busy)
    }
}

impl Step {
    /// The end of its tool call.
    pub(super) fn came(&self, came: &Came) -> Ended {
        let Work::Tool(work) = &self.work else { return Ended::skipped() };
        came.ended(|| work.call.failure("step", &came.result()), self.told)
    }
}

impl ToolWork {
    /// The parameters with everything filled in.
    fn fill(&self, shape: &Shape, scope: &Scope<'_>) -> Result<Value, String> {
        let spec = tool::find(self.call.tool());
        let is_text = |key: &str| {
            let parameter = spec.and_then(|spec| spec.parameters.iter().find(|p| p.name == key));
            parameter.is_some_and(|parameter| parameter.kind == tool::ParameterKind::Text)
        };
        let mut filled = match shape {
            Shape::Table(fields) => {
                let mut table = serde_json::Map::new();
                for (key, shape) in fields {
                    let value = match shape {
                        Shape::Whole(text, _) if is_text(key) => {
                            scope.text(text).map(Value::String)
                        }
                        shape => fill(shape, scope),
                    };
                    table.insert(key.clone(), value.map_err(|why| format!("{key}: {why}"))?);
                }
                Value::Object(table)
            }
            shape => fill(shape, scope)?,
        };
        if let Some((step, parameter)) = &self.input {
            let text = scope.said(step);
            // An answer of a model wraps what is meant in a block.
            let text = if parameter == "diff" { result::block(text).unwrap_or(text) } else { text };
            filled[parameter.as_str()] = json!(text);
        }
        if let Some(spec) = spec {
            tool::check_input(spec, &filled)?;
        }
        Ok(filled)
    }
}

fn fill(shape: &Shape, scope: &Scope<'_>) -> Result<Value, String> {
    match shape {
        Shape::Plain(value) => Ok(value.clone()),
        Shape::Text(text) => scope.text(text).map(Value::String),
        Shape::Whole(_, formula) => scope.value(formula),
        Shape::List(items) => items.iter().map(|item| fill(item, scope)).collect(),
        Shape::Table(fields) => {
            fields.iter().map(|(key, shape)| Ok((key.clone(), fill(shape, scope)?))).collect()
        }
    }
}
