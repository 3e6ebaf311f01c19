//! The one tool of the server that makes something: a task, within what the server and the task that dispatches have
//! left, and with no more permissions than they have.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use journal::Journal;
use machine::Command;
use machine::child::{self, Child, ChildOrder, Dispatch, MOST_DEPTH};
use machine::driver::Registry;
use machine::id::TaskId;
use machine::policy::budget::{Budget, Spend};
use machine::policy::permission::Profile;
use machine::state::Standing;
use machine::task::TaskSpec;
use runtime::library::Library;
use runtime::minding::drive_apart;
use runtime::station::{Station, new_task_id};
use runtime::stdio_server::tasks::Wish;
use serde_json::{Value, json};

use super::{Server, glance, refused};
use crate::args::{CheckArgs, Limits, PlaceArgs};
use crate::commands::children;
use crate::commands::options::Options;
use crate::commands::prepare;
use crate::commands::run::{Who, driver_of};
use crate::error::CommandError;
use crate::locate::{self, Records, Task};

/// How long a process may take to take up its task.
const TAKES_UP: Duration = Duration::from_secs(2);

impl Server {
    /// What can be wrong before anything is asked for is said at the start.
    pub(super) fn check(&self) -> Result<(), CommandError> {
        let library = Library::of(&self.folder).judged_by(&self.home, &self.folder);
        for worker in self.offer().workers {
            let mut driver = self.driver(Some(&worker))?;
            library.resolve_driver(&mut driver, &self.folder, &Registry::builtin())?;
        }
        if let Some(name) = &self.args.profile {
            profile(name)?;
        }
        let Some(parent) = &self.parent else { return Ok(()) };
        let task = glance(&Records::open()?, parent)?;
        if let Standing::Finished { outcome, .. } = task.state.standing() {
            return Err(refused(format!("task {parent} has ended: {}", outcome.word())));
        }
        if depth(&task) > MOST_DEPTH {
            return Err(refused(format!(
                "task {parent} is {MOST_DEPTH} dispatches deep already, and dispatches nobody"
            )));
        }
        Ok(())
    }

    /// Makes the task, or finds the one that the key stands for, and sees to it that a process drives it.
    pub(super) fn dispatch(&self, wish: &Wish) -> Result<String, CommandError> {
        let lock = children::dispatching(&self.home, &self.scope())?;
        if let Some(parent) = &self.parent {
            children::give_back_under_lock(parent)?;
        }
        let id = match &wish.key {
            Some(key) => TaskId::keyed(&self.scope(), key),
            None => new_task_id(),
        };
        let records = Records::open()?;
        if records.journal.task(id.as_str()).is_ok() {
            return self.found(&glance(&records, &id)?, &id, wish);
        }
        let counted = self.counted(&records)?;
        let count = u64::try_from(counted.len()).unwrap_or(u64::MAX);
        if count >= self.args.max_tasks {
            return Err(self.spent(format!(
                "{count} tasks were dispatched here, and no more are allowed (--max-tasks)"
            )));
        }
        let mut spec = self.spec(wish)?;
        let own = Budget {
            max_usd: self.args.max_usd,
            max_tokens: self.args.max_tokens,
            ..Budget::default()
        };
        let spent = counted.values().fold(Spend::default(), |spent, child| child.charged.on(spent));
        let committed = child::committed(&spent, counted.values());
        spec.budget =
            child::allot(&own, &committed, &spec.budget).map_err(|why| self.spent(why))?;
        match &self.parent {
            None => {
                spec.dispatch =
                    Some(Dispatch { parent: None, depth: 1, key: wish.key.clone(), within: None })
            }
            Some(parent) => {
                let task = glance(&records, parent)?;
                let data = task.state.data();
                child::narrow(&mut spec, &data.spec, data.workspace.as_ref()).map_err(refused)?;
                spec.budget =
                    child::allot(&data.budget, &data.committed(), &spec.budget).map_err(refused)?;
                let (parent, key) = (Some(parent.clone()), wish.key.clone());
                spec.dispatch = Some(Dispatch { parent, depth: depth(&task), key, within: None });
            }
        }
        for check in &wish.checks {
            child::may_check(&spec, check).map_err(|reason| {
                refused(reason)
                    .hint("checks of the operator are given to drivetrain mcp with --check")
            })?;
        }
        let budget = spec.budget.clone();
        self.make(&id, spec)?;
        drop(lock);
        let process = self.drive(&id)?;
        let answer = json!({ "id": id, "existed": false, "budget": budget, "process": process });
        Ok(answer.to_string())
    }

