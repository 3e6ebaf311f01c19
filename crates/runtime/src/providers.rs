//! Where models are: the providers that are built in, as data, and those that people write into `models.toml`.
//!
//! A project's file comes with the project, so it is not trusted with anybody's key: it cannot name a command,
//! cannot replace a provider that is built in or the user's own, and can name a key only for this machine and
//! only in a variable that is meant for it. The user's own file may do all of that.

mod facts;
#[cfg(test)]
mod shape;
mod waits;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use machine::policy::price::Price;
use serde::Deserialize;
use wire::model::anthropic_messages::AnthropicMessages;
use wire::model::google_generate::GoogleGenerate;
use wire::model::openai_chat::OpenAiChat;
use wire::model::openai_responses::OpenAiResponses;
use wire::model::{Dialect, Vendor, error, script};

pub use facts::Facts;
pub use waits::Waits;

use crate::home::Home;
use crate::http::{self, Url};
use crate::library;
use crate::process::{self, Cancel, ProcessSpec, Streams};
use crate::trust::{self, Seen};

/// The file, in `.drivetrain` and in the user's folder.
const FILE: &str = "models.toml";

/// The largest such file that is read.
const MAX_FILE: u64 = 256 << 10;

/// How a variable must begin that a project's file may name.
const PROJECT_VARIABLES: &str = "DRIVETRAIN_";

/// How long a key command may take; some ask a person.
const KEY_PATIENCE: Duration = Duration::from_secs(60);

/// The shortest key that is worth hiding.
const MIN_KEY: usize = 8;

/// The longest key.
const MAX_KEY: usize = 8 << 10;

/// A key. Its content is never shown, written or serialized; it only goes into the header of a request.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Keeps a text as a secret, without the white space around it.
    pub fn new(text: &str) -> Secret {
        Secret(text.trim().into())
    }

    /// Keeps a text as it is.
    pub(crate) fn exactly(text: &str) -> Secret {
        Secret(text.into())
    }

    /// The text with every place that shows the key covered up. A word as short as `none`, which servers on this
    /// machine are given, is no secret and stays.
    pub fn hide(&self, text: &str) -> String {
        if self.0.len() < MIN_KEY { text.to_owned() } else { text.replace(&*self.0, "[key]") }
    }

    /// The content, for the one who sends it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    fn fits_a_header(&self) -> bool {
        (1..=MAX_KEY).contains(&self.0.len()) && self.0.bytes().all(|byte| byte.is_ascii_graphic())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Where keys and the user's own file are looked for. The default is this process's environment.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    fixed: Option<Fixed>,
    /// Whose record of trust decides about a project's file; without one each is believed.
    judge: Option<Home>,
}

#[derive(Debug, Clone)]
struct Fixed {
    variables: BTreeMap<String, Secret>,
    folder: Option<PathBuf>,
}

impl Environment {
    /// These variables and this user's folder, and nothing else.
    pub fn fixed(variables: &[(&str, &str)], folder: Option<&Path>) -> Environment {
        let secret = |(name, value): &(&str, &str)| ((*name).to_owned(), Secret::new(value));
        let variables = variables.iter().map(secret).collect();
        let fixed = Fixed { variables, folder: folder.map(Path::to_owned) };
        Environment { fixed: Some(fixed), judge: None }
    }

    /// The same, in which a project's file counts only if the user trusts it.
    pub fn judged_by(mut self, home: &Home) -> Environment {
        self.judge = Some(home.clone());
        self
    }

    /// Whether a file of the folder's project counts.
    fn believes(&self, folder: &Path, seen: &Seen) -> Result<bool, String> {
        self.judge.as_ref().map_or(Ok(true), |home| trust::allows(home, folder, seen))
    }

    /// A variable that is set to something.
    fn variable(&self, name: &str) -> Option<Secret> {
        let value = match &self.fixed {
            Some(fixed) => fixed.variables.get(name).cloned(),
            None => std::env::var(name).ok().map(|value| Secret::new(&value)),
        };
        value.filter(|value| !value.0.is_empty())
    }

    fn user_folder(&self) -> Option<PathBuf> {
        match &self.fixed {
            Some(fixed) => fixed.folder.clone(),
            None => library::user_folder(),
        }
    }
}

