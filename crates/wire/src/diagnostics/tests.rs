//! Recorded output of real tools, and no input that panics.

use proptest::prelude::*;

use super::*;

fn check(output: &str, expected: &[&str]) {
    let found: Vec<String> = parse(output).iter().map(Diagnostic::to_string).collect();
    assert_eq!(found, expected);
}

#[test]
fn cargo_check() {
    check(
        include_str!("../../tests/diagnostics/cargo_check.txt"),
        &[
            "src/lib.rs:3:9 error cannot find value `missing` in this scope",
            "src/lib.rs:3:17 error cannot add `&str` to `u32`",
            "src/lib.rs:7:5 error mismatched types",
        ],
    );
    // The short form of the same tool.
    check(
        "src/lib.rs:7:5: error[E0308]: mismatched types\nsrc/lib.rs:2:9: warning: unused variable: `unused`",
        &[
            "src/lib.rs:7:5 error mismatched types",
            "src/lib.rs:2:9 warning unused variable: `unused`",
        ],
    );
}

#[test]
fn cargo_test() {
    check(
        include_str!("../../tests/diagnostics/cargo_test.txt"),
        &["src/lib.rs:3:5 error assertion `left == right` failed", "src/lib.rs:7:5 error no luck"],
    );
}

#[test]
fn gcc() {
    check(
        include_str!("../../tests/diagnostics/gcc.txt"),
        &[
            "a.c:2:10 error nothere.h: No such file or directory",
            "b.c:3:12 error ‘b’ undeclared (first use in this function)",
            "b.c:3:17 error expected ‘;’ before ‘}’ token",
            "b.c:2:9 warning unused variable ‘unused’ [-Wunused-variable]",
            "b.c:5:17 warning passing argument 1 of ‘f’ makes integer from pointer without a cast \
             [-Wint-conversion]",
            "b.c:4:1 warning control reaches end of non-void function [-Wreturn-type]",
            "b.c:5:23 warning control reaches end of non-void function [-Wreturn-type]",
            "b.c:3:12 note each undeclared identifier is reported only once for each function it appears in",
            "b.c:1:11 note expected ‘int’ but argument is of type ‘char *’",
        ],
    );
}

/// Written by hand after the form that the manual of clang 18 gives ("Formatting of Diagnostics"): `file:line:column: severity:
/// message [-Wflag]`, the line of the source, the places in it, what is to be put there, and the count at the end.
#[test]
fn clang() {
    let expected = [
        "a.c:2:10 error 'nothere.h' file not found",
        "b.c:3:12 error use of undeclared identifier 'b'",
        "b.c:3:17 error expected ';' after return statement",
        "b.c:5:17 error incompatible pointer to integer conversion passing 'char[2]' to parameter of type 'int' \
         [-Wint-conversion]",
        "c.h:1:16 error expected parameter declarator",
        "c.h:1:16 error expected ')'",
        "b.c:2:9 warning unused variable 'unused' [-Wunused-variable]",
        "b.c:5:23 warning non-void function does not return a value [-Wreturn-type]",
        "b.c:1:11 note passing argument to parameter 'a' here",
        "c.h:1:8 note to match this '('",
    ];
    let output = include_str!("../../tests/diagnostics/clang.txt");
    check(output, &expected);
    // Up to version 16 the lines of the source have no numbers before them.
    let is_source = |line: &str| line.get(4..8).is_some_and(|sign| sign.contains(" |"));
    let older = output.lines().map(|line| if is_source(line) { &line[8..] } else { line });
    check(&older.collect::<Vec<_>>().join("\n"), &expected);
    // `-fdiagnostics-format=msvc`, as clang-cl has it.
    check(
        "b.c(3,12): error: use of undeclared identifier 'b'\nb.c(1,11): note: passing argument to parameter 'a' here",
        &[
            "b.c:3:12 error use of undeclared identifier 'b'",
            "b.c:1:11 note passing argument to parameter 'a' here",
        ],
    );
}

