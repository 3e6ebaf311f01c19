//! Which files of the project have a say in a task: asked about before it begins, looked at again when it goes on.
//!
//! What somebody named counts by that word. What acts without being named needs the user's trust. A policy that nobody
//! trusts is neither obeyed, because its allowances would count, nor passed over, because its refusals would be lost: the
//! task does not begin. Everything else is left out, and that is said.

use std::path::{Path, PathBuf};

use machine::driver::composite;
use machine::server::wanted;
use machine::state::Data;
use machine::task::{DriverSpec, FileRole, FileStanding, ProjectFile};
use runtime::acting::{self, Acting};
use runtime::home::Home;
use runtime::library::Library;
use runtime::trust::{self, Seen, TrustState};
use serde_json::{Value, json};
use view::{Line, Tone, text};

use super::options::Options;
use super::trust::{Answer, ask, content_lines};
use crate::error::{CommandError, Kind};
use crate::locate::{self, Task};
use crate::output;

/// What is done about a program that has changed since the task began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// The task does not go on.
    Refused,
    /// It is run as it is.
    Taken,
}

/// The files that act without being named, as they stand for this task. Asks whoever is there.
pub(crate) fn files(
    driver: &DriverSpec,
    folder: &Path,
    options: &Options<'_>,
) -> Result<Vec<ProjectFile>, CommandError> {
    let mut files = Vec::new();
    let mut untrusted = Vec::new();
    for file in acting::unnamed(folder)? {
        if !has_use(driver, file.role) {
            continue;
        }
        let mut judge = |file: Acting| -> Result<bool, CommandError> {
            let state = file.state(options.home, folder).map_err(CommandError::environment)?;
            match &state {
                TrustState::Trusted => files.push(file.recorded(FileStanding::Trusted)),
                TrustState::Untrusted { changed, .. } => {
                    untrusted.push((file, !changed.is_empty()));
                }
            }
            Ok(state == TrustState::Trusted)
        };
        // A file that nobody trusts or is asked about is not parsed, not even for what it would start.
        if judge(file.clone())? || options.place.trust || options.attended {
            for program in file.programs(folder)? {
                judge(program)?;
            }
        }
    }
    if untrusted.is_empty() {
        return Ok(files);
    }
    let answer = match (options.place.trust, options.attended) {
        (true, _) => Answer::Once,
        (false, true) => asked(&untrusted)?,
        (false, false) => Answer::No,
    };
    if answer == Answer::No && untrusted.iter().any(|(file, _)| file.role == FileRole::Policy) {
        return Err(refused(&untrusted));
    }
    let seen: Vec<Seen> = untrusted.iter().map(|(file, _)| file.seen.clone()).collect();
    let standing = match answer {
        Answer::Yes => {
            trust::trust(options.home, folder, &seen, locate::now())
                .map_err(CommandError::environment)?;
            FileStanding::Trusted
        }
        Answer::Once => {
            seen.into_iter().for_each(trust::grant);
            FileStanding::Once
        }
        Answer::No => {
            notice(&untrusted, options.json);
            FileStanding::LeftOut
        }
    };
    files.extend(untrusted.iter().map(|(file, _)| match (standing, file.role) {
        (FileStanding::LeftOut, FileRole::Page) => file.recorded(FileStanding::Quoted),
        _ => file.recorded(standing),
    }));
    Ok(files)
}

/// What is made of files that are named. One that has changed since it was trusted is shown and asked about; with
/// `--trust` the project's files count as they are.
pub(crate) fn named<T>(
    library: &Library,
    folder: &Path,
    options: &Options<'_>,
    make: impl Fn() -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    if options.place.trust {
        // Those that act without being named are settled with the task, and recorded as such.
        let is_named = |file: &Acting| {
            let named = [FileRole::Workflow, FileRole::Prompt, FileRole::Plugin, FileRole::Program];
            named.contains(&file.role)
        };
        let files = acting::all(folder)?.into_iter().filter(is_named);
        files.for_each(|file| trust::grant(file.seen));
    }
    loop {
        let made = make();
        let Some(path) = library.changed().filter(|_| options.attended && made.is_err()) else {
            return made;
        };
        let changed =
            |file: &Acting| Some(&file.seen.path) == std::fs::canonicalize(&path).ok().as_ref();
        let Some(file) = acting::all(folder)?.into_iter().find(changed) else { return made };
        let seen = file.seen.clone();
        match asked(&[(file, true)])? {
            Answer::Yes => trust::trust(options.home, folder, &[seen], locate::now())
                .map_err(CommandError::environment)?,
            Answer::Once => trust::grant(seen),
            Answer::No => return made,
        }
    }
}

/// Lets the files count that the task was begun with, as they were then, and says which have changed. A program that has
/// changed would be run as it is now: that takes somebody's word.
pub(crate) fn go_on(data: &Data, change: Change, json: bool) -> Result<(), CommandError> {
    for file in &data.spec.files {
        let path = PathBuf::from(&file.path);
        if matches!(file.standing, FileStanding::Named | FileStanding::Once) {
            trust::grant(Seen { path: path.clone(), sha256: file.sha256.clone() });
        }
        if matches!(file.standing, FileStanding::LeftOut | FileStanding::Quoted) {
            continue;
        }
        let now = trust::read_file(&path, u64::MAX >> 1).ok().flatten();
        if now.is_some_and(|(seen, _)| seen.sha256 == file.sha256) {
            continue;
        }
        let shown = text::visible(&file.path);
        if file.role == FileRole::Program && change == Change::Refused {
            let message =
                format!("the program {shown} is not the one that task {} was begun with", data.id);
            return Err(CommandError::new(Kind::Configuration, message)
                .hint("look at what has changed; --trust goes on with the program as it is"));
        }
        let message = format!(
            "{} {shown} has changed since the task began, which goes on with what it was begun with",
            file.role.word()
        );
        let notice = json!({ "v": 1, "notice": message, "files": [&file.path] });
        output::error(&if json { notice.to_string() } else { format!("note: {message}") });
    }
    Ok(())
}

