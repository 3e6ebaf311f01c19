//! What the language can say, what it refuses, and that neither a text nor its values can make it run away.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn values() -> Value {
    json!({
        "goal": "fix it",
        "inputs": {"deep": true, "files": ["a.rs", "b.rs"], "count": 3, "rate": 1.0, "big": u64::MAX, "low": i64::MIN},
        "steps": {"look": {"ok": true, "status": "completed", "text": "one\ntwo", "value": {"n": 1}}, "red-test": {"ok": false}},
    })
}

fn value(text: &str) -> Result<Value, String> {
    Expression::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).value(&values())
}

fn render(text: &str) -> Result<String, String> {
    Template::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).render(&values())
}

fn refused(text: &str) -> TemplateError {
    Template::parse(text).expect_err(text)
}

fn path(text: &str) -> Vec<String> {
    text.split('.').map(str::to_owned).collect()
}

#[test]
fn expressions_give_values_as_they_are() {
    for (text, expected) in [
        ("inputs.deep and steps.look.ok", json!(true)),
        ("steps['red-test'].ok or not inputs.deep", json!(false)),
        ("inputs.files", json!(["a.rs", "b.rs"])),
        ("inputs.files|length > 1", json!(true)),
        ("inputs.rate", json!(1.0)),
        ("inputs.big", json!(u64::MAX)),
        ("inputs.low", json!(i64::MIN)),
        ("inputs.count + 1", json!(4)),
        ("inputs.count * 1.5", json!(4.5)),
        ("'b.rs' in inputs.files", json!(true)),
        ("steps.look.value", json!({"n": 1})),
        ("steps.look.text|lines|last", json!("two")),
        ("inputs.other|default('x')", json!("x")),
        ("inputs.other is defined", json!(false)),
        ("'yes' if inputs.deep else 'no'", json!("yes")),
        ("[1, {'a': inputs.count}]", json!([1, {"a": 3}])),
        ("none", json!(null)),
        ("range(3)", json!([0, 1, 2])),
        ("inputs.files[1:]", json!(["b.rs"])),
    ] {
        assert_eq!(value(text), Ok(expected), "{text}");
    }
}

#[test]
fn a_condition_gives_true_or_false_and_nothing_else_counts() {
    let holds = |text: &str| Expression::parse(text).unwrap().holds(&values());
    assert_eq!(holds("steps.look.status == 'completed'"), Ok(true));
    for text in [
        "steps.look.text",
        "inputs.count",
        "none",
        "inputs.files",
        "steps.look.text and true and 1",
    ] {
        let error = holds(text).unwrap_err();
        assert!(error.contains("must give true or false"), "{text}: {error}");
    }
}

#[test]
fn what_has_no_value_is_an_error_wherever_it_is_used() {
    for text in [
        "inputs.other",
        "inputs.other == 1",
        "1 == inputs.other",
        "inputs.other in [1]",
        "1 in inputs.other",
        "inputs.other < 1",
        "inputs.other.more == 1",
        "not inputs.other",
        "inputs.other and true",
        "inputs.other or true",
        "[inputs.other]",
        "{'a': inputs.other}",
        "inputs.files[7]",
        "inputs.other|length",
        "inputs.other|upper",
        "inputs.other|string",
        "inputs.other|tojson",
        "[inputs.other]|join",
        "inputs.other ~ 'x'",
        "nobody",
        "'x' if inputs.other else 'y'",
        "steps.nobody.ok",
    ] {
        assert!(value(text).is_err(), "{text}: {:?}", value(text));
    }
    for text in [
        "{{ inputs.other }}",
        "{% if inputs.other %}x{% endif %}",
        "{% for x in inputs.other %}{% endfor %}",
    ] {
        let error = render(text).unwrap_err();
        assert!(error.contains("inputs.other"), "{text}: {error}");
    }
}

