//! The help is part of the interface: changes to it are seen here.

use crate::environment::TestEnvironment;

const COMMANDS: &[&str] = &[
    "run",
    "chat",
    "race",
    "queue",
    "queue add",
    "queue list",
    "queue show",
    "queue run",
    "queue drop",
    "resume",
    "list",
    "show",
    "log",
    "why",
    "receipt",
    "verify",
    "pause",
    "cancel",
    "interrupt",
    "steer",
    "follow-up",
    "compact",
    "raise",
    "approve",
    "deny",
    "answer",
    "approvals",
    "resolve",
    "hand-over",
    "diff",
    "checkpoints",
    "rollback",
    "apply",
    "fork",
    "worktrees",
    "init",
    "schema",
    "doctor",
    "sandbox",
    "trust",
    "policy",
    "policy check",
    "policy explain",
    "policy test",
    "workflow",
    "workflow list",
    "workflow show",
    "workflow check",
    "workflow run",
    "workflow graph",
    "workflow new",
    "prompt",
    "prompt list",
    "prompt show",
    "prompt check",
    "prompt new",
    "agent",
    "agent list",
    "agent show",
    "agent check",
    "agent run",
    "agent new",
    "import",
    "journal",
    "completions",
    "tools",
    "drivers",
    "agents",
    "models",
    "mcp",
    "acp",
    "fake",
    "journal verify",
    "journal rebuild",
    "journal export",
    "fake acp-agent",
    "fake agent",
    "fake model",
    "worktrees list",
    "worktrees clean",
    "sandbox run",
    "sandbox show",
];

