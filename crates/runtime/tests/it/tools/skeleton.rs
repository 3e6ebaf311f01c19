//! `skeleton` on real files.

use std::os::unix::fs::symlink;

use super::*;

const SOURCES: [(&str, &str); 9] = [
    ("broken.rs", include_str!("sources/broken.rs")),
    ("list.h", include_str!("sources/list.h")),
    ("parser.cpp", include_str!("sources/parser.cpp")),
    ("parser.go", include_str!("sources/parser.go")),
    ("Parser.java", include_str!("sources/Parser.java")),
    ("parser.py", include_str!("sources/parser.py")),
    ("parser.rs", include_str!("sources/parser.rs")),
    ("parser.ts", include_str!("sources/parser.ts")),
    ("widget.jsx", include_str!("sources/widget.jsx")),
];

/// A workspace with one source file of each language in `src`.
pub(super) fn sources() -> TempDir {
    let folder = folder();
    std::fs::create_dir(folder.path().join("src")).unwrap();
    for (name, text) in SOURCES {
        std::fs::write(folder.path().join("src").join(name), text).unwrap();
    }
    folder
}

fn skeleton(name: &str) -> String {
    let folder = sources();
    let result = run(folder.path(), "skeleton", json!({ "path": format!("src/{name}") }));
    assert_eq!(result.status, Status::Ok, "{}", result.text);
    result.text
}

#[test]
fn a_file_that_does_not_parse_gives_its_whole_parts() {
    insta::assert_snapshot!(skeleton("broken.rs"), @r##"
    src/broken.rs
     3  pub struct Whole
     5  fn before(a: u32) -> u32
     9  pub fn after(b: &str) -> bool
    11  impl Whole
    12    fn method(&self)
    "##);
}

#[test]
fn what_is_assigned_to_very_many_names_at_once_takes_no_time() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("{}1;\nfunction after() {{}}\n", "a=".repeat(60_000));
    std::fs::write(folder.path().join("deep.js"), text).unwrap();
    let result = run(folder.path(), "skeleton", json!({ "path": "deep.js" }));
    assert_eq!((result.status, result.text.contains("after")), (Status::Ok, true));
}

