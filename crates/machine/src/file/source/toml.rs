//! TOML into plain data.

use std::collections::BTreeMap;
use std::ops::Range;

use ::toml::de::{DeTable, DeValue};
use serde_json::{Map, Value};

use super::{Builder, MAX_DEPTH, MAX_ERRORS, Parts, Place, error_at};
use crate::file::SourceError;

/// Reads a document.
pub(super) fn read(file: &str, text: &str) -> Result<(Value, Place), Vec<SourceError>> {
    // The recovering parser hands out the tree even on error, so that it is never dropped recursively.
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut builder = Builder { file, text, errors: Vec::new() };
    let mut too_deep = Vec::new();
    let range = table.span();
    let (value, place) =
        part(&mut builder, DeValue::Table(table.into_inner()), range, 0, &mut too_deep);
    while let Some(part) = too_deep.pop() {
        match part {
            DeValue::Array(items) => {
                too_deep.extend(items.into_iter().map(|item| item.into_inner()))
            }
            DeValue::Table(table) => {
                too_deep.extend(table.into_iter().map(|(_, part)| part.into_inner()))
            }
            _ => {}
        }
    }
    if errors.is_empty() {
        return builder.finish(value, place);
    }
    let shown = errors.iter().take(MAX_ERRORS).map(|error| {
        let range = error.span().unwrap_or(0..0);
        let message = error.message().trim().replace('\n', ", ");
        let hint = super::mend::hint(&message);
        error_at(file, text, range, message, Some(hint))
    });
    Err(shown.collect())
}

fn part<'t>(
    builder: &mut Builder<'_>,
    given: DeValue<'t>,
    range: Range<usize>,
    depth: usize,
    too_deep: &mut Vec<DeValue<'t>>,
) -> (Value, Place) {
    let mut parts = Parts::None;
    let value = match given {
        DeValue::Array(_) | DeValue::Table(_) if depth >= MAX_DEPTH => {
            too_deep.push(given);
            builder.refuse(&range, "the file nests too deeply")
        }
        DeValue::String(text) => Value::String(text.into_owned()),
        DeValue::Integer(number) => {
            let parsed = i128::from_str_radix(number.as_str(), number.radix()).ok();
            builder.whole(&range, parsed)
        }
        DeValue::Float(number) => builder.float(&range, number.as_str().parse().ok()),
        DeValue::Boolean(flag) => Value::Bool(flag),
        DeValue::Datetime(_) => {
            builder.refuse(&range, "dates are not used here: write it as text in quotes")
        }
        DeValue::Array(items) => {
            let mut values = Vec::new();
            let mut places = Vec::new();
            for item in items {
                let range = item.span();
                let (value, place) = part(builder, item.into_inner(), range, depth + 1, too_deep);
                values.push(value);
                places.push(place);
            }
            parts = Parts::List(places);
            Value::Array(values)
        }
        DeValue::Table(table) => {
            let mut values = Map::new();
            let mut places = BTreeMap::new();
            for (key, item) in table {
                let range = item.span();
                let (value, mut place) =
                    part(builder, item.into_inner(), range, depth + 1, too_deep);
                place.key = Some(key.span());
                let key = key.into_inner().into_owned();
                values.insert(key.clone(), value);
                places.insert(key, place);
            }
            parts = Parts::Table(places);
            Value::Object(values)
        }
    };
    (value, Place { key: None, value: range, parts })
}