#[test]
fn templates_give_text() {
    assert_eq!(render("Plain {text} stays\n").unwrap(), "Plain {text} stays\n");
    assert_eq!(render("Goal: {{ goal }}\n").unwrap(), "Goal: fix it\n");
    assert_eq!(
        render("{% for file in inputs.files %}\n  {% if loop.first %}\nFirst: {{ file }}\n  {% else %}\n- {{ file }}\n  {% endif %}\n{% endfor %}\nend\n").unwrap(),
        "First: a.rs\n- b.rs\nend\n"
    );
    assert_eq!(render("{% set n = inputs.count %}{{ n }} {{ inputs.rate }}").unwrap(), "3 1.0");
    assert_eq!(
        render("{{ steps.look.value|tojson }}|{{ inputs.files|join('+') }}").unwrap(),
        "{\"n\":1}|a.rs+b.rs"
    );
    assert_eq!(render("{{ steps.look.text|indent(2) }}").unwrap(), "one\n  two");
    assert_eq!(render("{{ steps.look.text|indent(2, first=true) }}").unwrap(), "  one\n  two");
    assert_eq!(render("{{ goal|replace('fix', 'mend') }}").unwrap(), "mend it");
    assert_eq!(render("{{ \"it's $(x) `y` \"|quote }}").unwrap(), r"'it'\''s $(x) `y` '");
    assert_eq!(render("{{ ''|quote }} {{ inputs.count|quote }}").unwrap(), "'' '3'");
    assert_eq!(render("<b>{{ '<&>' }}</b>").unwrap(), "<b><&></b>", "text is not escaped");
    assert_eq!(render("{{ '{{' }}{% raw %}{{ x }}{% endraw %}").unwrap(), "{{{{ x }}");
}

#[test]
fn the_names_that_are_needed_are_told_with_their_places() {
    let text = "{% set a = inputs.x %}{% for f in steps.look.value %}{{ f.name }}{{ loop.index }}{{ a }}{% endfor %}{{ f }} {{ steps['red-test'].ok }} {{ inputs[goal] }} {{ inputs.y is defined }} {{ inputs.z|d(1) }}";
    let template = Template::parse(text).unwrap();
    let named: Vec<String> = template.names().iter().map(|path| path.join(".")).collect();
    assert_eq!(
        named,
        [
            "f",
            "goal",
            "inputs",
            "inputs.x",
            "inputs.y",
            "inputs.z",
            "steps.look.value",
            "steps.red-test.ok"
        ]
    );
    let shown: Vec<(&str, bool)> = template
        .uses()
        .iter()
        .map(|found| (&text[found.start..found.end], found.is_optional))
        .collect();
    assert_eq!(
        shown,
        [
            ("inputs.x", false),
            ("steps.look.value", false),
            ("f", false),
            ("steps['red-test'].ok", false),
            ("inputs", false),
            ("goal", false),
            ("inputs.y", true),
            ("inputs.z", true),
        ]
    );
    assert!(Expression::parse("loop.index > 1").unwrap().names().contains(&path("loop.index")));
    assert!(Template::parse("plain").unwrap().names().is_empty());
}

#[test]
fn literals_that_a_name_is_held_against_are_told() {
    let text = "steps.look.status == 'faild' and inputs.mode in ['fast', 'slow'] and 3 != inputs.count and goal == inputs.x and goal < 3";
    let expression = Expression::parse(text).unwrap();
    let found: Vec<(String, Vec<Value>, &str)> = expression
        .comparisons()
        .iter()
        .map(|found| (found.path.join("."), found.literals.clone(), &text[found.start..found.end]))
        .collect();
    assert_eq!(
        found,
        [
            ("steps.look.status".to_owned(), vec![json!("faild")], "'faild'"),
            ("inputs.mode".to_owned(), vec![json!("fast"), json!("slow")], "['fast', 'slow']"),
            ("inputs.count".to_owned(), vec![json!(3)], "3"),
        ]
    );
}

