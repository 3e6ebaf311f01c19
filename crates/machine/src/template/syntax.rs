//! What a template or an expression says, found by walking its tree: which names it needs, what it compares, what it
//! gives, and that it keeps to the language.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use minijinja::machinery::ast::{BinOpKind, CallArg, CompareOpKind, Expr, Stmt, UnaryOpKind};
use minijinja::machinery::{Span, Token, parse, parse_expr, tokenize};
use minijinja::syntax::SyntaxConfig;
use serde_json::Value;

use super::{MAX_SOURCE, TemplateError, words};
use crate::file::check::suggest;

/// An expression of more words than this nests deeper than the stack may be asked to hold.
const MAX_TOKENS: usize = 400;
/// Each nests in the one before.
const MAX_ELIF: usize = 40;
/// Operators in one expression that put two values together.
const MAX_JOINS: usize = 32;

/// A name that is needed from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    /// The way to it: `steps.look.ok` and `steps["look"].ok` are `["steps", "look", "ok"]`.
    pub path: Vec<String>,
    /// The first byte of its place.
    pub start: usize,
    /// The byte after its place.
    pub end: usize,
    /// True if it is only asked whether it is defined, or has a default.
    pub is_optional: bool,
}

/// A name that is held against literals: `steps.look.status == "failed"`, `inputs.mode in ["fast", "deep"]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The way to the name.
    pub path: Vec<String>,
    /// The literals.
    pub literals: Vec<Value>,
    /// The first byte of the literal's place.
    pub start: usize,
    /// The byte after its place.
    pub end: usize,
}

/// What an expression gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// True or false.
    Boolean,
    /// Text.
    Text,
    /// A number.
    Number,
    /// A list.
    List,
    /// A table.
    Table,
    /// Nothing: `none`.
    Nothing,
    /// Unknown before it is evaluated.
    Any,
}

impl Kind {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Kind::Boolean => "true or false",
            Kind::Text => "text",
            Kind::Number => "a number",
            Kind::List => "a list",
            Kind::Table => "a table",
            Kind::Nothing => "nothing",
            Kind::Any => "anything",
        }
    }

    /// That of a value.
    pub fn of(value: &Value) -> Kind {
        match value {
            Value::Null => Kind::Nothing,
            Value::Bool(_) => Kind::Boolean,
            Value::Number(_) => Kind::Number,
            Value::String(_) => Kind::Text,
            Value::Array(_) => Kind::List,
            Value::Object(_) => Kind::Table,
        }
    }
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Facts {
    pub(super) uses: Vec<Use>,
    pub(super) comparisons: Vec<Comparison>,
}

impl Facts {
    pub(super) fn names(&self) -> Vec<Vec<String>> {
        let names: BTreeSet<&Vec<String>> = self.uses.iter().map(|found| &found.path).collect();
        names.into_iter().cloned().collect()
    }
}

/// How templates are written: a line that holds only `{% … %}` leaves no line behind, and the last newline stays.
pub(super) fn config() -> &'static SyntaxConfig {
    static CONFIG: OnceLock<SyntaxConfig> = OnceLock::new();
    CONFIG.get_or_init(|| {
        SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .keep_trailing_newline(true)
            .build()
            .expect("the usual delimiters are valid")
    })
}

/// Reads a template.
pub(super) fn template(text: &str) -> Result<Facts, TemplateError> {
    bounds(text, false)?;
    let tree =
        parse(text, "template", config().clone()).map_err(|error| unreadable(&error, text))?;
    let mut walk = Walk::default();
    walk.statement(&tree)?;
    Ok(walk.finish())
}

/// Reads an expression.
pub(super) fn expression(text: &str) -> Result<Facts, TemplateError> {
    if text.trim().is_empty() {
        return Err(at(0..text.len(), "the expression is empty"));
    }
    if text.contains("{{") || text.contains("{%") {
        let start = text.find("{{").or(text.find("{%")).unwrap_or(0);
        return Err(at(start..start + 2, "an expression stands alone: leave out the {{ }}"));
    }
    bounds(text, true)?;
    let tree = parse_expr(text).map_err(|error| unreadable(&error, text))?;
    let mut walk = Walk::default();
    walk.whole(&tree)?;
    Ok(walk.finish())
}

/// What an expression gives.
pub(super) fn kind(text: &str, kind_of: &dyn Fn(&[String]) -> Kind) -> Option<Kind> {
    parse_expr(text).ok().map(|tree| kind_of_expression(&tree, kind_of))
}

