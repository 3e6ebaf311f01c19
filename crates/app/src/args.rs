//! The command line as data: every command with its help and examples. Nothing is done here.

mod checks;
mod graph;
mod import;
mod queue;
mod race;
mod schema;
mod serve;
mod shelf;

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand};
use machine::id::CallId;
use machine::policy::budget::Budget;
use machine::time::Span;

pub(crate) use checks::CheckArgs;
pub(crate) use graph::{GraphArgs, GraphFormat};
pub(crate) use import::ImportArgs;
pub(crate) use queue::{QueueAddArgs, QueueCmd, QueueRunArgs};
pub(crate) use race::{Named, RaceArgs};
pub(crate) use schema::SchemaArgs;
pub(crate) use serve::{AcpArgs, McpArgs};
pub(crate) use shelf::{
    AgentCmd, AgentRunArgs, NewArgs, PromptCmd, WorkArgs, WorkflowCmd, WorkflowRunArgs,
};

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "drivetrain",
    version,
    about = "Drives tasks to a proven finish, and survives kill -9",
    long_about = "Drivetrain drives a task to a proven finish, whoever decides the next move: a person, a workflow \
        file, a state machine or a plugin. Everything that happens is journaled before it is acted on, so a task goes \
        on from exactly where it was after any crash. When a task's driver claims to be finished, drivetrain itself \
        runs the task's acceptance criteria; only they decide.",
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
    /// /model PROVIDER/NAME goes on with another model, /cost says what was spent, /quit leaves, /help lists them;
    /// // sends a slash.
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
    /// CALL may be left out if only one question waits.
    #[command(
        after_long_help = "EXAMPLES:\n  drivetrain answer 7k3 yes\n  drivetrain answer 7k3 c12 'the second one'\n  \
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
        after_long_help = "EXAMPLES:\n  drivetrain journal verify\n  drivetrain journal export 7k3 > 7k3.jsonl"
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

/// What `fake` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum FakeCmd {
    /// Serve a scripted model on this machine, in every dialect, until Ctrl-C
    ///
    /// SCRIPT is a TOML list of replies and faults. Anthropic's messages, OpenAI's chat completions and responses,
    /// Google's generateContent and Mistral's chat (under /mistral) are served at one base URL, which is printed;
    /// all clients play the same script. GET /requests tells what was asked, without keys; POST /reset starts over.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain fake model script.toml
  drivetrain fake model script.toml --port 8089
  curl -s http://127.0.0.1:8089/requests | jq '.requests[].body.messages'")]
    Model(FakeModelArgs),
    /// Play a scripted coding agent on standard input and output, in the words of Claude Code
    ///
    /// For tests of what becomes of a task when its agent misbehaves: name it as the command of an agent's file with
    /// protocol = "claude". SCRIPT has one step a line: a line of JSON is said as it is; others are exit N, signal N,
    /// sleep SECONDS, ask COMMAND, run COMMAND, stderr 1GB, close stdout, deaf and more (docs/agents.md). A line
    /// "next prompt" begins what follows the next prompt, "resumed" what a process plays that was resumed.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain fake agent steps.txt --version
  printf '[agent]\\nname = \"odd\"\\nprotocol = \"claude\"\\ncommand = [\"drivetrain\", \"fake\", \"agent\", \"/tmp/steps.txt\"]\\n' > .drivetrain/agents/odd.toml")]
    Agent(FakeAgentArgs),
}

/// Arguments of `fake agent`.
#[derive(Debug, Args)]
pub(crate) struct FakeAgentArgs {
    /// The script
    #[arg(value_name = "SCRIPT")]
    pub(crate) script: PathBuf,

    /// What a coding agent is started with; --version and --resume are heeded
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<String>,
}

/// Arguments of `fake model`.
#[derive(Debug, Args)]
pub(crate) struct FakeModelArgs {
    /// The script
    #[arg(value_name = "SCRIPT")]
    pub(crate) script: PathBuf,

    /// The port; 0 takes any free one
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) port: u16,
}

