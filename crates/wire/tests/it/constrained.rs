//! Constrained decisions: what such a model is asked, and what its answers become.

use machine::message::{Message, Part, Reply, Role, StopReason, Usage};
use machine::tool::{self, ParameterKind, ToolSpec};
use proptest::prelude::*;
use serde_json::{Value, json};
use wire::model::anthropic_messages::AnthropicMessages;
use wire::model::constrained::{Choices, constrain};
use wire::model::google_generate::GoogleGenerate;
use wire::model::openai_chat::OpenAiChat;
use wire::model::openai_responses::OpenAiResponses;
use wire::model::{
    Dialect, ErrorKind, ModelError, ModelRequest, Retry, ToolChoice, ToolDeclaration,
};

use crate::rig::{assistant, request, text, tool_result, tool_use, user};

fn thinking(text: &str) -> Part {
    Part::Thinking { text: text.to_owned() }
}

fn declared(tool: &ToolSpec) -> ToolDeclaration {
    ToolDeclaration {
        name: tool.name.to_owned(),
        description: tool.summary.to_owned(),
        schema: tool::schema(tool),
    }
}

/// All built-in tools, asked with this choice.
fn asked(choice: ToolChoice) -> (ModelRequest, Choices) {
    let mut request = request("small", vec![user([text("Look around.")])]);
    request.system = "Be brief.".to_owned();
    request.tools = tool::TOOLS.iter().map(declared).collect();
    request.tool_choice = choice;
    constrain(request)
}

fn said(answer: &str, stop: StopReason) -> Reply {
    Reply {
        id: "r1".to_owned(),
        model: "small".to_owned(),
        message: assistant([text(answer)]),
        stop,
        usage: Usage { input: Some(7), output: Some(3), ..Usage::default() },
    }
}

fn read(answer: &str) -> Result<Reply, ModelError> {
    asked(ToolChoice::Auto).1.interpret(said(answer, StopReason::EndTurn))
}

fn texts(message: &Message) -> Vec<String> {
    let texts = message.blocks.iter().map(|block| match &block.part {
        Part::Text { text } => text.clone(),
        other => format!("{other:?}"),
    });
    texts.collect()
}

