//! Lines that do more than they seem to, each beside the ordinary ones that must not be asked about because of them.

use machine::policy::permission::{Author, Decide, Policy, Question, judge};
use machine::tool::EffectClass;
use serde_json::json;

const LOOKS: &str = "profile = \"read-only\"\n";
const DEV: &str = "profile = \"dev\"\n";
/// Everything but one program.
const NO_TOUCH: &str = "profile = \"open\"\n[[rule]]\ncommand = \"touch\"\ndecide = \"deny\"\n";
/// The contents of one folder stay where they are.
const KEPT: &str =
    "profile = \"dev\"\n[[rule]]\npath = \"data/kept/**\"\naccess = \"read\"\ndecide = \"deny\"\n";
const KEPT_OPEN: &str =
    "profile = \"open\"\n[[rule]]\npath = \"data/kept/**\"\naccess = \"read\"\ndecide = \"deny\"\n";
/// One host may be spoken to.
const HOST: &str = "profile = \"dev\"\n[[rule]]\nhost = \"good.example\"\ndecide = \"allow\"\n";

fn decided(policy: &Policy, line: &str) -> (Decide, String) {
    let input = json!({ "command": line });
    let question = Question {
        tool: "shell",
        input: &input,
        class: EffectClass::Unsafe,
        author: Author::Worker,
        driver: "llm",
        within: &[],
        attended: true,
        workspace: Some("/rig/wt"),
        sandboxed: true,
    };
    let judgement = judge(policy, &question);
    (judgement.decide, judgement.said())
}

