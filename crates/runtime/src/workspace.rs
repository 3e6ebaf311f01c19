//! Workspaces and their checkpoints, by git. The user's branch, index and files stay as they are; nothing is ever
//! removed by force. A repository may be hostile, so git runs without hooks, filters, transports or anyone's
//! settings, and checkpoints live in a git directory of our own.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use machine::task::{Workspace, WorkspaceKind, WorkspaceSpec};
use serde::{Deserialize, Serialize};

use crate::process::{Cancel, Containment, ProcessSpec, Streams, run};

/// How long one git command may take.
const GIT_TIMEOUT: Duration = Duration::from_secs(600);

/// Makes the task's workspace, or finds the one that was made before, whole again where it was left half made.
///
/// `folder` is where the task was started; worktrees are kept below `state_home`. Asking again for the same task
/// gives the same workspace with the same base, wherever the user's branch has moved meanwhile.
pub fn open(
    task: &str,
    spec: &WorkspaceSpec,
    folder: &Path,
    state_home: &Path,
) -> Result<Workspace, String> {
    check_task(task)?;
    if spec.kind == Some(WorkspaceKind::None) {
        return Ok(Workspace { kind: WorkspaceKind::None, path: None, branch: None, base: None });
    }
    let state_home = &absolute(state_home)?;
    let record = Record::path(task, state_home);
    if spec.kind != Some(WorkspaceKind::InPlace) && record.exists() {
        return reopen(task, Record::read(&record)?, folder, state_home);
    }
    let folder = folder.canonicalize().map_err(|error| {
        format!(
            "cannot use the folder {}: {error}; start the task in a folder that exists",
            folder.display()
        )
    })?;
    if spec.kind == Some(WorkspaceKind::InPlace) {
        return in_place(&folder);
    }
    match (Repository::find(&folder), spec.kind) {
        (Ok(repository), _) => create(task, &repository, state_home),
        (Err(reason), Some(_)) => Err(format!(
            "cannot make a worktree for {}: {reason}; run \"git init\" and make a commit, or set kind = \
             \"in_place\" under [workspace]",
            folder.display()
        )),
        (Err(_), None) => in_place(&folder),
    }
}

fn in_place(folder: &Path) -> Result<Workspace, String> {
    let base = Repository::look(folder).ok().map(|repository| repository.head);
    Ok(Workspace { kind: WorkspaceKind::InPlace, path: Some(text(folder)?), branch: None, base })
}

/// What a worktree was made from, written before it is made. Base and folder never change after.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    /// The top folder of the user's repository.
    repository: String,
    /// The commit the task's branch began at.
    base: String,
    /// The folder below the top that the task was started in; may be empty.
    prefix: String,
    /// Whether the worktree was once complete, so that work may be in it.
    ready: bool,
}

impl Record {
    fn path(task: &str, state_home: &Path) -> PathBuf {
        state_home.join("worktrees").join(format!("{task}.json"))
    }

    fn read(path: &Path) -> Result<Record, String> {
        let wrong = |error: String| {
            format!("cannot read {}: {error}; it says where the task's worktree is", path.display())
        };
        let bytes = fs::read(path).map_err(|error| wrong(error.to_string()))?;
        serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))
    }

    fn write(&self, path: &Path) -> Result<(), String> {
        let wrong = |error: String| format!("cannot write {}: {error}", path.display());
        let bytes = serde_json::to_vec(self).map_err(|error| wrong(error.to_string()))?;
        let next = path.with_extension("next");
        fs::write(&next, bytes)
            .and_then(|()| fs::rename(&next, path))
            .map_err(|error| wrong(error.to_string()))
    }
}

fn branch_of(task: &str) -> String {
    format!("drivetrain/{task}")
}

fn worktree_of(task: &str, state_home: &Path) -> PathBuf {
    state_home.join("worktrees").join(task)
}

fn create(task: &str, repository: &Repository, state_home: &Path) -> Result<Workspace, String> {
    let branch = branch_of(task);
    if repository.has_branch(&branch)? {
        return Err(format!(
            "the repository {} already has a branch {branch}, and nothing is known of its worktree; rename \
             the branch (git branch -m {branch} NAME) and start again",
            repository.top.display()
        ));
    }
    let folder = state_home.join("worktrees");
    fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))?;
    let record = Record {
        repository: text(&repository.top)?,
        base: repository.head.clone(),
        prefix: repository.prefix.clone(),
        ready: false,
    };
    record.write(&Record::path(task, state_home))?;
    complete(task, record, repository, state_home, Branch::Absent)
}

