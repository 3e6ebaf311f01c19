//! Programs of their own beside a task: plugins and servers of tools are inside as well.

use crate::environment::TestEnvironment;

/// A driver that says what it could do, as its reason to give up.
const PLUGIN: &str = r#"
while read -r line; do
    n=${line#*\"id\":}; n=${n%%,*}
    case "$line" in
    *'"method":"initialize"'*) r='{"name":"t","version":"1","capabilities":{}}';;
    *)
        seen=
        touch "$W/planted" 2>/dev/null && seen="$seen wrote"
        cat "$W/given" >/dev/null 2>&1 && seen="$seen read"
        cat "$W/../.ssh/id" >/dev/null 2>&1 && seen="$seen secret"
        [ "$(find "$W/../home" -type f 2>/dev/null)" ] && seen="$seen journal"
        [ "$(find "$W/../home" -type s ! -name gate.sock 2>/dev/null)" ] && seen="$seen control"
        r="{\"decision\":\"give_up\",\"reason\":\"seen:$seen.\"}";;
    esac
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$n" "$r"
done
"#;

fn gave_up(needs: &str) -> String {
    let environment = TestEnvironment::new();
    environment.write("given", "x");
    std::fs::create_dir_all(environment.folder().join("../.ssh")).unwrap();
    std::fs::write(environment.folder().join("../.ssh/id"), "secret").unwrap();
    environment.write("plugin.sh", PLUGIN);
    environment.write(
        ".drivetrain/drivers/looker.toml",
        &format!(
            "[driver]\nname = \"looker\"\ncommand = [\"sh\", \"plugin.sh\"]\nenv = {{ W = {:?} }}\n{needs}",
            environment.folder().to_str().unwrap()
        ),
    );
    let ran = environment.run(&["run", "look around", "--driver", "external:looker", "--in-place"]);
    assert_eq!(ran.code, 10, "{}{}", ran.out, ran.err);
    assert_eq!(environment.folder().join("planted").exists(), ran.out.contains("wrote"));
    ran.out
}

#[test]
fn a_plugin_looks_at_the_workspace_and_at_nothing_else() {
    let out = gave_up("");
    assert!(out.contains("seen: read."), "{out}");
    let out = gave_up("workspace = \"write\"\n");
    assert!(out.contains("seen: wrote read."), "{out}");
}

/// Some variables lead a program to code of others before it begins. What makes the walls must not be led there: it is still
/// outside of them. Here the linker is told to write down whatever it links.
#[test]
fn what_makes_the_walls_has_no_variable_of_what_runs_inside() {
    for level in ["full", "reduced"] {
        let environment = TestEnvironment::new();
        let place = environment.folder().join("../linked");
        std::fs::create_dir(&place).unwrap();
        let linked = place.join("by");
        environment.write(
            ".drivetrain/drivers/linked.toml",
            &format!(
                "[driver]\nname = \"linked\"\ncommand = [\"sh\", \"plugin.sh\"]\n\
                 env = {{ LD_DEBUG = \"libs\", LD_DEBUG_OUTPUT = {linked:?}, W = \"{level}\" }}\n"
            ),
        );
        let tells = r#"
while read -r line; do
    n=${line#*\"id\":}; n=${n%%,*}
    case "$line" in
    *'"method":"initialize"'*) r='{"name":"t","version":"1","capabilities":{}}';;
    *) r="{\"decision\":\"give_up\",\"reason\":\"has $W and $LD_DEBUG.\"}";;
    esac
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$n" "$r"
done
"#;
        environment.write("plugin.sh", tells);
        let mut words = vec!["run", "look", "--driver", "external:linked", "--in-place"];
        words.extend(["--sandbox", level]);
        let ran = environment.run(&words);
        assert!(ran.out.contains(&format!("has {level} and libs.")), "{}{}", ran.out, ran.err);
        let seen: Vec<_> =
            std::fs::read_dir(&place).unwrap().map(|at| at.unwrap().path()).collect();
        assert!(seen.is_empty(), "{level}: {:?}", std::fs::read_to_string(&seen[0]));
    }
}
