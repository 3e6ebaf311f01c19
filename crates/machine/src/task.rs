//! A task as it was asked for: frozen when it starts, part of the first record.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::child::Dispatch;
use crate::contest::Contest;
use crate::policy::budget::Budget;
use crate::policy::permission::Policy;
use crate::policy::recovery::Recovery;
use crate::policy::sandbox::SandboxSpec;
use crate::server::ServerSpec;
use crate::time::Span;
use crate::verdict::Checkpoint;

/// Everything a task was started with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// What is to be achieved, in a person's words.
    pub goal: String,
    /// Who decides at the start.
    pub driver: DriverSpec,
    /// Limits.
    #[serde(default)]
    pub budget: Budget,
    /// What decides whether it is done; none means the driver's word is enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acceptance: Vec<Criterion>,
    /// Where it works.
    #[serde(default)]
    pub workspace: WorkspaceSpec,
    /// What it may do.
    #[serde(default)]
    pub policy: Policy,
    /// The walls around every process that it starts.
    #[serde(default, skip_serializing_if = "SandboxSpec::is_default")]
    pub sandbox: SandboxSpec,
    /// What follows a failed turn, and when going on is no longer progress.
    #[serde(default, skip_serializing_if = "Recovery::is_default")]
    pub recovery: Recovery,
    /// The folder the task was started in, absolute.
    pub folder: String,
    /// Servers that bring tools of their own; from files that were trusted when the task was started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerSpec>,
    /// Files of the project that had a say in it, or were refused one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ProjectFile>,
    /// The state of another task that it begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
    /// The race that it takes part in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contest: Option<Contest>,
    /// That it was dispatched, and by whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<Dispatch>,
}

impl TaskSpec {
    /// A goal for a driver in a folder, with everything else as it is where nobody says anything.
    pub fn new(goal: &str, driver: DriverSpec, folder: &str) -> TaskSpec {
        TaskSpec {
            goal: goal.to_owned(),
            driver,
            budget: Budget::default(),
            acceptance: Vec::new(),
            workspace: WorkspaceSpec::default(),
            policy: Policy::default(),
            sandbox: SandboxSpec::default(),
            recovery: Recovery::default(),
            folder: folder.to_owned(),
            servers: Vec::new(),
            files: Vec::new(),
            forked_from: None,
            contest: None,
            dispatch: None,
        }
    }

    /// Everything that a claim is checked by: what was asked for, and what must not be touched.
    pub fn criteria(&self) -> Vec<Criterion> {
        let mut criteria = self.acceptance.clone();
        let workspace = &self.workspace;
        if !workspace.protect.is_empty() || workspace.protect_framework {
            criteria.push(Criterion::Protect {
                paths: workspace.protect.clone(),
                framework: workspace.protect_framework,
            });
        }
        criteria
    }
}

/// A state of another task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkedFrom {
    /// The other task.
    pub task: String,
    /// The state, by its place among the checkpoints of that task, from 1.
    pub number: u64,
    /// The state itself.
    pub at: Checkpoint,
    /// The state that the other task began with; that of its commit if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Checkpoint>,
    /// Whether changes are counted from where this task begins, not from where the other did.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub here: bool,
    /// The commit that the other task's branch began at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// A driver by name, with its configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DriverSpec {
    /// The registered name; `external:NAME` for a plugin.
    pub name: String,
    /// What the driver's own loader makes of the task file's `driver_config`.
    #[serde(default)]
    pub config: Value,
}

impl DriverSpec {
    /// The driver of this name.
    pub fn new(name: impl Into<String>, config: Value) -> DriverSpec {
        DriverSpec { name: name.into(), config }
    }

    /// The name of the coding agent that it is, if it is one.
    pub fn agent(&self) -> Option<&str> {
        let program = (self.name == crate::driver::agent::KIND).then(|| &self.config["program"]);
        program.and_then(|program| program["name"].as_str())
    }

    /// The criteria of the tasks that steps of its workflows have done.
    pub fn criteria_of_steps(&self) -> Vec<Criterion> {
        crate::driver::workflow::criteria_of_steps(&self.config)
    }
}