    /// Sets aside at the parent what the child may spend, then journals the child.
    fn make(&self, id: &TaskId, spec: TaskSpec) -> Result<(), CommandError> {
        if let (Some(parent), Some(dispatch)) = (&self.parent, &spec.dispatch) {
            let order = ChildOrder {
                child: id.clone(),
                goal: spec.goal.clone(),
                budget: spec.budget.clone(),
                depth: dispatch.depth,
            };
            Records::open()?.give(parent, Command::Dispatch(order))?;
        }
        let registry = Arc::new(Registry::builtin());
        let made = Station::open(&self.home, registry)
            .map_err(CommandError::from)
            .and_then(|mut station| Ok(station.supervisor.lay_down(id, spec)?));
        if let (Err(_), Some(parent)) = (&made, &self.parent) {
            // What cannot be given back now is given back by whoever dispatches next.
            let _ = children::never_began(parent, id.clone());
        }
        made
    }

    /// The task that a key stands for. One that nobody drives is taken up again.
    fn found(&self, task: &Task, id: &TaskId, wish: &Wish) -> Result<String, CommandError> {
        let data = task.state.data();
        let is_ours = self.reaches(&json!(data.spec.dispatch));
        if !is_ours || data.spec.goal != wish.goal {
            let key = wish.key.as_deref().unwrap_or_default();
            return Err(refused(format!("the key {key:?} stands for another goal already")));
        }
        let rests = matches!(task.state.standing(), Standing::Working) && task.driven_by.is_none();
        let process = if rests { Some(self.drive(id)?) } else { task.driven_by };
        let answer =
            json!({ "id": id, "existed": true, "budget": data.budget, "process": process });
        Ok(answer.to_string())
    }

