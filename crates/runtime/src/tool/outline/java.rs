//! Java.

use super::{Language, holder, leaf};

pub(super) const LANGUAGE: Language = Language {
    name: "Java",
    extensions: &["java"],
    grammar: || tree_sitter_java::LANGUAGE.into(),
    items: &[
        leaf("method_declaration", "name", &["body"]),
        leaf("constructor_declaration", "name", &["body"]),
        leaf("compact_constructor_declaration", "name", &["body"]),
        leaf("annotation_type_element_declaration", "name", &[]),
        holder("class_declaration", "name", &["body"]),
        holder("interface_declaration", "name", &["body"]),
        holder("enum_declaration", "name", &["body"]),
        holder("record_declaration", "name", &["body"]),
        holder("annotation_type_declaration", "name", &["body"]),
    ],
    through: &[
        "annotation_type_body",
        "class_body",
        "enum_body",
        "enum_body_declarations",
        "interface_body",
    ],
    wrappers: &[],
    leads: &["line_comment", "block_comment"],
    skipped: &["annotation", "marker_annotation"],
    separator: ".",
    chains: b"<=",
};