/// Whether the task's branch is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Branch {
    /// It was not a moment ago.
    Absent,
    /// It may be: an earlier call made it, or not.
    Unknown,
}

/// Finds the worktree of an earlier call, and completes or repairs it.
fn reopen(
    task: &str,
    record: Record,
    folder: &Path,
    state_home: &Path,
) -> Result<Workspace, String> {
    let repository = Repository::find(Path::new(&record.repository)).map_err(|reason| {
        format!(
            "the task's worktree belongs to the repository {}, which cannot be used: {reason}; put the \
             repository back where it was",
            record.repository
        )
    })?;
    // The user may have removed the folder since; the worktree has its own.
    if folder.canonicalize().is_ok_and(|folder| !folder.starts_with(&record.repository)) {
        return Err(format!(
            "the task was started in {}, and is now asked for in {}; start it in the same repository",
            record.repository,
            folder.display()
        ));
    }
    complete(task, record, &repository, state_home, Branch::Unknown)
}

/// Brings a recorded worktree to its end state, from whatever state it is in.
fn complete(
    task: &str,
    mut record: Record,
    repository: &Repository,
    state_home: &Path,
    known: Branch,
) -> Result<Workspace, String> {
    let (branch, path) = (branch_of(task), worktree_of(task, state_home));
    if record.ready && path.exists() {
        let repair = || {
            // It complains about a missing link even as it puts the link back, so only the outcome counts.
            let said = repository.git(["worktree".into(), "repair".into(), path.clone().into()]);
            if is_worktree(&path) { Ok(()) } else { Err(said.err().unwrap_or_default()) }
        };
        if !is_worktree(&path) {
            repair().map_err(|reason| {
                format!(
                    "the folder {} is no longer a worktree of {}, and git cannot repair it ({reason}); its files \
                     are untouched: move what you need out of it, rename the folder, and continue",
                    path.display(),
                    record.repository
                )
            })?;
        }
    } else {
        if path.exists() {
            // Half made, so nobody has worked in it; it is kept all the same.
            set_aside(&path)?;
        }
        let mut arguments: Vec<OsString> =
            ["worktree", "add", "--quiet", "--force", "--force"].map(OsString::from).to_vec();
        if known == Branch::Unknown && repository.has_branch(&branch)? {
            arguments.extend([path.clone().into(), branch.clone().into()]);
        } else {
            arguments.extend(["-b".into(), branch.clone().into(), path.clone().into()]);
            arguments.push(record.base.clone().into());
        }
        repository.git(arguments).map_err(|reason| {
            format!(
                "cannot make a worktree at {}: {reason}; set kind = \"in_place\" under [workspace] to work \
                 without one",
                path.display()
            )
        })?;
        record.ready = true;
        record.write(&Record::path(task, state_home))?;
    }
    let inside = path.join(&record.prefix);
    fs::create_dir_all(&inside)
        .map_err(|error| format!("cannot make the folder {}: {error}", inside.display()))?;
    let inside = inside.canonicalize().map_err(|error| format!("{}: {error}", inside.display()))?;
    let real = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
    if !inside.starts_with(&real) {
        return Err(format!(
            "the folder {:?} of the repository is a link that leads out of it; start the task elsewhere",
            record.prefix
        ));
    }
    Ok(Workspace {
        kind: WorkspaceKind::Worktree,
        path: Some(text(&inside)?),
        branch: Some(branch),
        base: Some(record.base),
    })
}

/// Whether git sees this very folder as the top of a worktree. What is checked out there is the worker's business.
fn is_worktree(path: &Path) -> bool {
    let arguments = ["-C".into(), path.into(), "rev-parse".into(), "--show-toplevel".into()];
    let top = Git::default().run(arguments);
    top.is_ok_and(|top| path.canonicalize().is_ok_and(|path| Path::new(top.trim_end()) == path))
}

fn set_aside(path: &Path) -> Result<(), String> {
    for number in 1..1000 {
        let mut aside = path.as_os_str().to_owned();
        aside.push(format!(".half-made-{number}"));
        if !Path::new(&aside).exists() {
            return fs::rename(path, &aside)
                .map_err(|error| format!("cannot rename {}: {error}", path.display()));
        }
    }
    Err(format!("there are too many half-made folders beside {}; remove some", path.display()))
}

