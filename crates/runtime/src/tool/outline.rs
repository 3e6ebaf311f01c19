//! The items of a source file: functions, types, modules, each with its place and its signature. `skeleton` and
//! `view` share it.
//!
//! A tree is walked with a cursor, never by recursion, and every amount is bounded: a file may be hostile. One that
//! does not parse gives what the tree's whole parts hold.

mod cpp;
mod go;
mod java;
mod parse;
mod python;
mod rust;
mod typescript;

use std::ops::Range;

use tree_sitter::{Node, Tree};

/// The largest file that is parsed; what is larger was written by a program.
pub(super) const SOURCE_LIMIT: u64 = 1024 * 1024;
/// The most items of one file.
const ITEMS: usize = 20_000;
/// The deepest nesting of items.
const DEPTH: usize = 32;
/// The deepest node that is looked at: an assignment can be the value of another as often as one likes.
const TREE_DEPTH: u32 = 1000;
/// How much of a signature is shown, in characters.
const SIGNATURE: usize = 240;
/// How much of the text of one is looked at, in bytes.
const SIGNATURE_TEXT: usize = 4000;

/// Expressions of JavaScript that are functions.
const FUNCTIONS: &[&str] = &["arrow_function", "function_expression", "generator_function"];
/// What an object of JavaScript holds them as, or in.
const METHODS: &[&str] =
    &["method_definition", "arrow_function", "function_expression", "generator_function"];

/// What one language looks like. All that differs between languages is in these tables.
pub(super) struct Language {
    /// For a person.
    pub(super) name: &'static str,
    /// The endings of its files' names.
    pub(super) extensions: &'static [&'static str],
    grammar: fn() -> tree_sitter::Language,
    items: &'static [Rule],
    /// Kinds of nodes that are no items and may hold some.
    through: &'static [&'static str],
    /// Those of `through` that belong to the one item they hold, such as `export`.
    wrappers: &'static [&'static str],
    /// Kinds of nodes that stand before an item and belong to it.
    leads: &'static [&'static str],
    /// Kinds of nodes at the beginning of an item that its signature leaves out.
    skipped: &'static [&'static str],
    /// Between the parts of a qualified name.
    pub(super) separator: &'static str,
    /// Bytes that leave something open until the statement ends, for a grammar that pays dearly for it.
    chains: &'static [u8],
}

/// One kind of item.
struct Rule {
    /// The node's kind.
    kind: &'static str,
    /// The field that holds the name.
    name: &'static str,
    /// Fields or kinds of nodes at which the signature ends.
    cut: &'static [&'static str],
    /// What it holds.
    role: Role,
    /// Which nodes of the kind count.
    only: Only,
}

/// What an item is to the items inside it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// What is inside is no item.
    Leaf,
    /// It holds items that belong to its name.
    Container,
    /// The same, but it only adds to what is defined elsewhere, so that `view` of the name does not show it.
    Addition,
}

/// Which nodes of a kind are items.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Only {
    All,
    /// Those that hold a node of one of these kinds, at most three levels down.
    With(&'static [&'static str]),
    /// Constants of Python: capital letters, or a declared type.
    Constants,
    /// Variables that hold a function or a class, or that are exported.
    Definitions,
    /// Assignments of JavaScript that define something: a function, a class or an object with functions, or anything that
    /// is exported under a name it does not have yet.
    Assigned,
}

const fn leaf(kind: &'static str, name: &'static str, cut: &'static [&'static str]) -> Rule {
    Rule { kind, name, cut, role: Role::Leaf, only: Only::All }
}

const fn holder(kind: &'static str, name: &'static str, cut: &'static [&'static str]) -> Rule {
    Rule { kind, name, cut, role: Role::Container, only: Only::All }
}

/// Every language, in the order of their names.
pub(super) const LANGUAGES: [&Language; 7] = [
    &cpp::LANGUAGE,
    &go::LANGUAGE,
    &java::LANGUAGE,
    &python::LANGUAGE,
    &rust::LANGUAGE,
    &typescript::TSX,
    &typescript::LANGUAGE,
];

/// The language of a file, by its name.
pub(super) fn language_of(path: &str) -> Option<&'static Language> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let (stem, extension) = name.rsplit_once('.')?;
    let extension = extension.to_ascii_lowercase();
    let known = |language: &&&Language| language.extensions.contains(&extension.as_str());
    LANGUAGES.iter().find(known).filter(|_| !stem.is_empty()).copied()
}

/// The endings that are known, for a person.
pub(super) fn known_languages() -> String {
    let named =
        |language: &&Language| format!("{} (.{})", language.name, language.extensions.join(", ."));
    LANGUAGES.iter().map(named).collect::<Vec<_>>().join(", ")
}