#[test]
fn a_condition_that_can_never_be_one_is_recognised() {
    let kinds = |path: &[String]| match path.last().map(String::as_str) {
        Some("ok") => Kind::Boolean,
        Some("text") => Kind::Text,
        Some("count") => Kind::Number,
        _ => Kind::Any,
    };
    for (text, part) in [
        ("'yes'", "'yes'"),
        ("3", "3"),
        ("none", "none"),
        ("[true]", "[true]"),
        ("{}", "{}"),
        ("goal ~ 'x'", "goal ~ 'x'"),
        ("goal|length", "length"),
        ("steps.a.text", "steps.a.text"),
        ("steps.a.ok and steps.a.text", "steps.a.text"),
        ("steps.a.ok or 'no'", "'no'"),
        ("true if steps.a.ok else 1", "1"),
        ("inputs.count - 1", "inputs.count - 1"),
    ] {
        let error = Expression::parse(text).unwrap().never_boolean(&kinds).expect(text);
        assert!(error.message.contains("must give true or false"), "{error}");
        assert!(
            text[error.start..error.end].ends_with(part.trim_start()),
            "{text}: {}",
            &text[error.start..error.end]
        );
    }
    for text in [
        "true",
        "steps.a.ok",
        "not steps.a.text",
        "goal",
        "1 < 2",
        "x is defined",
        "steps.a.ok and goal",
        "goal|bool",
        "steps.a.text == 'x'",
        "'a' in goal",
        "1 < 2 < 3",
    ] {
        let error = Expression::parse(text).unwrap().never_boolean(&kinds);
        assert_eq!(error, None, "{text}");
    }
    assert_eq!(Expression::parse("inputs.files").unwrap().kind(&|_| Kind::List), Kind::List);
    assert_eq!(Expression::parse("goal ~ 1").unwrap().kind(&kinds), Kind::Text);
}

#[test]
fn mistakes_are_told_with_their_place() {
    for (text, part, said) in [
        ("a {{ b|uper }}", "uper", "did you mean \"upper\""),
        ("a {{ b is defind }}", "b is defind", "did you mean \"defined\""),
        ("a {{ now() }}", "now()", "unknown function"),
        ("{{ goal.upper() }}", ".upper()", "no methods"),
        ("{{ 'x' if goal }}", "'x' if goal", "add an else"),
        ("{% include 'x' %}", "include", "include"),
        ("{% import 'x' as y %}", "import", "import"),
        ("{% extends 'x' %}", "extends", "extends"),
        ("{% macro x() %}{% endmacro %}", "macro", "macro"),
        ("{% block x %}{% endblock %}", "block", "block"),
        ("{% set x %}y{% endset %}", "set x %}y{% endset", "not part of this language"),
        (
            "{% filter upper %}y{% endfilter %}",
            "filter upper %}y{% endfilter",
            "not part of this language",
        ),
        (
            "{% autoescape true %}{% endautoescape %}",
            "autoescape true %}{% endautoescape",
            "not part",
        ),
        ("{% do range(3) %}", "do range(3)", "not part of this language"),
        (
            "{% for x in goal recursive %}{% endfor %}",
            "for x in goal recursive %}{% endfor",
            "recursive",
        ),
        ("{% set x = goal ~ goal %}", "goal ~ goal", "cannot be given a name"),
        ("{% set x = [goal] %}{% set x = [x, x] %}", "[x, x]", "cannot be given a name"),
        (
            "{% with x = goal|replace('a', goal) %}{% endwith %}",
            "replace('a', goal)",
            "cannot be given a name",
        ),
        ("{% for x in [goal ~ goal] %}{% endfor %}", "[goal ~ goal]", "cannot be given a name"),
        ("{{ range(*goal) }}", "goal", "each argument"),
        ("{{ debug() }}", "debug()", "unknown function"),
        ("{{ namespace() }}", "namespace()", "unknown function"),
        ("{{ x", "x", "expected end of variable block"),
    ] {
        let error = refused(text);
        assert!(error.message.contains(said), "{text}: {error}");
        let found = &text[error.start..error.end];
        assert!(part.contains(found) || found.contains(part), "{text}: {found}: {error}");
        assert!(!found.is_empty(), "{text}: {error}");
    }
    for (text, said) in [
        ("", "empty"),
        ("  ", "empty"),
        ("{{ goal }}", "stands alone"),
        ("goal goal", "unexpected"),
        ("a ==", "unexpected end"),
    ] {
        let error = Expression::parse(text).expect_err(text);
        assert!(error.message.contains(said), "{text}: {error}");
        assert!(error.end <= text.len());
    }
}