/// What `policy` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCmd {
    /// Load every policy file, and say what was found or what is wrong
    Check,
    /// Say what would become of a call of a worker, which rule decides, and what each part of it is worth
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain policy explain 'git push --force'
  drivetrain policy explain 'cat notes | sh' --unattended
  drivetrain policy explain --tool write --input '{\"path\": \".git/config\", \"content\": \"\"}'")]
    Explain(ExplainArgs),
    /// Try every example of every rule: one line each, the sum last; ends with 2 if one differs
    Test,
}

/// Arguments of `policy explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A command line, as a worker would write it
    #[arg(value_name = "LINE", conflicts_with = "input")]
    pub(crate) line: Option<String>,

    /// Another tool than shell
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,

    /// The tool's parameters
    #[arg(long, value_name = "JSON")]
    pub(crate) input: Option<String>,

    /// The task's driver
    #[arg(long, value_name = "NAME", default_value = "llm")]
    pub(crate) driver: String,

    /// As if nobody were there to be asked
    #[arg(long)]
    pub(crate) unattended: bool,

    /// Under this profile: read-only, dev or open
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
}

/// What `sandbox` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum SandboxCmd {
    /// Run a command in this folder as a task would: same walls, this terminal
    ///
    /// Ends with the command's exit code; 125 if the sandbox itself fails, 20 if it cannot be had on this machine.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain sandbox run -- cargo test
  drivetrain sandbox run --network open -- npm install
  drivetrain sandbox run --read ~/models --write /srv/out -- make
  drivetrain sandbox run --level reduced -- sh")]
    Run(SandboxRunArgs),
    /// Print what a command in this folder would see, in the order it is laid out
    Show(SandboxProfile),
}

/// What a sandbox is tried with.
#[derive(Debug, Args)]
pub(crate) struct SandboxProfile {
    /// none, loopback, open, or hosts separated by commas
    #[arg(long, value_name = "NETWORK", default_value = "none")]
    pub(crate) network: String,

    /// A path that can be read beside what everybody can (repeatable)
    #[arg(long, value_name = "PATH")]
    pub(crate) read: Vec<String>,

    /// A path that can be written beside this folder (repeatable)
    #[arg(long, value_name = "PATH")]
    pub(crate) write: Vec<String>,

    /// How strong: full or reduced
    #[arg(long, value_name = "LEVEL", value_parser = ["full", "reduced"], default_value = "full")]
    pub(crate) level: String,
}

/// Arguments of `sandbox run`.
#[derive(Debug, Args)]
pub(crate) struct SandboxRunArgs {
    #[command(flatten)]
    pub(crate) profile: SandboxProfile,

    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, last = true)]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// The walls around what a task starts.
#[derive(Debug, Clone, Args, Default)]
pub(crate) struct WallArgs {
    /// How strong: full, or reduced where the system has no namespaces
    #[arg(long, value_name = "LEVEL", value_parser = ["full", "reduced"], help_heading = "Sandbox")]
    pub(crate) sandbox: Option<String>,

    /// Run without a sandbox: commands can do all that you can; every summary says so
    #[arg(long, conflicts_with = "sandbox", help_heading = "Sandbox")]
    pub(crate) no_sandbox: bool,
}

/// What `journal` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum JournalCmd {
    /// Check every record, and name what is damaged
    Verify,
    /// Make a new journal of everything that can be read; the old one is kept beside it
    Rebuild,
    /// Print the records of a task, one JSON object a line
    Export(TaskArgs),
}

/// A task.
#[derive(Debug, Args)]
pub(crate) struct TaskArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,
}

