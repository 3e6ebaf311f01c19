//! What scripts give, what they cannot do, and that whatever they try ends soon with a clear error.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn context() -> Context {
    Context {
        goal: "add up".to_owned(),
        inputs: [("deep".to_owned(), json!(true))].into_iter().collect(),
        facts: json!({ "has_tests": true, "languages": ["rust", "go"], "changed_files": ["a.rs", "b.go"] }),
    }
}

fn made(text: &str) -> Made {
    make(text, "w.rhai", &context()).unwrap_or_else(|error| panic!("{error}"))
}

fn error(text: &str) -> String {
    make(text, "w.rhai", &context()).unwrap_err().to_string()
}

const EXAMPLE: &str = r#"
fn workflow() {
    #{ name: "checked", description: "tests if there are any", limits: #{ max_steps: 20 } }
}

fn steps(context) {
    let steps = [];
    for file in context.facts.changed_files {
        steps.push(#{ name: "look-" + steps.len(), tool: "view", parameters: #{ path: file } });
    }
    if context.facts.has_tests && context.inputs.deep {
        steps.push(#{ name: "test", tool: "shell", parameters: #{ command: "cargo test" }, on_error: "retry", max_retries: 2 });
    }
    print(`${steps.len()} steps for ${context.goal}`);
    steps
}
"#;

#[test]
fn a_script_gives_what_a_file_would_say() {
    let made = made(EXAMPLE);
    assert_eq!(
        made.file,
        json!({ "workflow": {
            "name": "checked",
            "description": "tests if there are any",
            "limits": { "max_steps": 20 },
            "steps": [
                { "name": "look-0", "tool": "view", "parameters": { "path": "a.rs" } },
                { "name": "look-1", "tool": "view", "parameters": { "path": "b.go" } },
                { "name": "test", "tool": "shell", "parameters": { "command": "cargo test" }, "on_error": "retry", "max_retries": 2 },
            ],
        }})
    );
    assert_eq!(made.printed, ["3 steps for add up"]);
    assert_eq!(&EXAMPLE[made.place], "steps");
}

#[test]
fn its_head_is_known_before_its_inputs_are() {
    let text = "fn workflow() { #{ inputs: #{ issue: #{ type: \"string\" } } } }\nfn steps(context) { throw context.inputs.issue }";
    let head = head(text, "w.rhai").unwrap();
    assert_eq!(head.file["workflow"]["inputs"]["issue"]["type"], "string");
    assert!(head.file["workflow"].get("steps").is_none());
}

#[test]
fn errors_stand_at_their_place() {
    insta::assert_snapshot!(error("fn steps(context) {\n    let n = context.facts.has_test;\n    []\n}"), @r#"
    error: there is no "has_test" here
     --> w.rhai:2:27
      |
    2 |     let n = context.facts.has_test;
      |                           ^^^^^^^^
      = help: did you mean "has_tests"?
    "#);
    insta::assert_snapshot!(error("fn steps(context) {\n    [ #{ name: \"a\" }\n}"), @r"
    error: Expecting ',' to separate the items of this array literal
     --> w.rhai:3:1
      |
    3 | }
      | ^
    ");
    insta::assert_snapshot!(error("fn one(n) { n + unknown }\nfn steps(context) { one(1) }"), @r#"
    error: there is no variable "unknown"
     --> w.rhai:1:17
      |
    1 | fn one(n) { n + unknown }
      |                 ^^^^^^^
      = help: functions see their parameters and their own variables, nothing around them
    "#);
    insta::assert_snapshot!(error("fn one(n) { n.read_file() }\nfn steps(context) { one(1) }"), @r"
    error: there is no function read_file (i64)
     --> w.rhai:1:15
      |
    1 | fn one(n) { n.read_file() }
      |               ^^^^^^^^^
      = help: a script can only compute: there are no files, clocks, networks or programs
    ");
    insta::assert_snapshot!(error("fn steps(context) { throw \"no tests: add some first\" }"), @r#"
    error: no tests: add some first
     --> w.rhai:1:21
      |
    1 | fn steps(context) { throw "no tests: add some first" }
      |                     ^^^^^
    "#);
    insta::assert_snapshot!(error("let x = 1;\nfn steps(context) { [] }"), @r"
    error: only functions stand at the top of a script
     --> w.rhai:1:1
      |
    1 | let x = 1;
      | ^^^
      = help: put it into a function; constants are functions without parameters
    ");
    let reserved = error("fn workflow() { #{ default: 1 } }\nfn steps(context) { [] }");
    assert!(reserved.contains("= help: as a key of a map it is written in quotes"), "{reserved}");
    insta::assert_snapshot!(error("fn workflow() { #{} }"), @r#"
    error: a script defines fn steps(context)
     --> w.rhai:1:1
      |
    1 | fn workflow() { #{} }
      | ^^
      = help: fn steps(context) { [#{ name: "test", tool: "shell", parameters: #{ command: "make" } }] }
    "#);
    insta::assert_snapshot!(error("fn steps() { [] }"), @r#"
    error: steps takes one parameter
     --> w.rhai:1:4
      |
    1 | fn steps() { [] }
      |    ^^^^^
      = help: fn steps(context) { [#{ name: "test", tool: "shell", parameters: #{ command: "make" } }] }
    "#);
    insta::assert_snapshot!(error("// nothing\nfn steps(context) { let a = [1]; }"), @r"
    error: fn steps must give a list of maps, it gave nothing
     --> w.rhai:2:4
      |
    2 | fn steps(context) { let a = [1]; }
      |    ^^^^^
      = help: what a function gives is its last expression, or what it returns
    ");
    insta::assert_snapshot!(error("fn steps(context) { [#{ name: |x| x }] }"), @r"
    error: [0].name: a function is not data: give text, numbers, true or false, lists and maps
     --> w.rhai:1:1
      |
    1 | fn steps(context) { [#{ name: |x| x }] }
      | ^^
    ");
    insta::assert_snapshot!(error("fn workflow() { #{ steps: [] } }\nfn steps(context) { [] }"), @r"
    error: fn workflow() gives what stands beside the steps, not the steps
     --> w.rhai:1:4
      |
    1 | fn workflow() { #{ steps: [] } }
      |    ^^^^^^^^
      = help: give them from fn steps(context)
    ");
}

#[test]
fn nothing_reaches_out() {
    for call in [
        "eval(\"1\")",
        "timestamp()",
        "sleep(1)",
        "exit()",
        "open_file(\"x\")",
        "import \"x\" as y",
        "parse_json(\"{}\")",
        "Fn(\"steps\").curry(1)",
    ] {
        let text = format!("fn steps(context) {{ {call}; [] }}");
        assert!(make(&text, "w.rhai", &context()).is_err(), "{call} works");
    }
}

/// Each is refused within seconds and without much memory; the message says which bound it met.
#[test]
fn bombs_end_soon_with_a_clear_error() {
    let deep = format!("{}1{}", "(".repeat(5_000), ")".repeat(5_000));
    let blocks = format!("{}{}", "{".repeat(5_000), "}".repeat(5_000));
    let long = format!("\"{}\"", "x".repeat(300 << 10));
    let strings = format!("{}1{}", "`${".repeat(500), "}`".repeat(500));
    let bombs: Vec<(String, &str)> = [
        ("loop {}", "operations"),
        ("while true { let x = 1; }", "operations"),
        ("for i in 0..9000000000 {}", "operations"),
        ("let s = \"x\"; loop { s += s; }", "bytes of text"),
        ("let s = \"x\"; loop { s = s + s; }", "bytes of text"),
        ("let s = \"x\"; loop { s = `${s}${s}`; }", "bytes of text"),
        ("let s = \"x\"; s.pad(9000000000, \"y\");", "bytes of text"),
        ("let s = \"x\"; s.pad(200000, \"y\"); s.replace(\"y\", s);", "bytes of text"),
        ("let s = \"x\"; s.pad(200000, \"y\"); s.replace('y', s);", "bytes of text"),
        ("let s = \"x\"; s.pad(200000, \"y\"); s.replace(\"\", s);", "bytes of text"),
        ("let a = [1]; loop { a += a; }", "elements"),
        ("let a = [1]; loop { a.push(a); }", "elements"),
        ("let a = []; loop { a = [a]; }", ""),
        ("let a = []; a.pad(1000000000, 1);", "elements"),
        ("let a = []; a.pad(9000, 1); let s = \"x\"; s.pad(200000, \"y\"); loop { let b = []; for i in 0..9000 { b.push(s + i); } }", "bytes of text"),
        ("let m = #{}; loop { m[`k${m.len()}`] = m.len(); }", ""),
        ("let m = #{}; loop { m = #{ a: m, b: m }; }", "entries"),
        ("let a = []; a.pad(9000, 1); loop { a.sort(|x, y| x - y); }", ""),
        ("let a = []; a.pad(9000, \"y\"); loop { a.sort(); a == a; a.to_debug(); }", ""),
        ("loop { print(\"x\"); }", "operations"),
        ("let a = []; loop { a = [#{ a: a }]; }", ""),
    ]
    .map(|(body, meets)| (format!("fn steps(context) {{ {body} [] }}"), meets))
    .into_iter()
    .chain([
        ("fn f(n) { f(n + 1) } fn steps(context) { f(1) }".to_owned(), "deep"),
        ("fn f(n) { [f(n), f(n)] } fn steps(context) { f(1) }".to_owned(), "deep"),
        ("fn f(s, x) { s + x } fn steps(context) { let a = []; a.pad(9000, \"z\"); let m = a.map(|x| { let s = \"x\"; s.pad(200000, \"y\"); s + x }); [] }".to_owned(), "bytes of text"),
        ("fn steps(context) { let m = #{ a: 1, b: 2 }; m.map(|k, v| { let s = \"x\"; s.pad(200000, \"y\"); s + v }) }".to_owned(), "bytes of text"),
        ("fn steps(context) { let a = [1, 2]; a.zip([3, 4], |v, w| { let s = \"x\"; s.pad(200000, \"y\"); s + v }) }".to_owned(), "bytes of text"),
        (format!("fn steps(context) {{ {deep} }}"), "deeper than"),
        (format!("fn steps(context) {{ {blocks} }}"), "deeper than"),
        (format!("fn steps(context) {{ {strings} }}"), ""),
        (format!("fn steps(context) {{ let s = {long}; [] }}"), ""),
        (format!("fn steps(context) {{ [{}] }}", "[".repeat(400)), ""),
        (format!("fn steps(context) {{ {} [] }}", (0..100).map(|n| format!("let v{n} = 1; ")).collect::<String>()), "more than 64 variables"),
        (format!("{} fn steps(context) {{ [] }}", (0..400).map(|n| format!("fn f{n}() {{ 1 }} ")).collect::<String>()), ""),
        ("/*".repeat(100_000), ""),
        ("x".repeat(300 << 10), "bytes"),
    ])
    .collect();
    for (text, meets) in bombs {
        let started = Instant::now();
        let shown: String = text.chars().take(100).collect();
        let error = match make(&text, "w.rhai", &context()) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{shown} works"),
        };
        assert!(error.contains(meets), "{shown}: {error}");
        assert!(!error.contains("please report"), "{shown}: {error}");
        // The deadline is two seconds of work; the rest is a machine with other things to do.
        assert!(started.elapsed() < Duration::from_secs(300), "{shown}: {:?}", started.elapsed());
    }
}

#[test]
fn the_same_context_gives_the_same_bytes() {
    let text = "fn steps(context) { let m = #{}; for k in [\"z\", \"a\", \"m\"] { m[k] = #{ q: 1, b: 2 }; } \
        [#{ zeta: 1, alpha: m, keys: m.keys(), shown: m.to_string() }] }";
    let bytes = |made: Made| serde_json::to_vec(&made.file).unwrap();
    let first = bytes(made(text));
    for _ in 0..5 {
        assert_eq!(bytes(made(text)), first);
    }
    let text = String::from_utf8(first).unwrap();
    assert!(text.contains(r#"{"alpha":{"a":{"b":2,"q":1},"m""#), "{text}");
}

#[test]
fn what_is_printed_is_bounded() {
    let made = made("fn steps(context) { for i in 0..1000 { print(i); } debug(1); [] }");
    assert_eq!(made.printed.len(), 201);
    assert_eq!(made.printed.last().unwrap(), "… (more was printed)");
}

#[test]
fn numbers_texts_and_nothing_become_data() {
    let made =
        made("fn steps(context) { [#{ a: 1, b: 0.5, c: 'x', d: (), e: true, f: [\"ü\"] }] }");
    let wanted = json!({ "a": 1, "b": 0.5, "c": "x", "d": null, "e": true, "f": ["ü"] });
    assert_eq!(made.file["workflow"]["steps"][0], wanted);
    assert!(
        error("fn steps(context) { [#{ a: 1.0 / 0.0 }] }")
            .contains("[0].a: the number must be finite")
    );
}

/// Words that scripts are made of, so that random rows of them get past the tokenizer.
const WORDS: [&str; 44] = [
    "fn", "steps", "(", ")", "{", "}", "[", "]", "#{", ":", ",", ";", "let", "x", "=", "context",
    ".", "facts", "if", "else", "for", "in", "while", "loop", "break", "return", "throw", "try",
    "catch", "|", "1", "\"s\"", "'c'", "`${x}`", "+", "==", "&&", "push", "map", "switch", "=>",
    "this", "..", "0.5",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_scripts_never_panic(words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..40), raw in ".{0,60}") {
        for text in [
            format!("fn steps(context) {{ {} }}", words.join(" ")),
            words.join(" "),
            format!("fn steps(context) {{ {raw} }}"),
            raw.clone(),
        ] {
            let first = make(&text, "w.rhai", &context());
            let broken = first.as_ref().is_err_and(|error| error.message.contains("please report"));
            prop_assert!(!broken, "{text}");
            prop_assert_eq!(first, make(&text, "w.rhai", &context()));
        }
    }

    #[test]
    fn data_survives_the_way_there_and_back(numbers in prop::collection::vec(any::<i64>(), 0..5), text in ".{0,20}") {
        let given: Value = json!({ "n": numbers, "t": text, "b": [true, null] });
        prop_assert_eq!(data::value(&data::dynamic(&given)), Ok(given));
    }
}
