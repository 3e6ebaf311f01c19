//! The command line `drivetrain`: reads arguments, dispatches, and turns the end into an exit code.

mod args;
mod commands;
mod error;
mod foreground;
mod kept;
mod left_behind;
mod locate;
mod output;
mod project_rule;
mod prompt;
mod recall;
mod screen;
mod signals;
mod take_up;
mod traffic;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use args::{
    AgentCmd, Cli, Cmd, FakeCmd, JournalCmd, PolicyCmd, PromptCmd, SandboxCmd, WorkflowCmd,
    WorktreesCmd,
};
use error::CommandError;

fn main() -> ExitCode {
    // Inside a sandbox this program becomes the command here.
    runtime::sandbox::helper::enter();
    runtime::heap::share();
    std::panic::set_hook(Box::new(output::panicked));
    // The hook has told the person; what is left is the code.
    ExitCode::from(catch_unwind(AssertUnwindSafe(start)).unwrap_or(20))
}

fn start() -> u8 {
    output::learn_keys();
    runtime::process::outlive_limit_of_files();
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(error) => return misused(&error),
    };
    let told = |error: &CommandError| {
        output::error(&if cli.json { error.json().to_string() } else { error.text() });
        error.exit_code()
    };
    let done = dispatch(&cli);
    output::settle();
    match done {
        Ok(code) => match output::failure() {
            Some(error) if code == 0 && only_tells(&cli.command) => told(&error),
            // What was done is done: the code says how it went.
            Some(error) => {
                told(&error);
                code
            }
            None => code,
        },
        Err(error) => told(&error),
    }
}

/// Whether what it prints is all that a command is for.
fn only_tells(command: &Cmd) -> bool {
    matches!(
        command,
        Cmd::List(_)
            | Cmd::Show(_)
            | Cmd::Log(_)
            | Cmd::Why(_)
            | Cmd::Receipt(_)
            | Cmd::Approvals(_)
            | Cmd::Diff(_)
            | Cmd::Checkpoints(_)
            | Cmd::Worktrees { command: None | Some(WorktreesCmd::List) }
            | Cmd::Schema(_)
            | Cmd::Doctor
            | Cmd::Sandbox(SandboxCmd::Show(_))
            | Cmd::Workflow(
                WorkflowCmd::List
                    | WorkflowCmd::Show(_)
                    | WorkflowCmd::Check(_)
                    | WorkflowCmd::Graph(_)
            )
            | Cmd::Prompt(PromptCmd::List | PromptCmd::Show(_) | PromptCmd::Check(_))
            | Cmd::Agent(AgentCmd::List | AgentCmd::Show(_) | AgentCmd::Check(_))
            | Cmd::Policy(_)
            | Cmd::Journal(JournalCmd::Verify | JournalCmd::Export(_))
            | Cmd::Completions { .. }
            | Cmd::Tools
            | Cmd::Drivers
            | Cmd::Agents
            | Cmd::Models
    )
}

/// Help and version are no errors; anything else is, in the form that was asked for.
fn misused(error: &clap::Error) -> u8 {
    if error.use_stderr() && std::env::args_os().any(|word| word == "--json") {
        let message = error.render().to_string();
        let message = message.trim().trim_start_matches("error: ");
        output::error(&CommandError::usage(message).json().to_string());
        return 2;
    }
    if error.use_stderr() {
        output::error(error.render().to_string().trim_end());
        return 2;
    }
    output::help(error);
    output::failure().map_or(0, |error| {
        output::error(&error.text());
        error.exit_code()
    })
}

