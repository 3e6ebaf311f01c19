//! The command line as data: every command with its help and examples. Nothing is done here.

mod checks;
mod drive;
mod fake;
mod graph;
mod import;
mod limits;
mod looks;
mod proof;
mod queue;
mod race;
mod schema;
mod serve;
mod shelf;
mod told;
mod walls;

use std::ffi::OsString;

use clap::{Arg, ArgAction, Args as _, Command, FromArgMatches as _, Parser, Subcommand};

pub(crate) use checks::CheckArgs;
pub(crate) use drive::{ChatArgs, PlaceArgs, ResumeArgs, RunArgs, ScreenArgs, TrafficArgs};
pub(crate) use fake::{FakeAcpAgentArgs, FakeAgentArgs, FakeCmd, FakeModelArgs};
pub(crate) use graph::{GraphArgs, GraphFormat};
pub(crate) use import::ImportArgs;
pub(crate) use limits::{Limits, count, money};
pub(crate) use looks::{ApprovalsArgs, JournalCmd, ListArgs, LogArgs, TaskArgs};
pub(crate) use proof::{
    ApplyArgs, CleanArgs, DiffArgs, ForkArgs, ReceiptArgs, RollbackArgs, VerifyArgs, WorktreesCmd,
};
pub(crate) use queue::{QueueAddArgs, QueueCmd, QueueRunArgs};
pub(crate) use race::{Named, RaceArgs};
pub(crate) use schema::SchemaArgs;
pub(crate) use serve::{AcpArgs, McpArgs};
pub(crate) use shelf::{
    AgentCmd, AgentRunArgs, NewArgs, PromptCmd, WorkArgs, WorkflowCmd, WorkflowRunArgs,
};
pub(crate) use told::{
    AnswerArgs, ApproveArgs, CancelArgs, CompactArgs, DenyArgs, HandOverArgs, InterruptArgs,
    NoteArgs, RaiseArgs, Reach, ResolveArgs,
};
pub(crate) use walls::{
    ExplainArgs, PolicyCmd, SandboxCmd, SandboxProfile, SandboxRunArgs, TrustArgs, WallArgs,
};

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "drivetrain",
    version,
    about = "Drives tasks to a proven finish, and survives kill -9",
    long_about = "Drivetrain drives a task to a proven finish, whoever decides the next move: a person, a model, a \
        workflow file, a state machine, a coding agent or a plugin. Everything that happens is journaled before it is \
        acted on, so a task goes on from exactly where it was after any crash. When a task's driver claims to be \
        finished, drivetrain itself runs the task's acceptance criteria; only they decide.",
    after_long_help = MAIN_HELP,
    after_help = "Run `drivetrain help COMMAND` for a command's description and examples, and `drivetrain --help` \
        for exit codes, files and environment.",
    max_term_width = 100,
    disable_help_subcommand = false,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    /// Print JSON: one versioned object, or one event a line for run, resume and log
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: Cmd,
}

impl Cli {
    /// The command line of this process.
    pub(crate) fn read() -> Result<Cli, clap::Error> {
        let line: Vec<OsString> = std::env::args_os().collect();
        Cli::alone(&line).map_or_else(Cli::try_parse, Ok)
    }

    /// A line for `run`, read without what all other commands have, which takes a tenth of what it costs to begin a task. None
    /// for any other line, and for one that is wrong or asks for help.
    fn alone(line: &[OsString]) -> Option<Cli> {
        if line.get(1)? != "run" {
            return None;
        }
        let json = Arg::new("json").long("json").global(true).action(ArgAction::SetTrue);
        let run = RunArgs::augment_args(Command::new("run"));
        let read = Command::new("drivetrain").arg(json).subcommand(run).try_get_matches_from(line);
        Cli::from_arg_matches(&read.ok()?).ok()
    }
}

const MAIN_HELP: &str = "\
EXAMPLES:
  drivetrain run task.toml
      Drive the task of a file in the foreground
  drivetrain run 'tidy the notes' --driver user --check 'test -s NOTES.md'
      Decide each move yourself; the check decides whether it is done
  drivetrain why 7k3
      Why a task stopped or what it waits for, and what to type next
  drivetrain resume --all
      Go on with everything that was interrupted