#[test]
fn nothing_runs_away() {
    let chain = |start: &str, part: &str, count: usize| format!("{start}{}", part.repeat(count));
    for text in [
        chain("goal", "~goal", 300_000),
        chain("goal", ".a", 300_000),
        chain("goal", "|upper", 100_000),
        chain("goal", " and goal", 100_000),
        chain("", "not ", 100_000) + "goal",
        chain("", "(", 100_000) + "1",
        chain("", "[", 100_000),
        chain("1", " if 1 else 1", 100_000),
        chain("goal", "[0]", 100_000),
        chain("goal", "~goal", 60),
        chain("goal", "+goal", 60),
        "x".repeat(2 << 20),
    ] {
        assert!(Expression::parse(&text).is_err(), "{}", &text[..30]);
        assert!(Template::parse(&format!("{{{{ {text} }}}}")).is_err(), "{}", &text[..30]);
    }
    assert!(Template::parse(&chain("", "{% if 1 %}", 100_000)).is_err());
    assert!(Template::parse(&chain("", "{% for x in goal %}", 100_000)).is_err());
    assert!(
        Template::parse(&(chain("{% if 1 %}", "{% elif 1 %}", 100_000) + "{% endif %}")).is_err()
    );
    let loops = "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}";
    assert!(render(loops).unwrap_err().contains("too long"));
    let long = json!({"x": "x".repeat(100_000)});
    let much = "{% for a in range(1000) %}{{ x }}{% endfor %}";
    assert!(Template::parse(much).unwrap().render(&long).unwrap_err().contains("longer than"));
    for text in [
        "x|replace('x', x)",
        "[x, x, x, x, x, x, x, x, x, x, x]|join(x)",
        "x|indent(10000000000)|length + (x|replace('x', '\ny')|indent(1000000)|length)",
        "[x, x, x, x, x, x, x, x, x, x, x]|string",
        "[x, x, x, x, x, x, x, x, x, x, x]|tojson",
        "'x' * 10000000000",
        "range(10000000000)",
    ] {
        assert!(Expression::parse(text).unwrap().value(&long).is_err(), "{text}");
    }
}

#[test]
fn tables_are_in_the_order_of_their_keys_always() {
    let many: serde_json::Map<String, Value> =
        (0..200).rev().map(|n| (format!("k{n:03}"), n.into())).collect();
    let context = json!({ "t": many });
    let template =
        Template::parse("{% for k, v in t|items %}{{ k }}{% endfor %}{{ t|tojson }}{{ t }}")
            .unwrap();
    let first = template.render(&context).unwrap();
    assert!(first.starts_with("k000k001k002"));
    for _ in 0..10 {
        assert_eq!(template.render(&context).unwrap(), first);
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_with_a_place_inside_it(text in "(\\{\\{|\\}\\}|\\{%|%\\}|if|for|x|\\.|\\||'|\"|\\[|\\]|\\(|\\)| |~|1|é|endfor|endif|in|set|=|\\PC){0,30}") {
        for (read, is_template) in [(Template::parse(&text).map(|_| ()), true), (Expression::parse(&text).map(|_| ()), false)] {
            if let Err(error) = read {
                prop_assert!(error.start <= error.end && error.end <= text.len(), "{} {:?}", is_template, error);
            }
        }
        if let Ok(template) = Template::parse(&text) {
            let _ = template.render(&values());
            for found in template.uses() {
                prop_assert!(text.get(found.start..found.end).is_some());
            }
        }
        if let Ok(expression) = Expression::parse(&text) {
            let one = expression.value(&values());
            prop_assert_eq!(one, expression.value(&values()));
        }
    }

    #[test]
    fn a_value_goes_through_unchanged(whole in any::<i64>(), large in any::<u64>(), float in any::<f64>().prop_filter("finite", |f| f.is_finite()), text in "\\PC{0,20}") {
        let context = json!({"a": [whole, large, float, text, null, true, {"k": whole}]});
        prop_assert_eq!(Expression::parse("a").unwrap().value(&context), Ok(context["a"].clone()));
    }

    #[test]
    fn text_without_marks_is_given_as_it_stands(text in "[^{}#%]{0,60}") {
        prop_assert_eq!(Template::parse(&text).unwrap().render(&json!({})), Ok(text));
    }
}