    /// Starts a process that drives a task that is journaled, unless one was started just now: it needs a moment to take
    /// the task up.
    pub(super) fn drive(&self, id: &TaskId) -> Result<u32, CommandError> {
        // One insert is all that happens to it.
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, process)) = started.get(id)
            && since.elapsed() < TAKES_UP
        {
            return Ok(*process);
        }
        let process = drive_apart(&self.home, id, &self.folder).map_err(|error| {
            CommandError::environment(format!(
                "task {id} is journaled, but no process drives it: {error}"
            ))
            .hint(format!("drivetrain resume {id} goes on with it"))
        })?;
        started.insert(id.clone(), (Instant::now(), process));
        Ok(process)
    }

    fn spec(&self, wish: &Wish) -> Result<TaskSpec, CommandError> {
        let registry = Registry::builtin();
        let library = Library::of(&self.folder).judged_by(&self.home, &self.folder);
        let driver = self.driver(wish.worker.as_deref())?;
        let mut task = prepare::from_goal(&wish.goal, driver)?;
        library.resolve_task(&mut task, &self.folder, &registry)?;
        let wanted = [self.args.profile.as_deref(), wish.profile.as_deref()];
        let mut strictest: Option<Profile> = None;
        for name in wanted.into_iter().flatten() {
            let named = profile(name)?;
            strictest = Some(strictest.map_or(named, |known| known.stricter(named)));
        }
        let place = PlaceArgs {
            profile: self.args.profile.clone(),
            trust: self.args.trust,
            ..PlaceArgs::default()
        };
        let check = self.args.check.iter().chain(&wish.checks).cloned().collect();
        let check = CheckArgs { check, ..CheckArgs::default() };
        let min = |own: Option<u64>, wish: Option<u64>| own.into_iter().chain(wish).min();
        let time = self.args.max_time.into_iter().chain(wish.budget.max_time).min();
        let limits = Limits {
            max_turns: min(self.args.max_turns, wish.budget.max_turns),
            max_time: time,
            max_usd: wish.budget.max_usd,
            ..Limits::default()
        };
        let options = Options {
            check: &check,
            limits: &limits,
            place: &place,
            walls: &self.args.walls,
            home: &self.home,
            json: true,
            attended: false,
            replays: false,
        };
        let mut spec = prepare::complete(task, options, &library, self.folder.clone())?;
        // A wish can only make it stricter than the files and the server's own word do.
        spec.policy.profile = match (spec.policy.profile, strictest) {
            (Some(known), Some(wanted)) => Some(known.stricter(wanted)),
            (known, _) => known,
        };
        Ok(spec)
    }

    /// The driver of a worker; of the first if none is named.
    fn driver(&self, worker: Option<&str>) -> Result<machine::task::DriverSpec, CommandError> {
        let workers = self.offer().workers;
        let Some(worker) = worker.or(workers.first().map(String::as_str)) else {
            return Err(CommandError::usage("nobody is named who works"));
        };
        if !workers.iter().any(|known| known == worker) {
            return Err(CommandError::usage(format!(
                "no worker {worker:?}: expected one of {}",
                workers.join(", ")
            )));
        }
        let (agent, model) = match worker.split_once(':') {
            Some(("agent", name)) => (Some(name), None),
            Some((_, name)) => (None, Some(name)),
            None => (None, None),
        };
        let any_version = false;
        let who = Who { driver: None, workflow: None, model, agent, gateway: None, any_version };
        let library = Library::of(&self.folder).judged_by(&self.home, &self.folder);
        let driver = driver_of(who, &Registry::builtin(), &library)?;
        driver.ok_or_else(|| CommandError::usage(format!("no worker {worker:?}")))
    }

    /// The tasks that count toward the limits of this server, whichever process dispatched them: all children of its
    /// parent; without one, those that were dispatched in this folder lately, and older ones that are being driven.
    fn counted(&self, records: &Records) -> Result<BTreeMap<TaskId, Child>, CommandError> {
        if let Some(parent) = &self.parent {
            let children = glance(records, parent)?.state.data().children.clone();
            return Ok(children.into_iter().filter(|(_, child)| child.step.is_none()).collect());
        }
        let since = locate::now().0.saturating_sub_unsigned(self.args.per.0);
        let mut counted = BTreeMap::new();
        for row in records.journal.list(usize::MAX, None)? {
            let is_recent = row.created >= since;
            let summary = serde_json::from_str::<Value>(&row.summary).unwrap_or_default();
            let is_other = summary["dispatch"].is_null() && !summary.is_null();
            if is_other || !(is_recent || row.open) {
                continue;
            }
            // One that cannot be read is named by whoever looks at it.
            let Ok(task) = records.glance(&row) else { continue };
            let data = task.state.data();
            let is_ours = data.spec.dispatch.as_ref().is_some_and(|by| by.parent.is_none())
                && Path::new(&data.spec.folder) == self.folder;
            if !is_ours || !(is_recent || task.driven_by.is_some()) {
                continue;
            }
            let ended = match task.state.standing() {
                Standing::Finished { outcome, .. } => Some(outcome),
                _ => None,
            };
            let (budget, charged) = (data.budget.clone(), task.state.charge());
            let child = Child { charged, ended, ..Child::new(String::new(), budget) };
            counted.insert(TaskId(row.id), child);
        }
        Ok(counted)
    }

    /// A limit of the server is reached.
    fn spent(&self, why: String) -> CommandError {
        let error = refused(why);
        match &self.parent {
            Some(parent) => error.hint(format!("every child of task {parent} counts")),
            None => error.hint(format!(
                "every task that was dispatched in {} within the last {} counts (--per)",
                self.folder.display(),
                self.args.per
            )),
        }
    }

    /// Whose keys these are: those of a task, or those of a folder.
    fn scope(&self) -> String {
        match &self.parent {
            Some(parent) => children::scope(parent),
            None => format!("folder {}", self.folder.display()),
        }
    }
}

fn depth(parent: &Task) -> u32 {
    parent.state.data().spec.dispatch.as_ref().map_or(0, |dispatch| dispatch.depth) + 1
}

fn profile(name: &str) -> Result<Profile, CommandError> {
    Profile::named(name).ok_or_else(|| {
        CommandError::usage(format!("no profile {name:?}: expected read-only, dev or open"))
    })
}