/// The part of a condition that can never be true or false.
pub(super) fn never_boolean(
    text: &str,
    kind_of: &dyn Fn(&[String]) -> Kind,
) -> Option<TemplateError> {
    let tree = parse_expr(text).ok()?;
    let (kind, span) = not_boolean(&tree, kind_of)?;
    let part = text.get(range(span)).unwrap_or(text);
    let message = format!(
        "a condition must give true or false, and {} gives {}",
        super::quoted(part),
        kind.words()
    );
    Some(at(range(span), message))
}

/// Refuses what the parser or the code generator would not survive: both recurse over long chains.
fn bounds(text: &str, is_expression: bool) -> Result<(), TemplateError> {
    if text.len() > MAX_SOURCE {
        let message = format!("the text has {} bytes: at most {MAX_SOURCE} are read", text.len());
        return Err(at(0..0, message));
    }
    let (mut count, mut elifs) = (0, 0);
    for token in tokenize(text, is_expression, config().clone()) {
        let (token, span) = token.map_err(|error| unreadable(&error, text))?;
        count += 1;
        match token {
            Token::TemplateData(_) | Token::VariableStart | Token::BlockStart => count = 0,
            Token::Ident("if" | "for") if count == 1 => elifs = 0,
            Token::Ident("elif") => elifs += 1,
            _ => {}
        }
        if count > MAX_TOKENS {
            let message =
                format!("the expression is too long: at most {MAX_TOKENS} words and signs");
            return Err(at(range(span), message));
        }
        if elifs > MAX_ELIF {
            return Err(at(range(span), format!("too many branches: at most {MAX_ELIF} elif")));
        }
    }
    Ok(())
}

fn at(place: std::ops::Range<usize>, message: impl Into<String>) -> TemplateError {
    TemplateError { message: message.into(), start: place.start, end: place.end }
}

fn range(span: Span) -> std::ops::Range<usize> {
    span.start_offset as usize..span.end_offset as usize
}

fn unreadable(error: &minijinja::Error, text: &str) -> TemplateError {
    let message = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    let place = error.range().unwrap_or(text.len()..text.len());
    let (start, end) = (place.start.min(text.len()), place.end.min(text.len()));
    at(start..end, format!("cannot read the template: {message}"))
}

/// The way that an expression goes through names, if that is all it does.
fn path_of(expression: &Expr<'_>) -> Option<Vec<String>> {
    match expression {
        Expr::Var(name) => Some(vec![name.id.to_owned()]),
        Expr::GetAttr(get) => {
            let mut path = path_of(&get.expr)?;
            path.push(get.name.to_owned());
            Some(path)
        }
        Expr::GetItem(get) => {
            let mut path = path_of(&get.expr)?;
            path.push(text_of(&get.subscript_expr)?);
            Some(path)
        }
        _ => None,
    }
}

fn text_of(expression: &Expr<'_>) -> Option<String> {
    match expression {
        Expr::Const(literal) => literal.value.as_str().map(str::to_owned),
        _ => None,
    }
}

/// Where a way through names begins and ends.
fn place_of(expression: &Expr<'_>) -> std::ops::Range<usize> {
    let end = expression.span().end_offset as usize;
    let mut first = expression;
    loop {
        match first {
            Expr::GetAttr(get) => first = &get.expr,
            Expr::GetItem(get) => first = &get.expr,
            _ => break first.span().start_offset as usize..end,
        }
    }
}

/// Walks a tree, with the names that the template itself gives.
#[derive(Default)]
struct Walk {
    facts: Facts,
    bound: BTreeSet<String>,
    joins: usize,
}

/// What an expression is for.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// Shown, or asked.
    Shown,
    /// A name is given to it: it must not be put together from others.
    Named,
}

impl Walk {
    fn finish(mut self) -> Facts {
        self.facts.uses.sort_by_key(|found| (found.start, found.end));
        self.facts
    }

    fn whole(&mut self, expression: &Expr<'_>) -> Result<(), TemplateError> {
        self.joins = 0;
        self.expression(expression, Role::Shown, false)
    }

