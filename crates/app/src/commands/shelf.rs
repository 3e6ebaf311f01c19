//! What workflows, prompts and agents as files have in common: list, show, check, begin.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use machine::driver::Registry;
use machine::file::SourceError;
use machine::file::lookup::{Kind, Origin};
use machine::task::TaskSpec;
use runtime::home::Home;
use runtime::library::{self, Item, Library, LibraryError};
use runtime::station::new_task_id;
use runtime::trust;
use serde_json::{Value, json};
use view::shelf::{Layer, Row};

use crate::args::{NewArgs, WorkArgs};
use crate::error::CommandError;
use crate::foreground::{self, Part as Watched, Watching};
use crate::{locate, output, traffic};

/// A file as it is read.
pub(crate) struct Part<'a> {
    /// Where what it refers to is looked up.
    pub(crate) library: &'a Library,
    /// What it says.
    pub(crate) text: &'a str,
    /// What a person calls it.
    pub(crate) file: &'a str,
}

/// What a file says of itself.
pub(crate) struct About {
    /// Its name.
    pub(crate) name: String,
    /// For a person.
    pub(crate) description: String,
    /// For a person.
    pub(crate) version: String,
    /// What its kind has beside that.
    pub(crate) more: Value,
    /// What it was made of: kind, name and file of each.
    pub(crate) parts: Vec<(String, String, String)>,
}

impl About {
    /// What is known of a file that was not read.
    fn of_name(name: &str) -> About {
        About {
            name: name.to_owned(),
            description: String::new(),
            version: String::new(),
            more: json!({}),
            parts: Vec::new(),
        }
    }
}

/// What reading gives.
pub(crate) type Read = Result<About, Vec<SourceError>>;