/// One item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    /// Its qualified name, outermost part first.
    pub(super) path: Vec<String>,
    /// How many items it is inside of.
    pub(super) depth: usize,
    /// The line its signature begins on, from 1.
    pub(super) line: usize,
    /// The source with what stands before it (comments, attributes), in bytes.
    pub(super) source: Range<usize>,
    /// The same in lines, from 1.
    pub(super) lines: (usize, usize),
    /// One line, without the body.
    pub(super) signature: String,
    /// Whether this is where the name is defined.
    pub(super) defines: bool,
}

impl Item {
    /// Its qualified name as people of the language write it.
    pub(super) fn name(&self, language: &Language) -> String {
        self.path.join(language.separator)
    }
}

/// Why a file has no outline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfinished {
    /// Somebody said stop, or the call's time is over.
    Stopped,
    /// It needs more time or memory than any honest source.
    TooHard,
}

/// The items of a text, in its order. `stop` is asked again and again.
pub(super) fn items(
    language: &Language,
    text: &[u8],
    stop: &dyn Fn() -> bool,
) -> Result<Vec<Item>, Unfinished> {
    let tree = parse::tree(language, text, stop)?;
    let mut walk = Walk { language, text, found: Vec::new(), open: Vec::new() };
    walk.run(&tree, stop).ok_or(Unfinished::Stopped)?;
    Ok(walk.found)
}

struct Walk<'a> {
    language: &'a Language,
    text: &'a [u8],
    found: Vec<Item>,
    /// The items that the cursor is inside of: where each ends, and its name.
    open: Vec<(usize, String)>,
}

