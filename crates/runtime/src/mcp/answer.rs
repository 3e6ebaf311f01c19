//! What a server answered, as a tool's result: text, what stands for the rest, and whether it failed.

use machine::server::clean;
use machine::tool::{Status, ToolResult};
use rmcp::model::{CallToolResult, ContentBlock, Resource, ResourceContents};
use serde_json::Value;

use crate::tool::{ToolServices, shown_text};

/// The result of a call. `hide` covers up what the server was given to keep.
pub(super) fn result(
    answer: CallToolResult,
    services: &ToolServices,
    hide: &dyn Fn(&str) -> String,
) -> ToolResult {
    let mut parts: Vec<String> = answer.content.iter().map(shown).collect();
    if let Some(structured) = &answer.structured_content {
        let text = structured.to_string();
        // Servers are asked to give the same as text, for those who know no better.
        let doubled = parts.iter().any(|part| {
            serde_json::from_str::<serde_json::Value>(part).is_ok_and(|value| value == *structured)
        });
        if !doubled {
            parts.push(text);
        }
    }
    let text = if parts.is_empty() { "(no output)".to_owned() } else { parts.join("\n") };
    let status = if answer.is_error == Some(true) { Status::Error } else { Status::Ok };
    ToolResult { status, ..shown_text(&hide(&text), services) }
}

/// An answer with parts that are not known, as far as it can be read.
pub(super) fn odd(answer: &Value) -> CallToolResult {
    let part = |part: &Value| {
        serde_json::from_value(part.clone()).unwrap_or_else(|_| {
            let kind = clean(part["type"].as_str().unwrap_or("nameless"), 40);
            let said = part["text"].as_str().map(|text| format!("\n{text}")).unwrap_or_default();
            ContentBlock::text(format!("[a part of a kind that is not known: {kind}]{said}"))
        })
    };
    let mut read = CallToolResult::default();
    read.content = answer["content"].as_array().into_iter().flatten().map(part).collect();
    read.structured_content = answer.get("structuredContent").cloned();
    read.is_error = answer["isError"].as_bool();
    read
}

fn shown(block: &ContentBlock) -> String {
    let size = |base64: &str| base64.len() / 4 * 3;
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => {
            format!("[an image: {}, about {} bytes]", image.mime_type, size(&image.data))
        }
        ContentBlock::Audio(audio) => {
            format!("[a sound: {}, about {} bytes]", audio.mime_type, size(&audio.data))
        }
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                format!("[the resource {uri}]\n{text}")
            }
            ResourceContents::BlobResourceContents { uri, blob, .. } => {
                format!("[the resource {uri}: about {} bytes]", size(blob))
            }
            _ => "[a resource of a kind that is not known]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => linked(link),
        _ => "[something of a kind that is not known]".to_owned(),
    }
}

/// A resource that a server names and does not send: what it says of it, so that one can choose whether to ask for it.
fn linked(link: &Resource) -> String {
    let size = link.size.map(|bytes| format!("{bytes} bytes"));
    // A server that has no other name for it says the address again.
    let name = Some(&link.name).filter(|name| **name != link.uri);
    let said = [name, link.title.as_ref(), link.mime_type.as_ref(), size.as_ref()];
    let said: Vec<&str> = said
        .into_iter()
        .flatten()
        .map(|said| said.trim())
        .filter(|said| !said.is_empty())
        .collect();
    let mut text = format!("[a link to the resource {}", link.uri);
    if !said.is_empty() {
        text = format!("{text}: {}", said.join(", "));
    }
    text.push(']');
    match link.description.as_deref().map(str::trim) {
        None | Some("") => text,
        Some(description) => format!("{text}\n{description}"),
    }
}