/// Arguments of `receipt`.
#[derive(Debug, Args)]
pub(crate) struct ReceiptArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,

    /// Write it into this new file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// A receipt's file, or the id of a verified task
    pub(crate) receipt: String,

    /// Run the commands of a receipt that the journal here does not know, without being asked
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A task file (.toml, .yaml, .yml), or the goal in words
    #[arg(value_name = "TASK")]
    pub(crate) task: String,

    /// Who decides: user, workflow, state_machine, external:NAME, …
    #[arg(long, value_name = "NAME", conflicts_with = "workflow")]
    pub(crate) driver: Option<String>,

    /// Run this workflow, by name or path
    #[arg(long, value_name = "NAME|PATH")]
    pub(crate) workflow: Option<String>,

    /// Let this model decide; script/FILE plays a script, without a network or a key. With --workflow: the model of steps
    /// that name none, where [workflow.llm] names none either
    #[arg(long, value_name = "PROVIDER/NAME")]
    pub(crate) model: Option<String>,

    /// Let this coding agent work: claude, codex, gemini, opencode or one of your own; --model is then its model
    #[arg(long, value_name = "NAME", conflicts_with_all = ["workflow", "driver"])]
    pub(crate) agent: Option<String>,

    /// Ask the agent's models in its place, so that it never has the key; usual where it uses one
    #[arg(long, requires = "agent", overrides_with = "no_gateway")]
    pub(crate) gateway: bool,

    /// Give the agent its key and let it ask its models by itself
    #[arg(long, requires = "agent", overrides_with = "gateway")]
    pub(crate) no_gateway: bool,

    #[command(flatten)]
    pub(crate) with: WorkArgs,
}

/// Arguments of `chat`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").required(true).multiple(true).args(["model", "resume"])))]
pub(crate) struct ChatArgs {
    /// What is said first; asked for if it is left out
    #[arg(value_name = "TEXT", conflicts_with = "resume")]
    pub(crate) text: Option<String>,

    /// The model to talk to; script/FILE plays a script, without a network or a key
    #[arg(long, value_name = "PROVIDER/NAME")]
    pub(crate) model: Option<String>,

    /// Go on with this chat; --model hands it to another model
    #[arg(long, value_name = "ID", conflicts_with_all = ["CheckArgs", "max_steps", "Limits", "PlaceArgs", "WallArgs"])]
    pub(crate) resume: Option<String>,

    #[command(flatten)]
    pub(crate) check: CheckArgs,

    /// How often the model may be asked between two of your lines; 10 if left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_steps: Option<u64>,

    #[command(flatten)]
    pub(crate) limits: Limits,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    #[command(flatten)]
    pub(crate) walls: WallArgs,

    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,
}

/// Where a task works, and what it may do there.
#[derive(Debug, Clone, Args, Default)]
pub(crate) struct PlaceArgs {
    /// What it may do where no rule says anything: read-only, dev or open; in place of what policy files name
    #[arg(long, value_name = "NAME", help_heading = "Permissions")]
    pub(crate) profile: Option<String>,

    /// Work in the folder itself: there is no way back, and checks run where the worker works
    #[arg(long, conflicts_with_all = ["no_workspace", "worktree"], help_heading = "Workspace")]
    pub(crate) in_place: bool,

    /// Work in no folder: tools that need one are refused, and nothing can be checked
    #[arg(long, conflicts_with = "worktree", help_heading = "Workspace")]
    pub(crate) no_workspace: bool,

    /// Work in a git worktree of its own; the default in a repository
    #[arg(long, help_heading = "Workspace")]
    pub(crate) worktree: bool,

    /// Let the project's own files count for this task, without trusting them for good
    #[arg(long, help_heading = "Workspace")]
    pub(crate) trust: bool,
}

/// Where the answers of models come from.
#[derive(Debug, Clone, Args)]
pub(crate) struct TrafficArgs {
    /// Write every exchange with a model's server into this folder, without keys
    #[arg(long, value_name = "DIR", help_heading = "Model traffic")]
    pub(crate) record: Option<PathBuf>,

    /// Answer from what was recorded in this folder: no network, no key
    #[arg(long, value_name = "DIR", conflicts_with = "record", help_heading = "Model traffic")]
    pub(crate) replay: Option<PathBuf>,
}

/// How a task is watched.
#[derive(Debug, Clone, Args)]
pub(crate) struct ScreenArgs {
    /// Ask nobody: what a person would have to decide is refused or waits, as the policy says
    #[arg(long)]
    pub(crate) unattended: bool,

    /// Print only the end
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// With --json: print what models say, piece by piece, between the events
    #[arg(long)]
    pub(crate) stream: bool,
}

