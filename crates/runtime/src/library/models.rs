//! What is known of the models that a task asks: scripts, providers, prices.

use std::collections::BTreeSet;
use std::path::Path;

use machine::driver::composite;
use machine::task::{Criterion, DriverSpec, FileRole, FileStanding};
use serde_json::json;
use wire::model::script::{self, Script};

use super::{Library, LibraryError, read};
use crate::acting;
use crate::providers::{Environment, ProviderError, Providers, Source};
use crate::trust;

/// The provider that a model names; none for a script.
fn provider_of(model: &str) -> Option<&str> {
    let (provider, _) = model.split_once('/')?;
    (provider != script::NAME).then_some(provider)
}

impl Library {
    /// Reads every script that a model of the task is to play: one that is missing or wrong is an error before
    /// anything begins.
    pub fn check_scripts(&self, driver: &DriverSpec, folder: &Path) -> Result<(), LibraryError> {
        let mut cause = None;
        let mut config = driver.config.clone();
        let visited = composite::visit(&driver.name, &mut config, &mut |name, config| {
            let file = config["model"].as_str().and_then(|model| model.strip_prefix("script/"));
            let (Some(file), "llm") = (file, name) else { return Ok(()) };
            let read = read(&folder.join(file)).and_then(|(text, name, _)| {
                Script::parse(&text, &name).map_err(LibraryError::Source).map(drop)
            });
            read.map_err(|error| {
                let text = error.to_string();
                cause.get_or_insert(error);
                text
            })
        });
        visited.map_err(|text| cause.unwrap_or(LibraryError::Wrong(text)))
    }

    /// Looks up what is known of every model of the task, and of the judges of tasks that its steps have done: its provider,
    /// the size of its context, and its price if money is limited. A limit that nobody could hold is an error before anything begins.
    /// Gives the keys that are missing, in words, where none of them can be done without.
    pub fn settle_models(
        &self,
        driver: &mut DriverSpec,
        max_usd: Option<f64>,
        folder: &Path,
    ) -> Result<BTreeSet<String>, LibraryError> {
        let mut known = None;
        let (mut missing, mut has_others) = (BTreeSet::new(), false);
        let visited = composite::visit(&driver.name, &mut driver.config, &mut |name, config| {
            // If one of these drivers cannot work, another may.
            has_others |= ["fallback", "race", "until_accepted"].contains(&name);
            let (Some(model), "llm") = (config["model"].as_str(), name) else { return Ok(()) };
            let provider = provider_of(model);
            if known.as_ref().is_none_or(|known: &Providers| {
                provider.is_some_and(|provider| known.find(provider).is_err())
            }) {
                known = Some(self.providers(provider, folder).map_err(|e| e.to_string())?);
            }
            let Some(providers) = &known else { return Ok(()) };
            let provider = provider.map(|name| providers.find(name).map_err(|e| e.to_string()));
            let provider = provider.transpose()?;
            let environment = Environment::default();
            missing.extend(provider.and_then(|provider| provider.lacks_key(&environment)));
            let tells_cost = provider.is_some_and(|provider| provider.tells_cost);
            let facts = providers.facts(model);
            // Where the provider says what an answer cost, one for which it does not counts as the limit reached.
            if max_usd.is_some() && facts.price.is_none() && !tells_cost {
                return Err(format!(
                    "the price of {model} is unknown, so max_usd cannot be held: write it into your own \
                     models.toml ([model.\"{model}\"] price = {{ input = …, output = … }}), or limit tokens \
                     with max_tokens"
                ));
            }
            if let Some(context) = facts.context
                && config.get("context").is_none()
            {
                config["context"] = json!(context);
            }
            Ok(())
        });
        visited.map_err(LibraryError::Wrong)?;
        missing.extend(self.settle_judges(&driver.criteria_of_steps(), max_usd, folder)?);
        Ok(if has_others { BTreeSet::new() } else { missing })
    }

    /// Looks at the models of judges as at those of drivers: a script must be there and right, a provider known, and a
    /// price too if money is limited. Gives the keys that are missing.
    pub fn settle_judges(
        &self,
        acceptance: &[Criterion],
        max_usd: Option<f64>,
        folder: &Path,
    ) -> Result<BTreeSet<String>, LibraryError> {
        let mut missing = BTreeSet::new();
        for criterion in acceptance {
            let Criterion::Judge { model, .. } = criterion else { continue };
            let mut asked = DriverSpec::new("llm", json!({ "model": model }));
            self.check_scripts(&asked, folder)?;
            missing.extend(self.settle_models(&mut asked, max_usd, folder)?);
        }
        Ok(missing)
    }

    /// Whether what is believed knows the providers of all models that a driver asks; the error is of the first that it does not
    /// know.
    pub fn knows_models(&self, driver: &DriverSpec, folder: &Path) -> Result<(), ProviderError> {
        let mut asked = BTreeSet::new();
        let mut config = driver.config.clone();
        // A tree that is too deep was refused before it got here.
        let _ = composite::visit(&driver.name, &mut config, &mut |name, config| {
            let model = config["model"].as_str().filter(|_| name == "llm").unwrap_or_default();
            asked.extend(provider_of(model).map(str::to_owned));
            Ok(())
        });
        let (Some((home, _)), false) = (&self.judge, asked.is_empty()) else { return Ok(()) };
        // What is wrong with a file is said when a model is asked: it may be mended by then.
        let Ok(known) = Providers::of(folder, &Environment::default().judged_by(home)) else {
            return Ok(());
        };
        asked.iter().try_for_each(|provider| known.find(provider).map(drop))
    }

    /// The providers that are known in a folder. One that somebody names counts although only a file of the project
    /// defines it: that file is then noted and counts in this process.
    pub fn providers(
        &self,
        named: Option<&str>,
        folder: &Path,
    ) -> Result<Providers, ProviderError> {
        let Some((home, _)) = &self.judge else {
            return Providers::of(folder, &Environment::default());
        };
        let judged = Environment::default().judged_by(home);
        let known = Providers::of(folder, &judged)?;
        let Some(name) = named.filter(|name| known.find(name).is_err()) else { return Ok(known) };
        let believed = Providers::of(folder, &Environment::default())?;
        let source = believed.find(name).ok().map(|provider| provider.source.clone());
        let Some(Source::Project(path)) = source else { return Ok(known) };
        if let Some(seen) = believed.seen(&path) {
            trust::grant(seen.clone());
            self.note(acting::recorded(seen, FileRole::Models, FileStanding::Named));
        }
        Providers::of(folder, &judged)
    }
}
