//! Agents by name: what a task says is `agent = "claude"`, what it freezes is a program.

use machine::agent::AgentProgram;
use machine::driver::composite;
use machine::file;
use machine::task::{DriverSpec, FileRole, FileStanding};
use machine::time::Span;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Found, Library, LibraryError, acting, folder_of};

/// Puts programs in the places where agents are named, in composites too.
pub(super) fn resolve(library: &Library, driver: &mut DriverSpec) -> Result<(), LibraryError> {
    let mut cause = None;
    let visited = composite::visit(&driver.name, &mut driver.config, &mut |name, config| {
        if name != "agent" || config.get("program").is_some() {
            return Ok(());
        }
        match program(library, config) {
            Ok(program) => {
                *config = json!({ "program": program });
                Ok(())
            }
            Err(error) => {
                let text = error.to_string();
                cause.get_or_insert(error);
                Err(text)
            }
        }
    });
    visited.map_err(|text| cause.unwrap_or(LibraryError::Wrong(text)))
}

impl Library {
    /// The agents that have a file, by its name.
    pub fn agents(&self) -> Vec<Found> {
        self.all("agents")
    }

    /// An agent by its name: one that needs no file, or the one of a file. A file cannot stand in for one that needs
    /// none, or a project could put a program of its own in the place of the one that everybody means.
    pub fn agent(&self, name: &str) -> Result<AgentProgram, LibraryError> {
        if let Some(program) = AgentProgram::built_in(name) {
            return Ok(program);
        }
        let path = self.named("agents", "agent", name).map_err(|error| match error {
            LibraryError::Unknown { kind, name, mut known, folders } => {
                known.extend(AgentProgram::BUILT_IN.map(str::to_owned));
                LibraryError::Unknown { kind, name, known, folders }
            }
            other => other,
        })?;
        let (text, shown) = self.read_named(&path, FileRole::Plugin)?;
        let mut program = file::agent::parse(&text, &shown).map_err(LibraryError::Source)?;
        if program.name != name {
            return Err(LibraryError::Wrong(format!(
                "{shown} holds the agent {:?}, not {name:?}: rename the file or the agent",
                program.name
            )));
        }
        let folder = folder_of(&path);
        if let Some(folder) = &folder {
            for program in acting::programs_of(&program.command, folder)? {
                self.note(program.recorded(FileStanding::Named));
            }
        }
        // It works in the task's folder, so a program that is named from the project's is found from there no more.
        let named = program.command.first_mut().filter(|named| named.contains('/'));
        if let (Some(named), Some(folder)) = (named, folder) {
            *named = folder.join(&*named).to_string_lossy().into_owned();
        }
        Ok(program)
    }
}

fn program(library: &Library, config: &Value) -> Result<AgentProgram, LibraryError> {
    let wrong = |text: String| LibraryError::Wrong(text);
    let name = config["agent"].as_str().unwrap_or_default();
    let mut program = library.agent(name)?;
    if let Some(model) = config["model"].as_str() {
        program.model = Some(model.to_owned());
    }
    if let Some(idle) = config.get("idle") {
        let idle = Span::deserialize(idle).map_err(|error| wrong(format!("idle: {error}")))?;
        program.idle = Some(idle);
    }
    if let Some(gateway) = config["gateway"].as_bool() {
        program.gateway = Some(gateway);
    }
    let mut mark = [0u8; 8];
    getrandom::fill(&mut mark)
        .map_err(|error| wrong(format!("no chance is to be had: {error}")))?;
    program.operator = format!("{:016x}", u64::from_le_bytes(mark));
    Ok(program)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::project_folders;
    use super::*;

    fn library(files: &[(&str, &str)]) -> (tempfile::TempDir, Library) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join(".git")).unwrap();
        let agents = folder.path().join(".drivetrain/agents");
        fs::create_dir_all(&agents).unwrap();
        for (name, text) in files {
            fs::write(agents.join(name), text).unwrap();
        }
        let library = Library::at(project_folders(folder.path()));
        (folder, library)
    }

    #[test]
    fn an_agent_of_a_file_is_found_by_its_name_and_its_program_from_the_projects_folder() {
        let text = "[agent]\nname = \"mine\"\ncommand = [\"./tools/agent\", \"--acp\"]\n";
        let (folder, library) = library(&[("mine.toml", text)]);
        let program = library.agent("mine").unwrap();
        let wanted = folder.path().join("./tools/agent").to_string_lossy().into_owned();
        assert_eq!(program.command, [wanted.as_str(), "--acp"]);
        let noted: Vec<_> = library.named_files();
        assert!(!noted.is_empty(), "what was read is recorded with its hash");
    }

    #[test]
    fn a_file_cannot_stand_in_for_an_agent_that_needs_none() {
        let text = "[agent]\nname = \"claude\"\ncommand = [\"./evil\"]\n";
        let (_folder, library) = library(&[("claude.toml", text)]);
        assert_eq!(library.agent("claude").unwrap().command, ["claude"]);
    }

    #[test]
    fn an_unknown_agent_and_one_of_another_name_say_what_there_is() {
        let text = "[agent]\nname = \"other\"\ncommand = [\"x\"]\n";
        let (_folder, library) = library(&[("mine.toml", text)]);
        let error = library.agent("nobody").unwrap_err();
        let wanted = ["mine", "claude", "codex", "gemini", "opencode"];
        assert!(
            matches!(&error, LibraryError::Unknown { known, .. } if *known == wanted),
            "{error}"
        );
        let error = library.agent("mine").unwrap_err().to_string();
        assert!(error.contains("holds the agent \"other\", not \"mine\""), "{error}");
    }
}