/// One acceptance check, frozen at the start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Criterion {
    /// A command that must end as expected.
    Shell {
        /// The command line, run by sh in the workspace.
        command: String,
        /// The exit code that passes.
        #[serde(default)]
        exit: i32,
        /// A regular expression that standard output must contain.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stdout: Option<String>,
        /// How long it may take.
        #[serde(default = "default_check_timeout")]
        timeout: Span,
        /// How often it runs; it must pass each time.
        #[serde(default = "once", skip_serializing_if = "is_once")]
        repeat: u32,
        /// Whether it must also fail on the base.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        red_first: bool,
    },
    /// A file that must, or must not, have some content.
    File {
        /// The file, below the workspace.
        path: String,
        /// A regular expression its content must contain; existence alone if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pattern: Option<String>,
        /// True if the file (or the pattern in it) must be absent.
        #[serde(default)]
        forbidden: bool,
    },
    /// Something that drivetrain itself, or a plugin, looks at.
    Custom(CustomCheck),
    /// A model's opinion.
    Judge {
        /// The model.
        model: String,
        /// What it is to judge by.
        rubric: String,
        /// Whether its no fails the verdict; it is only told otherwise.
        #[serde(default)]
        decides: bool,
    },
    /// Paths that must be as they were.
    Protect {
        /// Patterns of paths.
        paths: Vec<String>,
        /// Whether files that steer the tests and the build count too, wherever they are.
        #[serde(default)]
        framework: bool,
    },
}

/// What there must be of the time before a task, for a criterion that compares with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// A commit, of which paths and lines are read: a worktree begins at one, and so may a folder that is worked in in place.
    Commit,
    /// All its files, to run a command on: only those of a worktree are kept.
    Files,
}

/// What a criterion is, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CriterionKind {
    /// A command.
    Shell,
    /// A file.
    File,
    /// Something that drivetrain itself, or a plugin, looks at.
    Custom,
    /// A model's opinion.
    Judge,
    /// Paths that must be as they were.
    Protect,
}

/// A criterion that is no command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum CustomCheck {
    /// Everything in the workspace is committed on the task's branch.
    GitClean,
    /// None of these paths differs from the base.
    NoPathsTouched {
        /// Patterns of paths.
        paths: Vec<String>,
    },
    /// Only these paths differ from the base.
    OnlyPathsTouched {
        /// Patterns of paths.
        paths: Vec<String>,
    },
    /// No more lines than this were added and removed.
    MaxDiffLines {
        /// The most lines.
        lines: u64,
    },
    /// The command counts at least as many tests as on the base.
    TestsNotFewer {
        /// Prints one test a line, or text with the numbers that common frameworks print.
        command: String,
        /// How long it may take.
        #[serde(default = "default_check_timeout")]
        timeout: Span,
    },
    /// A plugin answers.
    Plugin {
        /// Its configuration, as for a driver of the kind `external`.
        plugin: Value,
        /// What the task file says to it.
        #[serde(default)]
        config: Value,
    },
}

fn once() -> u32 {
    1
}

fn is_once(times: &u32) -> bool {
    *times == 1
}

/// Ten minutes: long enough for most test suites, short enough to end unattended.
pub fn default_check_timeout() -> Span {
    Span::seconds(600)
}

impl Criterion {
    /// A command that must succeed.
    pub fn shell(command: impl Into<String>) -> Criterion {
        Criterion::Shell {
            command: command.into(),
            exit: 0,
            stdout: None,
            timeout: default_check_timeout(),
            repeat: 1,
            red_first: false,
        }
    }

    /// What it is.
    pub fn kind(&self) -> CriterionKind {
        match self {
            Criterion::Shell { .. } => CriterionKind::Shell,
            Criterion::File { .. } => CriterionKind::File,
            Criterion::Custom(_) => CriterionKind::Custom,
            Criterion::Judge { .. } => CriterionKind::Judge,
            Criterion::Protect { .. } => CriterionKind::Protect,
        }
    }

