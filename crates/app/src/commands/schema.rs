//! `drivetrain schema`: JSON Schemas of the files that people write, for editors.

use std::fs;
use std::path::Path;

use machine::file::shape::{self, FileKind};
use serde_json::json;
use view::{Line, Tone};

use crate::args::SchemaArgs;
use crate::error::CommandError;
use crate::output;

/// Runs the command.
pub(crate) fn run(args: &SchemaArgs, json: bool) -> Result<u8, CommandError> {
    match (&args.kind, &args.to) {
        (Some(word), _) => {
            output::raw(text(named(word)?).as_bytes());
            Ok(0)
        }
        (None, Some(folder)) => write_all(folder, json),
        (None, None) => {
            list(json);
            Ok(0)
        }
    }
}

/// The name of a schema's file.
fn file_name(kind: FileKind) -> String {
    format!("{}.schema.json", kind.word())
}

fn text(kind: FileKind) -> String {
    format!("{:#}\n", shape::schema(kind))
}

fn named(word: &str) -> Result<FileKind, CommandError> {
    FileKind::named(word).ok_or_else(|| {
        let words: Vec<&str> = FileKind::ALL.iter().map(|kind| kind.word()).collect();
        let error = CommandError::usage(format!("there is no kind of file {word:?}"));
        error.hint(format!("one of {}", words.join(", ")))
    })
}

fn list(json: bool) {
    if json {
        let kinds = FileKind::ALL.map(|kind| json!({ "kind": kind.word(), "files": kind.files() }));
        output::json(&json!({ "v": 1, "kinds": kinds }));
        return;
    }
    let lines =
        FileKind::ALL.map(|kind| Line::plain(format!("{:<11} {}", kind.word(), kind.files())));
    output::lines(&lines);
}

fn write_all(folder: &Path, json: bool) -> Result<u8, CommandError> {
    let failed = |path: &Path, error: std::io::Error| {
        CommandError::environment(format!("cannot write {}: {error}", path.display()))
    };
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let mut written = Vec::new();
    for kind in FileKind::ALL {
        let path = folder.join(file_name(kind));
        fs::write(&path, text(kind)).map_err(|error| failed(&path, error))?;
        written.push(path.display().to_string());
    }
    if json {
        output::json(&json!({ "v": 1, "written": written }));
        return Ok(0);
    }
    let lines = written.iter().map(|path| Line::new(Tone::Good, format!("written  {path}")));
    output::lines(&lines.collect::<Vec<_>>());
    Ok(0)
}
