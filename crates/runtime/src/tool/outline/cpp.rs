//! C and C++. The grammar of C++ reads C as well, and a header does not say which of the two it is.

use super::{Language, Only, Role, Rule, holder, leaf};

/// A type without a body is only mentioned.
const fn defined(kind: &'static str, role: Role) -> Rule {
    Rule {
        kind,
        name: "name",
        cut: &["body"],
        role,
        only: Only::With(&["field_declaration_list", "enumerator_list"]),
    }
}

/// Of the declarations, only functions.
const fn declared(kind: &'static str) -> Rule {
    Rule {
        kind,
        name: "declarator",
        cut: &[],
        role: Role::Leaf,
        only: Only::With(&["function_declarator"]),
    }
}

pub(super) const LANGUAGE: Language = Language {
    name: "C/C++",
    extensions: &["c", "h", "cc", "cpp", "cxx", "c++", "hh", "hpp", "hxx", "h++", "ipp", "inl"],
    grammar: || tree_sitter_cpp::LANGUAGE.into(),
    items: &[
        leaf("function_definition", "declarator", &["body", "field_initializer_list"]),
        leaf("alias_declaration", "name", &[]),
        leaf("concept_definition", "name", &[]),
        leaf("type_definition", "declarator", &["body"]),
        leaf("preproc_function_def", "name", &["value"]),
        defined("class_specifier", Role::Container),
        defined("struct_specifier", Role::Container),
        defined("union_specifier", Role::Container),
        defined("enum_specifier", Role::Leaf),
        declared("declaration"),
        declared("field_declaration"),
        holder("namespace_definition", "name", &["body"]),
    ],
    through: &[
        "declaration",
        "declaration_list",
        "field_declaration",
        "field_declaration_list",
        "linkage_specification",
        "preproc_elif",
        "preproc_else",
        "preproc_if",
        "preproc_ifdef",
        "template_declaration",
    ],
    wrappers: &["template_declaration"],
    leads: &["comment"],
    skipped: &[],
    separator: "::",
    chains: &[],
};