/// A repository with at least one commit.
struct Repository {
    top: PathBuf,
    prefix: String,
    head: String,
    git: Git,
}

impl Repository {
    /// The repository that a folder is in, ready for a checkout; the error says why there is none to use.
    fn find(folder: &Path) -> Result<Repository, String> {
        let mut found = Repository::look(folder)?;
        // Filters named in the repository's own settings would run at checkout.
        let names =
            found.git(["config".into(), "--list".into(), "--name-only".into(), "-z".into()])?;
        for name in names.split('\0').filter(|name| name.starts_with("filter.")) {
            let value = if name.ends_with(".required") { "false" } else { "" };
            found.git.settings.push(format!("{name}={value}"));
        }
        Ok(found)
    }

    /// The same for whoever only reads.
    fn look(folder: &Path) -> Result<Repository, String> {
        let place: [OsString; 4] =
            ["-C".into(), folder.into(), "rev-parse".into(), "--show-toplevel".into()];
        // Each question is a process. The folder's own name may have line ends in it, the commit's has none.
        let both = Git::default().run(place.into_iter().chain(["HEAD^{commit}".into()]));
        let both = both.ok().and_then(|both| {
            let (top, head) = both.strip_suffix('\n')?.rsplit_once('\n')?;
            // A file of that name would be given as it is.
            let is_commit = head.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_commit.then(|| (PathBuf::from(top), head.to_owned()))
        });
        let (git, top, head) = match both {
            Some((top, head)) => (Git::default(), top, head),
            None => Repository::ask(folder)?,
        };
        let folder = folder.canonicalize().map_err(|error| error.to_string())?;
        let prefix = folder.strip_prefix(&top).map_err(|_| {
            format!("the repository's settings claim that its files are in {}", top.display())
        })?;
        let prefix = text(prefix)?;
        Ok(Repository { top, prefix, head, git })
    }

    /// One by one, with the trust that the user gave in the settings of git: the folder may be another's.
    fn ask(folder: &Path) -> Result<(Git, PathBuf, String), String> {
        let trusted = Git::default()
            .run(["config".into(), "--global".into(), "--get-all".into(), "safe.directory".into()])
            .unwrap_or_default();
        let trust = trusted.lines().map(|folder| format!("safe.directory={folder}"));
        let git = Git { settings: trust.collect(), ..Git::default() };
        let inside = |git: &Git, arguments: &[&str]| {
            let place: [OsString; 2] = ["-C".into(), folder.into()];
            git.run(place.into_iter().chain(arguments.iter().map(OsString::from)))
        };
        let top = inside(&git, &["rev-parse", "--show-toplevel"])
            .map_err(|reason| format!("it is in no git repository ({reason})"))?;
        let top = PathBuf::from(top.strip_suffix('\n').unwrap_or(&top));
        let head = inside(&git, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])
            .map_err(|_| "the repository has no commit".to_owned())?;
        Ok((git, top, head.trim_end().to_owned()))
    }

    fn git(&self, arguments: impl IntoIterator<Item = OsString>) -> Result<String, String> {
        let place: [OsString; 2] = ["-C".into(), self.top.clone().into()];
        self.git.run(place.into_iter().chain(arguments))
    }

    fn has_branch(&self, branch: &str) -> Result<bool, String> {
        let name = format!("refs/heads/{branch}");
        let format = "--format=%(refname)";
        Ok(self.git(["for-each-ref".into(), format.into(), name.into()])?.trim_end()
            == format!("refs/heads/{branch}"))
    }
}

/// Keeps the whole state of a workspace (new files too, ignored ones not) and gives the commit's name.
///
/// The commit is in `<state_home>/checkpoints/<task>.git`, a git directory with settings and an index of its own:
/// nothing in the workspace can make it run anything, and the workspace's own repository is not touched.
pub fn checkpoint(
    task: &str,
    workspace: &Workspace,
    state_home: &Path,
    cancel: &Cancel,
) -> Result<String, String> {
    check_task(task)?;
    let Some(path) = &workspace.path else {
        return Err(
            "there is nothing to keep: the task's workspace is of the kind \"none\"".to_owned()
        );
    };
    let state_home = &absolute(state_home)?;
    let whole = worktree_of(task, state_home);
    let folder = match whole.canonicalize() {
        Ok(whole) if Path::new(path).starts_with(&whole) => whole,
        _ => PathBuf::from(path),
    };
    let store = Store::open(task, state_home, cancel)?;
    let tree = store
        .keep(&folder, &store.path.join("index"), 0)
        .map_err(|reason| format!("cannot keep the state of {}: {reason}", folder.display()))?;
    store.commit(&tree)
}