type Reader<'r> = &'r dyn Fn(&Part<'_>) -> Read;

/// Lists everything of a kind.
pub(crate) fn list(kind: Kind, read: Reader<'_>, json: bool) -> Result<u8, CommandError> {
    let library = here()?.that_looks();
    let items = library.items(kind)?;
    let mut rows = Vec::new();
    for group in items.chunk_by(|left, right| left.name == right.name) {
        let Some(used) = Item::chosen(group) else { continue };
        // What nobody trusts is told by its name alone.
        let about = used.is_trusted.then(|| look(&library, kind, used, read));
        let (description, is_wrong) = match &about {
            Some(Ok(about)) => (about.description.clone(), false),
            Some(Err(_)) => (String::new(), true),
            None => (String::new(), false),
        };
        let layers = group.iter().map(|item| layer(item, item == used)).collect();
        rows.push(Row { name: used.name.clone(), description, is_wrong, layers });
    }
    if kind == Kind::Agent {
        // A file cannot stand in for one that needs none.
        rows.retain(|row| machine::agent::AgentProgram::built_in(&row.name).is_none());
        rows.extend(machine::agent::AgentProgram::BUILT_IN.map(|name| Row {
            name: name.to_owned(),
            description: "needs no file".to_owned(),
            is_wrong: false,
            layers: vec![Layer {
                origin: Origin::BuiltIn,
                file: "built-in".to_owned(),
                is_trusted: true,
                is_used: true,
            }],
        }));
        rows.sort_by(|left, right| left.name.cmp(&right.name));
    }
    if json {
        let items: Vec<Value> = rows
            .iter()
            .map(|row| {
                let used = row.layers.iter().find(|layer| layer.is_used);
                json!({
                    "name": row.name,
                    "description": row.description,
                    "ok": used.filter(|layer| layer.is_trusted).map(|_| !row.is_wrong),
                    "trusted": used.map(|layer| layer.is_trusted),
                    "origin": used.map(|layer| layer.origin.word()),
                    "file": used.map(|layer| layer.file.as_str()),
                    "overrides": others(&row.layers),
                })
            })
            .collect();
        output::json(&json!({ "v": 1, "kind": kind.word(), "items": items }));
    } else {
        output::lines(&view::shelf::list(kind, &rows));
    }
    Ok(0)
}

/// Shows one, where it comes from and what it takes the place of.
pub(crate) fn show(
    kind: Kind,
    name: &str,
    read: Reader<'_>,
    json: bool,
) -> Result<u8, CommandError> {
    let library = here()?.that_looks();
    let items = library.items(kind)?;
    let group: Vec<Item> = items.iter().filter(|item| item.name == name).cloned().collect();
    let Some(used) = Item::chosen(&group) else {
        return Err(unknown(kind, name, &items, &library));
    };
    let text = library.look(kind, used)?;
    // What nobody trusts is shown as it is written, for whoever wants to know whether to trust it.
    let about = match used.is_trusted {
        true => read(&Part { library: &library, text: &text, file: &used.file }),
        false => Ok(About::of_name(name)),
    };
    let layers: Vec<Layer> = group.iter().map(|item| layer(item, item == used)).collect();
    if json {
        let mut shown = json!({
            "v": 1,
            "kind": kind.word(),
            "name": name,
            "origin": used.origin.word(),
            "file": used.file,
            "trusted": used.is_trusted,
            "sha256": trust::hash(text.as_bytes()),
            "overrides": others(&layers),
            "text": text,
        });
        match &about {
            Ok(about) => {
                shown["description"] = about.description.as_str().into();
                shown["version"] = about.version.as_str().into();
                let part = |(kind, name, file): &(String, String, String)| json!({ "kind": kind, "name": name, "file": file });
                shown["parts"] = about.parts.iter().map(part).collect();
                if let (Some(shown), Some(more)) = (shown.as_object_mut(), about.more.as_object()) {
                    shown.extend(more.clone());
                }
            }
            Err(errors) => shown["errors"] = errors.iter().map(error_json).collect(),
        }
        output::json(&shown);
        return Ok(if about.is_ok() { 0 } else { 2 });
    }
    match about {
        Ok(about) => {
            let facts = [("description", about.description), ("version", about.version)];
            output::lines(&view::shelf::shown(kind, name, &layers, &facts, &about.parts, &text));
            Ok(0)
        }
        Err(errors) => {
            output::lines(&view::shelf::shown(kind, name, &layers, &[], &[], &text));
            Err(LibraryError::Source(errors).into())
        }
    }
}

/// Reads everything of a kind, or what is named, and says all that is wrong.
pub(crate) fn check(
    kind: Kind,
    names: &[String],
    read: Reader<'_>,
    json: bool,
) -> Result<u8, CommandError> {
    // Whoever names a file lets it be read with all that it does; whoever names none only looks.
    let library = match names.is_empty() {
        true => here()?.that_looks(),
        false => here()?,
    };
    let items = library.items(kind)?;
    let (mut checked, mut wrong): (usize, Vec<SourceError>) = (0, Vec::new());
    let mut one = |text: &str, file: &str, name: Option<&str>| {
        checked += 1;
        match read(&Part { library: &library, text, file }) {
            Ok(about) => {
                if let Some(name) = name.filter(|name| *name != about.name) {
                    let message = format!(
                        "it calls itself {:?}, and is looked up as {name:?}: rename one of them",
                        about.name
                    );
                    wrong.push(machine::file::whole(file, text, message));
                }
            }
            Err(errors) => wrong.extend(errors),
        }
    };
    let paths = names.iter().filter(|name| library::is_path(name) || name.contains('.'));
    for path in paths.clone() {
        let text = fs::read_to_string(path)
            .map_err(|error| CommandError::usage(format!("cannot read {path}: {error}")))?;
        one(&text, path, None);
    }
    let wanted: Vec<&String> =
        names.iter().filter(|name| !paths.clone().any(|path| path == *name)).collect();
    for name in &wanted {
        if !items.iter().any(|item| item.name == **name) {
            return Err(unknown(kind, name, &items, &library));
        }
    }
    let mut unreadable = Vec::new();
    for item in &items {
        if !names.is_empty() && !wanted.contains(&&item.name) {
            continue;
        }
        match library.look(kind, item) {
            Ok(text) => one(&text, &item.file, Some(&item.name)),
            Err(LibraryError::Source(errors)) => unreadable.extend(errors),
            Err(other) => {
                unreadable.push(machine::file::whole(&item.file, "", other.to_string()));
            }
        }
    }
    wrong.extend(unreadable);
    let looked = |item: &&Item| names.is_empty() || wanted.contains(&&item.name);
    wrong.extend(twice(&items.iter().filter(looked).collect::<Vec<_>>()));
    // One that is used by several is read by each of them.
    let mut shown: Vec<SourceError> = Vec::new();
    for error in wrong {
        if !shown.contains(&error) {
            shown.push(error);
        }
    }
    if json {
        let errors: Vec<Value> = shown.iter().map(error_json).collect();
        output::json(&json!({
            "v": 1, "kind": kind.word(), "checked": checked, "ok": shown.is_empty(), "errors": errors,
            "printed": library.printed(),
        }));
    } else {
        // Scripts reach no terminal; whoever checks one wants to see what it says.
        let said = library.printed();
        let printed = said.iter().map(|line| format!("printed  {}", view::text::visible(line)));
        output::lines(&printed.map(view::Line::plain).collect::<Vec<_>>());
        if shown.is_empty() {
            output::lines(&view::shelf::checked(kind, checked));
        }
    }
    match shown.is_empty() {
        true => Ok(0),
        false if json => Ok(2),
        false => Err(LibraryError::Source(shown).into()),
    }
}

/// Two files of one name in one folder: only their endings say which is taken.
fn twice(items: &[&Item]) -> Vec<SourceError> {
    let mut wrong = Vec::new();
    for pair in items.windows(2) {
        let folder = |item: &Item| item.path.as_deref().and_then(Path::parent).map(Path::to_owned);
        if pair[0].name == pair[1].name
            && folder(pair[0]).is_some()
            && folder(pair[0]) == folder(pair[1])
        {
            let message = format!("{} has the same name and is taken in its place", pair[0].file);
            wrong.push(machine::file::whole(&pair[1].file, "", message));
        }
    }
    wrong
}

/// Writes one to begin with, and trusts it: the user asked for it, and it is known by heart.
pub(crate) fn begin(
    kind: Kind,
    args: &NewArgs,
    ending: &str,
    text: &str,
    json: bool,
) -> Result<u8, CommandError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let name = &args.name;
    if name.is_empty() || name.len() > 100 || name.starts_with('.') || !name.chars().all(fits) {
        return Err(CommandError::usage(format!(
            "{name:?} cannot be the name of a {}",
            kind.word()
        ))
        .hint("names are made of letters, digits, _ . and -, up to 100 of them"));
    }
    let text = text.replace("NAME", name);
    let root = match args.user {
        true => own_folder()?,
        false => PathBuf::from(".drivetrain"),
    };
    let folder = root.join(kind.folder());
    let path = folder.join(format!("{name}.{ending}"));
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => CommandError::usage(format!(
            "{} is there already: nothing is overwritten",
            path.display()
        )),
        _ => CommandError::environment(format!("cannot write {}: {error}", path.display())),
    };
    fs::create_dir_all(&folder).map_err(failed)?;
    for other in kind.endings().iter().filter(|other| **other != ending) {
        let other = folder.join(format!("{name}.{other}"));
        if other.exists() {
            let message = format!("{} is there already: nothing is overwritten", other.display());
            return Err(CommandError::usage(message));
        }
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    if !args.user {
        let path = fs::canonicalize(&path).map_err(failed)?;
        let seen = trust::Seen { path, sha256: trust::hash(text.as_bytes()) };
        trust::trust(&locate::home()?, Path::new("."), &[seen], locate::now())
            .map_err(CommandError::environment)?;
    }
    if json {
        output::json(&json!({ "v": 1, "kind": kind.word(), "name": name, "written": path }));
    } else {
        output::lines(&view::shelf::begun(kind, name, &path.to_string_lossy()));
    }
    Ok(0)
}

