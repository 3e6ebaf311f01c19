//! A clean place to run the real binary in: its own home, its own folder, nothing else from outside.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::leaks::{self, Mark};

/// How long anything here may take, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(60);

/// A home, a project folder and the binary.
pub(crate) struct TestEnvironment {
    root: tempfile::TempDir,
    /// Variables of the commands beside the usual ones.
    variables: Vec<(String, String)>,
    /// The user's key at every provider; must not be found in anything that a test leaves behind.
    key: Mark,
}

/// Where providers' keys are looked for.
const KEYS: [&str; 6] = [
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "MISTRAL_API_KEY",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
];

/// What a command printed and how it ended.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl TestEnvironment {
    pub(crate) fn new() -> TestEnvironment {
        let (root, key) = (tempfile::tempdir().unwrap(), Mark::new("key"));
        let environment = TestEnvironment { root, variables: Vec::new(), key };
        std::fs::create_dir(environment.folder()).unwrap();
        environment
    }

    /// The same, with a variable for every command.
    #[allow(dead_code, reason = "used where a program needs a key")]
    pub(crate) fn with_variable(mut self, name: &str, value: &str) -> TestEnvironment {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The user's key at every provider.
    pub(crate) fn key(&self) -> &str {
        &self.key.text
    }

    /// The folder commands are run in.
    pub(crate) fn folder(&self) -> PathBuf {
        self.root.path().join("project")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.folder().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.folder().join(path)).unwrap_or_default()
    }

    /// Runs git in the project and gives what it printed.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=someone", "-c", "user.email=someone@example.org"])
            .args(arguments)
            .current_dir(self.folder())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.root.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// Commits everything in the project.
    pub(crate) fn commit_all(&self, message: &str) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", message]);
    }

    /// A task file with a workflow of shell steps, and whatever is added to it.
    pub(crate) fn steps(&self, path: &str, commands: &[&str], more: &str) {
        let mut text =
            "[task]\ngoal = \"make the numbers add up\"\ndriver = \"workflow\"\n".to_owned();
        for (index, command) in commands.iter().enumerate() {
            text.push_str(&format!(
                "[[task.driver_config.steps]]\nname = \"s{}\"\ntool = \"shell\"\nparameters = {{ command = {} }}\n",
                index + 1,
                Value::from(*command)
            ));
        }
        let workspace = "[workspace]\nkind = \"in_place\"\n";
        self.write(path, &format!("{text}{workspace}{more}"));
    }

    /// The same for a task in a worktree.
    pub(crate) fn worktree_steps(&self, path: &str, commands: &[&str], more: &str) {
        self.steps(path, commands, more);
        self.write(path, &self.read(path).replace("in_place", "worktree"));
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drivetrain"));
        command
            .args(args)
            .current_dir(self.folder())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.root.path())
            .env("DRIVETRAIN_HOME", self.home())
            .env("TZ", "UTC")
            .envs(KEYS.map(|name| (name, &self.key.text)))
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.ran(self.command(args).output().unwrap())
    }

    /// Runs a command that must end with 0 and gives what it printed.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{args:?}\n{}{}", ran.out, ran.err);
        ran.out
    }

    /// Trusts the project's files as they are.
    pub(crate) fn trust(&self) {
        self.ok(&["trust", "--yes"]);
    }

    /// Runs a command with lines on its standard input.
    pub(crate) fn run_with(&self, args: &[&str], input: &str) -> Ran {
        self.run_with_bytes(args, input.as_bytes())
    }

    /// The same, with what may be no text.
    pub(crate) fn run_with_bytes(&self, args: &[&str], input: &[u8]) -> Ran {
        use std::io::Write;
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that refuses its arguments is gone before it has read anything.
        let _ = child.stdin.take().unwrap().write_all(input);
        self.ran(child.wait_with_output().unwrap())
    }

    /// Starts `run FILE` in the background and waits until the task exists.
    pub(crate) fn start(&self, args: &[&str]) -> Background<'_> {
        self.start_command(self.command(args))
    }

    /// The same by way of `env`, which can say what becomes of signals.
    pub(crate) fn start_by_env(&self, option: &str, args: &[&str]) -> Background<'_> {
        let plain = self.command(args);
        let variables = plain.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let mut command = Command::new("env");
        command
            .arg(option)
            .arg(plain.get_program())
            .args(plain.get_args())
            .current_dir(self.folder())
            .env_clear()
            .envs(variables)
            .stdin(Stdio::null());
        self.start_command(command)
    }

    fn start_command(&self, mut command: Command) -> Background<'_> {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut background =
            Background { environment: self, child: Some(child), id: String::new() };
        background.id = self.until(|| {
            let tasks = self.tasks();
            tasks
                .iter()
                .find(|task| !task["driven_by"].is_null())
                .map(|task| task["id"].as_str().unwrap().to_owned())
        });
        background
    }

    pub(crate) fn tasks(&self) -> Vec<Value> {
        let listed: Value = serde_json::from_str(&self.ok(&["list", "--all", "--json"])).unwrap();
        assert_eq!(listed["v"], 1);
        listed["tasks"].as_array().unwrap().clone()
    }

    pub(crate) fn show(&self, id: &str) -> Value {
        serde_json::from_str(&self.ok(&["show", id, "--json"])).unwrap()
    }

    /// The only task's id.
    pub(crate) fn id(&self) -> String {
        let tasks = self.tasks();
        assert_eq!(tasks.len(), 1);
        tasks[0]["id"].as_str().unwrap().to_owned()
    }

    /// The events of a task.
    pub(crate) fn events(&self, id: &str) -> Vec<Value> {
        let log = self.ok(&["log", id, "--json"]);
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The types of a task's events.
    pub(crate) fn types(&self, id: &str) -> Vec<String> {
        self.events(id).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    }

    /// Asks again and again until there is an answer.
    pub(crate) fn until<T>(&self, ask: impl Fn() -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(answer) = ask() {
                return answer;
            }
            assert!(begun.elapsed() < PATIENCE, "nothing came of it in time");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The names of the processes that work in the project.
    pub(crate) fn processes(&self) -> Vec<String> {
        let folder = self.folder();
        let listed = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let name = |process: PathBuf| {
            let cwd = std::fs::read_link(process.join("cwd")).ok()?;
            let name = std::fs::read_to_string(process.join("comm")).unwrap_or_default();
            cwd.starts_with(&folder).then(|| name.trim().to_owned())
        };
        listed.filter_map(name).collect()
    }

    /// A repository with one file that anybody sees, and the agent `played`, a fake one that plays these steps. Its script lies
    /// outside of the workspace.
    pub(crate) fn with_played_agent(steps: &[&str]) -> TestEnvironment {
        TestEnvironment::with_played_agents(&[("played", steps)])
    }

    /// The same with agents of these names.
    pub(crate) fn with_played_agents(agents: &[(&str, &[&str])]) -> TestEnvironment {
        let place = TestEnvironment::new();
        for (name, steps) in agents {
            let script = place.home().with_file_name(format!("{name}.txt"));
            std::fs::write(&script, steps.join("\n")).unwrap();
            let program = env!("CARGO_BIN_EXE_drivetrain");
            let command = [program, "fake", "agent", script.to_str().unwrap()];
            let more = format!("protocol = \"claude\"\nidle = \"60s\"\ncommand = {command:?}\n");
            place.write_agent(name, &more);
        }
        place.write("main.py", "print(1)\n");
        place.git(&["init", "--quiet"]);
        place.commit_all("one");
        place
    }

    /// Writes the file of an agent, which is the user's own and not the project's.
    pub(crate) fn write_agent(&self, name: &str, more: &str) {
        let own = self.home().with_file_name(".config").join("drivetrain/agents");
        std::fs::create_dir_all(&own).unwrap();
        let file = format!("[agent]\nname = {name:?}\n{more}");
        std::fs::write(own.join(format!("{name}.toml")), file).unwrap();
    }

    /// Waits until nothing of a process that was killed works in the project any more. What is left of bubblewrap itself runs
    /// nothing, and is ended by the next start.
    pub(crate) fn until_quiet(&self) {
        let is_quiet = || self.processes().iter().all(|name| name == "bwrap");
        self.until(|| is_quiet().then_some(()));
    }

    /// Waits until the process that drives a task has heard that it should stop.
    pub(crate) fn until_draining(&self, id: &str) {
        self.until(|| self.ok(&["journal", "export", id]).contains("\"drain\"").then_some(()));
    }

    /// Waits until a file of the project is there.
    pub(crate) fn until_file(&self, path: &str) {
        self.until(|| self.folder().join(path).exists().then_some(()));
    }

    /// Ids, paths, process numbers and times, which differ from run to run, as words.
    pub(crate) fn plain(&self, text: &str) -> String {
        let mut text = text.to_owned();
        if self.home().join("journal").exists() {
            for task in self.tasks() {
                text = text.replace(task["id"].as_str().unwrap(), "ID");
            }
        }
        text = text.replace(&self.folder().to_string_lossy().into_owned(), "FOLDER");
        text = text.replace(&self.home().to_string_lossy().into_owned(), "HOME");
        let lines: Vec<String> = text.lines().map(normal_times).collect();
        lines.join("\n")
    }

    /// What the step of this name printed.
    pub(crate) fn result(&self, label: &str) -> String {
        let events = self.events(&self.id());
        let ended = |event: &&Value| event["type"] == "tool_ended" && event["label"] == label;
        events.iter().find(ended).unwrap()["result"]["text"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn ran(&self, output: Output) -> Ran {
        let leaks = [&output.stdout, &output.stderr].map(|said| self.key.is_in(said));
        assert_eq!(leaks, [false, false], "the user's key was printed");
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Drop for TestEnvironment {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let files = leaks::files(self.root.path());
        for path in &files {
            let read = std::fs::read(path).unwrap_or_default();
            assert!(!self.key.is_in(&read), "the user's key is in {}", path.display());
        }
        for repository in leaks::repositories(&files) {
            let held = self.key.is_in(&leaks::objects(repository));
            assert!(!held, "the user's key is in {}", repository.display());
        }
    }
}

/// Replaces durations such as `12ms`, `1.2s` and `1m3s` by TIME, and keeps everything else.
fn normal_times(line: &str) -> String {
    let mut shown = String::new();
    if line.starts_with("last news") {
        return "last news  WHEN".to_owned();
    }
    if line.starts_with("receipt    ") {
        return "receipt    RECEIPT".to_owned();
    }
    for piece in line.split_inclusive([' ', '(', ')', ',']) {
        let word = piece.trim_end_matches([' ', '(', ')', ',']);
        let digits = word.starts_with(|c: char| c.is_ascii_digit());
        let unit = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let is_time = digits && matches!(unit, "ms" | "s");
        shown.push_str(if is_time { "TIME" } else { word });
        shown.push_str(&piece[word.len()..]);
    }
    shown.trim_end().to_owned()
}

/// A run in the background. Ends with its test.
pub(crate) struct Background<'a> {
    environment: &'a TestEnvironment,
    child: Option<Child>,
    pub(crate) id: String,
}

impl Background<'_> {
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &self.pid().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Ran {
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        self.environment.ran(output)
    }
}

impl Drop for Background<'_> {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whether a path exists below the home.
pub(crate) fn exists(path: &Path) -> bool {
    path.exists()
}