/// Limits.
#[derive(Debug, Clone, Args, Default)]
pub(crate) struct Limits {
    /// Decisions of the driver
    #[arg(long, value_name = "N", help_heading = "Budget")]
    pub(crate) max_turns: Option<u64>,
    /// Time while it is driven and not paused, such as 90s, 30m or 1h30m
    #[arg(long, value_name = "SPAN", value_parser = Span::parse, help_heading = "Budget")]
    pub(crate) max_time: Option<Span>,
    /// Model tokens, in and out
    #[arg(long, value_name = "N", help_heading = "Budget")]
    pub(crate) max_tokens: Option<u64>,
    /// Money, in US dollars
    #[arg(long, value_name = "USD", value_parser = money, help_heading = "Budget")]
    pub(crate) max_usd: Option<f64>,
    /// Tool calls
    #[arg(long, value_name = "N", help_heading = "Budget")]
    pub(crate) max_tool_calls: Option<u64>,
    /// Denied calls in a row
    #[arg(long, value_name = "N", help_heading = "Budget")]
    pub(crate) max_consecutive_denies: Option<u64>,
    /// Failed calls in a row
    #[arg(long, value_name = "N", help_heading = "Budget")]
    pub(crate) max_consecutive_errors: Option<u64>,
    /// Overflows of the model's context in a row
    #[arg(long, value_name = "N", help_heading = "Budget")]
    pub(crate) max_context_overflows: Option<u64>,
}

pub(crate) fn money(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(amount) if amount.is_finite() && amount >= 0.0 => Ok(amount),
        _ => Err("expected an amount such as 2.50".to_owned()),
    }
}

impl Limits {
    /// The limits that were given.
    pub(crate) fn budget(&self) -> Budget {
        Budget {
            max_turns: self.max_turns,
            max_time: self.max_time,
            max_tokens: self.max_tokens,
            max_usd: self.max_usd,
            max_tool_calls: self.max_tool_calls,
            max_consecutive_denies: self.max_consecutive_denies,
            max_consecutive_errors: self.max_consecutive_errors,
            max_context_overflows: self.max_context_overflows,
        }
    }

    /// Takes the limits that were given in place of those of a file.
    pub(crate) fn replace(&self, budget: &mut Budget) {
        let given = self.budget();
        budget.max_turns = given.max_turns.or(budget.max_turns);
        budget.max_time = given.max_time.or(budget.max_time);
        budget.max_tokens = given.max_tokens.or(budget.max_tokens);
        budget.max_usd = given.max_usd.or(budget.max_usd);
        budget.max_tool_calls = given.max_tool_calls.or(budget.max_tool_calls);
        budget.max_consecutive_denies =
            given.max_consecutive_denies.or(budget.max_consecutive_denies);
        budget.max_consecutive_errors =
            given.max_consecutive_errors.or(budget.max_consecutive_errors);
        budget.max_context_overflows = given.max_context_overflows.or(budget.max_context_overflows);
    }
}

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,

    /// Begin at this checkpoint; the task's base if absent
    #[arg(long, value_name = "N")]
    pub(crate) from: Option<String>,

    /// End at this checkpoint; what the task comes to if absent
    #[arg(long, value_name = "N")]
    pub(crate) to: Option<String>,

    /// Lines by file
    #[arg(long)]
    pub(crate) stat: bool,

    /// Names alone
    #[arg(long, conflicts_with = "stat")]
    pub(crate) name_only: bool,
}

/// Arguments of `rollback`.
#[derive(Debug, Args)]
pub(crate) struct RollbackArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,

    /// The checkpoint, by its number or the beginning of its name
    #[arg(long, value_name = "N")]
    pub(crate) to: String,

    /// Say what would change, and change nothing
    #[arg(long)]
    pub(crate) preview: bool,
}

