//! Steps that call a tool: their parameters, known or to be filled in.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Reader, has_places};
use crate::driver::workflow::call::Call;
use crate::driver::workflow::definition::*;
use crate::driver::workflow::names::Names;
use crate::file::check::Cursor;
use crate::tool::{self, ParameterKind};

impl Reader<'_, '_> {
    pub(super) fn tool(&mut self, at: &Cursor<'_>, label: &str, names: &Names<'_>) -> Option<Work> {
        let input = match self.source(at, names) {
            Some(step) => {
                let given = at.need(self.problems, "tool")?;
                let name = given.text(self.problems)?;
                match text_parameter(Call::meant(name)) {
                    Some("") => None,
                    Some(parameter) => Some((step, parameter.to_owned())),
                    None => {
                        let from = at.get("input_from")?;
                        let hint = format!("write {{{{ steps.{step}.text }}}} in its parameters");
                        let message = format!("{name} does not say where its input would go");
                        self.problems.push_key(&from, message, Some(hint));
                        None
                    }
                }
            }
            None => None,
        };
        let parameters = at.get("parameters");
        let shape = match &parameters {
            Some(table) if !self.settings.plain && holds_places(table.value) => {
                Some(self.shape(table, names))
            }
            _ => None,
        };
        let taken = input.as_ref().map(|(_, parameter)| parameter.as_str());
        let call = if shape.is_some() || taken.is_some() {
            let name = at.get("tool").and_then(|tool| tool.value.as_str()).unwrap_or_default();
            let stand_in = stand_in(name, parameters.as_ref().map(|at| at.value), taken);
            Call::read_as(at, Some(stand_in), label.to_owned(), self.problems)?
        } else {
            Call::read(at, label.to_owned(), self.problems)?
        };
        let shape = match (shape, &parameters) {
            (Some(shape), _) => Some(shape),
            (None, Some(table)) if taken.is_some() => Some(Shape::Plain(table.value.clone())),
            (None, None) if taken.is_some() => Some(Shape::Plain(json!({}))),
            (None, _) => None,
        };
        Some(Work::Tool(Box::new(ToolWork { call, shape, input })))
    }

    fn shape(&mut self, at: &Cursor<'_>, names: &Names<'_>) -> Shape {
        match at.value {
            Value::String(text) if has_places(text) => {
                let Some(filled) = self.filled(at, names) else { return Shape::Plain(Value::Null) };
                let inner = text.trim().strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
                let inner = inner.filter(|inner| !has_places(inner) && !inner.contains("}}"));
                let inner = inner.map(|inner| inner.trim_matches('-').trim());
                match inner.and_then(|inner| crate::template::Expression::parse(inner).ok()) {
                    Some(expression) => {
                        let names = expression.names();
                        Shape::Whole(filled, Formula { expression, names })
                    }
                    None => Shape::Text(filled),
                }
            }
            Value::Array(_) => {
                let items = at.items(self.problems);
                Shape::List(items.iter().map(|item| self.shape(item, names)).collect())
            }
            Value::Object(_) => Shape::Table(
                at.entries()
                    .map(|(key, entry)| (key.to_owned(), self.shape(&entry, names)))
                    .collect(),
            ),
            plain => Shape::Plain(plain.clone()),
        }
    }
}

/// The parameter of a tool that takes a text; empty if the tool needs none, nothing if it is not clear.
fn text_parameter(tool: &str) -> Option<&'static str> {
    match tool {
        "patch" => Some("diff"),
        "write" => Some("content"),
        "say" | "memory" => Some("text"),
        "ask" => Some("question"),
        "validator.run" => Some(""),
        _ => None,
    }
}

fn holds_places(value: &Value) -> bool {
    match value {
        Value::String(text) => has_places(text),
        Value::Array(items) => items.iter().any(holds_places),
        Value::Object(fields) => fields.values().any(holds_places),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Parameters that fit the tool wherever what will stand there is not known yet, so that the rest can be checked.
fn stand_in(tool: &str, parameters: Option<&Value>, taken: Option<&str>) -> Value {
    let spec = tool::find(Call::meant(tool));
    let kind = |name: &str| {
        let parameter = spec.and_then(|spec| spec.parameters.iter().find(|p| p.name == name));
        parameter.map(|parameter| parameter.kind)
    };
    let mut fields: BTreeMap<String, Value> = BTreeMap::new();
    for (key, value) in parameters.and_then(Value::as_object).into_iter().flatten() {
        let known = if holds_places(value) {
            match kind(key) {
                Some(ParameterKind::Number) => json!(0),
                Some(ParameterKind::Flag) => json!(false),
                Some(ParameterKind::Texts) => json!([]),
                Some(ParameterKind::Word(words)) => json!(words.first()),
                Some(ParameterKind::Name) => json!("name"),
                Some(ParameterKind::Text) if !value.is_string() => value.clone(),
                Some(ParameterKind::Text) | None => value.clone(),
            }
        } else {
            value.clone()
        };
        fields.insert(key.clone(), known);
    }
    if let Some(taken) = taken {
        fields.entry(taken.to_owned()).or_insert_with(|| json!(""));
    }
    Value::Object(fields.into_iter().collect())
}