/// The dialects, as files name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum DialectName {
    /// Anthropic's Messages.
    #[serde(rename = "anthropic_messages")]
    AnthropicMessages,
    /// OpenAI's chat completions: what most servers speak.
    #[serde(rename = "openai_chat")]
    OpenAiChat,
    /// OpenAI's Responses.
    #[serde(rename = "openai_responses")]
    OpenAiResponses,
    /// Google's generateContent.
    #[serde(rename = "google_generate")]
    GoogleGenerate,
}

/// How a model decides, as files say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decisions {
    /// By the calls of its dialect.
    #[default]
    Native,
    /// By an answer that is bound to one JSON schema of all tools: for small models.
    Constrained,
}

/// Who says where a provider is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Drivetrain itself.
    BuiltIn,
    /// The user's own file.
    User(PathBuf),
    /// A file of the project.
    Project(PathBuf),
}

/// Variables by which programs of others come to a provider's models, beside the keys of those that are built in.
const LOGINS: [&str; 5] = [
    "ANTHROPIC_AUTH_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK",
    "CLAUDE_CODE_OAUTH_REFRESH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CODEX_API_KEY",
];

/// All variables that hold what a provider of models lets somebody in by, those of the user's own file included.
pub(crate) fn key_variables(environment: &Environment) -> Result<BTreeSet<String>, ProviderError> {
    let built_in = BUILT_IN.iter().flat_map(|provider| provider.key_variables);
    let mut names: BTreeSet<String> =
        built_in.chain(&LOGINS).map(|name| (*name).to_owned()).collect();
    if let Some(path) = environment.user_folder().map(|folder| folder.join(FILE)) {
        let own = read(&path, Source::User(path.clone()))?;
        names.extend(own.providers.into_iter().flat_map(|(_, own)| own.key_variables));
    }
    Ok(names)
}

/// The first of some variables that a text names as `${NAME}`.
pub(crate) fn named_in<'n>(text: &str, names: &'n BTreeSet<String>) -> Option<&'n String> {
    names.iter().find(|name| {
        let after = |at: usize| text[at + 2 + name.len()..].chars().next();
        let named = format!("${{{name}");
        let mut ends = text.match_indices(&named).map(|(at, _)| after(at));
        ends.any(|next| next.is_none_or(|c| c != '_' && !c.is_alphanumeric()))
    })
}

/// Whether a provider's key is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyState {
    /// This variable holds it.
    Variable(String),
    /// A command gives it; whether it does is known once it runs.
    Command,
    /// This variable holds something that no provider would take.
    Unusable(String),
    /// None of these variables is set.
    Missing(Vec<String>),
    /// It needs none.
    Unneeded,
}

/// A server of models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// What stands before the slash in `PROVIDER/NAME`.
    pub name: String,
    /// What it speaks.
    pub dialect: DialectName,
    /// How it differs from others that speak the same.
    pub vendor: Vendor,
    /// What the dialect's path is appended to; has no slash at its end.
    pub base_url: String,
    /// Variables that may hold its key, the first that is set counts.
    pub key_variables: Vec<String>,
    /// A command that prints its key; empty if there is none.
    pub key_command: Vec<String>,
    /// How its models decide, where nothing else is said of one.
    pub decisions: Decisions,
    /// How long its answers are waited for.
    pub waits: Waits,
    /// Whether it says what each answer cost.
    pub tells_cost: bool,
    /// The most tokens of an answer, where nothing else is said of a model; none leaves it to the server.
    pub max_output: Option<u64>,
    /// Who says so.
    pub source: Source,
}

/// Why there is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It is not there, or is none; the text says what to do and holds nothing of it.
    #[error("{0}")]
    Missing(String),
    /// Somebody cancelled the call while the key command ran.
    #[error("the call was stopped")]
    Cancelled,
}

/// Why the providers are not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The file cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The file says something that it must not.
    #[error("{}:{line}: {reason}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A variable holds a base URL that is none.
    #[error("the variable {variable}: {reason}")]
    Variable {
        /// The variable.
        variable: String,
        /// What is wrong.
        reason: String,
    },
    /// No provider of that name.
    #[error("there is no provider {name:?}: there are {}; others are written into .drivetrain/models.toml{}", known.join(", "), not_read(untrusted))]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
        /// Files that were not read, because nobody trusts them.
        untrusted: Vec<PathBuf>,
    },
}

fn not_read(untrusted: &[PathBuf]) -> String {
    let not_read = |path: &PathBuf| format!("; {} is not trusted as it is", path.display());
    untrusted.iter().map(not_read).collect()
}