fn dispatch(cli: &Cli) -> Result<u8, CommandError> {
    let json = cli.json;
    match &cli.command {
        Cmd::Run(args) => commands::run::run(args, json),
        Cmd::Chat(args) => commands::chat::run(args, json),
        Cmd::Race(args) => commands::race::run(args, json),
        Cmd::Queue(command) => commands::queue::run(command, json),
        Cmd::Resume(args) => commands::resume::run(args, json),
        Cmd::List(args) => commands::list::run(args, json),
        Cmd::Show(args) => commands::show::run(&args.id, json),
        Cmd::Log(args) => commands::log::run(args, json),
        Cmd::Why(args) => commands::why::run(&args.id, json),
        Cmd::Receipt(args) => commands::receipt::run(args, json),
        Cmd::Verify(args) => commands::verify::run(args, json),
        Cmd::Pause(args) => commands::tell::pause(&args.id, json),
        Cmd::Cancel(args) => commands::tell::cancel(args, json),
        Cmd::Interrupt(args) => commands::tell::interrupt(args, json),
        Cmd::Steer(args) => commands::tell::steer(args, json),
        Cmd::Compact(args) => commands::tell::compact(args, json),
        Cmd::FollowUp(args) => commands::tell::follow_up(args, json),
        Cmd::Raise(args) => commands::tell::raise(args, json),
        Cmd::Approve(args) => commands::reply::approve(args, json),
        Cmd::Deny(args) => commands::reply::deny(args, json),
        Cmd::Answer(args) => commands::reply::answer(args, json),
        Cmd::Resolve(args) => commands::reply::resolve(args, json),
        Cmd::Approvals(args) => commands::approvals::run(args, json),
        Cmd::HandOver(args) => commands::hand_over::run(args, json),
        Cmd::Diff(args) => commands::diff::run(args, json),
        Cmd::Checkpoints(args) => commands::checkpoints::run(args, json),
        Cmd::Rollback(args) => commands::rollback::run(args, json),
        Cmd::Apply(args) => commands::apply::run(args, json),
        Cmd::Fork(args) => commands::fork::run(args, json),
        Cmd::Worktrees { command } => commands::worktrees::run(command.as_ref(), json),
        Cmd::Init => commands::init::run(json),
        Cmd::Schema(args) => commands::schema::run(args, json),
        Cmd::Doctor => commands::doctor::run(json),
        Cmd::Sandbox(SandboxCmd::Run(args)) => commands::sandbox::run(args),
        Cmd::Sandbox(SandboxCmd::Show(args)) => commands::sandbox::show(args, json),
        Cmd::Trust(args) => commands::trust::run(args, json),
        Cmd::Workflow(command) => commands::workflow::run(command, json),
        Cmd::Prompt(command) => commands::prompt::run(command, json),
        Cmd::Agent(command) => commands::agent::run(command, json),
        Cmd::Policy(PolicyCmd::Check) => commands::policy::check(json),
        Cmd::Policy(PolicyCmd::Explain(args)) => commands::policy::explained(args, json),
        Cmd::Policy(PolicyCmd::Test) => commands::policy::test(json),
        Cmd::Import(args) => commands::import::run(args, json),
        Cmd::Journal(JournalCmd::Verify) => commands::journal::verify(json),
        Cmd::Journal(JournalCmd::Rebuild) => commands::journal::rebuild(json),
        Cmd::Journal(JournalCmd::Export(args)) => commands::journal::export(&args.id),
        Cmd::Completions { shell } => commands::catalogue::completions(*shell),
        Cmd::Tools => commands::catalogue::tools(json),
        Cmd::Drivers => commands::catalogue::drivers(json),
        Cmd::Agents => commands::agents::run(json),
        Cmd::Models => commands::models::run(json),
        Cmd::Acp(args) => commands::acp::run(args),
        Cmd::Mcp(args) => commands::mcp::run(args.clone()),
        Cmd::Gate { .. } => commands::gate::run(),
        Cmd::Fake(FakeCmd::Model(args)) => commands::fake::model(args, json),
        Cmd::Fake(FakeCmd::Agent(args)) => commands::fake::agent(args),
        Cmd::Fake(FakeCmd::AcpAgent(args)) => commands::fake::acp_agent(args),
    }
}