EXIT CODES of run and resume:
  0   verified, or completed where there are no criteria
  2   usage or configuration: nothing was started
  10  failed, or its driver gave up
  11  a limit of its budget was reached
  12  cancelled
  13  it waits: for a person, or to be resumed
  14  stuck: it went round in circles
  20  environment: the disk, the journal, the machine
`verify` ends with 10 if a receipt does not hold. Other commands end with 0, 2 or 20; `doctor` and `journal verify` with 20 if something is wrong.

FILES:
  .drivetrain/policy.toml        what tasks may do without asking
  .drivetrain/workflows/*.toml   workflows by name
  .drivetrain/prompts/*          texts for models by name: .txt, .md, .toml
  .drivetrain/agents/*.toml      agents by name
  .drivetrain/drivers/*.toml     drivers that are programs of their own
  .drivetrain/models.toml        providers of models
  .drivetrain/mcp.toml           servers of tools, as .mcp.json; see `drivetrain trust`
These are looked for in the folder, its parents up to the repository's root, then in
$XDG_CONFIG_HOME/drivetrain. The nearest counts; policies add up, your own first.

ENVIRONMENT:
  DRIVETRAIN_HOME  where all state is kept; else drivetrain in $XDG_STATE_HOME or ~/.local/state
  NO_COLOR         no colours

A task's ID may be shortened as long as it stays unique.";

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Cmd {
    /// Drive a task in the foreground, from a file or from a goal in words
    ///
    /// TASK is a task file (TOML or YAML), or the goal itself. The task is journaled step by step: kill it at any
    /// moment and `drivetrain resume` goes on from there. On a terminal you are asked what a person has to decide;
    /// elsewhere, or with --unattended, the task stops and waits, durably, with exit code 13.
    ///
    /// Ctrl-C or SIGTERM lets the running step end and then stops; a second one stops at once.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain run task.toml
  drivetrain run 'count to three' --workflow count --check 'test $(wc -l < out.txt) -eq 3'
  drivetrain run 'tidy up' --driver user --in-place
  printf 'shell make\\ndone\\n' | drivetrain run 'build it' --driver user
      Without a terminal, the lines of standard input are the decisions
  drivetrain run task.toml --json | jq -r .type
      One event a line; the last is task_finished with outcome and exit_code")]
    Run(RunArgs),

    /// Talk with a model about a task, line by line
    ///
    /// A chat is a task like any other: journaled, limited, resumable, with tools that ask before they do harm. The
    /// model answers and uses tools until it has nothing more to do; then the next line is yours. TEXT, or the first
    /// line you type, is the task's goal.
    ///
    /// A line typed while it works reaches it before its next step. Ctrl-C stops what it does and gives you the word;
    /// where there is nothing to stop it clears the line, and a second one, or Ctrl-D, leaves the chat, which waits
    /// to be resumed. Lines that begin with a slash are commands: /done ends the chat (the checks decide),
    /// /model PROVIDER/NAME goes on with another model, /compact goes on from a summary, /cost says what was
    /// spent, /quit leaves, /help lists them; // sends a slash.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain chat --model anthropic/NAME
  drivetrain chat 'why does the parser test fail?' --model local/NAME --in-place
  drivetrain chat 'mend it' --model openai/NAME --check 'cargo test' --max-usd 2
  drivetrain chat --resume 7k3
  printf 'what is here?\\n/done\\n' | drivetrain chat --model script/replies.toml
      Without a terminal, each line is said once the model waits; the end of input leaves")]
    Chat(ChatArgs),

    /// Let several drivers work on the same goal, each in a worktree of its own; one of them wins
    ///
    /// Each racer is a task like any other, on a branch of its own, and all have the same criteria. The first one whose
    /// claim is verified wins and the others are cancelled; with --pick smallest all run to their end, and of the
    /// verified ones the one that changed the fewest lines wins. Nothing of a loser is removed.
    ///
    /// Nobody is asked anything here: what a person has to decide is refused or waits, as the policy says. Ctrl-C lets
    /// running steps end; `race --resume ID` or `resume --all` goes on, by the same rule.
    ///
    /// Ends with 0 if somebody won; with 13 if somebody still can, once resumed; otherwise with the code that all racers
    /// ended with, or 10 if they ended in different ways.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain race 'mend the parser' --drivers anthropic/NAME,openai/NAME --check 'cargo test'
  drivetrain race 'mend it' --drivers llm:local/NAME,workflow:repair,external:mender --check 'make test'
  drivetrain race 'mend it' --drivers local/NAME,local/NAME,local/NAME --pick smallest --check 'make test'
      The same driver several times is fine
  drivetrain race task.toml --drivers anthropic/NAME,openai/NAME --total-usd 3
      Three dollars for all together, shared out evenly
  drivetrain race --resume 7k3
  drivetrain race task.toml --drivers a/b,c/d --json | jq 'select(.type == \"race_finished\")'")]
    Race(RaceArgs),

    /// Put verified tasks into a branch, one at a time
    ///
    /// Each change is put on the tip of its branch in a folder of our own, the criteria of its task run on both together,
    /// and only then the branch is moved. What collides or fails goes back to its task, which is reopened with the
    /// failure: `drivetrain resume ID` goes on with it.
    #[command(
        subcommand,
        after_long_help = "EXAMPLES:\n  drivetrain queue add 7k3 9f2\n  drivetrain queue list\n  \
        drivetrain queue run\n  drivetrain queue run --watch\n  drivetrain queue drop 9f2"
    )]
    Queue(QueueCmd),

    /// Go on with a task that was interrupted, paused or put to rest
    ///
    /// Goes on from the last thing that was journaled, in the foreground. A task that another process drives and
    /// that is paused there goes on there. A call that may or may not have run when the process died is in doubt:
    /// `drivetrain resolve` says what became of it.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain resume 7k3
  drivetrain resume --all
      Every open task that no process drives; the exit code is the highest of theirs")]
    Resume(ResumeArgs),

    /// List tasks, newest first
    ///
    /// Shows open tasks and the newest finished ones.
    #[command(after_long_help = "EXAMPLES:\n  drivetrain list\n  drivetrain list --all\n  \
        drivetrain list --json | jq -r '.tasks[] | select(.phase == \"waiting\") | .id'")]
    List(ListArgs),

    /// Show one task: goal, standing, spend, criteria, workspace
    #[command(
        after_long_help = "EXAMPLES:\n  drivetrain show 7k3\n  drivetrain show 7k3 --json | jq .spend"
    )]
    Show(TaskArgs),

    /// Show everything that happened to a task
    ///
    /// The journal is read and folded again; what is shown is what happened. Works for running tasks too.
    #[command(
        after_long_help = "EXAMPLES:\n  drivetrain log 7k3\n  drivetrain log 7k3 --follow\n  \
        drivetrain log 7k3 --decisions\n  drivetrain log 7k3 --network\n  \
        drivetrain log 7k3 --json | jq 'select(.type == \"tool_ended\")'"
    )]
    Log(LogArgs),

    /// Say why a task stopped or what it waits for, and what to type next
    #[command(after_long_help = "EXAMPLES:\n  drivetrain why 7k3")]
    Why(TaskArgs),

    /// Show the receipt of a verified task, or write it into a file
    ///
    /// What was asked, which files were handed over, what was run on them and what came of it, bound to the record of the
    /// journal that holds the verdict. It is made of the journal alone. `drivetrain verify` runs it again.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain receipt 7k3
  drivetrain receipt 7k3 -o 7k3.receipt.json
  drivetrain receipt 7k3 --json | jq -r .result.tree")]
    Receipt(ReceiptArgs),

    /// Check a receipt: is it whole, does the journal agree, and does it still hold
    ///
    /// RECEIPT is a file, or the id of a task of this journal. All of its criteria run again, in the sandbox, in clean
    /// checkouts of exactly the tree that it names: from the task's own checkpoints, or, if the journal does not know the
    /// task, from the repository of the current folder. In the latter case you are asked before anything runs.
    ///
    /// Ends with 0 if it holds, 10 if it does not or is forged, 2 if it is no receipt, 20 if it cannot be checked here.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain verify 7k3
  drivetrain verify 7k3.receipt.json
  drivetrain verify theirs.receipt.json --yes --json | jq -r .conclusion")]
    Verify(VerifyArgs),

    /// Hold a task: what runs may end, nothing new begins
    #[command(after_long_help = "EXAMPLES:\n  drivetrain pause 7k3\n  drivetrain resume 7k3")]
    Pause(TaskArgs),

    /// End a task
    #[command(after_long_help = "EXAMPLES:\n  drivetrain cancel 7k3 --reason 'no longer needed'")]
    Cancel(CancelArgs),

    /// Stop what runs and tell the driver
    ///
    /// Running calls are aborted, the driver gets the note and decides again. A chat that is stopped without a text
    /// waits for your next line.
    #[command(
        after_long_help = "EXAMPLES:\n  drivetrain interrupt 7k3 'wrong folder: use tests/'\n  \
        drivetrain interrupt 7k3"
    )]
    Interrupt(InterruptArgs),

    /// Tell the driver something before its next move, without stopping what runs
    #[command(after_long_help = "EXAMPLES:\n  drivetrain steer 7k3 'prefer the small fix'")]
    Steer(NoteArgs),

    /// Tell the driver something once it would be finished
    #[command(
        name = "follow-up",
        after_long_help = "EXAMPLES:\n  drivetrain follow-up 7k3 'then update the docs'"
    )]
    FollowUp(NoteArgs),

    /// Make the conversation of whoever works shorter, before its next turn
    ///
    /// A model or a coding agent writes a summary that stands for what was said so far; what FOCUS names is kept above all. A
    /// turn that is under way ends first. Who cannot do so, or has no conversation, is named, and nothing happens.
    #[command(
        after_long_help = "EXAMPLES:\n  drivetrain compact 7k3\n  drivetrain compact 7k3 'the names of the failing tests'"
    )]
    Compact(CompactArgs),

    /// Allow a task more; limits only go up
    ///
    /// A task that stopped at a limit goes on with `drivetrain resume` after that.
    #[command(after_long_help = "EXAMPLES:\n  drivetrain raise 7k3 --max-turns 60\n  \
        drivetrain raise 7k3 --max-time 2h --max-usd 5")]
    Raise(RaiseArgs),

    /// Let an asked call run
    ///
    /// CALL may be left out if only one waits. `drivetrain approvals` lists what is asked. The answer is bound to the
    /// exact call: if it is another one by the time the answer arrives, it is refused.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain approve 7k3
  drivetrain approve 7k3 c12 --for task
      Also when the same call comes again in this task
  drivetrain approve 7k3 c12 --for task --like 'git push'
      Also what is like it, as a rule with that command would allow it
  drivetrain approve 7k3 c12 --for project --like 'cargo doc'
      Also writes a rule into .drivetrain/policy.toml, for tasks to come")]
    Approve(ApproveArgs),

    /// Refuse an asked call, or to answer a question
    #[command(
        after_long_help = "EXAMPLES:\n  drivetrain deny 7k3 c12 --reason 'use the staging server'"
    )]
    Deny(DenyArgs),

    /// Answer a question, or decide the next move of a task that a person drives
    ///
    /// QUESTION (q3, or c12 for one that a worker asks) may be left out if only one waits. Where it is named, no other one
    /// is answered, though it may wait by then.
    #[command(
        after_long_help = "EXAMPLES:\n  drivetrain answer 7k3 q3 yes\n  drivetrain answer 7k3 c12 'the second one'\n  \
        drivetrain answer 7k3 'shell cargo test'\n      For the driver user: the next line"
    )]
    Answer(AnswerArgs),

    /// List everything that people are asked, of all open tasks
    #[command(
        after_long_help = "EXAMPLES:\n  drivetrain approvals\n  drivetrain approvals --watch\n  \
        drivetrain approvals --json | jq '.asks[].hash'"
    )]
    Approvals(ApprovalsArgs),

    /// Say what became of a call in doubt
    ///
    /// A call is in doubt if the process died while it ran and nobody can know whether it did its work.
    #[command(
        after_long_help = "EXAMPLES:\n  drivetrain resolve 7k3 c12 --did\n  drivetrain resolve 7k3 c12 --retry"
    )]
    Resolve(ResolveArgs),

    /// Let another driver decide from here on; workspace, history and budget stay
    #[command(
        name = "hand-over",
        after_long_help = "EXAMPLES:\n  drivetrain hand-over 7k3 --driver user\n  \
        drivetrain hand-over 7k3 --model openai/NAME\n      Another model goes on with the conversation\n  \
        drivetrain hand-over 7k3 --agent codex\n      A coding agent goes on with the work\n  \
        drivetrain hand-over 7k3 --driver workflow --config '{\"workflow\": \"repair\"}'"
    )]
    HandOver(HandOverArgs),

    /// Show what a task changed
    ///
    /// Compares the task's base with its workspace as it is, or, once it has ended, with the tree that it handed over.
    /// Piped, the patch is printed byte for byte and applies with `git apply`; on a terminal, characters that would steer
    /// it are shown as escapes.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain diff 7k3
  drivetrain diff 7k3 --stat
  drivetrain diff 7k3 --from 2 --to 3
      Between two checkpoints
  drivetrain diff 7k3 | git apply --check
  drivetrain diff 7k3 --json | jq -r '.paths[].path'")]
    Diff(DiffArgs),

    /// List the states of a task's workspace that are kept
    ///
    /// One is kept before anything changes and with every claim. Each has a number, which rollback, fork and diff take.
    #[command(after_long_help = "EXAMPLES:\n  drivetrain checkpoints 7k3\n  \
        drivetrain checkpoints 7k3 --json | jq '.checkpoints[-1].tree'")]
    Checkpoints(TaskArgs),

    /// Give a task's workspace an earlier state, exactly, and so that it can be undone
    ///
    /// Files that are new, links, modes and empty folders too; what git ignores stays as it is. What runs in a task that
    /// is driven is stopped first, and its driver is told. A task that has ended goes back in its files alone: what it
    /// proved stays proven.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain rollback 7k3 --to 2 --preview
      Says what would change, and changes nothing
  drivetrain rollback 7k3 --to 2
  drivetrain rollback 7k3 --to 5
      Undoes it: the state before was kept, and its number was printed")]
    Rollback(RollbackArgs),

    /// Hand what a task proved to your checkout, as one commit
    ///
    /// Exactly the tree that was verified. Refused if it was not verified, over uncommitted changes, if your branch has
    /// moved since, and if a file of yours that git does not know is in the way; nothing changes then. No hook, filter
    /// or other program of the repository runs.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain apply 7k3
  drivetrain apply 7k3 --no-commit
      Changes your files and index, and commits nothing
  drivetrain apply 7k3 --onto review/7k3
      A branch of its own: neither your files nor your branch are touched
  drivetrain apply 7k3 --merge
      Your branch has moved: merge; a conflict changes nothing
  drivetrain apply 7k3 --patch 7k3.patch")]
    Apply(ApplyArgs),

    /// Begin a new task with the files of any checkpoint of an old one
    ///
    /// Goal, criteria, policy, budget and driver are those of the old task unless others are given. The new task has a
    /// worktree and a branch of its own, and all checkpoints up to the one that it begins with.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain fork 7k3 --at 2
  drivetrain fork 7k3 --at 2 --driver user
  drivetrain fork 7k3 --at 3 --goal 'the same without the new dependency' --check 'cargo test'
  drivetrain fork 7k3 --at 3 --base here
      Counts changes from there, not from where the old task began")]
    Fork(ForkArgs),

    /// List the worktrees of tasks, and take away those that nobody needs
    ///
    /// A worktree goes only if its task has ended and everything in it is in a branch of yours, or as it began. Nothing
    /// is ever forced.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain worktrees
  drivetrain worktrees clean --dry-run
  drivetrain worktrees clean --older-than 7d
  drivetrain worktrees clean 7k3")]
    Worktrees {
        #[command(subcommand)]
        command: Option<WorktreesCmd>,
    },

    /// Write a commented .drivetrain/ for this project; nothing is overwritten
    #[command(
        after_long_help = "EXAMPLES:\n  drivetrain init\n  drivetrain run .drivetrain/example-task.toml"
    )]
    Init,

    /// Print the JSON Schema of a kind of file, so that an editor completes and checks it
    ///
    /// Without KIND the kinds are listed. The schemas come from the very tables that the readers check files with.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain schema
  drivetrain schema policy
  drivetrain schema --all --to .drivetrain/schemas
      Then begin a file with: #:schema schemas/policy.schema.json")]
    Schema(SchemaArgs),

    /// Say what is missing on this machine and how to mend it
    #[command(after_long_help = "EXAMPLES:\n  drivetrain doctor\n  drivetrain doctor --json")]
    Doctor,

    /// Try the sandbox by hand, or see what it shows
    #[command(
        subcommand,
        after_long_help = "EXAMPLES:\n  drivetrain sandbox run -- cargo test\n  \
        drivetrain sandbox run --network open -- npm install\n  drivetrain sandbox show"
    )]
    Sandbox(SandboxCmd),

    /// Look at the project's files that can act, and say that you trust them
    ///
    /// Policy, pages for models, checks, servers and providers of a project count only then. What is trusted is the content: a file that
    /// has changed is asked about again. The record is kept outside the project.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain trust
      Shows what the files would start, and asks
  drivetrain trust --show
  drivetrain trust --revoke
  drivetrain trust ../other --yes
      For scripts: nobody is asked")]
    Trust(TrustArgs),

    /// Say what tasks may do here, and why
    ///
    /// The policy is made of the rules of your own policy.toml, then the project's, then a profile. Nothing is run.
    #[command(
        subcommand,
        after_long_help = "EXAMPLES:\n  drivetrain policy check\n  drivetrain policy explain 'git push --force'\n  \
        drivetrain policy test"
    )]
    Policy(PolicyCmd),

    /// Workflows as files: list, read, check, run and begin them
    ///
    /// A workflow is steps or states in a file: .drivetrain/workflows in the project, the same in your own folder, then
    /// those that come with drivetrain. The nearest is taken; a project's file takes the place of another only once it
    /// is trusted.
    #[command(
        subcommand,
        after_long_help = "EXAMPLES:\n  drivetrain workflow list\n  drivetrain workflow show validate-fix\n  \
        drivetrain workflow run fix-issue --input issue=41\n  drivetrain workflow check"
    )]
    Workflow(WorkflowCmd),

    /// Prompts as files: list, read, check and begin them
    ///
    /// A prompt is a text for a model, with places that are filled in: .drivetrain/prompts, .txt, .md or .toml. Workflows and
    /// agents refer to it as @prompts/NAME.
    #[command(
        subcommand,
        after_long_help = "EXAMPLES:\n  drivetrain prompt list\n  drivetrain prompt show terse\n  \
        drivetrain prompt new house-rules"
    )]
    Prompt(PromptCmd),

    /// Agents as files: list, read, check, run and begin them
    ///
    /// An agent is a program that speaks the Agent Client Protocol, or is made of parts: a workflow or a model, with a
    /// prompt, tools and what it is held to. In .drivetrain/agents; claude, codex, gemini and opencode need no file.
    #[command(
        subcommand,
        after_long_help = "EXAMPLES:\n  drivetrain agent list\n  drivetrain agent new careful\n  \
        drivetrain agent run careful 'mend the parser' --check 'cargo test'"
    )]
    Agent(AgentCmd),

    /// Turn files of other programs into prompts and workflows
    ///
    /// A goose recipe becomes prompts and a workflow with its inputs and checks; a Claude Code command or a skill becomes
    /// a prompt; a WORKFLOW.md becomes a prompt and a workflow with an agent. What cannot be carried is said line by line.
    /// Nothing is run, nothing is written over, and no program or server is taken over from such a file.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain import recipe.yaml
  drivetrain import .claude/commands/fix-issue.md
  drivetrain import .claude/skills/pdf/SKILL.md --to ~/.config/drivetrain
      For all projects of yours
  drivetrain import WORKFLOW.md --json | jq .not_carried")]
    Import(ImportArgs),

    /// Check, mend or export the journal
    #[command(
        subcommand,
        after_long_help = "EXAMPLES:\n  drivetrain journal verify\n  drivetrain journal rebuild\n  drivetrain journal export 7k3 > 7k3.jsonl"
    )]
    Journal(JournalCmd),

    /// Print a completion script for a shell
    #[command(
        after_long_help = "EXAMPLES:\n  drivetrain completions bash > ~/.local/share/bash-completion/completions/drivetrain\n  \
        drivetrain completions zsh > ~/.zfunc/_drivetrain\n  \
        drivetrain completions fish > ~/.config/fish/completions/drivetrain.fish"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },

    /// List the tools that steps, people and models can use
    ///
    /// Servers of files that are trusted are started, asked for their tools, and ended.
    #[command(
        after_long_help = "EXAMPLES:\n  drivetrain tools\n  drivetrain tools --json | jq '.tools[].name'"
    )]
    Tools,

    /// List the drivers and workflows that can be used here
    #[command(after_long_help = "EXAMPLES:\n  drivetrain drivers")]
    Drivers,

    /// List the coding agents, their versions, and what can be done with each
    ///
    /// Those that need no file and those of `.drivetrain/agents/*.toml`: where each is installed, what it says of its
    /// version, whether that version was tried, and which commands reach it while it works. Nothing but `--version` is
    /// asked, and nothing of a project's file that is not trusted.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain agents
  drivetrain agents --json | jq -r '.agents[] | select(.installed) | .name'
  drivetrain run 'mend the parser' --agent claude --check 'cargo test'")]
    Agents,

    /// List the providers of models, and whether a key is there
    ///
    /// Keys themselves are never shown, and no key command is run.
    #[command(after_long_help = "EXAMPLES:\n  drivetrain models\n  \
        drivetrain models --json | jq -r '.providers[] | select(.key == \"present\") | .name'")]
    Models,

    /// Let another program dispatch tasks and look after them: an MCP server on standard input and output
    ///
    /// For agents that speak the Model Context Protocol. Its tools are dispatch, list, inspect, steer, cancel and wait.
    /// A dispatched task is journaled before the call is answered, driven by a process of its own, and goes on when this
    /// server ends. Nobody is asked anything: what a person has to decide is refused or waits, as the policy says, and
    /// nothing can be approved from here.
    ///
    /// --max-usd and --max-tokens are for all tasks together. With --parent the tasks are children of that task: what
    /// they may spend is set aside there, what they spent is charged there, and they may do no more than it may.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain mcp --agent claude --max-usd 5 --max-tasks 4
  drivetrain mcp --model anthropic/NAME --profile dev --check 'cargo test'
  drivetrain mcp --agent codex --parent 7k3
  claude mcp add drivetrain -- drivetrain mcp --agent codex --max-usd 2")]
    Mcp(McpArgs),

    /// Be the agent of an editor: the Agent Client Protocol on standard input and output
    ///
    /// A session is a task like any other, journaled and limited. The first prompt is its goal; with --model the next ones
    /// go on with the conversation, with --agent they begin the next task once one has ended. What the policy does not
    /// allow is asked about in the editor. A session can be loaded again after any crash: its id is the task's.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain acp --model anthropic/NAME --in-place
  drivetrain acp --agent claude --check 'cargo test' --max-usd 2
  drivetrain acp --model script/replies.toml
      For tests: plays a script")]
    Acp(AcpArgs),

    /// Connect a worker to its gate: an MCP server on standard input and output
    ///
    /// For programs that drivetrain starts and that speak MCP: the gate and its token are in DRIVETRAIN_GATE and
    /// DRIVETRAIN_GATE_TOKEN. What is asked for here is journaled and judged like every call of a worker.
    #[command(hide = true, after_long_help = "EXAMPLES:\n  drivetrain gate --stdio")]
    Gate {
        /// Speak on standard input and output
        #[arg(long, required = true)]
        stdio: bool,
    },

    /// Serve something that stands in for a model, to test automation without one
    #[command(
        subcommand,
        after_long_help = "EXAMPLES:\n  drivetrain fake model script.toml --port 8089\n  \
        drivetrain fake model script.toml --json | jq -r .url"
    )]
    Fake(FakeCmd),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_run_is_read_alone_as_among_all_commands() {
        let lines: [&[&str]; 12] = [
            &["run", "goal"],
            &["run", "goal", "--json"],
            &["run", "--json", "task.toml", "--driver", "user", "--unattended"],
            &["run", "goal", "--agent", "claude", "--model=x", "--check", "true", "--check", "./x"],
            &["run", "goal", "--max-turns", "3", "--max-usd=0.5", "--no-sandbox", "--in-place"],
            &["run", "--", "--help"],
            &["run"],
            &["run", "--help"],
            &["run", "goal", "--no-such"],
            &["run", "goal", "--max-turns", "-1"],
            &["--json", "run", "goal"],
            &["list"],
        ];
        let mut alone = 0;
        for line in lines {
            let line: Vec<OsString> =
                ["drivetrain"].iter().chain(line).map(OsString::from).collect();
            if let Some(read) = Cli::alone(&line) {
                alone += 1;
                assert_eq!(
                    format!("{read:?}"),
                    format!("{:?}", Cli::try_parse_from(&line).unwrap())
                );
            }
        }
        assert_eq!(alone, 6, "what is wrong, asks for help or is of another command is for all");
    }
}