/// All providers, by name, and what people wrote about single models.
#[derive(Debug, Clone, PartialEq)]
pub struct Providers {
    by_name: BTreeMap<String, Provider>,
    models: BTreeMap<String, Facts>,
    /// The project's files that were read.
    seen: Vec<(PathBuf, Seen)>,
    /// The project's files that were not, because nobody trusts them.
    untrusted: Vec<PathBuf>,
}

impl Providers {
    /// What can be used in a folder: what is built in, then the project's, then the user's own, which win.
    pub fn of(folder: &Path, environment: &Environment) -> Result<Providers, ProviderError> {
        let user = environment.user_folder();
        let mut providers = BTreeMap::new();
        let mut models = BTreeMap::new();
        let (mut seen, mut untrusted) = (Vec::new(), Vec::new());
        // The nearest is read last: it replaces those further up.
        for project in library::project_folders(folder).into_iter().rev() {
            let path = project.join(FILE);
            let wrong = |line, reason| ProviderError::Wrong { path: path.clone(), line, reason };
            let unreadable = |reason| ProviderError::Unreadable { path: path.clone(), reason };
            let Some((file, bytes)) = trust::read_file(&path, MAX_FILE).map_err(unreadable)? else {
                continue;
            };
            if !environment.believes(folder, &file).map_err(unreadable)? {
                untrusted.push(path);
                continue;
            }
            let written = parse(&path, &bytes, Source::Project(path.clone()))?;
            seen.push((path.clone(), file));
            for (line, provider) in written.providers {
                check_project(&provider).map_err(|reason| wrong(line, reason))?;
                providers.insert(provider.name.clone(), provider);
            }
            for (line, name, facts) in written.models {
                let provider = name.split('/').next().unwrap_or_default();
                if !providers.contains_key(provider) {
                    let reason = format!(
                        "a project cannot say what {name:?} costs or holds: it defines no provider \
                         {provider:?}; the user's own models.toml may"
                    );
                    return Err(wrong(line, reason));
                }
                models.insert(name, facts);
            }
        }
        for built_in in &BUILT_IN {
            providers.insert(built_in.name.to_owned(), built_in.provider(environment)?);
        }
        if let Some(path) = user.map(|folder| folder.join(FILE)) {
            let own = read(&path, Source::User(path.clone()))?;
            providers.extend(own.providers.into_iter().map(|(_, own)| (own.name.clone(), own)));
            models.extend(own.models.into_iter().map(|(_, name, facts)| (name, facts)));
        }
        Ok(Providers { by_name: providers, models, seen, untrusted })
    }

    /// What was read of a project's file.
    pub fn seen(&self, path: &Path) -> Option<&Seen> {
        self.seen.iter().find(|(known, _)| known == path).map(|(_, seen)| seen)
    }

    /// The project's files that were not read, because nobody trusts them as they are.
    pub fn untrusted(&self) -> &[PathBuf] {
        &self.untrusted
    }

    /// The provider of that name.
    pub fn find(&self, name: &str) -> Result<&Provider, ProviderError> {
        self.by_name.get(name).ok_or_else(|| ProviderError::Unknown {
            name: name.to_owned(),
            known: self.by_name.keys().cloned().collect(),
            untrusted: self.untrusted.clone(),
        })
    }

    /// Every key that a variable holds, to cover them up. No command is run.
    pub(crate) fn keys(&self, environment: &Environment) -> Vec<Secret> {
        let names = self.iter().flat_map(|provider| &provider.key_variables);
        names.filter_map(|name| environment.variable(name)).collect()
    }

    /// All of them, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Provider> {
        self.by_name.values()
    }

    /// Every model that something is known of, by its whole name.
    pub fn known_models(&self) -> BTreeMap<String, Facts> {
        facts::all(&self.models)
    }

    /// What is known of `PROVIDER/NAME`.
    pub fn facts(&self, model: &str) -> Facts {
        facts::find(&self.models, model)
    }
}

impl DialectName {
    /// The word of files and lists.
    pub fn word(self) -> &'static str {
        match self {
            DialectName::AnthropicMessages => "anthropic_messages",
            DialectName::OpenAiChat => "openai_chat",
            DialectName::OpenAiResponses => "openai_responses",
            DialectName::GoogleGenerate => "google_generate",
        }
    }
}

