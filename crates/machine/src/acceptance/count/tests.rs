//! What test runners print, in their own words.

use super::*;

fn of(output: &str) -> Option<(u64, String)> {
    count(output).map(|counted| (counted.tests, counted.by.join("+")))
}

fn check(output: &str, tests: u64, by: &str) {
    assert_eq!(of(output), Some((tests, by.to_owned())), "{output}");
}

#[test]
fn cargo_test_counts_what_ran_in_every_binary() {
    let output = "\
   Compiling a v0.1.0 (/x)
     Running unittests src/lib.rs (target/debug/deps/a-1)

running 3 tests
test tests::a ... ok
test tests::b ... ignored
test tests::c ... FAILED

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

     Running tests/it.rs (target/debug/deps/it-1)

running 1 test
test it ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 2 filtered out; finished in 0.00s
";
    check(output, 3, "cargo test");
    check("\u{1b}[1mtest result: ok\u{1b}[0m. 7 passed; 0 failed; 0 ignored;\r\n", 7, "cargo test");
}

#[test]
fn nextest_counts_what_ran() {
    check(
        "------------\n     Summary [   0.012s] 12 tests run: 11 passed, 1 failed, 3 skipped\n",
        12,
        "cargo nextest",
    );
    check("     Summary [   0.012s] 1 test run: 1 passed, 0 skipped\n", 1, "cargo nextest");
    check(
        "     Summary [   0.012s] 4/12 tests run: 3 passed, 1 failed, 0 skipped\n",
        4,
        "cargo nextest",
    );
}

#[test]
fn pytest_is_understood_quiet_verbose_and_collecting() {
    let verbose = "\
============================= test session starts ==============================
collected 5 items

tests/test_a.py::test_one PASSED                                         [ 20%]
tests/test_a.py::test_two FAILED                                         [ 40%]
tests/test_a.py::test_three SKIPPED (later)                              [ 60%]
tests/test_a.py::test_four XFAIL                                         [ 80%]
tests/test_a.py::test_five XPASS                                         [100%]

=================================== FAILURES ===================================
============= 1 failed, 1 passed, 1 skipped, 1 xfailed, 1 xpassed in 0.03s =============
";
    check(verbose, 2, "pytest");
    check("..s\n2 passed, 1 skipped in 0.01s\n", 2, "pytest");
    check("....\n4 passed, 2 warnings in 65.31s (0:01:05)\n", 4, "pytest");
    check("\nno tests ran in 0.00s\n", 0, "pytest");
    check("============ 3 skipped in 0.01s ============\n", 0, "pytest");
    check("tests/a.py::test_x\ntests/a.py::test_y\n\n2 tests collected in 0.00s\n", 2, "pytest");
    check("tests/a.py::test_x\n\n1/3 tests collected (2 deselected) in 0.00s\n", 1, "pytest");
    assert_eq!(of("built in 3 steps\n"), None);
}

#[test]
fn jest_vitest_mocha_node_and_tap_are_understood() {
    let jest = "Test Suites: 1 failed, 2 passed, 3 total\nTests:       1 failed, 2 skipped, 3 todo, 10 passed, 16 total\nSnapshots:   0 total\n";
    check(jest, 11, "jest");
    let vitest = " Test Files  1 failed | 2 passed (3)\n      Tests  1 failed | 10 passed | 2 skipped | 1 todo (14)\n   Start at  10:00:00\n";
    check(vitest, 11, "vitest");
    check("      Tests  3 passed (3)\n", 3, "vitest");
    check("\n  Array\n    ✔ works\n\n  12 passing (30ms)\n  3 pending\n  1 failing\n", 13, "mocha");
    check(
        "✔ a (0.1ms)\nℹ tests 5\nℹ suites 0\nℹ pass 3\nℹ fail 1\nℹ cancelled 0\nℹ skipped 1\nℹ todo 0\n",
        4,
        "node --test",
    );
    let tap = "TAP version 13\nok 1 - a\nnot ok 2 - b\nok 3 - c # SKIP no network\nnot ok 4 d # TODO later\n1..4\n";
    check(tap, 2, "TAP");
    check("1..2\nok 1\nok 2\n", 2, "TAP");
}

#[test]
fn go_unittest_and_ctest_are_understood() {
    let go = "=== RUN   TestA\n=== RUN   TestA/one\n--- PASS: TestA (0.00s)\n    --- PASS: TestA/one (0.00s)\n--- FAIL: TestB (0.00s)\n--- SKIP: TestC (0.00s)\nFAIL\n";
    check(go, 3, "go test");
    check("=== RUN   TestC\n--- SKIP: TestC (0.00s)\nPASS\n", 0, "go test");
    check(
        "...\n----------------------------------------------------------------------\nRan 12 tests in 0.001s\n\nOK (skipped=2)\n",
        10,
        "unittest",
    );
    check("Ran 1 test in 0.000s\n\nOK\n", 1, "unittest");
    check(
        "Ran 5 tests in 0.000s\n\nFAILED (failures=1, errors=1, expected failures=1)\n",
        4,
        "unittest",
    );
    let ctest = "1/3 Test #1: a ....   Passed    0.00 sec\n2/3 Test #2: b ....***Skipped   0.00 sec\n3/3 Test #3: c ....***Failed   0.00 sec\n\n67% tests passed, 1 tests failed out of 3\n";
    check(ctest, 2, "ctest");
}

#[test]
fn a_list_has_one_test_a_line() {
    check("a::b: test\nc: test\nd: benchmark\n\n2 tests, 1 benchmarks\n", 2, "a list");
    check("TestA\nTestB\n\n", 2, "a list");
    assert_eq!(of("ok  \tpkg\t0.01s\n"), None, "go test without -v says nothing of tests");
    assert_eq!(of("everything is fine\n"), None);
    assert_eq!(of(""), None);
}

#[test]
fn several_runners_add_up() {
    let both = "test result: ok. 3 passed; 0 failed; 0 ignored;\n4 passed in 0.01s\n";
    check(both, 7, "cargo test+pytest");
}

#[test]
fn fewer_tests_fail_and_so_does_what_nobody_understands() {
    let ran = |passed: u64, ignored: u64| {
        format!("test result: ok. {passed} passed; 0 failed; {ignored} ignored; 0 measured;\n")
    };
    assert!(compare(&ran(3, 0), &ran(3, 0)).passed);
    assert!(compare(&ran(3, 0), &ran(4, 0)).passed);
    insta::assert_snapshot!(compare(&ran(3, 0), &ran(2, 1)).evidence, @"there are fewer tests than before: 3 tests on the base, 2 now (by cargo test); skipped ones do not count");
    let unknown = compare(&ran(3, 0), "all good\nreally\n\n all of it\n");
    assert!(!unknown.passed && unknown.evidence.contains("handed over is not understood"));
    assert!(
        compare("oh no it broke", &ran(3, 0)).evidence.contains("on the base is not understood")
    );
}

proptest::proptest! {
    #[test]
    fn counting_never_fails(output in "(.|\n){0,200}") {
        let _ = count(&output);
    }

    #[test]
    fn numbers_too_large_are_no_trouble(number in "[0-9]{1,30}") {
        for text in [
            format!("test result: ok. {number} passed; {number} failed; 0 ignored;"),
            format!("{number} passed, {number} failed in 0.1s"),
            format!("Ran {number} tests in 0.1s\n\nOK (skipped={number})"),
            format!("100% tests passed, 0 tests failed out of {number}"),
        ] {
            let _ = count(&text);
        }
    }
}