#[test]
fn the_main_help_names_commands_exit_codes_and_files() {
    let environment = TestEnvironment::new();
    insta::assert_snapshot!(environment.ok(&["--help"]), @"
    Drivetrain drives a task to a proven finish, whoever decides the next move: a person, a model, a
    workflow file, a state machine, a coding agent or a plugin. Everything that happens is journaled
    before it is acted on, so a task goes on from exactly where it was after any crash. When a task's
    driver claims to be finished, drivetrain itself runs the task's acceptance criteria; only they
    decide.

    Usage: drivetrain [OPTIONS] <COMMAND>

    Commands:
      run          Drive a task in the foreground, from a file or from a goal in words
      chat         Talk with a model about a task, line by line
      race         Let several drivers work on the same goal, each in a worktree of its own; one of them
                   wins
      queue        Put verified tasks into a branch, one at a time
      resume       Go on with a task that was interrupted, paused or put to rest
      list         List tasks, newest first
      show         Show one task: goal, standing, spend, criteria, workspace
      log          Show everything that happened to a task
      why          Say why a task stopped or what it waits for, and what to type next
      receipt      Show the receipt of a verified task, or write it into a file
      verify       Check a receipt: is it whole, does the journal agree, and does it still hold
      pause        Hold a task: what runs may end, nothing new begins
      cancel       End a task
      interrupt    Stop what runs and tell the driver
      steer        Tell the driver something before its next move, without stopping what runs
      follow-up    Tell the driver something once it would be finished
      compact      Make the conversation of whoever works shorter, before its next turn
      raise        Allow a task more; limits only go up
      approve      Let an asked call run
      deny         Refuse an asked call, or to answer a question
      answer       Answer a question, or decide the next move of a task that a person drives
      approvals    List everything that people are asked, of all open tasks
      resolve      Say what became of a call in doubt
      hand-over    Let another driver decide from here on; workspace, history and budget stay
      diff         Show what a task changed
      checkpoints  List the states of a task's workspace that are kept
      rollback     Give a task's workspace an earlier state, exactly, and so that it can be undone
      apply        Hand what a task proved to your checkout, as one commit
      fork         Begin a new task with the files of any checkpoint of an old one
      worktrees    List the worktrees of tasks, and take away those that nobody needs
      init         Write a commented .drivetrain/ for this project; nothing is overwritten
      schema       Print the JSON Schema of a kind of file, so that an editor completes and checks it
      doctor       Say what is missing on this machine and how to mend it
      sandbox      Try the sandbox by hand, or see what it shows
      trust        Look at the project's files that can act, and say that you trust them
      policy       Say what tasks may do here, and why
      workflow     Workflows as files: list, read, check, run and begin them
      prompt       Prompts as files: list, read, check and begin them
      agent        Agents as files: list, read, check, run and begin them
      import       Turn files of other programs into prompts and workflows
      journal      Check, mend or export the journal
      completions  Print a completion script for a shell
      tools        List the tools that steps, people and models can use
      drivers      List the drivers and workflows that can be used here
      agents       List the coding agents, their versions, and what can be done with each
      models       List the providers of models, and whether a key is there
      mcp          Let another program dispatch tasks and look after them: an MCP server on standard
                   input and output
      acp          Be the agent of an editor: the Agent Client Protocol on standard input and output
      fake         Serve something that stands in for a model, to test automation without one
      help         Print this message or the help of the given subcommand(s)

    Options:
          --json
              Print JSON: one versioned object, or one event a line for run, resume and log

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

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
    `verify` ends with 10 if a receipt does not hold. Other commands end with 0, 2 or 20; `doctor` and
    `journal verify` with 20 if something is wrong.

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

    A task's ID may be shortened as long as it stays unique.
    ");
}

#[test]
fn every_command_describes_itself_with_an_example() {
    let environment = TestEnvironment::new();
    for command in COMMANDS {
        let mut args: Vec<&str> = command.split(' ').collect();
        args.push("--help");
        let help = environment.ok(&args);
        assert!(help.contains("Usage: drivetrain"), "{command}");
        assert!(help.contains("--json"), "{command}");
        assert!(command.contains(' ') || help.contains("EXAMPLES:"), "{command}");
    }
    let rebuild = environment.ok(&["journal", "rebuild", "--help"]);
    assert!(rebuild.contains("EXAMPLES:\n  drivetrain journal verify\n"), "{rebuild}");
    insta::assert_snapshot!(environment.ok(&["run", "--help"]), @r"
    Drive a task in the foreground, from a file or from a goal in words

    TASK is a task file (TOML or YAML), or the goal itself. The task is journaled step by step: kill it
    at any moment and `drivetrain resume` goes on from there. On a terminal you are asked what a person
    has to decide; elsewhere, or with --unattended, the task stops and waits, durably, with exit code
    13.

    Ctrl-C or SIGTERM lets the running step end and then stops; a second one stops at once.

    Usage: drivetrain run [OPTIONS] <TASK>

    Arguments:
      <TASK>
              A task file (.toml, .yaml, .yml), or the goal in words

    Options:
          --driver <NAME>
              Who decides: user, workflow, state_machine, external:NAME, …

          --json
              Print JSON: one versioned object, or one event a line for run, resume and log

          --workflow <NAME|PATH>
              Run this workflow, by name or path

          --model <PROVIDER/NAME>
              Let this model decide; script/FILE plays a script, without a network or a key. With
              --workflow: the model of steps that name none, where [workflow.llm] names none either

          --agent <NAME>
              Let this coding agent work: claude, codex, gemini, opencode or one of your own; --model is
              then its model

          --gateway
              Ask the agent's models in its place, so that it never has the key; usual where it uses one

          --no-gateway
              Give the agent its key and let it ask its models by itself

          --any-version
              Let the agent work though its version is older than what was tried

          --unattended
              Ask nobody: what a person would have to decide is refused or waits, as the policy says

      -q, --quiet
              Print only the end

          --stream
              With --json: print what models say, piece by piece, between the events

      -h, --help
              Print help (see a summary with '-h')

    Checks:
          --check <COMMAND|auto>
              A command that must succeed before the task counts as done (repeatable); auto finds the
              project's own tests

          --repeat <N>
              Run every command this often: it must pass each time

          --red-first
              Every command must fail on the files as they were before the task, and pass on those it
              hands over

          --protect <PATTERN>
              Paths that must stay as they are, such as 'tests/**'; '!PATH' excepts some (repeatable)

          --protect-framework
              Files that steer tests and builds must stay as they are: conftest.py, manifests,
              Makefiles, CI, …

          --judge <PROVIDER/NAME>
              A model that judges what was done by --rubric, once everything else has passed

          --rubric <TEXT|@FILE>
              What the judge judges by: text, or @FILE

          --judge-decides
              The judge's no fails the work; otherwise it is only told

    Budget:
          --max-turns <N>
              Decisions of the driver

          --max-time <SPAN>
              Time while it is driven and not paused, such as 90s, 30m or 1h30m

          --max-tokens <N>
              Model tokens, in and out

          --max-usd <USD>
              Money, in US dollars

          --max-tool-calls <N>
              Tool calls

          --max-consecutive-denies <N>
              Denied calls in a row

          --max-consecutive-errors <N>
              Failed calls in a row

          --max-context-overflows <N>
              Overflows of the model's context in a row

    Permissions:
          --profile <NAME>
              What it may do where no rule says anything: read-only, dev or open; in place of what
              policy files name

    Workspace:
          --in-place
              Work in the folder itself: there is no way back, and checks run where the worker works

          --no-workspace
              Work in no folder: tools that need one are refused, and nothing can be checked

          --worktree
              Work in a git worktree of its own; the default in a repository

          --trust
              Let the project's own files count for this task, without trusting them for good

    Sandbox:
          --sandbox <LEVEL>
              How strong: full, or reduced where the system has no namespaces
              
              [possible values: full, reduced]

          --no-sandbox
              Run without a sandbox: commands can do all that you can; every summary says so

    Model traffic:
          --record <DIR>
              Write every exchange with a model's server into this folder, without keys

          --replay <DIR>
              Answer from what was recorded in this folder: no network, no key

    EXAMPLES:
      drivetrain run task.toml
      drivetrain run 'count to three' --workflow count --check 'test $(wc -l < out.txt) -eq 3'
      drivetrain run 'tidy up' --driver user --in-place
      printf 'shell make\ndone\n' | drivetrain run 'build it' --driver user
          Without a terminal, the lines of standard input are the decisions
      drivetrain run task.toml --json | jq -r .type
          One event a line; the last is task_finished with outcome and exit_code
    ");
    let help = environment.ok(&["chat", "--help"]);
    insta::assert_snapshot!(help.split("Options:").next().unwrap(), @"
    Talk with a model about a task, line by line

    A chat is a task like any other: journaled, limited, resumable, with tools that ask before they do
    harm. The model answers and uses tools until it has nothing more to do; then the next line is yours.
    TEXT, or the first line you type, is the task's goal.

    A line typed while it works reaches it before its next step. Ctrl-C stops what it does and gives you
    the word; where there is nothing to stop it clears the line, and a second one, or Ctrl-D, leaves the
    chat, which waits to be resumed. Lines that begin with a slash are commands: /done ends the chat
    (the checks decide), /model PROVIDER/NAME goes on with another model, /compact goes on from a
    summary, /cost says what was spent, /quit leaves, /help lists them; // sends a slash.

    Usage: drivetrain chat [OPTIONS] <--model <PROVIDER/NAME>|--resume <ID>> [TEXT]

    Arguments:
      [TEXT]
              What is said first; asked for if it is left out
    ");
    assert!(help.contains("drivetrain chat --resume 7k3"), "{help}");
}

#[test]
fn completions_are_made_for_the_usual_shells() {
    let environment = TestEnvironment::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(environment.ok(&["completions", shell]).contains("hand-over"), "{shell}");
    }
    assert_eq!(environment.run(&["completions", "tcl"]).code, 2);
}

#[test]
fn a_wrong_command_line_is_explained() {
    let environment = TestEnvironment::new();
    for args in [
        &["rnu"][..],
        &["resume"],
        &["resume", "x", "--all"],
        &["resolve", "x", "c1"],
        &["run"],
        &[],
    ] {
        assert_eq!(environment.run(args).code, 2, "{args:?}");
    }
    assert!(environment.run(&["resum"]).err.contains("'resume'"));
    assert!(
        environment.run(&["run", "x", "--max-time", "5"]).err.contains("expected something like")
    );
    for (flag, number, expected) in [
        ("--max-turns", "-1", "expected a whole number such as 40"),
        ("--max-tokens", "1.5", "expected a whole number such as 40"),
        ("--max-usd", "-3", "expected an amount such as 2.50"),
        ("--repeat", "-1", "-1 is not in 1..=100"),
    ] {
        let ran = environment.run(&["run", "x", flag, number]);
        assert_eq!(ran.code, 2, "{flag} {number}");
        assert!(ran.err.contains(expected), "{flag} {number}: {}", ran.err);
    }
    assert!(environment.ok(&["--version"]).starts_with("drivetrain "));
}