    /// Has every command fail on the base first; false if there is no command.
    pub fn require_red_first(criteria: &mut [Criterion]) -> bool {
        let mut any = false;
        for criterion in criteria {
            if let Criterion::Shell { red_first, .. } = criterion {
                *red_first = true;
                any = true;
            }
        }
        any
    }

    /// What it compares with; none if it looks at what is handed over alone.
    pub fn compares_with(&self) -> Option<Before> {
        match self {
            Criterion::Shell { red_first: true, .. }
            | Criterion::Custom(CustomCheck::TestsNotFewer { .. }) => Some(Before::Files),
            Criterion::Protect { .. }
            | Criterion::Custom(
                CustomCheck::GitClean
                | CustomCheck::NoPathsTouched { .. }
                | CustomCheck::OnlyPathsTouched { .. }
                | CustomCheck::MaxDiffLines { .. },
            ) => Some(Before::Commit),
            Criterion::Shell { .. }
            | Criterion::File { .. }
            | Criterion::Judge { .. }
            | Criterion::Custom(CustomCheck::Plugin { .. }) => None,
        }
    }

    /// Whether a task can fail by it: all but an opinion that is only told.
    pub fn decides(&self) -> bool {
        !matches!(self, Criterion::Judge { decides: false, .. })
    }

    /// The criterion in one line.
    pub fn title(&self) -> String {
        match self {
            Criterion::Shell { command, .. } => format!("shell: {command}"),
            Criterion::File { path, pattern, forbidden } => format!(
                "file: {path}{}{}",
                if *forbidden { " must not exist" } else { "" },
                pattern.as_ref().map(|p| format!(" =~ {p}")).unwrap_or_default()
            ),
            Criterion::Custom(check) => format!("custom: {}", check.title()),
            Criterion::Judge { model, rubric, .. } => {
                format!("judge: {model}: {}", rubric.lines().next().unwrap_or_default())
            }
            Criterion::Protect { paths, framework } => format!(
                "protect: {}{}",
                paths.join(" "),
                if *framework { " and what steers the tests" } else { "" }
            ),
        }
    }
}

impl CustomCheck {
    /// The check in one line.
    pub fn title(&self) -> String {
        match self {
            CustomCheck::GitClean => "git_clean".to_owned(),
            CustomCheck::NoPathsTouched { paths } => {
                format!("no_paths_touched {}", paths.join(" "))
            }
            CustomCheck::OnlyPathsTouched { paths } => {
                format!("only_paths_touched {}", paths.join(" "))
            }
            CustomCheck::MaxDiffLines { lines } => format!("max_diff_lines {lines}"),
            CustomCheck::TestsNotFewer { command, .. } => format!("tests_not_fewer {command}"),
            CustomCheck::Plugin { plugin, .. } => {
                format!("plugin {}", plugin["name"].as_str().unwrap_or("without a name"))
            }
        }
    }
}

/// The result of one criterion.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CriterionResult {
    /// The criterion in one line.
    pub title: String,
    /// Whether it passed.
    pub passed: bool,
    /// The exit code, for a command that ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// The end of its output, or why it could not run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub evidence: String,
    /// How long it took, in milliseconds.
    #[serde(default)]
    pub millis: u64,
    /// SHA-256 of all that it printed, in hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// True if it decides nothing: a failure is told, and no more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub advisory: bool,
    /// The exit code on the base, for one that must fail there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_base: Option<i32>,
    /// How often it ran, where that is more than once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<u32>,
}

impl CriterionResult {
    /// Whether the verdict fails by it.
    pub fn fails(&self) -> bool {
        !self.passed && !self.advisory
    }
}

/// Where a task works.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkspaceSpec {
    /// The kind; decided from the folder (worktree in a git repository with a commit, else in place) if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<WorkspaceKind>,
    /// Patterns of paths that the worker must not touch; kept for the verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protect: Vec<String>,
    /// Whether files that steer the tests and the build are protected too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub protect_framework: bool,
    /// Commands that make a fresh checkout ready: run in the new worktree, and before the criteria.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<String>,
    /// Ignored folders of the user's own checkout that criteria see, read-only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub share: Vec<String>,
    /// When the workspace is kept; decided from who drives if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoints: Option<Checkpoints>,
}

