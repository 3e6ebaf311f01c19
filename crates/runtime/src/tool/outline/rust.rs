//! Rust.

use super::{Language, Only, Role, Rule, holder, leaf};

pub(super) const LANGUAGE: Language = Language {
    name: "Rust",
    extensions: &["rs"],
    grammar: || tree_sitter_rust::LANGUAGE.into(),
    items: &[
        leaf("function_item", "name", &["body"]),
        leaf("function_signature_item", "name", &[]),
        leaf("struct_item", "name", &["field_declaration_list"]),
        leaf("union_item", "name", &["body"]),
        leaf("enum_item", "name", &["body"]),
        leaf("const_item", "name", &["value"]),
        leaf("static_item", "name", &["value"]),
        leaf("type_item", "name", &[]),
        leaf("associated_type", "name", &[]),
        leaf("macro_definition", "name", &["macro_rule"]),
        holder("mod_item", "name", &["body"]),
        holder("trait_item", "name", &["body"]),
        Rule {
            kind: "impl_item",
            name: "type",
            cut: &["body"],
            role: Role::Addition,
            only: Only::All,
        },
    ],
    through: &["declaration_list", "foreign_mod_item"],
    wrappers: &[],
    leads: &["attribute_item", "line_comment", "block_comment"],
    skipped: &[],
    separator: "::",
    chains: &[],
};