/// Arguments of `apply`.
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,

    /// Another branch than the one that is checked out; made if there is none
    #[arg(long, value_name = "BRANCH", conflicts_with = "no_commit")]
    pub(crate) onto: Option<String>,

    /// Make a commit; the default
    #[arg(long, conflicts_with = "no_commit")]
    pub(crate) commit: bool,

    /// Leave the changes in your files and index
    #[arg(long, conflicts_with_all = ["message", "hooks"])]
    pub(crate) no_commit: bool,

    /// The commit's message; the goal if absent
    #[arg(long, short, value_name = "MESSAGE")]
    pub(crate) message: Option<String>,

    /// Merge into a branch that has moved since the task began
    #[arg(long)]
    pub(crate) merge: bool,

    /// Leave uncommitted changes of yours as they are, if they are in other files
    #[arg(long)]
    pub(crate) beside_changes: bool,

    /// Have your own git make the commit, with hooks and signature
    #[arg(long, conflicts_with = "onto")]
    pub(crate) hooks: bool,

    /// Hand over what was not verified
    #[arg(long)]
    pub(crate) force_unverified: bool,

    /// Write the changes to a file as a patch, and touch nothing else; - prints it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["onto", "commit", "no_commit", "message", "merge", "hooks", "beside_changes"])]
    pub(crate) patch: Option<PathBuf>,
}

/// Arguments of `fork`.
#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// The old task's id, or the beginning of it
    pub(crate) id: String,

    /// The checkpoint to begin with, by its number or the beginning of its name
    #[arg(long, value_name = "N")]
    pub(crate) at: String,

    /// The state that changes are counted from: task (where the old task began) or here
    #[arg(long, value_name = "WHERE", value_parser = ["task", "here"])]
    pub(crate) base: Option<String>,

    /// What is to be achieved, in place of the old goal
    #[arg(long, value_name = "TEXT")]
    pub(crate) goal: Option<String>,

    /// Who decides, in place of the old driver
    #[arg(long, value_name = "NAME", conflicts_with = "workflow")]
    pub(crate) driver: Option<String>,

    /// Run this workflow, by name or path
    #[arg(long, value_name = "NAME|PATH")]
    pub(crate) workflow: Option<String>,

    /// Let this model decide
    #[arg(long, value_name = "PROVIDER/NAME", conflicts_with = "workflow")]
    pub(crate) model: Option<String>,

    /// A command that must succeed, in place of the old criteria (repeatable)
    #[arg(long, value_name = "COMMAND")]
    pub(crate) check: Vec<String>,

    /// Let the project's own files count for this task, without trusting them for good
    #[arg(long)]
    pub(crate) trust: bool,

    #[command(flatten)]
    pub(crate) limits: Limits,

    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,

    #[command(flatten)]
    pub(crate) screen: ScreenArgs,
}

/// What `worktrees` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum WorktreesCmd {
    /// List them with their task, size, and whether they can go; the default
    List,
    /// Take away what loses nothing; everything else is named with the reason
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain worktrees clean --dry-run
  drivetrain worktrees clean --older-than 7d
  drivetrain worktrees clean 7k3 --checkpoints
      Also gives up the states that are kept of it, once its worktree is gone")]
    Clean(CleanArgs),
}

/// Arguments of `worktrees clean`.
#[derive(Debug, Args)]
pub(crate) struct CleanArgs {
    /// The tasks; all if none is named
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,

    /// Only those of tasks in which nothing has happened for so long, such as 36h or 7d
    #[arg(long, value_name = "SPAN", value_parser = Span::parse)]
    pub(crate) older_than: Option<Span>,

    /// Say what would go, and take nothing away
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Take the checkpoints of these tasks away; their worktrees must be gone
    #[arg(long)]
    pub(crate) checkpoints: bool,
}

/// Arguments of `resume`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").required(true).args(["id", "all"])))]
pub(crate) struct ResumeArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: Option<String>,

    /// Every open task that no process drives and that does not wait for a person
    #[arg(long)]
    pub(crate) all: bool,

    /// Go on although a program of the project has changed since
    #[arg(long)]
    pub(crate) trust: bool,

    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,

    #[command(flatten)]
    pub(crate) screen: ScreenArgs,
}

/// Arguments of `trust`.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// The project's folder; this one if absent
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,

    /// Only show the files and how they stand
    #[arg(long, visible_alias = "list", conflicts_with_all = ["revoke", "yes"])]
    pub(crate) show: bool,

    /// Take all trust in the folder back
    #[arg(long, conflicts_with = "yes")]
    pub(crate) revoke: bool,

    /// Trust the files as they are without being asked
    #[arg(long)]
    pub(crate) yes: bool,

    /// Only this file (repeatable)
    #[arg(long, value_name = "FILE", conflicts_with = "revoke")]
    pub(crate) only: Vec<PathBuf>,
}