impl Provider {
    /// The translation between us and the provider.
    pub fn translation(&self) -> Box<dyn Dialect> {
        match self.dialect {
            DialectName::AnthropicMessages => Box::new(AnthropicMessages),
            DialectName::OpenAiChat => Box::new(OpenAiChat { vendor: self.vendor.clone() }),
            DialectName::OpenAiResponses => Box::new(OpenAiResponses),
            DialectName::GoogleGenerate => Box::new(GoogleGenerate),
        }
    }

    /// Whether there is a key. Runs nothing.
    pub fn key_state(&self, environment: &Environment) -> KeyState {
        let value = |name: &String| Some((name.clone(), environment.variable(name)?));
        match self.key_variables.iter().find_map(value) {
            Some((name, key)) if key.fits_a_header() => KeyState::Variable(name),
            Some((name, _)) => KeyState::Unusable(name),
            None if !self.key_command.is_empty() => KeyState::Command,
            None if !self.key_variables.is_empty() => KeyState::Missing(self.key_variables.clone()),
            None => KeyState::Unneeded,
        }
    }

    /// What is missing, if it needs a key and there is neither a variable nor a command that gives one. Runs nothing.
    pub fn lacks_key(&self, environment: &Environment) -> Option<String> {
        match self.key_state(environment) {
            KeyState::Missing(variables) => Some(self.without_key(&variables)),
            KeyState::Unusable(name) => Some(no_key(&name)),
            KeyState::Variable(_) | KeyState::Command | KeyState::Unneeded => None,
        }
    }

    fn without_key(&self, variables: &[String]) -> String {
        format!("there is no key for {:?}: set {}", self.name, variables.join(" or "))
    }

    /// The key: from the environment, else from the key command. None if the provider needs none.
    pub fn key(
        &self,
        environment: &Environment,
        cancel: &Cancel,
    ) -> Result<Option<Secret>, KeyError> {
        let (key, from) = match self.key_state(environment) {
            KeyState::Unneeded => return Ok(None),
            KeyState::Missing(variables) => {
                return Err(KeyError::Missing(self.without_key(&variables)));
            }
            KeyState::Command => {
                (self.run_key_command(cancel)?, format!("the key command of {:?}", self.name))
            }
            // Gone only if another thread took it away since.
            KeyState::Variable(name) | KeyState::Unusable(name) => {
                (environment.variable(&name).unwrap_or(Secret::new("")), name)
            }
        };
        if !key.fits_a_header() {
            return Err(KeyError::Missing(no_key(&from)));
        }
        Ok(Some(key))
    }

    /// Nothing of what the command prints is told on: it may be the key, or half of it.
    fn run_key_command(&self, cancel: &Cancel) -> Result<Secret, KeyError> {
        let failed = |reason: String| {
            KeyError::Missing(format!("the key command of {:?} {reason}", self.name))
        };
        let mut spec = ProcessSpec::new(&self.key_command);
        spec.streams = Streams::Separate;
        spec.timeout = Some(KEY_PATIENCE);
        spec.mark = "key-command".to_owned();
        if let Source::User(path) | Source::Project(path) = &self.source {
            spec.cwd = path.parent().map(Path::to_owned);
        }
        let ended =
            process::run(spec, cancel).map_err(|error| failed(format!("fails: {error}")))?;
        if ended.cancelled {
            return Err(KeyError::Cancelled);
        }
        if ended.timed_out {
            return Err(failed(format!("gave nothing within {} s", KEY_PATIENCE.as_secs())));
        }
        match ended.exit {
            Some(0) => Ok(Secret::new(&ended.stdout.text())),
            Some(code) => {
                Err(failed(format!("ended with exit code {code}: run it by hand to see why")))
            }
            None => Err(failed("was killed".to_owned())),
        }
    }
}

/// What is said of a text that is no key; nothing of it is told.
fn no_key(from: &str) -> String {
    format!("what {from} gives is no key: expected one word of ASCII letters, digits and signs")
}

/// A provider that everybody has.
struct BuiltIn {
    name: &'static str,
    dialect: DialectName,
    base_url: &'static str,
    base_url_variable: Option<&'static str>,
    key_variables: &'static [&'static str],
}