/// A file of the project that had a say when the task was made, as it was read then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectFile {
    /// Its real path.
    pub path: String,
    /// SHA-256 of its content, in hex.
    pub sha256: String,
    /// What it is to a task.
    pub role: FileRole,
    /// By whose word it counts.
    pub standing: FileStanding,
}

/// What a file of a project is to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileRole {
    /// The task itself.
    Task,
    /// Steps or states by name.
    Workflow,
    /// Says which program a plugin is.
    Plugin,
    /// The program that a plugin starts.
    Program,
    /// What may be done without asking.
    Policy,
    /// What the project says to models.
    Page,
    /// A text for a model, by name.
    Prompt,
    /// Which commands check the project.
    Validators,
    /// Which servers of tools there are.
    Servers,
    /// Which providers of models there are.
    Models,
}

impl FileRole {
    /// What it is, for a person.
    pub fn word(self) -> &'static str {
        match self {
            FileRole::Task => "task",
            FileRole::Workflow => "workflow",
            FileRole::Plugin => "plugin",
            FileRole::Program => "program",
            FileRole::Policy => "policy",
            FileRole::Page => "page",
            FileRole::Prompt => "prompt",
            FileRole::Validators => "validators",
            FileRole::Servers => "servers",
            FileRole::Models => "models",
        }
    }
}

/// By whose word a file of a project counts, if it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileStanding {
    /// Whoever started the task named it, or a file that names it.
    Named,
    /// It is trusted as it is.
    Trusted,
    /// It was trusted for this task alone.
    Once,
    /// Nobody trusts it: models are told what it says as information, not as instructions.
    Quoted,
    /// Nobody trusts it: it has no say.
    LeftOut,
}

impl FileStanding {
    /// How it stands, for a person.
    pub fn word(self) -> &'static str {
        match self {
            FileStanding::Named => "named",
            FileStanding::Trusted => "trusted",
            FileStanding::Once => "trusted this once",
            FileStanding::Quoted => "quoted",
            FileStanding::LeftOut => "left out",
        }
    }
}

/// When the workspace is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checkpoints {
    /// At the start and with every claim.
    Claims,
    /// Also before every turn that may change something.
    Turns,
}

/// The kinds of workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceKind {
    /// A git worktree of its own on a branch of its own.
    Worktree,
    /// The folder itself: changes are made where the user works.
    InPlace,
    /// No folder at all: tools that need one are refused.
    None,
}

/// A workspace as opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// What it is.
    pub kind: WorkspaceKind,
    /// Its folder, absolute; absent for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The branch made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit it started from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

/// How a task ended, or what it waits for when nobody drives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The driver claimed it and every criterion passed.
    Verified,
    /// The driver claimed it and there were no criteria.
    Completed,
    /// The driver gave up, or it cannot go on.
    Failed,
    /// A limit was reached first.
    BudgetExhausted,
    /// Somebody cancelled it.
    Cancelled,
    /// It waits for a person.
    Waiting,
    /// It went round in circles.
    Stuck,
}

impl Outcome {
    /// The word people and JSON see.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Verified => "verified",
            Outcome::Completed => "completed",
            Outcome::Failed => "failed",
            Outcome::BudgetExhausted => "budget_exhausted",
            Outcome::Cancelled => "cancelled",
            Outcome::Waiting => "waiting",
            Outcome::Stuck => "stuck",
        }
    }

    /// The process's exit code.
    pub fn exit_code(self) -> u8 {
        match self {
            Outcome::Verified | Outcome::Completed => 0,
            Outcome::Failed => 10,
            Outcome::BudgetExhausted => 11,
            Outcome::Cancelled => 12,
            Outcome::Waiting => 13,
            Outcome::Stuck => 14,
        }
    }
}
