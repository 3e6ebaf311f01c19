//! `drivetrain import`: files of other programs as files of ours. Writes nothing over what is there, and nothing outside
//! the folder.

use std::fs;

use machine::file::import::{Imported, NewFile, import};
use machine::file::{self, SourceError};
use runtime::beneath::Root;
use runtime::trust;
use serde_json::json;
use view::{Line, Tone};

use crate::args::ImportArgs;
use crate::error::{CommandError, Kind};
use crate::output;

/// More than any file of these kinds; the reader has a limit of its own, with a better message.
const MAX_BYTES: u64 = 4 << 20;

/// Runs the command.
pub(crate) fn run(args: &ImportArgs, json: bool) -> Result<u8, CommandError> {
    let shown = args.file.to_string_lossy().into_owned();
    let unreadable = |reason: String| CommandError::usage(format!("cannot read {shown}: {reason}"));
    let read = trust::read_file(&args.file, MAX_BYTES).map_err(unreadable)?;
    let (_, bytes) = read.ok_or_else(|| unreadable("there is no such file".to_owned()))?;
    let text = file::decode(&bytes, &shown).map_err(wrong)?;
    let imported = import(text, &shown).map_err(wrong)?;
    let written = write(args, &imported)?;
    if json {
        let remarks: Vec<_> = imported
            .remarks
            .iter()
            .map(|remark| json!({ "line": remark.line, "text": remark.text }))
            .collect();
        output::json(&json!({
            "v": 1,
            "kind": imported.kind.word(),
            "name": imported.name,
            "written": written,
            "not_carried": remarks,
        }));
    } else {
        output::lines(&told(&imported, &written));
    }
    Ok(0)
}

/// Everything is looked at before the first file is written: all of it, or nothing.
fn write(args: &ImportArgs, imported: &Imported) -> Result<Vec<String>, CommandError> {
    let folder = args.to.display();
    let failed = |error: &dyn std::fmt::Display| {
        CommandError::environment(format!("cannot write below {folder}: {error}"))
    };
    fs::create_dir_all(&args.to).map_err(|error| failed(&error))?;
    let root = Root::open(&args.to).map_err(|error| failed(&error))?;
    for file in &imported.files {
        let path = args.to.join(&file.path);
        if root.exists(&file.path).map_err(|error| failed(&error))? {
            let message = format!("{} is there already and is not written over", path.display());
            return Err(CommandError::new(Kind::Refused, message)
                .hint("move it away, or take another folder: --to DIR"));
        }
        root.check_write(&file.path).map_err(|error| failed(&error))?;
    }
    for (index, file) in imported.files.iter().enumerate() {
        if let Err(error) = root.write(&file.path, file.text.as_bytes(), None) {
            for written in &imported.files[..index] {
                // Made a moment ago. The error is why the other one could not be.
                let _ = root.remove(&written.path);
            }
            return Err(failed(&error));
        }
    }
    let path = |file: &NewFile| args.to.join(&file.path).display().to_string();
    Ok(imported.files.iter().map(path).collect())
}

fn told(imported: &Imported, written: &[String]) -> Vec<Line> {
    let visible = view::text::visible;
    let mut lines = vec![Line::plain(format!(
        "read     {}, as {}",
        imported.kind.word(),
        visible(&imported.name)
    ))];
    let good = |path: &String| Line::new(Tone::Good, format!("written  {}", visible(path)));
    lines.extend(written.iter().map(good));
    if !imported.remarks.is_empty() {
        lines.push(Line::plain(""));
        lines.push(Line::new(Tone::Strong, "not carried as it was"));
        for remark in &imported.remarks {
            lines.push(Line::plain(format!("  line {}: {}", remark.line, visible(&remark.text))));
        }
        lines.push(Line::plain(""));
    }
    let has_workflow = imported.files.iter().any(|file| file.path.starts_with("workflows/"));
    let kind = if has_workflow { "workflow" } else { "prompt" };
    lines.push(Line::plain(format!("next     drivetrain {kind} show {}", visible(&imported.name))));
    lines
}

fn wrong(errors: Vec<SourceError>) -> CommandError {
    let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
    CommandError::new(Kind::Configuration, shown.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn if_one_file_cannot_be_written_none_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let args = ImportArgs { file: "x".into(), to: folder.path().to_owned() };
        let file = |path: &str| NewFile { path: path.to_owned(), text: "x".to_owned() };
        // Each could be written; but once the first is there, the second cannot be below it.
        let imported = Imported {
            kind: machine::file::import::Kind::Recipe,
            name: "x".to_owned(),
            files: vec![file("prompts/x"), file("prompts/x/y")],
            remarks: Vec::new(),
        };
        let error = write(&args, &imported).unwrap_err();
        assert!(error.text().contains("cannot write below"), "{}", error.text());
        assert!(!folder.path().join("prompts/x").exists());
    }
}
