//! `view` on real files.

use super::skeleton::sources;
use super::*;

fn view(input: Value) -> ToolResult {
    let folder = sources();
    run(folder.path(), "view", input)
}

#[test]
fn a_definition_is_shown_with_what_stands_above_it() {
    let result = view(json!({ "symbol": "Parser::push", "path": "src/parser.rs" }));
    insta::assert_snapshot!(result.text, @r"
    src/parser.rs:39-51  Parser::push
        // Takes a token.
        // It may refuse.
        #[must_use]
        pub async fn push<F>(
            &mut self,
            token: Token,
            with: F,
        ) -> Result<(), fmt::Error>
        where
            F: Fn(&Token) -> bool,
        {
            Ok(())
        }
    ");
    let result = view(json!({ "symbol": "parse", "path": "src/parser.py" }));
    insta::assert_snapshot!(result.text, @r"
    src/parser.py:38-41  parse
    @decorated(lambda x: x)
    @twice
    def parse(text: str, on: Callable[[int], None] = lambda n: None) -> Token:
        return Token(text)
    ");
    let result = view(json!({ "symbol": "Parser.Push", "path": "src/parser.go" }));
    insta::assert_snapshot!(result.text, @r"
    src/parser.go:38-41  Parser.Push
    // Push takes one.
    func (p *Parser[T]) Push(token string, with func(string) bool) (int, error) {
    	return fmt.Println(token)
    }
    ");
}

#[test]
fn every_definition_of_a_name_is_listed_and_shown() {
    let result = view(json!({ "symbol": "push" }));
    assert_eq!(result.status, Status::Ok);
    let head: Vec<&str> = result.text.lines().take_while(|line| !line.is_empty()).collect();
    insta::assert_snapshot!(head.join("\n"), @r"
    9 definitions of push:
      src/Parser.java:15-20  Parser.push
      src/Parser.java:25-25  Parser.Inner.push
      src/parser.cpp:25-25  text::Parser::push
      src/parser.cpp:30-30  text::Parser::Inner::push
      src/parser.py:29-35  Token.push
      src/parser.rs:39-51  Parser::push
      src/parser.rs:78-78  deep::deeper::push
      src/parser.ts:22-26  Parser.push
      src/parser.ts:38-38  Deep.push
    ");
    assert!(result.text.contains("\n        pub(super) fn push() {}\n"), "{}", result.text);
}

#[test]
fn a_name_that_nothing_has_brings_up_those_that_are_near() {
    let result = view(json!({ "symbol": "Parser::pusch" }));
    assert_eq!(result.status, Status::Error);
    assert!(
        result
            .text
            .starts_with("nothing in the workspace defines \"Parser::pusch\"; did you mean "),
        "{}",
        result.text
    );
    assert!(result.text.contains("Parser::push") && result.text.contains("Token.push"));
    let result = view(json!({ "symbol": "PUSH", "path": "src/parser.rs" }));
    assert_eq!(
        result.text,
        "nothing in src/parser.rs defines \"PUSH\"; did you mean Parser::push, deep::deeper::push?"
    );
    let result = view(json!({ "symbol": "zzzzzzzz" }));
    assert!(result.text.contains("grep finds other text"), "{}", result.text);
    let result = view(json!({ "symbol": " :: " }));
    assert!(result.text.contains("is no name"), "{}", result.text);
}

#[test]
fn a_type_is_shown_where_it_is_defined_and_not_where_it_is_added_to() {
    let result = view(json!({ "symbol": "Parser", "path": "src/parser.rs" }));
    assert!(
        result.text.starts_with("src/parser.rs:22-27  Parser\n/// Parses.\n"),
        "{}",
        result.text
    );
    assert!(!result.text.contains("impl"));
}

#[test]
fn members_of_a_template_that_are_defined_outside_of_it_are_found_by_their_names() {
    let folder = folder();
    let source = "template<typename T>\nclass Vec {\n  int size() const;\n};\ntemplate<typename T>\n\
                  int Vec<T>::size() const { return 1; }\ntemplate<>\n\
                  int Vec<std::pair<int, int>>::size() const { return 2; }\n\
                  template<typename T> T Vec<T>::operator[](int i) const { return T(); }\n\
                  bool operator<(const A& a, const A& b) { return false; }\n";
    std::fs::write(folder.path().join("vec.hpp"), source).unwrap();
    let places = |symbol: &str| {
        let text = run(folder.path(), "view", json!({ "symbol": symbol })).text;
        let places = text.lines().filter(|line| line.starts_with("vec.hpp:"));
        places.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(places("Vec"), ["vec.hpp:1-4  Vec"]);
    let sizes = ["vec.hpp:3-3", "vec.hpp:5-6", "vec.hpp:7-8"].map(|at| format!("{at}  Vec::size"));
    assert_eq!(places("Vec::size"), sizes);
    assert_eq!(places("Vec::operator[]"), ["vec.hpp:9-9  Vec::operator[]"]);
    assert_eq!(places("operator<"), ["vec.hpp:10-10  operator<"]);
}

#[test]
fn a_long_definition_is_cut_and_says_how_to_read_on() {
    let folder = folder();
    let body = "    x = 1\n".repeat(1000);
    std::fs::write(folder.path().join("long.py"), format!("\ndef long():\n{body}")).unwrap();
    let result = run(folder.path(), "view", json!({ "symbol": "long" }));
    assert!(result.text.starts_with("long.py:2-1002  long\ndef long():\n"), "{}", result.text);
    assert!(
        result.text.ends_with("[601 more lines; read long.py with offset 402]"),
        "{}",
        result.text
    );
    let rest = run(folder.path(), "read", json!({ "path": "long.py", "offset": 402 }));
    assert_eq!(rest.text.lines().count(), 601);
}

#[test]
fn definitions_in_every_branch_and_private_members_are_found() {
    let folder = folder();
    let python = "if a:\n    def one(): pass\nelif b:\n    def two(): pass\nelse:\n    def three(): pass\n\
        try:\n    def four(): pass\nfinally:\n    def five(): pass\n\
        with a:\n    def six(): pass\nfor x in a:\n    def seven(): pass\nwhile b:\n    def eight(): pass\n";
    std::fs::write(folder.path().join("a.py"), python).unwrap();
    let script = "class Foo { #count = 1; #next() { return 2 } next() {} }\n";
    std::fs::write(folder.path().join("a.js"), script).unwrap();
    for name in ["one", "two", "three", "four", "five", "six", "seven", "eight"] {
        let result = run(folder.path(), "view", json!({ "symbol": name }));
        assert!(result.text.contains(&format!("def {name}(): pass")), "{name}: {}", result.text);
    }
    for name in ["Foo.#next", "#next"] {
        let result = run(folder.path(), "view", json!({ "symbol": name }));
        assert!(result.text.contains("#next() { return 2 }"), "{name}: {}", result.text);
    }
}

#[test]
fn a_name_that_is_a_word_of_rust_is_found_with_and_without_its_mark() {
    let folder = folder();
    let source = "mod r#mod { pub fn r#match() {} }\nfn matches() {}\n";
    std::fs::write(folder.path().join("raw.rs"), source).unwrap();
    for name in ["r#match", "match", "r#mod::r#match", "mod::match"] {
        let result = run(folder.path(), "view", json!({ "symbol": name }));
        let expected = "raw.rs:1-1  r#mod::r#match\n pub fn r#match() {}";
        assert_eq!(result.text.trim(), expected, "{name}");
    }
}