#[test]
fn tsc_plain_and_with_colours() {
    let expected = [
        "src/a.ts:1:7 error Type 'string' is not assignable to type 'number'.",
        "src/a.ts:3:12 error Property 'missing' does not exist on type 'string'.",
        "src/a.ts:5:6 error Expected 1 arguments, but got 2.",
        "src/b.ts:1:10 error Module '\"./a.js\"' has no exported member 'g'.",
        "src/b.ts:4:13 error Object literal may only specify known properties, and 'b' does not exist in type \
         '{ a: number; }'.",
    ];
    check(include_str!("../../tests/diagnostics/tsc.txt"), &expected);
    check(include_str!("../../tests/diagnostics/tsc_pretty.txt"), &expected);
}

#[test]
fn go_vet() {
    check(
        include_str!("../../tests/diagnostics/go_vet.txt"),
        &[
            "lexer/lexer.go:12:9 error undefined: token",
            "parser.go:8:2 error fmt.Printf format %d has arg name of wrong type string",
            "parser.go:14:3 error unreachable code",
        ],
    );
    check("    parser_test.go:21: got 1, want 2", &["parser_test.go:21 error got 1, want 2"]);
}

#[test]
fn pytest() {
    check(
        include_str!("../../tests/diagnostics/pytest.txt"),
        &[
            "tests/test_calc.py:4 error AssertionError: assert 0 == 2",
            "calc.py:5 error ValueError: too  bad",
        ],
    );
    check(
        include_str!("../../tests/diagnostics/pytest_collection.txt"),
        &[
            "tests/test_import.py:1 error ModuleNotFoundError: No module named 'nothere'",
            "/project/tests/test_syntax.py:1 error SyntaxError: invalid syntax",
        ],
    );
}

#[test]
fn pytest_in_its_short_form_says_what_failed_and_a_warning_is_no_error() {
    check(
        include_str!("../../tests/diagnostics/pytest_short.txt"),
        &[
            "tests/test_calc.py:15 error RuntimeError: fixture",
            "/project/tests/test_more.py:4 error fixture 'nofix' not found",
            "tests/test_calc.py:5 error assert 0 == 2",
            "tests/test_calc.py:7 error AssertionError: assert {'a': 1, 'b': [1, 2]} == {'a': 1, 'b': [1, 3]}",
            "calc.py:7 error ValueError: too bad",
            "tests/test_calc.py:11 error Failed: DID NOT RAISE KeyError",
            "tests/test_calc.py:19 error Failed: own words",
            "tests/test_more.py:3 error test_more.Boom: no luck",
            "tests/test_more.py:8 error KeyError: 'x'",
            "tests/test_more.py:10 error test_more.Boom: after",
            "/project/calc.py:3 warning DeprecationWarning: old",
        ],
    );
}

#[test]
fn pytest_names_errors_whatever_their_class_is_called() {
    check(
        include_str!("../../tests/diagnostics/pytest_chain.txt"),
        &[
            "/project/tests/test_more.py:4 error fixture 'nofix' not found",
            "tests/test_more.py:3 error test_more.Boom: no luck",
            "tests/test_more.py:8 error KeyError: 'x'",
            "tests/test_more.py:10 error test_more.Boom: after",
        ],
    );
    // The last step in the project is where it went wrong.
    check(
        "____ test_a ____\ntests/test_a.py:3: in test_a\n    json.loads('')\n/usr/lib/python3/json/__init__.py:346: in \
         loads\n    return 1\nE   json.JSONDecodeError: Expecting value\n==== 1 failed ====\n",
        &["tests/test_a.py:3 error json.JSONDecodeError: Expecting value"],
    );
}

#[test]
fn a_panic_of_go_is_placed_where_the_projects_own_code_is() {
    check(
        include_str!("../../tests/diagnostics/go_test.txt"),
        &[
            "lib_test.go:3 error got 1, want 2",
            "lib_test.go:4 error sub",
            "/project/lib/lib.go:2 error panic: assignment to entry in nil map",
        ],
    );
    check(
        "panic: boom\n\ngoroutine 1 [running]:\nmain.main()\n\t/project/main.go:3 +0x28\nexit status 2\n",
        &["/project/main.go:3 error panic: boom"],
    );
    // A project may have a folder that is called as Go's own.
    check(
        "panic: boom\n\ngoroutine 1 [running]:\nmain.main()\n\t/project/src/runtime/host.go:3 +0x28\nexit status 2\n",
        &["/project/src/runtime/host.go:3 error panic: boom"],
    );
}

