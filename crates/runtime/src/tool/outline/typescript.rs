//! TypeScript and JavaScript. JavaScript is read by the grammar that knows JSX: it is the same language there.

use super::{Language, Only, Role, Rule, holder, leaf};

const fn language(
    name: &'static str,
    extensions: &'static [&'static str],
    grammar: fn() -> tree_sitter::Language,
) -> Language {
    Language {
        name,
        extensions,
        grammar,
        items: ITEMS,
        through: &[
            "ambient_declaration",
            "assignment_expression",
            "class",
            "class_body",
            "export_statement",
            "expression_statement",
            "interface_body",
            "lexical_declaration",
            "object",
            "statement_block",
            "variable_declaration",
        ],
        wrappers: &[
            "ambient_declaration",
            "assignment_expression",
            "export_statement",
            "expression_statement",
            "lexical_declaration",
            "variable_declaration",
        ],
        leads: &["comment", "decorator"],
        skipped: &["decorator"],
        separator: ".",
        chains: &[],
    }
}

pub(super) const LANGUAGE: Language = language("TypeScript", &["ts", "mts", "cts"], || {
    tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into()
});

pub(super) const TSX: Language =
    language("JavaScript", &["js", "jsx", "mjs", "cjs", "tsx"], || {
        tree_sitter_typescript::LANGUAGE_TSX.into()
    });

const ITEMS: &[Rule] = &[
    leaf("function_declaration", "name", &["body"]),
    leaf("generator_function_declaration", "name", &["body"]),
    leaf("function_signature", "name", &[]),
    leaf("method_definition", "name", &["body"]),
    leaf("abstract_method_signature", "name", &[]),
    leaf("method_signature", "name", &[]),
    holder("interface_declaration", "name", &["body"]),
    leaf("enum_declaration", "name", &["body"]),
    leaf("type_alias_declaration", "name", &["value"]),
    holder("class_declaration", "name", &["body"]),
    holder("abstract_class_declaration", "name", &["body"]),
    holder("internal_module", "name", &["body"]),
    holder("module", "name", &["body"]),
    Rule {
        kind: "property_signature",
        name: "name",
        cut: &[],
        role: Role::Leaf,
        only: Only::With(&["function_type"]),
    },
    Rule {
        kind: "assignment_expression",
        name: "left",
        cut: &["object", "array", "template_string", "call_expression"],
        role: Role::Container,
        only: Only::Assigned,
    },
    Rule { kind: "pair", name: "key", cut: &["body"], role: Role::Leaf, only: Only::Definitions },
    Rule {
        kind: "public_field_definition",
        name: "name",
        cut: &["body"],
        role: Role::Leaf,
        only: Only::Definitions,
    },
    Rule {
        kind: "variable_declarator",
        name: "name",
        cut: &["body", "object", "array", "template_string", "call_expression"],
        role: Role::Leaf,
        only: Only::Definitions,
    },
];