fn own_folder() -> Result<PathBuf, CommandError> {
    let variable =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")));
    config.map(|config| config.join("drivetrain")).ok_or_else(|| {
        CommandError::environment(
            "your own folder is not known: neither XDG_CONFIG_HOME nor HOME is set",
        )
    })
}

/// Drives a task in the foreground.
pub(crate) fn drive(
    home: &Home,
    registry: Arc<Registry>,
    with: &WorkArgs,
    spec: TaskSpec,
    json: bool,
) -> Result<u8, CommandError> {
    let traffic = traffic::open(&with.traffic)?;
    let watching = Watching::new(&with.screen, json, Watched::in_driver(&spec.driver))?;
    foreground::drive(home, registry, watching, move |station| {
        station.supervisor.performer().carry(traffic);
        let id = new_task_id();
        station.supervisor.begin(id.clone(), spec, watching.attended())?;
        Ok(vec![id])
    })
}

fn here() -> Result<Library, CommandError> {
    let folder = locate::folder()?;
    let home = locate::home()?;
    Ok(Library::of(&folder).judged_by(&home, &folder))
}

fn look(library: &Library, kind: Kind, item: &Item, read: Reader<'_>) -> Read {
    let text = library.look(kind, item).map_err(|error| match error {
        LibraryError::Source(errors) => errors,
        other => vec![machine::file::whole(&item.file, "", other.to_string())],
    })?;
    read(&Part { library, text: &text, file: &item.file })
}

fn layer(item: &Item, is_used: bool) -> Layer {
    Layer { origin: item.origin, file: item.file.clone(), is_trusted: item.is_trusted, is_used }
}

fn others(layers: &[Layer]) -> Vec<Value> {
    let other = |layer: &&Layer| !layer.is_used;
    let shown = |layer: &Layer| json!({ "origin": layer.origin.word(), "file": layer.file, "trusted": layer.is_trusted });
    layers.iter().filter(other).map(shown).collect()
}

fn unknown(kind: Kind, name: &str, items: &[Item], library: &Library) -> CommandError {
    let mut known: Vec<String> = items.iter().map(|item| item.name.clone()).collect();
    known.dedup();
    LibraryError::Unknown {
        kind: kind.word(),
        name: name.to_owned(),
        known,
        folders: library.folders().iter().map(|root| root.join(kind.folder())).collect(),
    }
    .into()
}

fn error_json(error: &SourceError) -> Value {
    json!({
        "file": error.file,
        "line": error.line,
        "column": error.column,
        "message": error.message,
        "hint": error.hint,
        "snippet": error.snippet,
    })
}