#[test]
fn the_skeleton_of_c() {
    insta::assert_snapshot!(skeleton("list.h"), @r##"
    src/list.h
     4  struct list
     6    int (*compare)(const void *, const void *)
     8  typedef int (*visit_fn)(struct list *item)
     9  static inline struct list *list_push(struct list *head, struct list *item)
    14  void list_free(struct list *head)
    "##);
}

#[test]
fn the_skeleton_of_cpp() {
    insta::assert_snapshot!(skeleton("parser.cpp"), @r##"
    src/parser.cpp
     2  #define MAX(a, b)
     5  using Name = std::string
     6  typedef unsigned long ulong_t
     7  typedef struct {} point_t
    11  enum class Kind : int
    14  namespace text
    16    int hidden()
    20    template <typename T, int N = 3> class Parser : public Base<T>
    23      explicit Parser(std::string text)
    24      ~Parser()
    25      virtual int push(const T &token, bool strict = false) = 0
    26      bool operator==(const Parser &other) const
    27      static Parser *make()
    28      struct Inner
    30        void push()
    36    template <typename T, int N> Parser<T, N>::~Parser()
    40  int *text::find(const char *name, int length)
    49  const char *version(void)
    50  int main(int argc, char **argv)
    "##);
}

#[test]
fn the_skeleton_of_go() {
    insta::assert_snapshot!(skeleton("parser.go"), @r##"
    src/parser.go
     7  const Most
    10  Word Kind
    11  End
    15  cache
    16  ErrEnd error
    19  type Kind int
    22  type Parser[T any] struct
    27  Visitor interface
    28    Visit(token string) error
    30  Names = []string
    34  func New[T any](text string) *Parser[T]
    39  func (p *Parser[T]) Push(token string, with func(string) bool) (int, error)
    43  func (Kind) String() string
    "##);
}

#[test]
fn the_skeleton_of_java() {
    insta::assert_snapshot!(skeleton("Parser.java"), @r##"
    src/Parser.java
     7  public final class Parser<T extends Comparable<T>> extends Base implements Visitor
    11    public Parser(List<T> tokens)
    17    public <R> R push(T token, Class<R> as) throws ParseException
    22    void bare()
    24    static class Inner
    25      void push()
    29  interface Visitor
    30    int visit(String token)
    31    default int twice(String token)
    34  enum Kind
    36    boolean last()
    39  record Token(String text, Kind kind)
    40    Token
    45  @interface Marked
    46    String value() default ""
    "##);
}

#[test]
fn the_skeleton_of_python() {
    insta::assert_snapshot!(skeleton("parser.py"), @r##"
    src/parser.py
     5  MOST
     6  limit: int
     8  TABLE
    13  def windows() -> None
    17  class Token(str)
    18    kind: str
    20    class Meta
    24    def size(self) -> int
    29    async def push(self, token: "Token", *, strict: bool = False) -> list[int]
    40  def parse(text: str, on: Callable[[int], None] = lambda n: None) -> Token
    "##);
}

#[test]
fn the_skeleton_of_rust() {
    insta::assert_snapshot!(skeleton("parser.rs"), @r##"
    src/parser.rs
     6  pub const MOST: usize
     7  static mut COUNT: u32
     8  type Tokens = Vec<Token>
    12  pub enum Token
    17  pub struct Unit
    18  pub(crate) struct Pair<A, B>(pub A, pub B) where A: Clone
    24  pub struct Parser<'a>
    29  impl<'a> Parser<'a>
    30    const STEP: usize
    33    pub fn new(text: &'a str) -> Self
    42    pub async fn push<F>(&mut self, token: Token, with: F) -> Result<(), fmt::Error> where F: Fn(&Token) -> bool
    54  impl fmt::Display for Parser<'_>
    55    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result
    60  pub trait Visit
    61    type Out: Default
    62    fn visit(&self) -> Self::Out
    63    fn twice(&self) -> (Self::Out, Self::Out)
    68  macro_rules! shout
    73  fn abs(input: i32) -> i32
    76  mod deep
    77    pub mod deeper
    78      pub(super) fn push()
    83  mod tests
    85    fn it_works()
    "##);
}

#[test]
fn the_skeleton_of_typescript() {
    insta::assert_snapshot!(skeleton("parser.ts"), @r##"
    src/parser.ts
     3  export const MOST = 10
     4  export const table
     6  const helper = (a: number): number =>
     7  export type Token
     8  export interface Visitor<T>
     9    visit(token: Token): T
    11  export enum Kind
    12  enum Hidden
    16  export class Parser<T extends Token> implements Visitor<T>
    18    onEnd = () =>
    20    constructor(readonly text: string)
    24    async push(token: T, strict = false): Promise<void>
    27    get size(): number
    28    static of(text: string)
    30  export abstract class Base
    31    abstract visit(token: Token): void
    33  export default function main(args: string[]): void
    34  function overload(a: string): void
    35  function overload(a: unknown): void
    36  export function* walk(): Generator<number>
    37  namespace Deep
    38    export function push()
    40  declare function declared(a: number): string
    "##);
}

#[test]
fn the_skeleton_of_javascript() {
    insta::assert_snapshot!(skeleton("widget.jsx"), @r##"
    src/widget.jsx
    2  export const Button = ({ label, onClick }) =>
    3  export default class App extends React.Component
    5    render()
    7  var old = function (a, b)
    8  function plain()
    "##);
}

#[test]
fn what_an_interface_asks_for_is_in_its_skeleton() {
    let folder = folder();
    let go = "package a\n\ntype Store interface {\n\tReader\n\t// Put keeps.\n\tPut(key string, value []byte) (int, error)\n\
              \tClose()\n\t~int | ~string\n}\n\ntype Box struct {\n\tinner interface{ Hidden() }\n}\n";
    std::fs::write(folder.path().join("a.go"), go).unwrap();
    let ts = "export interface Store extends Reader {\n  name: string;\n  /** Keeps. */\n  put(key: string): Promise<void>;\n\
              \x20 onEnd?: (error: Error) => void;\n  (call: number): string;\n  options: { deep(): void };\n}\n";
    std::fs::write(folder.path().join("a.ts"), ts).unwrap();
    let text = |path: &str| run(folder.path(), "skeleton", json!({ "path": path })).text;
    insta::assert_snapshot!(text("a.go"), @r##"
    a.go
     3  type Store interface
     6    Put(key string, value []byte) (int, error)
     7    Close()
    11  type Box struct
    "##);
    insta::assert_snapshot!(text("a.ts"), @r##"
    a.ts
    1  export interface Store extends Reader
    4    put(key: string): Promise<void>
    5    onEnd?: (error: Error) => void
    "##);
    let view = |symbol: &str| run(folder.path(), "view", json!({ "symbol": symbol })).text;
    assert!(view("Store.Put").starts_with("a.go:5-6  Store.Put\n\t// Put keeps.\n"));
    assert!(view("Store.put").starts_with("a.ts:3-4  Store.put\n  /** Keeps. */\n"));
}

/// JavaScript from before modules.
const ASSIGNED: &str = r#""use strict";
const { join } = require("path");

/** Reads. */
exports.parse = function (text, options) {
  exports.hidden = function () {};
  return text;
};
exports.walk = function* walk(tree) {};
exports.twice = (n) => n * 2;
exports.MOST = 10;
exports.join = join;

function Parser(text) { this.text = text; }
// Takes one.
Parser.prototype.push = async function (token) { return token; };
Parser.of = function (text) { return new Parser(text); };
Parser.cache = {};
Parser["odd"] = function () {};
Parser.prototype.inner = {
  deep() {},
};
total = total + 1;

exports = module.exports = class Reader extends Parser {
  read() {}
};
module.exports.Parser = Parser;
module.exports = {
  // Opens.
  open(path) {},
  close: function (path) {},
  get size() { return 0; },
  most: 10,
  Parser,
};
"#;

#[test]
fn what_is_assigned_to_a_name_with_dots_is_in_the_skeleton() {
    let folder = folder();
    std::fs::write(folder.path().join("old.js"), ASSIGNED).unwrap();
    let run = |tool: &str, input: Value| run(folder.path(), tool, input).text;
    insta::assert_snapshot!(run("skeleton", json!({ "path": "old.js" })), @r##"
    old.js
     5  exports.parse = function (text, options)
     9  exports.walk = function* walk(tree)
    10  exports.twice = (n) =>
    11  exports.MOST = 10
    14  function Parser(text)
    16  Parser.prototype.push = async function (token)
    17  Parser.of = function (text)
    20  Parser.prototype.inner
    21    deep()
    25  exports = module.exports = class Reader extends Parser
    26    read()
    29  module.exports
    31    open(path)
    32    close: function (path)
    33    get size()
    "##);
    let view = |symbol: &str| run("view", json!({ "symbol": symbol }));
    let expected =
        "old.js:15-16  Parser.push\n// Takes one.\nParser.prototype.push = async function";
    assert!(view("Parser.push").starts_with(expected), "{}", view("Parser.push"));
    assert!(view("exports.parse").starts_with("old.js:4-8  exports.parse\n/** Reads. */\n"));
    assert!(view("close").contains("module.exports.close\n"), "{}", view("close"));
}

#[test]
fn a_folder_gives_every_source_file_that_git_does_not_ignore() {
    let folder = sources();
    std::fs::create_dir(folder.path().join("built")).unwrap();
    std::fs::write(folder.path().join("built/out.rs"), "fn ignored() {}").unwrap();
    std::fs::write(folder.path().join(".gitignore"), "built/\n").unwrap();
    std::fs::write(folder.path().join("notes.txt"), "fn text() {}").unwrap();
    let result = run(folder.path(), "skeleton", json!({ "path": ".", "depth": 1 }));
    let heads: Vec<&str> =
        result.text.split("\n\n").map(|file| file.lines().next().unwrap()).collect();
    let mut expected: Vec<String> = SOURCES.iter().map(|(name, _)| format!("src/{name}")).collect();
    expected.sort();
    assert_eq!(heads, expected);
    assert!(result.text.contains("impl Whole") && !result.text.contains("fn method"));
}

#[test]
fn a_skeleton_is_capped_and_says_what_is_missing() {
    let folder = sources();
    let result = run(folder.path(), "skeleton", json!({ "path": "src", "limit": 4 }));
    assert_eq!(
        result.text,
        "src/Parser.java\n \
         7  public final class Parser<T extends Comparable<T>> extends Base implements Visitor\n\
         11    public Parser(List<T> tokens)\n\
         17    public <R> R push(T token, Class<R> as) throws ParseException\n\
         22    void bare()\n\
         [11 more items of this file are not shown]\n\
         [8 more files are not shown; ask for a part of them]"
    );
}

#[test]
fn an_unknown_language_is_refused_with_the_known_ones() {
    let folder = folder();
    std::fs::write(folder.path().join("a.cob"), "").unwrap();
    for path in ["a.cob", "."] {
        let result = run(folder.path(), "skeleton", json!({ "path": path }));
        assert_eq!(result.status, Status::Error);
        for known in ["C/C++ (.c, .h", "Go (.go)", "JavaScript", "TypeScript", "Python (.py, .pyi)"]
        {
            assert!(result.text.contains(known), "{}", result.text);
        }
    }
    let result = run(folder.path(), "skeleton", json!({ "path": "none.rs" }));
    assert_eq!(result.text, "cannot look into \"none.rs\": it does not exist");
}

#[test]
fn nothing_outside_the_workspace_is_outlined() {
    let outside = sources();
    let folder = folder();
    symlink(outside.path(), folder.path().join("link")).unwrap();
    symlink(outside.path().join("src/parser.rs"), folder.path().join("parser.rs")).unwrap();
    let above =
        format!("../{}/src/parser.rs", outside.path().file_name().unwrap().to_str().unwrap());
    let absolute = outside.path().join("src/parser.rs");
    for path in
        ["link", "link/src", "link/src/parser.rs", "parser.rs", &above, absolute.to_str().unwrap()]
    {
        for (tool, input) in [
            ("skeleton", json!({ "path": path })),
            ("view", json!({ "symbol": "push", "path": path })),
        ] {
            let result = run(folder.path(), tool, input);
            assert_eq!(result.status, Status::Error, "{tool} {path}: {}", result.text);
            assert!(result.text.contains("leads out of the workspace"), "{}", result.text);
        }
    }
    // A walk of the whole workspace does not follow links either.
    std::fs::write(folder.path().join("own.rs"), "fn own() {}").unwrap();
    let result = run(folder.path(), "skeleton", json!({ "path": "." }));
    assert_eq!(result.text, "own.rs\n1  fn own()");
}

/// Hostile content for every language.
fn hostile() -> Vec<(&'static str, Vec<u8>)> {
    let repeated = |text: &str, size: usize| text.repeat(size / text.len()).into_bytes();
    let mut binary: Vec<u8> = (0..=255).cycle().take(20_000).collect();
    binary.extend(b"\nfn found() {}\nclass Found {}\n");
    let stairs: String = (0..300).map(|n| format!("{}class A:\n", " ".repeat(n))).collect();
    let long = "a".repeat(400_000);
    vec![
        ("nothing", Vec::new()),
        ("bytes that are no text", binary),
        (
            "names that are no text",
            b"fn \xff\xfe() {}\ndef \xc3\x28(): pass\nfunc \x80() {}\n".to_vec(),
        ),
        ("open brackets", repeated("(", 900_000)),
        ("open brackets that are parsed", repeated("(", 600)),
        ("open angles that are parsed", repeated("A<", 1_000)),
        ("arrows that are parsed", repeated("a => ", 2_000)),
        ("closing braces", repeated("}", 20_000)),
        ("nested modules", repeated("mod a { ", 4_000)),
        ("nested classes", repeated("class A { ", 5_000)),
        ("nested namespaces", repeated("namespace a { ", 8_000)),
        ("deep indentation", stairs.into_bytes()),
        ("one long line", [repeated("let a = 1; ", 50_000), b"fn b() {}".to_vec()].concat()),
        ("one long name", format!("fn {long}() {{}}\nclass {long} {{}}").into_bytes()),
        ("comments", repeated("/*", 20_000)),
        ("strings", repeated("\"\\\"'`", 20_000)),
        ("raw strings", repeated("R\"(r#\"", 5_000)),
        ("only NUL", vec![0; 20_000]),
    ]
}

#[test]
fn hostile_files_give_a_result_and_never_a_panic() {
    let folder = folder();
    for extension in ["rs", "py", "ts", "jsx", "go", "java", "cpp"] {
        for (what, content) in hostile() {
            let name = format!("hostile.{extension}");
            std::fs::write(folder.path().join(&name), content).unwrap();
            let result = run(folder.path(), "skeleton", json!({ "path": name }));
            // On a busy machine a text may take longer than it is given.
            let refused = result.text.contains("takes too much time or memory to parse");
            assert!(refused || what != "open brackets", "{extension}: {}", result.text);
            assert!(refused || result.status == Status::Ok, "{extension}: {what}: {}", result.text);
            assert!(result.text.len() < 200_000, "{extension}: {what}");
            let result = run(folder.path(), "view", json!({ "symbol": "a::b.c", "path": name }));
            assert_eq!(result.status, Status::Error, "{extension}: {what}: {}", result.text);
        }
    }
}

#[test]
fn what_would_take_gigabytes_with_the_grammar_of_java_is_not_parsed() {
    let folder = folder();
    for text in ["A<", "a => ", "a = "] {
        std::fs::write(folder.path().join("A.java"), text.repeat(50_000)).unwrap();
        let result = run(folder.path(), "skeleton", json!({ "path": "A.java" }));
        assert!(result.text.contains("takes too much time or memory"), "{}", result.text);
    }
    // An honest class of many statements is.
    let honest: String = (0..5000)
        .map(|n| format!("  int f{n}(List<String> a) {{ int b = 1 < 2 ? 3 : 4; }}\n"))
        .collect();
    std::fs::write(folder.path().join("A.java"), format!("class A {{\n{honest}}}\n")).unwrap();
    let result = run(folder.path(), "skeleton", json!({ "path": "A.java", "limit": 2 }));
    assert!(
        result.text.starts_with("A.java\n   1  class A\n   2    int f0(List<String> a)\n"),
        "{}",
        result.text
    );
}

#[test]
fn a_file_that_a_program_wrote_is_too_large() {
    let folder = folder();
    std::fs::write(folder.path().join("big.js"), vec![b'a'; 10 << 20]).unwrap();
    let result = run(folder.path(), "skeleton", json!({ "path": "big.js" }));
    assert_eq!(
        result.text,
        "cannot outline \"big.js\": the file has 10485760 bytes; expected at most 1048576"
    );
    std::fs::write(folder.path().join("small.js"), "function a() {}").unwrap();
    let result = run(folder.path(), "skeleton", json!({ "path": "." }));
    assert!(result.text.contains("1  function a()"), "{}", result.text);
    assert!(result.text.contains("[1 files could not be read]"), "{}", result.text);
}

#[test]
fn a_stopped_outline_says_so() {
    let folder = sources();
    let cancel = Cancel::new();
    cancel.trigger();
    let call = call(folder.path(), "skeleton", json!({ "path": "src" }));
    let result = runtime::tool::run(&call, &services(Containment::Auto), &cancel);
    assert_eq!(result.status, Status::Aborted);
}