impl Walk<'_> {
    fn run(&mut self, tree: &Tree, stop: &dyn Fn() -> bool) -> Option<()> {
        let mut cursor = tree.walk();
        // Where the wrapper around the cursor begins, and how deep it is.
        let mut wrapper: Option<(Node<'_>, u32)> = None;
        let mut lead: Option<Lead<'_>> = None;
        let mut seen = 0u32;
        loop {
            seen = seen.wrapping_add(1);
            if self.found.len() >= ITEMS || (seen.is_multiple_of(4096) && stop()) {
                return (self.found.len() >= ITEMS).then_some(());
            }
            let node = cursor.node();
            let depth = cursor.depth();
            if wrapper.is_some_and(|(_, at)| depth <= at) {
                wrapper = None;
            }
            let kind = node.kind();
            let mut enter = depth == 0 || node.is_error();
            if self.language.leads.contains(&kind) && self.begins_line(&node) {
                let first =
                    lead.filter(|lead| self.touches(&lead.last, &node)).map(|lead| lead.first);
                lead = Some(Lead { first: first.unwrap_or(node), last: node });
            } else if let Some(rule) = self.rule(&node, wrapper.map(|(around, _)| around)) {
                let whole = wrapper.map_or(node, |(around, _)| around);
                enter = self.add(rule, node, whole, lead.take());
                if enter {
                    // What is inside stands for itself.
                    wrapper = None;
                }
            } else if self.language.through.contains(&kind) {
                enter = true;
                if !self.language.wrappers.contains(&kind) {
                    lead = None;
                } else if wrapper.is_none() && self.wraps_one(&node) {
                    wrapper = Some((node, depth));
                }
            } else if node.is_named() {
                lead = None;
            }
            if enter && depth < TREE_DEPTH && cursor.goto_first_child() {
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return Some(());
                }
            }
        }
    }

    /// Whether nothing is between the lines of two nodes.
    fn touches(&self, above: &Node<'_>, below: &Node<'_>) -> bool {
        below.start_position().row <= end_row(above, self.text) + 1
    }

    /// Whether nothing but space stands before a node: a comment behind code belongs to that code.
    fn begins_line(&self, node: &Node<'_>) -> bool {
        let at = self.line_start(node);
        at == 0 || self.text.get(at - 1) == Some(&b'\n')
    }

    /// Where a node begins together with the space before it.
    fn line_start(&self, node: &Node<'_>) -> usize {
        let before = self.text.get(..node.start_byte()).unwrap_or_default();
        let blank = before.iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        before.len() - blank
    }

    /// Whether everything in a wrapper is one item: a group of constants is not.
    fn wraps_one(&self, node: &Node<'_>) -> bool {
        let mut cursor = node.walk();
        let mut count = 0;
        for child in node.named_children(&mut cursor) {
            let kind = child.kind();
            let item = self.language.items.iter().any(|rule| rule.kind == kind);
            if item || self.language.wrappers.contains(&kind) {
                count += 1;
            } else if self.language.through.contains(&kind) {
                return false;
            }
            if count > 1 {
                return false;
            }
        }
        count == 1
    }

    fn rule(&self, node: &Node<'_>, wrapper: Option<Node<'_>>) -> Option<&'static Rule> {
        let rule = self.language.items.iter().find(|rule| rule.kind == node.kind())?;
        let counts = match rule.only {
            Only::All => true,
            Only::With(kinds) => part(*node, kinds, 3).is_some(),
            Only::Constants => {
                let shouted = |name: &str| {
                    name.contains(|c: char| c.is_ascii_uppercase())
                        && !name.contains(|c: char| c.is_lowercase())
                };
                let name = node.child_by_field_name(rule.name)?;
                name.kind() == "identifier"
                    && (node.child_by_field_name("type").is_some() || shouted(&self.word(&name)))
            }
            Only::Definitions => {
                let value = node.child_by_field_name("value").map_or("", |value| value.kind());
                wrapper.is_some_and(|around| around.kind() == "export_statement")
                    || FUNCTIONS.contains(&value)
                    || value == "class"
            }
            Only::Assigned => self.is_assigned(node)?,
        };
        counts.then_some(rule)
    }

    /// Whether an assignment defines what stands on its left; none if that is no name.
    fn is_assigned(&self, node: &Node<'_>) -> Option<bool> {
        let (left, value) = (node.child_by_field_name("left")?, node.child_by_field_name("right")?);
        let name = self.word(&left);
        let in_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '$' | '#');
        if !name.chars().all(in_name) {
            return None;
        }
        let is_exported = name == "module.exports"
            || ["exports.", "module.exports."].iter().any(|start| name.starts_with(start));
        Some(match value.kind() {
            "class" => true,
            kind if FUNCTIONS.contains(&kind) => true,
            // The same thing under another name, or one that gets its value later.
            "identifier" | "assignment_expression" | "unary_expression" => false,
            "object" => is_exported || part(value, METHODS, 2).is_some(),
            _ => is_exported,
        })
    }

    /// Notes an item; true if the cursor should look inside it.
    fn add(
        &mut self,
        rule: &Rule,
        node: Node<'_>,
        whole: Node<'_>,
        lead: Option<Lead<'_>>,
    ) -> bool {
        self.open.retain(|(end, _)| *end > node.start_byte());
        let own = self.name(rule, &node);
        if own.is_empty() {
            return rule.role != Role::Leaf;
        }
        let begins = after_skipped(whole, self.language.skipped);
        let lead = lead.filter(|lead| {
            lead.first.start_byte() < whole.start_byte() && self.touches(&lead.last, &whole)
        });
        let first = lead.map_or(whole, |lead| lead.first);
        let names = self.open.iter().map(|(_, name)| name.as_str()).chain([own.as_str()]);
        let parts = names.flat_map(|name| name.split("::")).map(str::trim);
        let path = parts.filter(|part| !part.is_empty()).map(str::to_owned).collect();
        self.found.push(Item {
            path,
            depth: self.open.len(),
            line: begins.start_position().row + 1,
            source: self.line_start(&first)..whole.end_byte(),
            lines: (first.start_position().row + 1, end_row(&whole, self.text) + 1),
            signature: self.signature(rule, node, begins.start_byte()),
            defines: rule.role != Role::Addition,
        });
        let enter = rule.role != Role::Leaf && self.open.len() < DEPTH;
        if enter {
            self.open.push((node.end_byte(), own));
        }
        enter
    }

    fn name(&self, rule: &Rule, node: &Node<'_>) -> String {
        let Some(mut name) = node.child_by_field_name(rule.name) else { return String::new() };
        // In C the name is inside what says how it is used: `*f(int)`.
        for _ in 0..16 {
            let inside = name.child_by_field_name("declarator").or_else(|| {
                let wrapped =
                    matches!(name.kind(), "reference_declarator" | "parenthesized_declarator");
                wrapped.then(|| name.named_child(0)).flatten()
            });
            let Some(inside) = inside else { break };
            name = inside;
        }
        let own = self.word(&name);
        let own = bare(&own);
        if node.kind() == "assignment_expression" {
            // What is given to a prototype belongs to the type.
            let parts = own.split('.').filter(|part| *part != "prototype");
            return parts.collect::<Vec<_>>().join("::");
        }
        // A method of Go names its type itself.
        match node.child_by_field_name("receiver").map(|receiver| self.word(&receiver)) {
            None => own,
            Some(receiver) => {
                let word = |c: char| c.is_alphanumeric() || c == '_';
                let bare = receiver.split('[').next().unwrap_or_default();
                let of = bare.trim_end_matches(|c| !word(c)).rsplit(|c| !word(c)).next();
                format!("{}::{own}", of.unwrap_or_default())
            }
        }
    }

    fn signature(&self, rule: &Rule, node: Node<'_>, from: usize) -> String {
        let body = match rule.only {
            // What stands on the left has fields of the same names.
            Only::Assigned => node.child_by_field_name("right").and_then(|value| {
                let is_cut = rule.cut.contains(&value.kind());
                value.child_by_field_name("body").or(is_cut.then_some(value))
            }),
            Only::All | Only::With(_) | Only::Constants | Only::Definitions => {
                part(node, rule.cut, 3)
            }
        };
        let to = body.map_or(node.end_byte(), |body| body.start_byte());
        let mut text = self.line(from..to);
        if let Some(body) = body
            && node.kind() == "type_definition"
        {
            // `typedef struct {...} name;` has its name behind the body.
            text = format!("{text} {{}} {}", self.line(body.end_byte()..node.end_byte()));
        }
        let ends = |c: char| c.is_whitespace() || matches!(c, '{' | ';' | '=' | ':' | ',');
        // As it would be written in one line.
        let text = text.replace("( ", "(").replace(", )", ")").replace(" )", ")");
        let text = text.trim_end_matches(ends);
        match text.char_indices().nth(SIGNATURE) {
            None => text.to_owned(),
            Some((at, _)) => format!("{}…", &text[..at]),
        }
    }

    /// A stretch of the text in one line.
    fn line(&self, range: Range<usize>) -> String {
        let end = range.end.min(range.start.saturating_add(SIGNATURE_TEXT)).min(self.text.len());
        let bytes = self.text.get(range.start..end).unwrap_or_default();
        let text = String::from_utf8_lossy(bytes);
        let words: Vec<&str> = text.split_whitespace().collect();
        let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
        words.join(" ").chars().map(clean).collect()
    }

    fn word(&self, node: &Node<'_>) -> String {
        self.line(node.start_byte()..node.end_byte().min(node.start_byte() + 400))
    }
}