/// Arguments of `list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// All tasks, however old
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,

    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub(crate) limit: usize,
}

/// Arguments of `log`.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,

    /// Go on until the task has ended
    #[arg(long, short)]
    pub(crate) follow: bool,

    /// Only who decided what about which call, one line a decision
    #[arg(long)]
    pub(crate) decisions: bool,

    /// Show instead which hosts its sandboxes have reached for, and what became of it
    #[arg(long, conflicts_with_all = ["follow", "decisions"])]
    pub(crate) network: bool,
}

/// Arguments of `cancel`.
#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,

    /// Why, for those who look later
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) reason: String,
}

/// Arguments of `interrupt`.
#[derive(Debug, Args)]
pub(crate) struct InterruptArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,

    /// What the driver is told
    #[arg(value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) text: String,
}

/// A task and a text.
#[derive(Debug, Args)]
pub(crate) struct NoteArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,

    /// What the driver is told
    #[arg(value_name = "TEXT")]
    pub(crate) text: String,
}

/// Arguments of `raise`.
#[derive(Debug, Args)]
pub(crate) struct RaiseArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) limits: Limits,
}

/// A task and one of its calls.
#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,

    /// The call, such as c12; may be left out if only one waits
    pub(crate) call: Option<CallId>,
}

/// Arguments of `approve`.
#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    pub(crate) which: CallArgs,

    /// How far the answer reaches: this call, the same call again in this task, or tasks to come
    #[arg(long = "for", value_name = "REACH", value_enum, default_value_t = Reach::Once)]
    pub(crate) reach: Reach,

    /// For shell: also commands that are like this, such as 'git push'
    #[arg(long, value_name = "PATTERN")]
    pub(crate) like: Option<String>,

    /// The hash that was shown with the call: refused if the call has another one
    #[arg(long, value_name = "DIGITS")]
    pub(crate) hash: Option<String>,
}

/// How far an approval reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Reach {
    /// This call only
    Once,
    /// The same call again in this task
    Task,
    /// Tasks to come as well: a rule is written into the project's policy
    Project,
}

/// Arguments of `approvals`.
#[derive(Debug, Args)]
pub(crate) struct ApprovalsArgs {
    /// Go on, and tell what is newly asked and what was settled, until Ctrl-C
    #[arg(long, short)]
    pub(crate) watch: bool,

    /// Show every call to its last character, however long it is
    #[arg(long)]
    pub(crate) whole: bool,
}

/// Arguments of `deny`.
#[derive(Debug, Args)]
pub(crate) struct DenyArgs {
    #[command(flatten)]
    pub(crate) which: CallArgs,

    /// What the worker is told
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) reason: String,
}

/// Arguments of `answer`.
#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,

    /// The call, if more than one question waits, then the answer
    #[arg(value_name = "[CALL] TEXT", num_args = 1..=2, required = true)]
    pub(crate) words: Vec<String>,
}

/// Arguments of `resolve`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("how").required(true).args(["did", "did_not", "retry"])))]
pub(crate) struct ResolveArgs {
    #[command(flatten)]
    pub(crate) which: CallArgs,

    /// It ran to its end: take it as done
    #[arg(long)]
    pub(crate) did: bool,

    /// It did not run: take it as failed
    #[arg(long)]
    pub(crate) did_not: bool,

    /// Run it again
    #[arg(long)]
    pub(crate) retry: bool,
}

/// Arguments of `hand-over`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("to").required(true).args(["driver", "model"])))]
pub(crate) struct HandOverArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,

    /// Who decides from here on
    #[arg(long, value_name = "NAME")]
    pub(crate) driver: Option<String>,

    /// The driver's configuration: JSON, or a file of JSON or TOML
    #[arg(long, value_name = "JSON|FILE", requires = "driver")]
    pub(crate) config: Option<String>,

    /// This model decides; a model before it leaves it the conversation and all other settings
    #[arg(long, value_name = "PROVIDER/NAME")]
    pub(crate) model: Option<String>,
}