#[test]
fn what_a_test_printed_does_not_end_what_pytest_marked() {
    check(
        "____ test_a ____\ntests/test_a.py:3: in test_a\n    assert f() == 2\nE   assert 1 == 2\n\
         ---------- Captured stdout call ----------\nsrc/f.py:7:slow\n==== 1 failed ====\n",
        &["tests/test_a.py:3 error assert 1 == 2", "src/f.py:7 error slow"],
    );
}

#[test]
fn what_the_linker_misses_and_where_a_template_is_used() {
    check(
        include_str!("../../tests/diagnostics/ld.txt"),
        &[
            "/project/two.c:2 error undefined reference to `foo'",
            "/project/two.c:3 error undefined reference to `bar'",
            "/project/two.c:5 error undefined reference to `foo'",
        ],
    );
    check(
        include_str!("../../tests/diagnostics/gxx.txt"),
        &[
            "t.cpp:1:45 error no match for ‘operator+’ (operand types are ‘S’ and ‘S’)",
            "t.cpp:3:21 note required from here",
        ],
    );
}

#[test]
fn a_traceback_is_placed_where_it_ends() {
    check(
        "Traceback (most recent call last):\n  File \"run.py\", line 9, in <module>\n    main()\n  File \"a.py\", \
         line 3, in main\n    int('x')\nValueError: invalid literal\n",
        &["a.py:3 error ValueError: invalid literal"],
    );
    for raised in ["subprocess.TimeoutExpired: too late", "zlib.error: bad", "StopIteration"] {
        check(
            &format!("  File \"a.py\", line 3, in f\n    g()\n    ^^^\n{raised}\n"),
            &[&format!("a.py:3 error {raised}")],
        );
    }
}

#[test]
fn make_cmake_javac_and_anything_with_a_file_and_a_line() {
    check(
        "Makefile:3: *** missing separator.  Stop.",
        &["Makefile:3 error *** missing separator.  Stop."],
    );
    check(
        "CMake Error at CMakeLists.txt:4 (add_executable):\n  Cannot find source file:\n\n    main.c\n",
        &["CMakeLists.txt:4 error Cannot find source file:"],
    );
    check("src/A.java:3: error: ';' expected", &["src/A.java:3 error ';' expected"]);
    check("docs/my page.md:3:1: warning: long line", &["docs/my page.md:3:1 warning long line"]);
}

#[test]
fn what_is_no_place_in_a_file_is_left_alone() {
    for line in [
        "12:30:45: started",
        "127.0.0.1:8080: connection refused",
        "http://host.example:80/: not found",
        "error: could not compile `broken` (lib) due to 3 previous errors",
        "3 |     a.b:4: c",
        "ratio 3.5:1: fine",
        "b.c: In function ‘f’:",
        "warning: 2 warnings emitted",
        "make: *** [Makefile:3: check] Error 1",
        "a.c:99999999999999999999: error: far",
    ] {
        check(line, &[]);
    }
}

#[test]
fn each_is_told_once() {
    check(&"a.c:1:2: error: x\n".repeat(5000), &["a.c:1:2 error x"]);
}

proptest! {
    #[test]
    fn no_output_panics(lines in proptest::collection::vec(piece(), 0..40), joined in "\\PC{0,80}") {
        for diagnostic in parse(&format!("{}{joined}", lines.concat())) {
            prop_assert!(!diagnostic.path.is_empty());
            let raw = diagnostic.to_string().chars().any(|c| c.is_control() && c != '\t');
            prop_assert!(!raw);
        }
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        parse(&String::from_utf8_lossy(&bytes));
    }
}

/// Pieces that the reader knows, in any order and cut anywhere.
fn piece() -> impl Strategy<Value = String> {
    let known = proptest::sample::select(vec![
        "a.c",
        ":",
        "12",
        "(",
        ",",
        ")",
        "error",
        "error[E1]: ",
        "warning: ",
        " --> ",
        "\n",
        "\n\n",
        "E   ",
        "File \"a.py\", line 3",
        "thread 'x' panicked at ",
        "CMake Error at ",
        "____",
        "ValueError",
        ": in f",
        "\u{1b}[31m",
        "\u{1b}",
        "vet: ",
        "./",
        " - ",
        "é",
        "\r",
        "\t",
        "x y",
        "fatal error: ",
    ]);
    prop_oneof![9 => known.prop_map(str::to_owned), 1 => "\\PC{0,5}"]
}
