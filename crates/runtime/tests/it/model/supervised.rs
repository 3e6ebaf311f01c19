//! Remote models under a supervisor: many are asked at once, and whoever stops a task hangs up.

use std::io::Write;
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use journal::sqlite::SqliteJournal;
use machine::driver::Registry;
use machine::id::TaskId;
use machine::input::Command;
use machine::task::{DriverSpec, Outcome, TaskSpec, WorkspaceKind, WorkspaceSpec};
use runtime::clock::SystemClock;
use runtime::home::Home;
use runtime::inbox::Inbox;
use runtime::supervisor::Supervisor;
use runtime::world::World;
use serde_json::json;

use super::ANTHROPIC;
use super::server::{HEAD, Server, chunk, hold, whole};

/// A home, and a project whose file names the server.
struct Place {
    folder: tempfile::TempDir,
    home: Home,
}

impl Place {
    fn new(server: &Server) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let settings = folder.path().join("project/.drivetrain");
        std::fs::create_dir_all(&settings).unwrap();
        let file = format!(
            "[provider.here]\ndialect = \"anthropic_messages\"\nbase_url = \"{}\"\n",
            server.url()
        );
        std::fs::write(settings.join("models.toml"), file).unwrap();
        let read = runtime::trust::read_file(&settings.join("models.toml"), 1 << 20);
        runtime::trust::grant(read.unwrap().unwrap().0);
        let home = Home::at(folder.path().join("home"));
        home.create().unwrap();
        Place { folder, home }
    }

    fn supervisor(&self) -> Supervisor<World> {
        let inbox = Inbox::default();
        let world = World::new(inbox.clone(), &self.home, self.home.marks(0));
        let journal = Box::new(SqliteJournal::open(&self.home.journal()).unwrap());
        let registry = Arc::new(Registry::builtin());
        Supervisor::new(journal, world, Box::new(SystemClock), registry, inbox)
    }

    fn spec(&self) -> TaskSpec {
        TaskSpec {
            workspace: WorkspaceSpec {
                kind: Some(WorkspaceKind::None),
                ..WorkspaceSpec::default()
            },
            sandbox: machine::policy::sandbox::SandboxSpec::off(),
            ..TaskSpec::new(
                "be asked",
                DriverSpec::new("llm", json!({ "model": "here/claude" })),
                self.folder.path().join("project").to_str().unwrap(),
            )
        }
    }
}

#[test]
fn many_models_are_asked_at_once() {
    const TASKS: usize = 40;
    // Nobody is answered before all have asked.
    let all = Barrier::new(TASKS);
    let server = Server::new(move |_, stream| {
        all.wait();
        stream.write_all(&whole(ANTHROPIC)).is_ok()
    });
    let place = Place::new(&server);
    let mut supervisor = place.supervisor();
    for task in 0..TASKS {
        supervisor.begin(TaskId(format!("t{task}")), place.spec(), false).unwrap();
    }
    supervisor.run().unwrap();
    let completed = |outcome: &&Outcome| **outcome == Outcome::Completed;
    assert_eq!(supervisor.outcomes().values().filter(completed).count(), TASKS);
    assert_eq!(server.connections(), TASKS, "one connection each");
}

#[test]
fn whoever_stops_a_task_hangs_up() {
    for begun in [false, true] {
        for stops in [false, true] {
            let (said, asked) = mpsc::channel();
            let (left, gone) = mpsc::channel();
            let server = Server::new(move |_, stream| {
                if begun {
                    let bytes = [HEAD.as_bytes(), &chunk(&ANTHROPIC[..500])].concat();
                    stream.write_all(&bytes).unwrap();
                }
                said.send(()).unwrap();
                hold(stream);
                left.send(()).unwrap();
                false
            });
            let place = Place::new(&server);
            let mut supervisor = place.supervisor();
            let task = TaskId("t".to_owned());
            supervisor.begin(task.clone(), place.spec(), false).unwrap();
            let inbox = supervisor.inbox().clone();
            let id = task.clone();
            let person = std::thread::spawn(move || {
                asked.recv().unwrap();
                if stops {
                    inbox.stop();
                    inbox.stop();
                } else {
                    let cancel = Command::Cancel { reason: "enough".to_owned() };
                    inbox.command(id, cancel.into(), None).unwrap();
                }
            });
            supervisor.run().unwrap();
            person.join().unwrap();
            gone.recv_timeout(Duration::from_secs(30)).unwrap();
            let expected = if stops { Outcome::Waiting } else { Outcome::Cancelled };
            assert_eq!(supervisor.outcomes()[&task], expected);
        }
    }
}
