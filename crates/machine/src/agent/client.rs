//! What an agent has whoever drives it do, in place of doing it itself: files and commands. Each is asked about as a tool
//! of the agent's own is; once the gate has let it pass it is performed for the agent, behind the task's own walls.

use super::AgentAsk;

/// Something that an agent wants done for it.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientRequest {
    /// What the answer is given with.
    pub key: String,
    /// What is to be done.
    pub work: ClientWork,
    /// What the gate is asked first. Nothing for what belongs to a call that the gate has let pass.
    pub ask: Option<AgentAsk>,
}

/// What an agent can have done. Paths are as our own file tools take them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientWork {
    /// The whole content of a file.
    ReadFile {
        /// The file.
        path: String,
    },
    /// A file gets this content.
    WriteFile {
        /// The file.
        path: String,
        /// All of it.
        content: String,
    },
    /// A command line is started and left running.
    RunCommand {
        /// What it is called from here on.
        terminal: String,
        /// The command line, for a shell.
        command: String,
        /// How many bytes of what it prints are kept, from the end.
        keep: usize,
    },
    /// What a command printed so far.
    ShowOutput {
        /// The command.
        terminal: String,
    },
    /// How a command ends, once it has.
    AwaitExit {
        /// The command.
        terminal: String,
    },
    /// A command is ended, with everything that it started; its output is kept.
    Kill {
        /// The command.
        terminal: String,
    },
    /// The same, and nothing of it is kept.
    Release {
        /// The command.
        terminal: String,
    },
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientDone {
    /// It is done, and there is nothing to tell.
    Done,
    /// The bytes of a file.
    Content(Vec<u8>),
    /// What a command printed.
    Output {
        /// The end of it, as much as was to be kept.
        bytes: Vec<u8>,
        /// Whether there was more before.
        is_cut: bool,
        /// How it ended, if it has.
        exit: Option<CommandExit>,
    },
    /// How a command ended.
    Exited(CommandExit),
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandExit {
    /// Its exit code; none if a signal ended it and that is all that is known.
    pub code: Option<i32>,
    /// The signal that ended it, by its name.
    pub signal: Option<String>,
}

/// Why something could not be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFailure {
    /// There is no such file: agents ask that way whether there is one.
    pub is_missing: bool,
    /// For whoever reads it.
    pub why: String,
}

/// Signals that end a process, with their numbers on Linux, which are the same on every processor.
const SIGNALS: [(i32, &str); 12] = [
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (11, "SIGSEGV"),
    (13, "SIGPIPE"),
    (14, "SIGALRM"),
    (15, "SIGTERM"),
];

impl CommandExit {
    /// From what the system tells. A shell, and a namespace, tell of a signal by a code of 128 and its number.
    pub fn of(code: Option<i32>, signal: Option<i32>) -> CommandExit {
        let number = signal.or(code.and_then(|code| code.checked_sub(128)));
        let known = SIGNALS.iter().find(|(known, _)| Some(*known) == number);
        let name = known.map(|(_, name)| (*name).to_owned());
        CommandExit { code, signal: name.or(signal.map(|signal| format!("signal {signal}"))) }
    }

    /// Whether it ended well.
    pub fn is_good(&self) -> bool {
        self.code == Some(0)
    }

    /// In words for people.
    pub fn said(&self) -> String {
        match (self.code, &self.signal) {
            (_, Some(signal)) => format!("ended by {signal}"),
            (Some(code), None) => format!("exit {code}"),
            (None, None) => "ended in an unknown way".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_known_by_its_number_or_by_the_code_that_stands_for_it() {
        let killed = CommandExit::of(None, Some(9));
        assert_eq!((killed.code, killed.signal.as_deref()), (None, Some("SIGKILL")));
        let in_namespace = CommandExit::of(Some(137), None);
        assert_eq!(in_namespace.code, Some(137));
        assert_eq!(in_namespace.signal.as_deref(), Some("SIGKILL"));
        assert_eq!(CommandExit::of(Some(127), None).signal, None);
        assert_eq!(CommandExit::of(Some(128), None).signal, None);
        assert_eq!(CommandExit::of(None, Some(40)).said(), "ended by signal 40");
        assert_eq!(CommandExit::of(Some(3), None).said(), "exit 3");
        assert!(CommandExit::of(Some(0), None).is_good());
    }
}