/// What stands above an item and belongs to it, from the first to the last.
#[derive(Clone, Copy)]
struct Lead<'t> {
    first: Node<'t>,
    last: Node<'t>,
}

/// The last row of a node; one that ends with its line's end does not reach into the next.
fn end_row(node: &Node<'_>, text: &[u8]) -> usize {
    let end = node.end_position();
    let newline =
        node.end_byte() > node.start_byte() && text.get(node.end_byte() - 1) == Some(&b'\n');
    if newline { end.row.saturating_sub(1) } else { end.row }
}

/// The first part of a node whose field or kind is one of these; the nearest level counts first.
fn part<'t>(node: Node<'t>, wanted: &[&str], levels: u32) -> Option<Node<'t>> {
    if wanted.is_empty() {
        return None;
    }
    (1..=levels).find_map(|level| part_at(node, wanted, level))
}

fn part_at<'t>(node: Node<'t>, wanted: &[&str], level: u32) -> Option<Node<'t>> {
    let mut cursor = node.walk();
    if !cursor.goto_first_child() {
        return None;
    }
    // A hostile file can give a node any number of children.
    for _ in 0..1000 {
        if cursor.depth() == level {
            let named = cursor.field_name().is_some_and(|field| wanted.contains(&field));
            if named || wanted.contains(&cursor.node().kind()) {
                return Some(cursor.node());
            }
        } else if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() || cursor.depth() == 0 {
                return None;
            }
        }
    }
    None
}

/// The first part of a node that its signature shows.
fn after_skipped<'t>(node: Node<'t>, skipped: &[&str]) -> Node<'t> {
    let mut cursor = node.walk();
    let mut found = node;
    if skipped.is_empty() || !cursor.goto_first_child() {
        return node;
    }
    for _ in 0..1000 {
        let here = cursor.node();
        if here.kind() == "modifiers" && cursor.goto_first_child() {
            continue;
        }
        if !skipped.contains(&here.kind()) {
            return found;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() || cursor.depth() == 0 {
                return found;
            }
        }
        found = cursor.node();
    }
    found
}

/// A name without what it is generic over, which is no part of it: `Vec<T>::size` is `Vec::size`. Nothing in the name of an
/// operator is that.
fn bare(name: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_operator = |at: &usize| {
        (*at == 0 || name[..*at].ends_with("::"))
            && !name[*at + "operator".len()..].starts_with(is_word)
    };
    let found = name.match_indices("operator").map(|(at, _)| at).find(is_operator);
    let (mut rest, operator) = name.split_at(found.unwrap_or(name.len()));
    let mut bare = String::new();
    while let Some((before, generic)) = rest.split_once('<') {
        bare.push_str(before);
        let mut depth = 1_u32;
        let end = generic.char_indices().find(|(at, c)| {
            match c {
                '<' => depth += 1,
                '>' if !generic[..*at].ends_with('-') => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        // Only a member of it goes on behind it.
        rest = end.map_or("", |(at, _)| &generic[at + 1..]);
        rest = if rest.starts_with("::") { rest } else { "" };
    }
    bare.push_str(rest);
    bare.push_str(operator);
    bare.trim_matches(['&', ' ']).to_owned()
}