const BUILT_IN: [BuiltIn; 5] = [
    BuiltIn {
        name: "anthropic",
        dialect: DialectName::AnthropicMessages,
        base_url: "https://api.anthropic.com",
        base_url_variable: Some("ANTHROPIC_BASE_URL"),
        key_variables: &["ANTHROPIC_API_KEY"],
    },
    BuiltIn {
        name: "google",
        dialect: DialectName::GoogleGenerate,
        base_url: "https://generativelanguage.googleapis.com",
        base_url_variable: None,
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    },
    BuiltIn {
        name: MISTRAL,
        dialect: DialectName::OpenAiChat,
        base_url: "https://api.mistral.ai/v1",
        base_url_variable: None,
        key_variables: &["MISTRAL_API_KEY"],
    },
    BuiltIn {
        name: "openai",
        dialect: DialectName::OpenAiResponses,
        base_url: "https://api.openai.com/v1",
        base_url_variable: Some("OPENAI_BASE_URL"),
        key_variables: &["OPENAI_API_KEY"],
    },
    BuiltIn {
        name: OPENROUTER,
        dialect: DialectName::OpenAiChat,
        base_url: "https://openrouter.ai/api/v1",
        base_url_variable: None,
        key_variables: &["OPENROUTER_API_KEY"],
    },
];

const MISTRAL: &str = "mistral";
const OPENROUTER: &str = "openrouter";

impl BuiltIn {
    fn provider(&self, environment: &Environment) -> Result<Provider, ProviderError> {
        let told = self
            .base_url_variable
            .and_then(|name| Some((name, environment.variable(name)?.reveal().to_owned())));
        let base_url = match told {
            None => self.base_url.to_owned(),
            Some((variable, url)) => base_url(&url).map_err(|reason| ProviderError::Variable {
                variable: variable.to_owned(),
                reason,
            })?,
        };
        let vendor =
            if self.name == MISTRAL { OpenAiChat::mistral().vendor } else { Vendor::default() };
        Ok(Provider {
            name: self.name.to_owned(),
            dialect: self.dialect,
            vendor,
            base_url,
            key_variables: self.key_variables.iter().map(|name| (*name).to_owned()).collect(),
            key_command: Vec::new(),
            decisions: Decisions::default(),
            waits: Waits::default(),
            tells_cost: self.name == OPENROUTER,
            max_output: None,
            source: Source::BuiltIn,
        })
    }
}

/// `models.toml` as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    provider: BTreeMap<String, toml::Spanned<Entry>>,
    #[serde(default)]
    model: BTreeMap<String, toml::Spanned<Facts>>,
}

/// What a file says, each part with its line.
#[derive(Default)]
struct Read {
    providers: Vec<(usize, Provider)>,
    models: Vec<(usize, String, Facts)>,
}

/// One provider as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dialect: DialectName,
    base_url: String,
    key_env: Option<String>,
    key_command: Option<Vec<String>>,
    #[serde(default)]
    short_tool_ids: bool,
    #[serde(default)]
    max_completion_tokens: bool,
    #[serde(default)]
    tool_choice_any: bool,
    #[serde(default)]
    no_stream_options: bool,
    #[serde(default)]
    assistant_after_tools: bool,
    #[serde(default)]
    document_url: bool,
    #[serde(default)]
    decisions: Decisions,
    #[serde(default, deserialize_with = "waits::wait")]
    first_piece: Option<Duration>,
    #[serde(default, deserialize_with = "waits::wait")]
    next_piece: Option<Duration>,
    #[serde(default, deserialize_with = "waits::wait")]
    whole_answer: Option<Duration>,
    #[serde(default, deserialize_with = "waits::tokens")]
    max_output: Option<u64>,
    #[serde(default)]
    tells_cost: bool,
}

