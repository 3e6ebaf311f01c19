//! Go.

use super::{Language, holder, leaf};

pub(super) const LANGUAGE: Language = Language {
    name: "Go",
    extensions: &["go"],
    grammar: || tree_sitter_go::LANGUAGE.into(),
    items: &[
        leaf("function_declaration", "name", &["body"]),
        leaf("method_declaration", "name", &["body"]),
        holder("type_spec", "name", &["field_declaration_list", "{"]),
        leaf("method_elem", "name", &[]),
        leaf("type_alias", "name", &[]),
        leaf("const_spec", "name", &["value"]),
        leaf("var_spec", "name", &["value"]),
    ],
    through: &[
        "const_declaration",
        "interface_type",
        "type_declaration",
        "var_declaration",
        "var_spec_list",
    ],
    wrappers: &["const_declaration", "type_declaration", "var_declaration"],
    leads: &["comment"],
    skipped: &[],
    separator: ".",
    chains: &[],
};