    fn statements(&mut self, list: &[Stmt<'_>]) -> Result<(), TemplateError> {
        let before = self.bound.clone();
        let walked = list.iter().try_for_each(|statement| self.statement(statement));
        self.bound = before;
        walked
    }

    fn statement(&mut self, statement: &Stmt<'_>) -> Result<(), TemplateError> {
        match statement {
            Stmt::Template(all) => self.statements(&all.children),
            Stmt::EmitRaw(_) => Ok(()),
            Stmt::EmitExpr(shown) => self.whole(&shown.expr),
            Stmt::IfCond(branch) => {
                self.whole(&branch.expr)?;
                self.statements(&branch.true_body)?;
                self.statements(&branch.false_body)
            }
            Stmt::ForLoop(each) => {
                if each.recursive {
                    return Err(at(
                        range(each.span()),
                        "recursive loops are not part of this language",
                    ));
                }
                self.joins = 0;
                self.expression(&each.iter, Role::Named, false)?;
                let before = self.bound.clone();
                self.bind(&each.target)?;
                self.bound.insert("loop".to_owned());
                if let Some(filter) = &each.filter_expr {
                    self.whole(filter)?;
                }
                self.statements(&each.body)?;
                self.bound = before;
                self.statements(&each.else_body)
            }
            Stmt::Set(set) => {
                self.joins = 0;
                self.expression(&set.expr, Role::Named, false)?;
                self.bind(&set.target)
            }
            Stmt::WithBlock(with) => {
                let before = self.bound.clone();
                for (target, value) in &with.assignments {
                    self.joins = 0;
                    self.expression(value, Role::Named, false)?;
                    self.bind(target)?;
                }
                self.statements(&with.body)?;
                self.bound = before;
                Ok(())
            }
            Stmt::SetBlock(other) => Err(not_ours(other.span(), "{% set … %} with a body")),
            Stmt::AutoEscape(other) => Err(not_ours(other.span(), "{% autoescape %}")),
            Stmt::FilterBlock(other) => Err(not_ours(other.span(), "{% filter %}")),
            Stmt::Do(other) => Err(not_ours(other.span(), "{% do %}")),
        }
    }

    fn bind(&mut self, target: &Expr<'_>) -> Result<(), TemplateError> {
        match target {
            Expr::Var(name) => {
                self.bound.insert(name.id.to_owned());
                Ok(())
            }
            Expr::List(list) => list.items.iter().try_for_each(|item| self.bind(item)),
            Expr::Tuple(list) => list.items.iter().try_for_each(|item| self.bind(item)),
            other => Err(at(range(other.span()), "only a plain name can be given a value")),
        }
    }

    fn expression(
        &mut self,
        expression: &Expr<'_>,
        role: Role,
        is_optional: bool,
    ) -> Result<(), TemplateError> {
        if let Some(path) = path_of(expression) {
            if !self.bound.contains(&path[0]) {
                let place = place_of(expression);
                self.facts.uses.push(Use { path, start: place.start, end: place.end, is_optional });
            }
            return Ok(());
        }
        match expression {
            // A name alone is a way; everything else has parts.
            Expr::Var(_) | Expr::Const(_) => Ok(()),
            Expr::Slice(part) => {
                self.expression(&part.expr, role, false)?;
                let bounds = [&part.start, &part.stop, &part.step];
                bounds
                    .into_iter()
                    .flatten()
                    .try_for_each(|bound| self.expression(bound, role, false))
            }
            Expr::UnaryOp(one) => self.expression(&one.expr, role, false),
            Expr::BinOp(two) => {
                self.compare(&two.left, &two.right, comparison_of(two.op));
                if matches!(two.op, BinOpKind::Add | BinOpKind::Mul | BinOpKind::Concat) {
                    self.joined(role, two.span())?;
                }
                self.expression(&two.left, role, false)?;
                self.expression(&two.right, role, false)
            }
            Expr::Compare(chain) => {
                let mut left = &chain.expr;
                self.expression(left, role, false)?;
                for next in &chain.ops {
                    self.compare(left, &next.expr, comparison_in(next.op));
                    self.expression(&next.expr, role, false)?;
                    left = &next.expr;
                }
                Ok(())
            }
            Expr::IfExpr(either) => {
                self.expression(&either.test_expr, role, false)?;
                self.expression(&either.true_expr, role, false)?;
                match &either.false_expr {
                    Some(other) => self.expression(other, role, false),
                    None => Err(at(
                        range(either.span()),
                        "what if it does not hold? add an else: a value that is missing is an error here",
                    )),
                }
            }
            Expr::Filter(filter) => self.filter(filter, filter.span(), role),
            Expr::Test(test) => {
                if !words::TESTS.contains(&test.name) {
                    return Err(unknown("test", test.name, test.span(), &words::TESTS));
                }
                let is_optional = matches!(test.name, "defined" | "undefined");
                self.expression(&test.expr, role, is_optional)?;
                self.arguments(&test.args, role)
            }
            Expr::GetAttr(get) => self.expression(&get.expr, role, false),
            Expr::GetItem(get) => {
                self.expression(&get.expr, role, false)?;
                self.expression(&get.subscript_expr, role, false)
            }
            Expr::Call(call) => match &call.expr {
                Expr::Var(name) if words::FUNCTIONS.contains(&name.id) => {
                    self.arguments(&call.args, role)
                }
                Expr::Var(name) => {
                    Err(unknown("function", name.id, call.span(), &words::FUNCTIONS))
                }
                _ => Err(at(
                    range(call.span()),
                    "values have no methods here: write a filter, as in x|lower",
                )),
            },
            Expr::List(list) => self.parts(&list.items, list.span(), role),
            Expr::Tuple(list) => self.parts(&list.items, list.span(), role),
            Expr::Map(table) => {
                self.parts(&table.keys, table.span(), role)?;
                self.parts(&table.values, table.span(), role)
            }
        }
    }

    fn filter(
        &mut self,
        filter: &minijinja::machinery::ast::Filter<'_>,
        span: Span,
        role: Role,
    ) -> Result<(), TemplateError> {
        let joins = words::JOINERS.contains(&filter.name);
        if !joins && !words::FILTERS.contains(&filter.name) && !words::CASE.contains(&filter.name) {
            let all: Vec<&str> =
                [&words::FILTERS[..], &words::CASE[..], &words::JOINERS[..]].concat();
            return Err(unknown("filter", filter.name, span, &all));
        }
        if joins {
            self.joined(role, span)?;
        }
        let is_optional = matches!(filter.name, "default" | "d");
        if let Some(given) = &filter.expr {
            self.expression(given, role, is_optional)?;
        }
        self.arguments(&filter.args, role)
    }

    fn arguments(&mut self, list: &[CallArg<'_>], role: Role) -> Result<(), TemplateError> {
        list.iter().try_for_each(|argument| match argument {
            CallArg::Pos(value) | CallArg::Kwarg(_, value) => self.expression(value, role, false),
            CallArg::PosSplat(value) | CallArg::KwargSplat(value) => {
                Err(at(range(value.span()), "write each argument by itself"))
            }
        })
    }

    /// A list or table that is given a name may hold what came in, not what was named before: else it could double
    /// with each name.
    fn parts(&mut self, list: &[Expr<'_>], span: Span, role: Role) -> Result<(), TemplateError> {
        for item in list {
            let is_named_here = path_of(item).is_some_and(|path| self.bound.contains(&path[0]));
            let is_plain = path_of(item).is_some() || item.as_const().is_some();
            if role == Role::Named && (is_named_here || !is_plain) {
                return Err(named(span));
            }
            self.expression(item, role, false)?;
        }
        Ok(())
    }

    fn joined(&mut self, role: Role, span: Span) -> Result<(), TemplateError> {
        self.joins += 1;
        if role == Role::Named {
            return Err(named(span));
        }
        if self.joins > MAX_JOINS {
            return Err(at(
                range(span),
                format!("the expression puts too much together: at most {MAX_JOINS} times"),
            ));
        }
        Ok(())
    }

    fn compare(&mut self, left: &Expr<'_>, right: &Expr<'_>, how: Option<CompareOpKind>) {
        let Some(how) = how else { return };
        let (name, literal) = match (path_of(left), path_of(right)) {
            (Some(path), None) => (path, right),
            (None, Some(path)) if matches!(how, CompareOpKind::Eq | CompareOpKind::Ne) => {
                (path, left)
            }
            _ => return,
        };
        if self.bound.contains(&name[0]) {
            return;
        }
        let Some(value) = literal.as_const().and_then(|value| words::plain(&value).ok()) else {
            return;
        };
        let literals = match (how, value) {
            (CompareOpKind::In | CompareOpKind::NotIn, Value::Array(list)) => list,
            (CompareOpKind::In | CompareOpKind::NotIn, _) => return,
            (_, value) => vec![value],
        };
        let place = range(literal.span());
        let found = Comparison { path: name, literals, start: place.start, end: place.end };
        self.facts.comparisons.push(found);
    }
}

fn comparison_of(op: BinOpKind) -> Option<CompareOpKind> {
    match op {
        BinOpKind::Eq => Some(CompareOpKind::Eq),
        BinOpKind::Ne => Some(CompareOpKind::Ne),
        BinOpKind::In => Some(CompareOpKind::In),
        BinOpKind::Lt
        | BinOpKind::Lte
        | BinOpKind::Gt
        | BinOpKind::Gte
        | BinOpKind::ScAnd
        | BinOpKind::ScOr
        | BinOpKind::Add
        | BinOpKind::Sub
        | BinOpKind::Mul
        | BinOpKind::Div
        | BinOpKind::FloorDiv
        | BinOpKind::Rem
        | BinOpKind::Pow
        | BinOpKind::Concat => None,
    }
}

fn comparison_in(op: CompareOpKind) -> Option<CompareOpKind> {
    match op {
        CompareOpKind::Eq | CompareOpKind::Ne | CompareOpKind::In | CompareOpKind::NotIn => {
            Some(op)
        }
        CompareOpKind::Lt | CompareOpKind::Lte | CompareOpKind::Gt | CompareOpKind::Gte => None,
    }
}

fn not_ours(span: Span, what: &str) -> TemplateError {
    at(range(span), format!("{what} is not part of this language"))
}

fn named(span: Span) -> TemplateError {
    let message = "a value that is put together cannot be given a name: write it where it is used";
    at(range(span), message)
}

fn unknown(what: &str, name: &str, span: Span, known: &[&str]) -> TemplateError {
    let hint = suggest(name, known.iter().copied())
        .unwrap_or_else(|| format!("expected one of {}", known.join(", ")));
    at(range(span), format!("unknown {what} {name:?}: {hint}"))
}

/// What an expression gives, where its form tells.
fn kind_of_expression(expression: &Expr<'_>, kind_of: &dyn Fn(&[String]) -> Kind) -> Kind {
    if let Some(path) = path_of(expression) {
        return kind_of(&path);
    }
    match expression {
        Expr::Const(literal) => {
            words::plain(&literal.value).map_or(Kind::Any, |value| Kind::of(&value))
        }
        Expr::UnaryOp(one) => match one.op {
            UnaryOpKind::Not => Kind::Boolean,
            UnaryOpKind::Neg => Kind::Number,
        },
        Expr::BinOp(two) => match two.op {
            BinOpKind::Eq
            | BinOpKind::Ne
            | BinOpKind::Lt
            | BinOpKind::Lte
            | BinOpKind::Gt
            | BinOpKind::Gte
            | BinOpKind::In => Kind::Boolean,
            BinOpKind::ScAnd | BinOpKind::ScOr => {
                let left = kind_of_expression(&two.left, kind_of);
                let right = kind_of_expression(&two.right, kind_of);
                if left == right { left } else { Kind::Any }
            }
            BinOpKind::Add | BinOpKind::Mul => Kind::Any,
            BinOpKind::Sub
            | BinOpKind::Div
            | BinOpKind::FloorDiv
            | BinOpKind::Rem
            | BinOpKind::Pow => Kind::Number,
            BinOpKind::Concat => Kind::Text,
        },
        Expr::Compare(_) | Expr::Test(_) => Kind::Boolean,
        Expr::IfExpr(either) => {
            let yes = kind_of_expression(&either.true_expr, kind_of);
            let no = either.false_expr.as_ref().map(|no| kind_of_expression(no, kind_of));
            if Some(yes) == no { yes } else { Kind::Any }
        }
        Expr::Filter(filter) => match filter.name {
            "bool" => Kind::Boolean,
            "count" | "length" | "int" | "float" | "abs" | "round" => Kind::Number,
            "capitalize" | "indent" | "join" | "lower" | "replace" | "string" | "title"
            | "quote" | "tojson" | "trim" | "upper" => Kind::Text,
            "dictsort" | "items" | "lines" | "list" | "map" | "reject" | "rejectattr"
            | "select" | "selectattr" | "sort" | "split" | "unique" => Kind::List,
            _ => Kind::Any,
        },
        Expr::List(_) | Expr::Tuple(_) => Kind::List,
        Expr::Map(_) => Kind::Table,
        Expr::Call(call) => match &call.expr {
            Expr::Var(name) if name.id == "range" => Kind::List,
            _ => Kind::Any,
        },
        Expr::Var(_) | Expr::Slice(_) | Expr::GetAttr(_) | Expr::GetItem(_) => Kind::Any,
    }
}

/// The first part that decides the condition and is surely neither true nor false. `and` and `or` give one of their
/// sides, so both of them count.
fn not_boolean(expression: &Expr<'_>, kind_of: &dyn Fn(&[String]) -> Kind) -> Option<(Kind, Span)> {
    match expression {
        Expr::BinOp(two) if matches!(two.op, BinOpKind::ScAnd | BinOpKind::ScOr) => {
            not_boolean(&two.left, kind_of).or_else(|| not_boolean(&two.right, kind_of))
        }
        Expr::IfExpr(either) => not_boolean(&either.true_expr, kind_of)
            .or_else(|| either.false_expr.as_ref().and_then(|no| not_boolean(no, kind_of))),
        other => match kind_of_expression(other, kind_of) {
            Kind::Boolean | Kind::Any => None,
            kind => {
                let mut span = other.span();
                span.start_offset = place_of(other).start as u32;
                Some((kind, span))
            }
        },
    }
}