/// What the file says; nothing if there is no file.
fn read(path: &Path, source: Source) -> Result<Read, ProviderError> {
    let unreadable = |reason: String| ProviderError::Unreadable { path: path.to_owned(), reason };
    let size = match fs::metadata(path) {
        Ok(data) if data.is_file() => data.len(),
        Ok(_) => return Err(unreadable("it is not a file".to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Read::default()),
        Err(error) => return Err(unreadable(error.to_string())),
    };
    if size > MAX_FILE {
        return Err(unreadable(format!("it is larger than {MAX_FILE} bytes")));
    }
    let bytes = fs::read(path).map_err(|error| unreadable(error.to_string()))?;
    parse(path, &bytes, source)
}

fn parse(path: &Path, bytes: &[u8], source: Source) -> Result<Read, ProviderError> {
    let unreadable = |reason: String| ProviderError::Unreadable { path: path.to_owned(), reason };
    let text = str::from_utf8(bytes).map_err(|error| unreadable(error.to_string()))?;
    let line =
        |at: usize| text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
    let wrong = |at: usize, reason: &str| ProviderError::Wrong {
        path: path.to_owned(),
        line: line(at),
        // Whoever writes a key into the file must not find it in a log.
        reason: error::told(reason),
    };
    let written: Written = toml::from_str(text)
        .map_err(|error| wrong(error.span().map_or(0, |span| span.start), error.message()))?;
    let mut read = Read::default();
    for (name, entry) in written.provider {
        let at = entry.span().start;
        let provider = provider(name, entry.into_inner(), source.clone());
        read.providers.push((line(at), provider.map_err(|reason| wrong(at, &reason))?));
    }
    for (name, facts) in written.model {
        let at = facts.span().start;
        let facts = facts.into_inner();
        if !name.contains('/') {
            let reason = format!("the model {name:?}: expected \"PROVIDER/NAME\"");
            return Err(wrong(at, &reason));
        }
        if let Some(reason) = facts.price.as_ref().and_then(Price::problem) {
            return Err(wrong(at, &format!("{name}: {reason}")));
        }
        read.models.push((line(at), name, facts));
    }
    Ok(read)
}

fn provider(name: String, entry: Entry, source: Source) -> Result<Provider, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || !name.chars().all(fits) {
        return Err(format!(
            "{name:?} cannot be a provider's name: expected letters, digits, '_', '-' and '.'"
        ));
    }
    if name == script::NAME {
        return Err(format!("{name:?} is the scripted model's name: choose another"));
    }
    let vendor = Vendor {
        short_tool_ids: entry.short_tool_ids,
        max_completion_tokens: entry.max_completion_tokens,
        tool_choice_any: entry.tool_choice_any,
        no_stream_options: entry.no_stream_options,
        assistant_after_tools: entry.assistant_after_tools,
        document_url: entry.document_url,
    };
    if vendor != Vendor::default() && entry.dialect != DialectName::OpenAiChat {
        return Err(format!(
            "{name}: only servers of the dialect openai_chat differ in flags such as short_tool_ids"
        ));
    }
    if entry.key_env.as_deref().is_some_and(|name| name.is_empty() || name.contains(['=', '\0'])) {
        return Err(format!("{name}: key_env: expected the name of a variable"));
    }
    if entry.key_command.as_ref().is_some_and(|words| words.first().is_none_or(String::is_empty)) {
        return Err(format!("{name}: key_command: expected [\"program\", \"argument\"]"));
    }
    let waits =
        Waits { first: entry.first_piece, next: entry.next_piece, whole: entry.whole_answer };
    if let Some(problem) = waits.problem() {
        return Err(format!("{name}: {problem}"));
    }
    Ok(Provider {
        base_url: base_url(&entry.base_url).map_err(|reason| format!("{name}: {reason}"))?,
        name,
        dialect: entry.dialect,
        vendor,
        key_variables: entry.key_env.into_iter().collect(),
        key_command: entry.key_command.unwrap_or_default(),
        decisions: entry.decisions,
        waits,
        tells_cost: entry.tells_cost,
        max_output: entry.max_output,
        source,
    })
}

/// Holds a project's file to its rules: it must not be able to send anybody's key anywhere.
fn check_project(provider: &Provider) -> Result<(), String> {
    let name = &provider.name;
    let own = "the user's own models.toml may";
    if BUILT_IN.iter().any(|built_in| built_in.name == name) {
        return Err(format!("a project cannot replace the provider {name:?}; {own}"));
    }
    if !provider.key_command.is_empty() {
        return Err(format!("{name}: a project cannot name a key_command; {own}"));
    }
    let Some(variable) = provider.key_variables.first() else { return Ok(()) };
    if !Url::parse(&provider.base_url).is_ok_and(|url| http::is_loopback(&url)) {
        return Err(format!(
            "{name}: a project can name a key_env only for a server on this machine; {own}"
        ));
    }
    if !variable.starts_with(PROJECT_VARIABLES) {
        return Err(format!(
            "{name}: a project can name a key_env only if it begins with {PROJECT_VARIABLES}; {own}"
        ));
    }
    Ok(())
}

/// A base URL as it is used, without a slash at its end.
fn base_url(text: &str) -> Result<String, String> {
    // The text itself is not repeated: it may hold a password.
    let url = Url::parse(text).map_err(|error| format!("base_url is no URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err("base_url: expected http:// or https:// and a host".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("base_url must not hold a user or a password: use key_env".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("base_url must end before any '?' or '#'".to_owned());
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}
