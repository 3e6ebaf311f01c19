//! One case of a corpus file, and the bytes it stands for.

use std::path::Path;

use serde_json::Value;

/// One case.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// Its stable id.
    pub(crate) id: String,
    /// The idea.
    pub(crate) why: String,
    /// The outcome to reach.
    pub(crate) expect: String,
    /// The effect that must not happen; may be empty.
    pub(crate) forbid: String,
    /// All of it, for what only one kind knows.
    pub(crate) all: Value,
}

impl Case {
    /// A text field; empty if absent.
    pub(crate) fn text(&self, field: &str) -> &str {
        self.all[field].as_str().unwrap_or_default()
    }

    /// The input's bytes, placeholders not filled; `None` for a generator that is not known.
    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        if !self.all["gen"].is_null() {
            return generate(&self.all["gen"]);
        }
        if let Some(hex) = self.all["in_hex"].as_str() {
            let digits = hex.as_bytes().chunks(2);
            return digits
                .map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok())
                .collect();
        }
        let fields = ["in", "request", "event_text", "text", "body"];
        let found = fields.iter().find_map(|field| self.all[*field].as_str());
        Some(found.unwrap_or_default().as_bytes().to_vec())
    }
}

/// Reads a file of cases; a line that is no case is one that says so.
pub(crate) fn load(file: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .enumerate()
        .map(|(n, line)| {
            let all: Value = serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("{}:{}: {error}", file.display(), n + 1));
            let text = |field: &str| all[field].as_str().unwrap_or_default().to_owned();
            Case {
                id: text("id"),
                // Some kinds have nothing but the idea.
                why: [text("why"), text("attack")].concat(),
                expect: text("expect"),
                forbid: text("forbid"),
                all,
            }
        })
        .collect()
}

fn generate(how: &Value) -> Option<Vec<u8>> {
    let text = |field: &str| how[field].as_str().unwrap_or_default();
    let n = usize::try_from(how["n"].as_u64().unwrap_or(0)).ok()?;
    let made = match text("kind") {
        "rle" => how["parts"]
            .as_array()?
            .iter()
            .map(|part| Some(part[0].as_str()?.repeat(usize::try_from(part[1].as_u64()?).ok()?)))
            .collect::<Option<String>>()?,
        "join" => vec![text("item"); n].join(text("sep")) + text("tail"),
        "repeat" => text("item").repeat(n) + text("tail"),
        "nest" => text("open").repeat(n) + text("core") + &text("close").repeat(n),
        "json-nest" => "[".repeat(n) + &"]".repeat(n) + "\n",
        "json-line" => {
            let size = usize::try_from(how["mb"].as_u64()?).ok()? << 20;
            let head = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","x":""#;
            format!("{head}{}\"}}\n", "a".repeat(size))
        }
        "toml-nest" => format!("a = {}{}\n", "[".repeat(n), "]".repeat(n)),
        "toml-dotted" => format!("{} = 1\n", vec!["a"; n].join(".")),
        "toml-steps" => {
            let step =
                |i| format!("[[workflow.steps]]\nname = \"s{i}\"\ntool = \"x\"\ntype = \"tool\"\n");
            format!("[workflow]\nname = \"w\"\n{}", (0..n).map(step).collect::<String>())
        }
        "toml-string" => {
            let size = usize::try_from(how["mb"].as_u64()?).ok()? << 20;
            format!("a = \"{}\"\n", "x".repeat(size))
        }
        "yaml-flow-nest" => format!("a: {}{}\n", "[".repeat(n), "]".repeat(n)),
        "yaml-block-nest" => (0..n).map(|i| format!("{}a:\n", " ".repeat(i))).collect(),
        "yaml-aliases" => format!("a: &a [x, x, x]\nb: [{}]\n", vec!["*a"; n].join(",")),
        "yaml-alias-chain" => {
            let link = |i: usize| format!("k{i}: &k{i} [*k{}]\n", i - 1);
            format!("k0: &k0 v\n{}", (1..n).map(link).collect::<String>())
        }
        _ => return None,
    };
    Some(made.into_bytes())
}