const CHECKPOINTS: &str = "refs/heads/checkpoints";
/// How deep repositories inside repositories are kept.
const MAX_NESTING: usize = 16;

/// The git directory of a task's checkpoints.
struct Store<'a> {
    path: PathBuf,
    cancel: &'a Cancel,
}

impl Store<'_> {
    fn open<'a>(task: &str, state_home: &Path, cancel: &'a Cancel) -> Result<Store<'a>, String> {
        let path = state_home.join("checkpoints").join(format!("{task}.git"));
        let store = Store { path, cancel };
        let wrong = |error: std::io::Error| format!("cannot use {}: {error}", store.path.display());
        let info = store.path.join("info");
        if !info.join("attributes").exists() {
            fs::create_dir_all(&store.path).map_err(wrong)?;
            let path = store.path.clone().into();
            Git { cancel: Some(cancel.clone()), ..Git::default() }.run([
                "init".into(),
                "--quiet".into(),
                "--bare".into(),
                "--template=".into(),
                path,
            ])?;
            fs::create_dir_all(&info).map_err(wrong)?;
            // These win over attributes in the workspace: bytes are kept as they are.
            let attributes = "* -text !eol -ident -filter !working-tree-encoding\n";
            fs::write(info.join("attributes"), attributes).map_err(wrong)?;
        }
        Ok(store)
    }

    /// Writes a folder as a tree, repositories inside it with their files.
    fn keep(&self, folder: &Path, index: &Path, depth: usize) -> Result<String, String> {
        if depth > MAX_NESTING {
            return Err(format!("repositories are nested more than {MAX_NESTING} deep"));
        }
        // Only this task's owner works here, so a lock can only be left from a killed git.
        let _ = fs::remove_file(with_end(index, ".lock"));
        let add = ["add", "--all", "--no-warn-embedded-repo", "--", "."];
        self.run_quiet(folder, index, &add.map(OsString::from))?;
        let listed = self.run(folder, index, &["ls-files", "--stage", "-z"].map(OsString::from))?;
        let nested: Vec<&str> = listed
            .split('\0')
            .filter_map(|entry| {
                entry.strip_prefix("160000 ")?.split_once('\t').map(|(_, name)| name)
            })
            .collect();
        if nested.is_empty() {
            return self.run(folder, index, &["write-tree".into()]).map(trimmed);
        }
        // The index itself stays as git made it, so that the next checkpoint is as quick as this one.
        let joined = with_end(index, ".joined");
        fs::copy(index, &joined).map_err(|error| format!("{}: {error}", joined.display()))?;
        for (number, name) in nested.iter().enumerate() {
            let inner = with_end(index, &format!(".{number}"));
            let tree = self.keep(&folder.join(name), &inner, depth + 1)?;
            let remove: [OsString; 4] =
                ["update-index".into(), "--force-remove".into(), "--".into(), name.into()];
            self.run(folder, &joined, &remove)?;
            let prefix = format!("--prefix={name}/");
            self.run(folder, &joined, &["read-tree".into(), prefix.into(), tree.into()])?;
        }
        self.run(folder, &joined, &["write-tree".into()]).map(trimmed)
    }

    fn commit(&self, tree: &str) -> Result<String, String> {
        let index = self.path.join("index");
        let run = |arguments: &[&str]| {
            let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
            self.run(&self.path, &index, &arguments).map(trimmed)
        };
        let before = run(&["for-each-ref", "--format=%(objectname)", CHECKPOINTS])?;
        let mut arguments = vec!["commit-tree", tree, "-m", "checkpoint"];
        if !before.is_empty() {
            arguments.extend(["-p", &before]);
        }
        let commit = run(&arguments)?;
        run(&["update-ref", CHECKPOINTS, &commit])?;
        Ok(commit)
    }

    fn run(&self, folder: &Path, index: &Path, arguments: &[OsString]) -> Result<String, String> {
        Ok(self.git(folder, index)?.output(arguments.to_vec())?.0)
    }

    /// Any word on standard error means that something was left out, whatever the exit code.
    fn run_quiet(&self, folder: &Path, index: &Path, arguments: &[OsString]) -> Result<(), String> {
        let (_, complaint) = self.git(folder, index)?.output(arguments.to_vec())?;
        if complaint.is_empty() {
            Ok(())
        } else {
            Err(format!("not everything was kept: {complaint}"))
        }
    }

    fn git(&self, folder: &Path, index: &Path) -> Result<Git, String> {
        let env = vec![
            ("GIT_DIR".to_owned(), text(&self.path)?),
            ("GIT_WORK_TREE".to_owned(), text(folder)?),
            ("GIT_INDEX_FILE".to_owned(), text(index)?),
        ];
        let settings = vec!["core.bare=false".to_owned()];
        Ok(Git { env, settings, cwd: Some(folder.to_owned()), cancel: Some(self.cancel.clone()) })
    }
}