#[test]
fn the_tools_become_one_schema_and_a_few_lines_of_text() {
    let mut request = request("small", vec![user([text("Look around.")])]);
    request.system = "Be brief.".to_owned();
    request.tools = ["read", "say"].map(|name| declared(tool::find(name).unwrap())).to_vec().into();
    let (asked, _) = constrain(request);
    assert_eq!((asked.tools.len(), asked.tool_choice), (0, ToolChoice::Auto));
    insta::assert_snapshot!(asked.system, @r#"
    Be brief.

    Answer with one JSON object and nothing else. To use a tool, answer {"tool": NAME, "with": PARAMETERS}; you are then told its result. The tools:
    - read(limit?, offset?, path): read a file
    - say(text): say something in the transcript
    - answer(text): end your turn with this answer
    "#);
    let schema = asked.output_schema.unwrap();
    let says = &schema["anyOf"][1];
    assert_eq!(schema["anyOf"].as_array().unwrap().len(), 3);
    assert_eq!(says["properties"]["with"], tool::schema(tool::find("say").unwrap()));
    insta::assert_snapshot!(schema["anyOf"][2], @r#"{"additionalProperties":false,"properties":{"tool":{"const":"answer"},"with":{"additionalProperties":false,"properties":{"text":{"type":"string"}},"required":["text"],"type":"object"}},"required":["tool","with"],"type":"object"}"#);
}

#[test]
fn the_name_of_the_tool_comes_first() {
    // Servers bind a model to the order of the properties as they are sent.
    let sent = asked(ToolChoice::Auto).0.output_schema.unwrap().to_string();
    let first = sent.find(r#""tool":{"const":"#).unwrap();
    assert!(first < sent.find(r#""with":{"#).unwrap(), "{sent}");
}

#[test]
fn a_choice_that_is_forced_leaves_no_other() {
    let names = |choice| -> Vec<String> {
        let schema = asked(choice).0.output_schema.unwrap();
        let all = schema["anyOf"].as_array().unwrap().iter();
        all.map(|one| one["properties"]["tool"]["const"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(ToolChoice::Tool("grep".to_owned())), ["grep"]);
    assert!(!names(ToolChoice::Any).contains(&"answer".to_owned()));
    let (_, forced) = asked(ToolChoice::Any);
    let answer = said(r#"{"tool":"answer","with":{"text":"x"}}"#, StopReason::EndTurn);
    assert_eq!(forced.interpret(answer).unwrap_err().kind, ErrorKind::MalformedToolCall);
    // Nothing to choose from: asked as it is.
    let (free, choices) = asked(ToolChoice::None);
    assert_eq!((free.tools.len(), &free.output_schema), (tool::TOOLS.len(), &None));
    assert_eq!(choices.interpret(said("hm", StopReason::EndTurn)).unwrap().message.text(), "hm");
}

#[test]
fn calls_and_results_of_the_past_become_text() {
    let history = vec![
        user([text("Look.")]),
        assistant([
            thinking("hm"),
            text("I look."),
            tool_use("a", "glob", json!({"pattern": "*"})),
        ]),
        user([tool_result("a", "glob", "a.txt"), text("Mind the dots.")]),
        assistant([text("There is a.txt.")]),
        assistant([thinking("only thought")]),
        user([text("More?")]),
    ];
    let mut request = request("small", history);
    request.tools = vec![declared(tool::find("glob").unwrap())].into();
    let (asked, _) = constrain(request);
    let told: Vec<String> =
        asked.messages.iter().map(|m| format!("{:?} {}", m.role, texts(m).join(" | "))).collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    User Look.
    Assistant I look. | {"tool":"glob","with":{"pattern":"*"}}
    User The tool glob gave:
    a.txt | Mind the dots.
    Assistant {"tool":"answer","with":{"text":"There is a.txt."}}
    User More?
    "#);
    assert!(asked.messages.iter().flat_map(|m| &m.blocks).all(|block| block.native.is_none()));
}

#[test]
fn a_decision_becomes_a_call_or_the_end_of_the_turn() {
    let reply = read(r#" {"tool": "shell", "with": {"command": "ls"}} "#).unwrap();
    assert_eq!(
        (reply.stop, reply.usage.output, reply.message.role),
        (StopReason::ToolUse, Some(3), Role::Assistant)
    );
    let input = json!({"command": "ls"});
    let part = Part::ToolUse { id: "call_0".to_owned(), name: "shell".to_owned(), input };
    assert_eq!(reply.message.blocks.len(), 1);
    assert_eq!(reply.message.blocks[0].part, part);
    let reply = read(r#"{"tool":"answer","with":{"text":"It is done."}}"#).unwrap();
    assert_eq!((reply.stop, reply.message.text()), (StopReason::EndTurn, "It is done.".to_owned()));
}

#[test]
fn anything_else_is_an_error_to_try_again() {
    for answer in [
        "",
        "ls",
        "[]",
        "null",
        r#""shell""#,
        r#"{"tool":"shell"}"#,
        r#"{"tool":"shell","with":{"command":"ls"}"#,
        r#"{"tool":"shell","with":{"command":"ls"}} "#.repeat(2).as_str(),
        r#"{"tool":"shell","with":{"command":"ls"},"more":1}"#,
        r#"{"tool":"shell","tool":"read","with":{"command":"ls"}}"#,
        r#"{"tool":"shell","with":{"command":"ls","command":"rm"}}"#,
        r#"{"tool":"shell","with":{}}"#,
        r#"{"tool":"shell","with":{"command":1}}"#,
        r#"{"tool":"shell","with":{"command":"ls","cwd":"/"}}"#,
        r#"{"tool":"shell","with":"ls"}"#,
        r#"{"tool":"read","with":{"path":"a","limit":-1}}"#,
        r#"{"tool":"read","with":{"path":"a","limit":1.5}}"#,
        r#"{"tool":"ask","with":{"question":"a","choices":[1]}}"#,
        r#"{"tool":["shell"],"with":{"command":"ls"}}"#,
        r#"{"tool":"Shell","with":{"command":"ls"}}"#,
        r#"{"tool":"rm","with":{}}"#,
        r#"{"tool":"answer","with":{"text":1}}"#,
        "```json\n{\"tool\":\"shell\",\"with\":{\"command\":\"ls\"}}\n```",
    ] {
        let error = read(answer).expect_err(answer);
        assert_eq!((error.kind, error.retry), (ErrorKind::MalformedToolCall, Retry::Backoff));
        assert_eq!(error.usage.output, Some(3), "it is paid for all the same");
    }
    let (_, choices) = asked(ToolChoice::Auto);
    for cut in [r#"{"tool":"shell","with":{"comma"#, r#"{"tool":"shell","with":{"command":"ls"}}"#]
    {
        let error = choices.interpret(said(cut, StopReason::MaxTokens)).unwrap_err();
        assert!(error.message.ends_with("limit of tokens"), "{error}");
    }
    let mut called = said("", StopReason::ToolUse);
    called.message = assistant([tool_use("x", "shell", json!({"command": "ls"}))]);
    assert!(choices.interpret(called).is_err(), "no tool was offered to be called like that");
    let refused = said("no", StopReason::Refusal);
    assert_eq!(choices.interpret(refused.clone()), Ok(refused));
}

#[test]
fn a_tool_of_any_name_and_schema_finds_its_place() {
    let schema = json!({
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/point"}, "pattern": {"type": "string", "pattern": "x+"}},
        "$defs": {"point": {"type": "array", "items": {"type": "number"}}}
    });
    let mut request = request("small", vec![user([text("Go.")])]);
    request.tools =
        vec![ToolDeclaration { name: "answer".to_owned(), description: String::new(), schema }]
            .into();
    let (asked, choices) = constrain(request);
    let schema = asked.output_schema.unwrap();
    let at = schema["anyOf"][0]["properties"]["with"]["properties"]["at"]["$ref"].as_str().unwrap();
    let found = schema.pointer(at.strip_prefix('#').unwrap()).unwrap();
    assert_eq!(found["type"], "array");
    let with = &schema["anyOf"][0]["properties"]["with"]["properties"];
    assert_eq!(with["pattern"], json!({"type": "string"}), "the property stays, its pattern goes");
    let call = said(r#"{"tool":"answer","with":{"at":[1,2]}}"#, StopReason::EndTurn);
    assert_eq!(choices.interpret(call).unwrap().stop, StopReason::ToolUse);
    let end = said(r#"{"tool":"answer_","with":{"text":"ok"}}"#, StopReason::EndTurn);
    assert_eq!(choices.interpret(end).unwrap().message.text(), "ok");
}

#[test]
fn an_answer_under_a_schema_of_the_callers_own_is_that_json() {
    let mut request = request("small", vec![user([text("Go.")])]);
    request.tools = vec![declared(tool::find("say").unwrap())].into();
    request.output_schema = Some(
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}),
    );
    let (_, choices) = constrain(request);
    let answer = |with: &str| {
        choices
            .interpret(said(&format!(r#"{{"tool":"answer","with":{with}}}"#), StopReason::EndTurn))
    };
    assert_eq!(answer(r#"{"n":4}"#).unwrap().message.text(), r#"{"n":4}"#);
    assert!(answer(r#"{"text":"4"}"#).is_err());
}

/// A value that follows the parameter's schema.
fn value(kind: ParameterKind) -> BoxedStrategy<Value> {
    match kind {
        ParameterKind::Text => any::<String>().prop_map(Value::from).boxed(),
        ParameterKind::Word(words) => prop::sample::select(words).prop_map(Value::from).boxed(),
        ParameterKind::Name => "[a-z]{1,9}".prop_map(Value::from).boxed(),
        ParameterKind::Number => any::<u64>().prop_map(Value::from).boxed(),
        ParameterKind::Flag => any::<bool>().prop_map(Value::from).boxed(),
        ParameterKind::Texts => {
            prop::collection::vec(any::<String>(), 0..4).prop_map(Value::from).boxed()
        }
    }
}

/// A tool and parameters that follow its schema.
fn decision() -> impl Strategy<Value = (&'static ToolSpec, Value)> {
    prop::sample::select(tool::TOOLS).prop_flat_map(|tool| {
        let parameter = |p: &'static tool::Parameter| {
            let given = if p.required { Just(true).boxed() } else { any::<bool>().boxed() };
            (given, value(p.kind)).prop_map(|(given, value)| given.then_some((p.name, value)))
        };
        let parameters: Vec<_> = tool.parameters.iter().map(parameter).collect();
        parameters.prop_map(move |given| {
            let fields = given.into_iter().flatten().map(|(name, value)| (name.to_owned(), value));
            let tool = tool::find(tool.name).unwrap();
            (tool, Value::Object(fields.collect()))
        })
    })
}

/// JSON that is near to a decision, or far from one.
fn hostile() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "tool", "with", "shell", "read", "write", "command", "path", "content", "answer", "text",
        "input",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, move |inner| {
        let key = word.clone().prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn an_answer_that_follows_the_schema_is_a_call_that_the_tool_takes((tool, with) in decision()) {
        let reply = read(&json!({"tool": tool.name, "with": with}).to_string()).unwrap();
        let Part::ToolUse { name, input, .. } = &reply.message.blocks[0].part else { panic!() };
        prop_assert_eq!((name.as_str(), input), (tool.name, &with));
        prop_assert_eq!(tool::check_input(tool, input), Ok(()));
    }

    #[test]
    fn an_answer_that_was_changed_is_never_another_call((tool, with) in decision(), at in any::<prop::sample::Index>(), byte in any::<char>()) {
        // The form of a name is not in the schema; the loop refuses a wrong one.
        prop_assume!(tool.parameters.iter().all(|p| p.kind != ParameterKind::Name));
        let mut answer: Vec<char> = json!({"tool": tool.name, "with": with}).to_string().chars().collect();
        let at = at.index(answer.len());
        answer[at] = byte;
        if let Ok(reply) = read(&answer.into_iter().collect::<String>())
            && let Part::ToolUse { name, input, .. } = &reply.message.blocks[0].part
        {
            prop_assert_eq!(tool::check_input(tool::find(name).unwrap(), input), Ok(()));
        }
    }

    #[test]
    fn a_hostile_answer_is_never_a_call_that_a_tool_does_not_take(value in hostile(), whole in any::<bool>()) {
        let answer = if whole { value } else { json!({"tool": "shell", "with": value}) };
        if let Ok(reply) = read(&answer.to_string())
            && let Part::ToolUse { name, input, .. } = &reply.message.blocks[0].part
        {
            prop_assert_eq!(tool::check_input(tool::find(name).unwrap(), input), Ok(()));
        }
    }

    #[test]
    fn no_text_makes_it_panic(answer in any::<String>()) {
        prop_assert!(read(&answer).is_err());
    }
}

#[test]
fn an_answer_is_bound_only_where_the_provider_is_known_to_take_the_schema() {
    let closed = json!({
        "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"],
        "additionalProperties": false,
    });
    let open = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let mut bounded = closed.clone();
    bounded["properties"]["n"]["minimum"] = json!(1);
    let list = json!({ "type": "array", "items": { "type": "string" } });
    let binds = |dialect: &dyn Dialect, model: &str| {
        [&closed, &open, &bounded, &list].map(|schema| dialect.binds(model, schema))
    };
    const NONE: [bool; 4] = [false; 4];
    assert_eq!(binds(&AnthropicMessages, "claude-sonnet-4-5"), [true, false, false, false]);
    assert_eq!(binds(&AnthropicMessages, "claude-sonnet-4-20250514"), NONE);
    assert_eq!(binds(&AnthropicMessages, "claude-3-7-sonnet-latest"), NONE);
    assert_eq!(binds(&AnthropicMessages, "other"), NONE);
    assert_eq!(binds(&GoogleGenerate, "gemini-2.5-flash"), [true, true, true, false]);
    assert_eq!(binds(&GoogleGenerate, "gemma-3"), NONE);
    for dialect in [&OpenAiResponses as &dyn Dialect, &OpenAiChat::openai(), &OpenAiChat::mistral()]
    {
        assert_eq!(binds(dialect, "gpt-5"), [true, true, false, false]);
        assert_eq!(binds(dialect, "gpt-4-turbo"), NONE);
    }
    assert_eq!(binds(&OpenAiChat::default(), "gpt-5"), NONE, "a server that nobody knows");
}
