//! Python.

use super::{Language, Only, Role, Rule, holder, leaf};

pub(super) const LANGUAGE: Language = Language {
    name: "Python",
    extensions: &["py", "pyi"],
    grammar: || tree_sitter_python::LANGUAGE.into(),
    items: &[
        leaf("function_definition", "name", &["body"]),
        leaf("type_alias_statement", "left", &["right"]),
        holder("class_definition", "name", &["body"]),
        Rule {
            kind: "assignment",
            name: "left",
            cut: &["right"],
            role: Role::Leaf,
            only: Only::Constants,
        },
    ],
    through: &[
        "block",
        "decorated_definition",
        "elif_clause",
        "else_clause",
        "except_clause",
        "except_group_clause",
        "expression_statement",
        "finally_clause",
        "for_statement",
        "if_statement",
        "try_statement",
        "while_statement",
        "with_statement",
    ],
    wrappers: &["decorated_definition"],
    leads: &["comment", "decorator"],
    skipped: &["decorator"],
    separator: ".",
    chains: &[],
};
