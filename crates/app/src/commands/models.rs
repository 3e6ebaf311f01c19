//! Where models can be reached from here, and whether a key is there. Keys are neither shown nor asked for.

use runtime::providers::{
    Environment, Facts, KeyState, Provider, ProviderError, Providers, Source,
};
use serde_json::{Value, json};
use view::text::visible;
use view::{Line, Tone};

use crate::error::{CommandError, Kind};
use crate::{locate, output};

/// Lists the providers.
pub(crate) fn run(json: bool) -> Result<u8, CommandError> {
    let environment = Environment::default().judged_by(&locate::home()?);
    let folder = std::env::current_dir().unwrap_or_default();
    let providers = Providers::of(&folder, &environment).map_err(wrong)?;
    if json {
        let listed: Vec<Value> =
            providers.iter().map(|provider| entry(provider, &environment)).collect();
        let models: Vec<Value> = providers.known_models().iter().map(known).collect();
        let untrusted = providers.untrusted();
        output::json(
            &json!({ "v": 1, "providers": listed, "models": models, "untrusted": untrusted }),
        );
        return Ok(0);
    }
    let mut lines = Vec::new();
    let models = providers.known_models();
    for provider in providers.iter() {
        let (tone, key) = match provider.key_state(&environment) {
            KeyState::Variable(name) => (Tone::Good, format!("key in {name}")),
            KeyState::Command => (Tone::Good, "key from a command".to_owned()),
            KeyState::Unusable(name) => (Tone::Bad, format!("what {name} holds is no key")),
            KeyState::Missing(names) => {
                (Tone::Faint, format!("no key: set {}", names.join(" or ")))
            }
            KeyState::Unneeded => (Tone::Good, "no key needed".to_owned()),
        };
        lines.push(Line::new(Tone::Strong, format!("{}/NAME", provider.name)));
        lines.push(Line::plain(format!(
            "  {} at {}",
            provider.dialect.word(),
            visible(&provider.base_url)
        )));
        lines.push(Line::new(tone, format!("  {}", visible(&key))));
        if let Source::User(path) | Source::Project(path) = &provider.source {
            let path = visible(&path.to_string_lossy());
            lines.push(Line::new(Tone::Faint, format!("  from {path}")));
        }
        let of_provider = models.iter().filter(|(name, _)| {
            name.split_once('/').is_some_and(|(owner, _)| owner == provider.name)
        });
        lines.extend(of_provider.map(|(name, facts)| {
            Line::new(Tone::Faint, format!("  {}", visible(&described(name, facts))))
        }));
    }
    lines.extend(providers.untrusted().iter().map(|path| {
        let path = visible(&path.to_string_lossy());
        Line::new(Tone::Ask, format!("{path} is not trusted: drivetrain trust shows it and asks"))
    }));
    lines.push(Line::new(Tone::Strong, "script/FILE"));
    lines.push(Line::plain("  plays a script, without a network or a key"));
    output::lines(&lines);
    Ok(0)
}

/// A model with what is known of it in one line.
fn described(name: &str, facts: &Facts) -> String {
    let context =
        facts.context.map(|tokens| format!("{tokens} tokens")).unwrap_or_else(|| "?".to_owned());
    let price = facts.price.as_ref().map_or_else(
        || "price unknown".to_owned(),
        |price| {
            let day = price.as_of.as_deref().map(|day| format!(" ({day})")).unwrap_or_default();
            format!("${} in, ${} out a million{day}", price.input, price.output)
        },
    );
    format!("{name:34} {context:>15}  {price}")
}

fn known((name, facts): (&String, &Facts)) -> Value {
    json!({ "name": name, "context": facts.context, "price": facts.price })
}

fn entry(provider: &Provider, environment: &Environment) -> Value {
    let (key, variables) = match provider.key_state(environment) {
        KeyState::Variable(name) => ("present", vec![name]),
        KeyState::Command => ("command", Vec::new()),
        KeyState::Unusable(name) => ("unusable", vec![name]),
        KeyState::Missing(names) => ("missing", names),
        KeyState::Unneeded => ("unneeded", Vec::new()),
    };
    let (source, path) = match &provider.source {
        Source::BuiltIn => ("built_in", None),
        Source::User(path) => ("user", Some(path)),
        Source::Project(path) => ("project", Some(path)),
    };
    json!({
        "name": provider.name,
        "dialect": provider.dialect.word(),
        "base_url": provider.base_url,
        "key": key,
        "key_variables": variables,
        "source": source,
        "path": path,
    })
}

fn wrong(error: ProviderError) -> CommandError {
    CommandError::new(Kind::Configuration, error.to_string())
        .hint("docs/models.md says what models.toml may hold")
}