/// A task goes on with models whose providers are known. One that a file of the project defined, which has changed since or is
/// gone, would fail it for good; with `--trust` the file counts as it is.
pub(crate) fn models(home: &Home, task: &Task, change: Change) -> Result<(), CommandError> {
    let folder = Path::new(&task.state.data().spec.folder);
    if change == Change::Taken {
        let files = acting::unnamed(folder)?.into_iter();
        files.filter(|file| file.role == FileRole::Models).for_each(|file| trust::grant(file.seen));
    }
    let library = Library::of(folder).judged_by(home, folder);
    // A hand-over that waits is a way out.
    library.knows_models(&task.driver(), folder).map_err(|error| {
        let message = format!("task {} stays as it is: {error}", task.state.id());
        CommandError::new(Kind::Configuration, message).hint(
            "drivetrain trust shows the files of a project and asks; --trust takes them as they are",
        )
    })
}

/// A model that is handed to a task of another process: if only an untrusted file of the project knows its provider, that
/// process would not believe the file, unless the task was begun with it.
pub(crate) fn of_another_process(
    home: &Home,
    data: &Data,
    model: &str,
) -> Result<(), CommandError> {
    let folder = Path::new(&data.spec.folder);
    let library = Library::of(folder).judged_by(home, folder);
    // What is wrong with the model itself is said by whoever looks it up.
    let _ = library.providers(model.split('/').next(), folder);
    let named = library.named_files();
    match named.iter().find(|file| !data.spec.files.contains(file)) {
        Some(file) => {
            let path = text::visible(&file.path);
            let message =
                format!("{path} defines {:?} and is not trusted as it is", text::visible(model));
            Err(CommandError::new(Kind::Configuration, message)
                .hint("drivetrain trust shows it and asks"))
        }
        None => Ok(()),
    }
}

/// Nobody is asked about what the task has no use for.
fn has_use(driver: &DriverSpec, role: FileRole) -> bool {
    let (mut model, mut others) = (false, false);
    let mut config = driver.config.clone();
    // A tree that is too deep was refused before it got here.
    let _ = composite::visit(&driver.name, &mut config, &mut |name, _: &mut Value| {
        model |= name == "llm";
        others |= name == "user" || name.starts_with("external");
        Ok(())
    });
    match role {
        FileRole::Policy => true,
        FileRole::Page | FileRole::Models => model,
        FileRole::Validators => {
            model || others || driver.config.to_string().contains("validator.run")
        }
        FileRole::Servers => wanted(driver, &[]).any,
        FileRole::Task
        | FileRole::Workflow
        | FileRole::Prompt
        | FileRole::Plugin
        | FileRole::Program => false,
    }
}

fn asked(untrusted: &[(Acting, bool)]) -> Result<Answer, CommandError> {
    let mut lines = vec![Line::new(
        Tone::Ask,
        "files of this project would have a say in the task, and you have not trusted them:",
    )];
    for (file, changed) in untrusted {
        let word = if *changed { "changed" } else { "new" };
        lines.extend(content_lines(file, word, Tone::Ask)?);
    }
    output::lines(&lines);
    Ok(ask("Trust these files? [y]es, for this task [o]nly, [N]o: "))
}

fn shown(untrusted: &[(Acting, bool)]) -> String {
    let paths = untrusted.iter().map(|(file, changed)| {
        let verb = if *changed { " (changed since it was trusted)" } else { "" };
        format!("{}{verb}", text::visible(&file.seen.path.to_string_lossy()))
    });
    paths.collect::<Vec<_>>().join(", ")
}

fn refused(untrusted: &[(Acting, bool)]) -> CommandError {
    let policies: Vec<(Acting, bool)> =
        untrusted.iter().filter(|(file, _)| file.role == FileRole::Policy).cloned().collect();
    let message =
        format!("the policy {} is not trusted, so the task does not begin", shown(&policies));
    CommandError::new(Kind::Configuration, message)
        .hint("drivetrain trust shows it and asks; drivetrain trust --yes trusts it as it is")
        .hint("--trust lets the project's files count for this task alone")
}

/// Servers and their programs have a notice of their own, which says what is missing with them.
fn notice(untrusted: &[(Acting, bool)], json: bool) {
    let (pages, others): (Vec<_>, Vec<_>) = untrusted
        .iter()
        .filter(|(file, _)| !matches!(file.role, FileRole::Servers | FileRole::Program))
        .cloned()
        .partition(|(file, _)| file.role == FileRole::Page);
    tell(&others, "left out, because not trusted", json);
    tell(
        &pages,
        "told to models as information and not as instructions, because not trusted",
        json,
    );
}

fn tell(others: &[(Acting, bool)], what: &str, json: bool) {
    if others.is_empty() {
        return;
    }
    let message = format!("{what}: {}; drivetrain trust shows and asks", shown(others));
    let files: Vec<&Path> = others.iter().map(|(file, _)| file.seen.path.as_path()).collect();
    let notice = json!({ "v": 1, "notice": message, "files": files });
    output::error(&if json { notice.to_string() } else { format!("note: {message}") });
}