/// None of the first lines is allowed by the policy, and each of the second is.
fn check(policy: &str, held: &[&str], allowed: &[&str]) {
    let policy = super::policy_from(policy);
    let mut wrong = Vec::new();
    for (lines, allows) in [(held, false), (allowed, true)] {
        for line in lines {
            let (decide, said) = decided(&policy, line);
            if (decide == Decide::Allow) != allows {
                wrong.push(format!("{line}: {said}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_xargs_puts_in_place_of_a_mark_is_not_certain_once_a_later_option_says_how_many() {
    check(
        LOOKS,
        &[
            "xargs -I{} -n9 echo a",
            "xargs -I{} -L1 echo a",
            "xargs -I{} -L 1 echo a",
            "xargs -i -l echo a",
            "xargs --replace=x --max-args=2 echo a",
            "xargs -I x --max-lines=2 echo a",
            "xargs -0I{} -n9 echo a",
        ],
        &[
            "xargs -I{} echo {}",
            "xargs -n1 echo",
            "xargs -n1 -I{} echo {}",
            "xargs -0 -I{} -P4 echo {} done",
        ],
    );
}

#[test]
fn a_pattern_of_awk_or_sed_ends_where_all_of_them_see_its_end() {
    check(
        LOOKS,
        &[
            r#"awk '/[\]/]"/ { system("touch x") } /"/'"#,
            r#"awk '/[]/]"/ { system("touch x") } /"/'"#,
            r#"awk '/[^]"/]/ { system("touch x") } /"/'"#,
            r#"awk '/[[:a]"/ { print }'"#,
            r#"awk '/[[:alpha:]/]"/ { print }'"#,
            r#"awk '/[a/]"/'"#,
            "awk '/a\\\n/ { print }'",
            r#"awk 'BEGIN { x++ /1; system("touch x"); 1/ 1 }'"#,
            r#"awk 'BEGIN { x-- /1; system("touch x"); 1/ 1 }'"#,
            r#"awk 'BEGIN { length /"/; system("touch x"); x = /"/ }'"#,
            "sed 's/[]/x/;s/]//'",
            "sed 's/[[:a:]/x/'",
            "sed '/[]/p;s/]/x/'",
        ],
        &[
            "awk '/[0-9]+/{print}'",
            "awk '/^[ \\t]*#/ { next } { print }'",
            "awk '{ gsub(/[\\[\\]\"]/, \"\"); print }'",
            "awk '/^[[:space:]]*fn / { n++ } END { print n }'",
            "awk -F'[/:]' '$1 ~ /^\\/usr[^\\/]+$/ { print $2 / 2 }'",
            "awk '/[]x]/'",
            "awk 'length > 80 && NF / 2 > 3 { print length($0), length }'",
            "awk '{ x += $1 / 2; i++; print i }'",
            "sed -n '/^[[:space:]]*$/d;s/[^a-z]/_/gp'",
            "sed 's|[^/]*/||;s:[[]x[]]:y:'",
            "sed 's/\\[x\\]/[y]/g'",
        ],
    );
}

#[test]
fn options_of_a_shell_may_begin_with_a_plus() {
    let held = [
        "sh +x -c 'touch x'",
        "bash +x -c 'touch x'",
        "sh -c +x 'touch x'",
        "bash -e +u -c 'touch x'",
        "sh +c 'touch x'",
        "bash + -c 'touch x'",
        "bash -c - 'touch x'",
        "bash +O extglob -c 'touch x'",
        "sh +x",
    ];
    check(NO_TOUCH, &held, &["bash -xc 'ls'", "sh +x -c 'ls'", "bash +x build.sh"]);
    check(LOOKS, &held, &["bash -xc 'ls'", "sh +x -c 'ls'"]);
    check(DEV, &["sh +x"], &["bash +x build.sh", "bash -eu build.sh", "sh build.sh -c x"]);
}

#[test]
fn a_device_is_one_however_its_path_is_written() {
    let held = [
        "sh //dev/stdin",
        "sh /dev/./stdin",
        "bash /proc/self//fd/0",
        "bash ///proc/self/fd/0",
        "sh /tmp/../dev/stdin",
        "sh ../../dev/fd/0",
        "sh ../../../dev//stdin",
        "python3 //dev/stdin",
        "node /usr/..//dev/fd/0",
        "make -f //dev/stdin",
        "make -f/./dev/stdin",
        "make -f ../../dev/stdin",
        "make --file /dev/./stdin",
        "make --makefile -",
        "make --makefile //dev/stdin",
        "make -kf -",
        "make -kf- all",
        "make -kf//dev/stdin",
        "make -C //dev -f stdin",
    ];
    let allowed = [
        "sh scripts/dev/run.sh",
        "bash ./dev/stdin.sh",
        "bash dev/build.sh",
        "python3 proc/x.py",
        "make -f build/Makefile -j4 all",
        "make -C sub/dev test",
    ];
    check(DEV, &held, &allowed);
    check(NO_TOUCH, &held, &allowed);
}

#[test]
fn options_of_ssh_stand_together_and_behind_the_host_too() {
    check(
        NO_TOUCH,
        &[
            "ssh -vo ProxyCommand='touch x' h",
            "ssh -voProxyCommand='touch x' h",
            "ssh h -vo ProxyCommand='touch x'",
            "ssh h -o ProxyCommand='touch x'",
            "ssh -4NF x h",
            "ssh -vI ./x.so h",
            "ssh \"$x\" h",
            "scp -qo ProxyCommand='touch x' a h:b",
            "scp -rqS ./x a h:b",
            "sftp h",
            "rsync -ave ./x a h:b",
            "rsync a h:b -ave ./x",
        ],
        &[
            "ssh -v h ls -lo",
            "ssh -p 22 -l me h uptime",
            "ssh -i k -pl h ls -o",
            "scp -rq a h:b",
            "scp -P 22 a h:b",
            "rsync -avz --delete a h:b",
        ],
    );
    let named = "profile = \"dev\"\n[[rule]]\nhost = \"h\"\ndecide = \"allow\"\n";
    check(
        named,
        &["ssh h -E ../log ls", "ssh h -i ../../key ls", "ssh h -vE ../log"],
        &["ssh h ls -E x", "ssh h -v ls"],
    );
}

#[test]
fn what_stands_behind_the_split_text_of_env_belongs_to_its_command() {
    check(
        LOOKS,
        &[
            "env -S 'sed s/x/y/' -i a",
            "env -vS 'sed s/x/y/' -i a",
            "env --split-string='sed s/x/y/' -i a",
            "env --split-string 'sed s/x/y/' -i a",
            "env '-Ssed s/x/y/' -i a",
            "env -i -S 'LANG=C sed s/x/y/' -i a",
            "env -S '-i sed s/x/y/' -i a",
            "env -S '-S sed' s/x/y/ -i a",
            "env -u x",
            "env -S ''",
            "env -S 'LANG=C'",
        ],
        &["env -S 'sed s/x/y/' a", "env -S 'LANG=C ls' -i a", "env -u x ls", "env -i ls"],
    );
}

#[test]
fn what_rustc_prints_to_a_file_is_written() {
    check(
        LOOKS,
        &["rustc --print cfg=a", "rustc --print=cfg=a", "rustc --print sysroot --print cfg=a"],
        &["rustc --print cfg", "rustc --print=sysroot", "rustc -vV", "rustc --explain E0308"],
    );
    check(DEV, &["rustc --print cfg=../a", "rustc --print=cfg=.git/x"], &["rustc --print cfg=a"]);
}

#[test]
fn what_go_lists_changes_nothing() {
    check(
        LOOKS,
        &["go list -mod=mod ./...", "go list -mod mod ./...", "go list -m -u all"],
        &["go list ./...", "go list -m all", "go list -f '{{.Dir}}' -json", "go doc x", "go env"],
    );
}

#[test]
fn a_name_of_git_that_is_given_another_meaning_is_recorded() {
    check(
        LOOKS,
        &[
            "git symbolic-ref HEAD refs/heads/x",
            "git symbolic-ref -m why HEAD refs/heads/x",
            "git symbolic-ref -d x",
            "git symbolic-ref --delete x",
            "git symbolic-ref *",
            "git tag --sort=refname v1",
        ],
        &[
            "git symbolic-ref HEAD",
            "git symbolic-ref --short -q HEAD",
            "git tag --sort=refname",
            "git tag -l --sort=refname 'v*'",
        ],
    );
    check(DEV, &[], &["git symbolic-ref HEAD refs/heads/x", "git tag --sort=refname v1"]);
}

#[test]
fn what_find_runs_in_other_folders_is_not_certain() {
    check(
        DEV,
        &[
            "find . -name config -execdir rm x {} \\;",
            "find .git -type f -execdir touch x \\;",
            "find . -okdir touch x \\;",
        ],
        &["find . -name x -exec ls \\;", "find . -name '*.o' -delete"],
    );
}

#[test]
fn the_difference_of_two_folders_shows_what_is_in_them() {
    check(
        KEPT,
        &["diff data other", "diff -N data other", "diff other data", "diff -rq . other"],
        &["diff a b", "diff -r src lib", "diff -u data/x data/y", "diff -N src lib"],
    );
}

#[test]
fn contents_that_git_shows_are_read_whatever_names_them() {
    let shown = [
        "git diff --stat --binary",
        "git log --binary",
        "git log -c",
        "git show --stat --binary",
        "git diff --check",
        "git reflog -p",
        "git reflog show --binary",
        "git stash show --binary",
        "git stash show --no-color",
        "git stash list -p",
        "git cat-file -p 8ab27a3f",
        "git cat-file blob 8ab27a3f",
        "git show --stat 8ab27a3f",
        "git show 8ab27a3f -- src",
        "git diff 8ab27a3f -- src",
        "git grep x HEAD",
        "git grep x 8ab27a3f -- src",
        "git status -v",
        "git status --verbose",
        "git commit --dry-run -v",
        "git checkout -p HEAD~1",
        "git tag -l --format='%(raw)'",
        "git branch --format '%(raw)'",
        "git for-each-ref --format='%(raw)'",
    ];
    let plain = [
        "git log --oneline -5",
        "git log --stat",
        "git log -p -- src",
        "git diff --stat",
        "git diff -- src",
        "git show --stat HEAD",
        "git show HEAD:src/x",
        "git reflog",
        "git stash list",
        "git stash show",
        "git stash show --stat",
        "git cat-file -t 8ab27a3f",
        "git cat-file -p HEAD:src/x",
        "git grep x -- src",
        "git status -sb",
        "git branch --format='%(refname)'",
        "git for-each-ref --format='%(refname)'",
        "git commit -m x",
    ];
    check(KEPT, &shown, &plain);
    check(LOOKS, &["git reflog drop --all", "git reflog delete HEAD@{1}"], &["git reflog"]);
    check(
        DEV,
        &["git tag x HEAD:.env"],
        &["git tag v1 HEAD", "git log -p", "git cat-file -p HEAD"],
    );
    // Of these nothing is known but that they show or carry off what is recorded.
    let unknown = [
        "git archive HEAD",
        "git bundle create ../b --all",
        "git fast-export --all",
        "git format-patch --stdout HEAD~1",
        "git cat-file --batch",
        "git -c a.b=c diff",
        "git log -p --an-option",
        "git an-alias",
    ];
    check(KEPT_OPEN, &unknown, &["git gc", "git config user.name x", "git fetch", "git status"]);
}

#[test]
fn what_an_unknown_program_is_given_may_be_a_folder_with_all_that_is_in_it() {
    check(
        KEPT_OPEN,
        &["tar c data | tar xO", "tar cf - .", "zip -r - data", "frob --from=data", "frob -Cdata"],
        &["tar c src", "frob --from=src", "frob -v other", "frob -Csrc"],
    );
}

#[test]
fn what_is_read_or_removed_with_a_folder_above_the_workspace_is_in_it_too() {
    let held =
        ["grep -r x ..", "grep -r x /", "rg x /r*", "cp -r /rig ../x", "frob /rig", "frob ../.."];
    check(
        KEPT_OPEN,
        &held,
        &["grep -r x /etc", "cp -r /rigs ../x", "frob /rig/other", "ls ..", "cat ../x"],
    );
    let written = "profile = \"open\"\n[[rule]]\npath = \"data/kept/**\"\naccess = \"write\"\ndecide = \"deny\"\n";
    check(
        written,
        &["rm -rf ..", "mv /rig /x", "rm -rf /*"],
        &["rm -rf ../other", "rm -rf /tmp/x"],
    );
    let home = "profile = \"open\"\n[[rule]]\npath = \"~/kept/**\"\ndecide = \"deny\"\n";
    check(home, &["grep -r x /users", "grep -r x ~", "rm -rf /users/u"], &["grep -r x /users/v"]);
}

#[test]
fn a_host_is_known_only_where_every_program_sees_the_same() {
    check(
        HOST,
        &[
            "curl http:/evil.example/",
            "curl http:evil.example",
            r"curl 'http:\\evil.example'",
            r"curl 'https://evil.example\@good.example'",
            "curl evil.example/x://good.example",
            "curl 'evil.example?x://good.example'",
            "curl https://a@evil.example@good.example",
            "curl https://evil.example:80:good.example",
            "wget http:/evil.example/",
            "wget evil.example/x://good.example",
            "wget 'http://evil.example;@good.example'",
            "scp a evil.example:x://good.example",
            "curl 'fil{e}:///etc/passwd'",
        ],
        &[
            "curl https://good.example/x",
            "curl 'good.example:8080/x?y=http://z'",
            "curl -s https://me:pw@good.example:443/x",
            "curl HTTPS://Good.example",
            "wget -q good.example/x",
            "git clone https://good.example/x",
            "git clone me@good.example:x/y",
            "scp a good.example:b",
        ],
    );
    let open = "profile = \"open\"\n[[rule]]\nhost = \"http\"\ndecide = \"ask\"\n[[rule]]\nhost = \"evil.example\"\ndecide = \"deny\"\n";
    check(open, &["curl http:/evil.example/", "curl http:evil.example"], &["curl good.example"]);
    check(
        KEPT_OPEN,
        &["curl 'fil{e}:///rig/wt/data/kept/x'", "curl \"f$x\""],
        &[
            "curl a.example",
            "curl \"https://a.example/$x\"",
            "curl http://[::1]:3000/",
            "curl https://a.example/x?y=1",
        ],
    );
}