/// Git, hardened: no hooks, no watchers, no signing, no transports, nobody's settings but these.
#[derive(Default)]
struct Git {
    settings: Vec<String>,
    env: Vec<(String, String)>,
    cwd: Option<PathBuf>,
    cancel: Option<Cancel>,
}

const HARDENED: [&str; 10] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.autocrlf=false",
    "core.quotePath=false",
    "commit.gpgSign=false",
    "protocol.allow=never",
    "safe.bareRepository=explicit",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
];

const GIT_VARIABLES: [(&str, &str); 13] = [
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "false"),
    ("LC_ALL", "C"),
    ("GIT_AUTHOR_NAME", "drivetrain"),
    ("GIT_AUTHOR_EMAIL", "drivetrain@localhost"),
    ("GIT_COMMITTER_NAME", "drivetrain"),
    ("GIT_COMMITTER_EMAIL", "drivetrain@localhost"),
];

impl Git {
    /// Standard output; the error is what git said.
    fn run(&self, arguments: impl IntoIterator<Item = OsString>) -> Result<String, String> {
        Ok(self.output(arguments.into_iter().collect())?.0)
    }

    /// Standard output and standard error.
    fn output(&self, arguments: Vec<OsString>) -> Result<(String, String), String> {
        let mut argv: Vec<OsString> = vec!["git".into()];
        for setting in HARDENED.into_iter().chain(self.settings.iter().map(String::as_str)) {
            argv.extend(["-c".into(), setting.into()]);
        }
        // The user's own list of trusted folders is read as data, and nothing else of those settings.
        let global = arguments.iter().any(|argument| argument == "--global");
        argv.extend(arguments);
        let mut env: Vec<(String, String)> = GIT_VARIABLES
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        if !global {
            env.push(("GIT_CONFIG_GLOBAL".to_owned(), "/dev/null".to_owned()));
        }
        env.extend(self.env.iter().cloned());
        let spec = ProcessSpec {
            env,
            cwd: self.cwd.clone(),
            timeout: Some(GIT_TIMEOUT),
            streams: Streams::Separate,
            mark: "git".to_owned(),
            // Git starts no daemons with these settings, and a namespace would cost more than git itself.
            containment: Containment::Group,
            ..ProcessSpec::new(argv)
        };
        let never = Cancel::new();
        let finished =
            run(spec, self.cancel.as_ref().unwrap_or(&never)).map_err(|e| e.to_string())?;
        let complaint = finished.stderr.text().trim_end().to_owned();
        if finished.cancelled {
            return Err("stopped before it was done".to_owned());
        }
        if finished.timed_out {
            return Err(format!("git took longer than {GIT_TIMEOUT:?}"));
        }
        if finished.exit != Some(0) {
            let reason =
                if complaint.is_empty() { "git failed without a word" } else { &complaint };
            return Err(reason.to_owned());
        }
        let bytes = finished.stdout.bytes().map_err(|error| error.to_string())?;
        let output =
            String::from_utf8(bytes).map_err(|_| "git printed a name that is not UTF-8")?;
        Ok((output, complaint))
    }
}

/// Task ids become file and branch names, so nothing else may be in them.
fn check_task(task: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if task.is_empty() || task.len() > 100 || task.starts_with('-') || !task.chars().all(plain) {
        return Err(format!("{task:?} is not a task id: expected letters and digits"));
    }
    Ok(())
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn text(path: &Path) -> Result<String, String> {
    let text = path.to_str().ok_or_else(|| format!("the path {} is not UTF-8", path.display()))?;
    Ok(text.to_owned())
}

fn trimmed(output: String) -> String {
    output.trim_end().to_owned()
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}
