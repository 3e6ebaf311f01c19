"""Our scripted model server, used by the official SDKs as real clients: the same conversation in every dialect.

Text, thinking, two calls at once with their results sent back, counters, reasons to stop, and errors as the exceptions
that each SDK's users catch. Needs DRIVETRAIN, the path of the binary.
"""

import json
import unittest
import urllib.request

import anthropic
import google.genai
import google.genai.errors
import google.genai.types
import mistralai.client
import mistralai.client.errors
import openai

import legs

TALK = """
[[reply]]
thinking = "There are two numbers to look up, one in each file."
text = "Let me look at both files at once."
tool_calls = [
    { tool = "read", id = "abcDEF123", input = { path = "a.txt", limit = 3 } },
    { tool = "read", id = "abcDEF124", input = { path = "b.txt" } },
]
usage = { input = 100, output = 20, thinking = 5, cache_read = 40 }

[[reply]]
match = "thirty"
text = "Twelve and thirty make forty-two."
usage = { input = 130, output = 9 }
"""
THOUGHT = "There are two numbers to look up, one in each file."
SAID = "Let me look at both files at once."
SUM = "Twelve and thirty make forty-two."
CALLS = [
    ("abcDEF123", "read", {"path": "a.txt", "limit": 3}),
    ("abcDEF124", "read", {"path": "b.txt"}),
]
RESULTS = {"abcDEF123": "twelve", "abcDEF124": "thirty"}
ASKED = "What do a.txt and b.txt add up to?"
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}}, "required": ["path"]}

STOPS = """
[[reply]]
text = "A long answer that"
stop = "max_tokens"
usage = { input = 1, output = 2 }

[[reply]]
text = "No."
stop = "refusal"
usage = { input = 1, output = 2 }
"""

# Each error by its meaning; what an SDK makes of it is in its own test.
ERRORS = {
    "config": 400,
    "auth": 401,
    "rate_limited": 429,
    "quota": 429,
    "overloaded": 503,
    "server": 500,
    "context_overflow": 400,
    "too_large": 413,
}


def errors():
    return "".join(f'[[reply]]\nerror = "{kind}"\n\n' for kind in ERRORS)


class Consume(unittest.TestCase):
    maxDiff = None

    def requests(self, fake):
        """What the server was sent, so that nothing was lost on the way there either."""
        with urllib.request.urlopen(fake.url + "/requests") as answer:
            told = json.load(answer)
        self.assertEqual(told["forgotten"], 0)
        return [request["body"] for request in told["requests"]]

    def raised(self, ask, base):
        """The exception's class and status for each scripted error."""
        out = {}
        for kind in ERRORS:
            try:
                ask()
            except base as error:
                status = getattr(error, "status_code", None) or getattr(error, "code", None)
                out[kind] = (type(error), status)
        self.assertEqual({kind: status for kind, (_, status) in out.items()}, ERRORS)
        return {kind: of for kind, (of, _) in out.items()}


class Anthropic(Consume):
    def client(self, fake):
        return anthropic.Anthropic(base_url=fake.url, api_key="none", max_retries=0)

    def ask(self, client, messages):
        tools = [{"name": "read", "description": "reads a file", "input_schema": SCHEMA}]
        asked = dict(model="m", max_tokens=999, tools=tools, messages=messages)
        pieces = []
        with client.messages.stream(**asked) as stream:
            for event in stream:
                if event.type in ("text", "thinking"):
                    pieces.append(event.type)
            return pieces, stream.get_final_message()

    def test_a_conversation(self):
        with legs.Fake(TALK) as fake:
            client = self.client(fake)
            messages = [{"role": "user", "content": ASKED}]
            pieces, said = self.ask(client, messages)
            self.assertGreater(pieces.count("text"), 1)
            self.assertGreater(pieces.count("thinking"), 1)
            kinds = [block.type for block in said.content]
            self.assertEqual(kinds, ["thinking", "text", "tool_use", "tool_use"])
            self.assertEqual((said.content[0].thinking, said.content[1].text), (THOUGHT, SAID))
            self.assertTrue(said.content[0].signature)
            self.assertEqual([(b.id, b.name, b.input) for b in said.content[2:]], CALLS)
            self.assertEqual((said.role, said.model, said.stop_reason), ("assistant", "m", "tool_use"))
            usage = said.usage
            counted = (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens)
            self.assertEqual(counted, (100, 40, 20))
            results = [
                {"type": "tool_result", "tool_use_id": id, "content": RESULTS[id]} for id, _, _ in CALLS
            ]
            messages += [{"role": "assistant", "content": said.content}, {"role": "user", "content": results}]
            _, said = self.ask(client, messages)
            self.assertEqual([block.text for block in said.content], [SUM])
            self.assertEqual((said.stop_reason, said.usage.output_tokens), ("end_turn", 9))
            back = self.requests(fake)[1]["messages"]
            self.assertEqual([len(message["content"]) for message in back[1:]], [4, 2])

    def test_whole_answers(self):
        with legs.Fake(TALK) as fake:
            said = self.client(fake).messages.create(
                model="m", max_tokens=9, messages=[{"role": "user", "content": ASKED}]
            )
            self.assertEqual([b.type for b in said.content], ["thinking", "text", "tool_use", "tool_use"])
            self.assertEqual((said.usage.output_tokens, said.stop_reason), (20, "tool_use"))

    def test_reasons_to_stop(self):
        with legs.Fake(STOPS) as fake:
            client = self.client(fake)
            stops = [self.ask(client, [{"role": "user", "content": "x"}])[1].stop_reason for _ in "ab"]
            self.assertEqual(stops, ["max_tokens", "refusal"])

    def test_errors(self):
        with legs.Fake(errors()) as fake:
            client = self.client(fake)
            ask = lambda: self.ask(client, [{"role": "user", "content": "x"}])
            raised = self.raised(ask, anthropic.APIStatusError)
        self.assertEqual(
            raised,
            {
                "config": anthropic.BadRequestError,
                "auth": anthropic.AuthenticationError,
                "rate_limited": anthropic.RateLimitError,
                "quota": anthropic.RateLimitError,
                "overloaded": raised["overloaded"],
                "server": anthropic.InternalServerError,
                "context_overflow": anthropic.BadRequestError,
                "too_large": raised["too_large"],
            },
        )
        self.assertTrue(issubclass(raised["overloaded"], anthropic.InternalServerError))


class OpenAiChat(Consume):
    def client(self, fake):
        return openai.OpenAI(base_url=fake.url + "/v1", api_key="none", max_retries=0)

    def ask(self, client, messages):
        function = {"name": "read", "description": "reads a file", "parameters": SCHEMA}
        asked = dict(model="m", messages=messages, tools=[{"type": "function", "function": function}])
        thought, pieces = "", 0
        with client.chat.completions.stream(**asked, stream_options={"include_usage": True}) as stream:
            for event in stream:
                if event.type == "chunk" and event.chunk.choices:
                    delta = event.chunk.choices[0].delta
                    thought += (delta.model_extra or {}).get("reasoning_content", "")
                pieces += event.type == "content.delta"
            return thought, pieces, stream.get_final_completion()

    def test_a_conversation(self):
        with legs.Fake(TALK) as fake:
            client = self.client(fake)
            messages = [{"role": "user", "content": ASKED}]
            thought, pieces, said = self.ask(client, messages)
            self.assertEqual(thought, THOUGHT)
            self.assertGreater(pieces, 1)
            choice = said.choices[0]
            self.assertEqual((choice.message.role, choice.message.content), ("assistant", SAID))
            calls = choice.message.tool_calls
            read = [(c.id, c.function.name, json.loads(c.function.arguments)) for c in calls]
            self.assertEqual(read, CALLS)
            self.assertEqual((said.model, choice.finish_reason), ("m", "tool_calls"))
            usage = said.usage
            self.assertEqual((usage.prompt_tokens, usage.completion_tokens, usage.total_tokens), (140, 20, 160))
            self.assertEqual(usage.prompt_tokens_details.cached_tokens, 40)
            self.assertEqual(usage.completion_tokens_details.reasoning_tokens, 5)
            sent = [{"id": c.id, "type": "function", "function": {"name": c.function.name, "arguments": c.function.arguments}} for c in calls]
            messages.append({"role": "assistant", "content": SAID, "tool_calls": sent})
            messages += [{"role": "tool", "tool_call_id": id, "content": text} for id, text in RESULTS.items()]
            _, _, said = self.ask(client, messages)
            choice = said.choices[0]
            self.assertEqual((choice.message.content, choice.finish_reason), (SUM, "stop"))
            self.assertIsNone(choice.message.tool_calls)
            self.assertEqual(self.requests(fake)[1]["messages"], messages)

    def test_whole_answers(self):
        with legs.Fake(TALK) as fake:
            said = self.client(fake).chat.completions.create(
                model="m", messages=[{"role": "user", "content": ASKED}]
            )
            message = said.choices[0].message
            self.assertEqual((message.content, len(message.tool_calls)), (SAID, 2))
            self.assertEqual(said.usage.total_tokens, 160)

    def test_reasons_to_stop(self):
        with legs.Fake(STOPS) as fake:
            client = self.client(fake)
            asked = dict(model="m", messages=[{"role": "user", "content": "x"}], stream=True)
            stops = [[c.choices[0].finish_reason for c in client.chat.completions.create(**asked)][-1] for _ in "ab"]
            self.assertEqual(stops, ["length", "content_filter"])

    def test_errors(self):
        with legs.Fake(errors()) as fake:
            client = self.client(fake)
            raised = self.raised(lambda: self.ask(client, [{"role": "user", "content": "x"}]), openai.APIStatusError)
        self.assertEqual(raised, openai_errors())


def openai_errors():
    return {
        "config": openai.BadRequestError,
        "auth": openai.AuthenticationError,
        "rate_limited": openai.RateLimitError,
        "quota": openai.RateLimitError,
        "overloaded": openai.InternalServerError,
        "server": openai.InternalServerError,
        "context_overflow": openai.BadRequestError,
        "too_large": openai.APIStatusError,
    }


class OpenAiResponses(Consume):
    client = OpenAiChat.client

    def ask(self, client, items):
        tools = [{"type": "function", "name": "read", "description": "reads a file", "parameters": SCHEMA, "strict": False}]
        pieces, numbers = [], []
        with client.responses.stream(model="m", input=items, tools=tools) as stream:
            for event in stream:
                pieces.append(event.type)
                numbers.append(event.sequence_number)
            self.assertEqual(numbers, list(range(len(numbers))))
            return pieces, stream.get_final_response()

    def test_a_conversation(self):
        with legs.Fake(TALK) as fake:
            client = self.client(fake)
            items = [{"role": "user", "content": ASKED}]
            pieces, said = self.ask(client, items)
            self.assertGreater(pieces.count("response.output_text.delta"), 1)
            self.assertGreater(pieces.count("response.reasoning_summary_text.delta"), 1)
            self.assertEqual([item.type for item in said.output], ["reasoning", "message", "function_call", "function_call"])
            self.assertEqual((said.output[0].summary[0].text, said.output_text), (THOUGHT, SAID))
            self.assertEqual([(c.call_id, c.name, json.loads(c.arguments)) for c in said.output[2:]], CALLS)
            self.assertEqual((said.model, said.status), ("m", "completed"))
            usage = said.usage
            self.assertEqual((usage.input_tokens, usage.output_tokens, usage.total_tokens), (140, 20, 160))
            self.assertEqual(usage.input_tokens_details.cached_tokens, 40)
            self.assertEqual(usage.output_tokens_details.reasoning_tokens, 5)
            items += [item.model_dump(exclude_none=True) for item in said.output]
            items += [{"type": "function_call_output", "call_id": id, "output": text} for id, text in RESULTS.items()]
            _, said = self.ask(client, items)
            self.assertEqual((said.output_text, said.status), (SUM, "completed"))
            self.assertEqual(len(self.requests(fake)[1]["input"]), 7)

    def test_whole_answers(self):
        with legs.Fake(TALK) as fake:
            said = self.client(fake).responses.create(model="m", input=ASKED)
            self.assertEqual((said.output_text, len(said.output)), (SAID, 4))

    def test_reasons_to_stop(self):
        with legs.Fake(STOPS) as fake:
            client = self.client(fake)
            ended = [list(client.responses.create(model="m", input="x", stream=True))[-1].response for _ in "ab"]
            reasons = [(end.status, end.incomplete_details.reason) for end in ended]
            self.assertEqual(reasons, [("incomplete", "max_output_tokens"), ("incomplete", "content_filter")])

    def test_errors(self):
        with legs.Fake(errors()) as fake:
            client = self.client(fake)
            raised = self.raised(lambda: self.ask(client, "x"), openai.APIStatusError)
        self.assertEqual(raised, openai_errors())


class Google(Consume):
    def client(self, fake):
        options = google.genai.types.HttpOptions(base_url=fake.url)
        return google.genai.Client(api_key="none", http_options=options)

    def ask(self, client, contents):
        types = google.genai.types
        read = types.FunctionDeclaration(name="read", description="reads a file", parameters_json_schema=SCHEMA)
        config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=[read])])
        return list(client.models.generate_content_stream(model="m", contents=contents, config=config))

    def test_a_conversation(self):
        types = google.genai.types
        with legs.Fake(TALK) as fake:
            client = self.client(fake)
            contents = [types.Content(role="user", parts=[types.Part(text=ASKED)])]
            chunks = self.ask(client, contents)
            parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
            thought = [part.text for part in parts if part.thought]
            said = [part.text for part in parts if part.text and not part.thought]
            self.assertEqual(("".join(thought), "".join(said)), (THOUGHT, SAID))
            self.assertTrue(len(thought) > 1 and len(said) > 1)
            calls = [part.function_call for part in parts if part.function_call]
            self.assertEqual([(c.id, c.name, c.args) for c in calls], CALLS)
            self.assertEqual((chunks[-1].model_version, chunks[-1].candidates[0].finish_reason), ("m", "STOP"))
            usage = chunks[-1].usage_metadata
            counted = (usage.prompt_token_count, usage.candidates_token_count, usage.total_token_count)
            self.assertEqual(counted, (140, 15, 160))
            self.assertEqual((usage.thoughts_token_count, usage.cached_content_token_count), (5, 40))
            answered = [
                types.Part(function_response=types.FunctionResponse(id=id, name="read", response={"output": text}))
                for id, text in RESULTS.items()
            ]
            # As the SDK's own chats do: an empty text, which ends a stream, is refused on its way back.
            kept = [part for part in parts if part.text != ""]
            contents += [types.Content(role="model", parts=kept), types.Content(role="user", parts=answered)]
            chunks = self.ask(client, contents)
            self.assertEqual("".join(chunk.text or "" for chunk in chunks), SUM)
            self.assertEqual(len(self.requests(fake)[1]["contents"]), 3)

    def test_whole_answers(self):
        with legs.Fake(TALK) as fake:
            client = self.client(fake)
            said = client.models.generate_content(model="m", contents=ASKED)
            self.assertEqual((said.text, len(said.function_calls)), (SAID, 2))

    def test_reasons_to_stop(self):
        with legs.Fake(STOPS) as fake:
            client = self.client(fake)
            stops = [self.ask(client, "x")[-1].candidates[0].finish_reason for _ in "ab"]
            self.assertEqual(stops, ["MAX_TOKENS", "SAFETY"])

    def test_errors(self):
        errors_of = google.genai.errors
        with legs.Fake(errors()) as fake:
            client = self.client(fake)
            raised = self.raised(lambda: self.ask(client, "x"), errors_of.APIError)
        failed_by = {kind: errors_of.ClientError if ERRORS[kind] < 500 else errors_of.ServerError for kind in ERRORS}
        self.assertEqual({kind: of for kind, of in raised.items() if not issubclass(of, failed_by[kind])}, {})


class Mistral(Consume):
    def client(self, fake):
        return mistralai.client.Mistral(api_key="none", server_url=fake.url + "/mistral")

    def ask(self, client, messages):
        function = {"name": "read", "description": "reads a file", "parameters": SCHEMA}
        tools = [{"type": "function", "function": function}]
        with client.chat.stream(model="m", messages=messages, tools=tools) as stream:
            return [event.data for event in stream]

    def test_a_conversation(self):
        with legs.Fake(TALK) as fake:
            client = self.client(fake)
            messages = [{"role": "user", "content": ASKED}]
            chunks = self.ask(client, messages)
            deltas = [chunk.choices[0].delta for chunk in chunks]
            said = [delta.content for delta in deltas if isinstance(delta.content, str) and delta.content]
            thought = [
                piece.text
                for delta in deltas
                if isinstance(delta.content, list)
                for content in delta.content
                for piece in content.thinking
            ]
            self.assertEqual(("".join(thought), "".join(said)), (THOUGHT, SAID))
            self.assertTrue(len(thought) > 1 and len(said) > 1)
            calls = [call for delta in deltas for call in delta.tool_calls or []]
            self.assertEqual([(c.id, c.function.name, json.loads(c.function.arguments)) for c in calls], CALLS)
            self.assertEqual((chunks[-1].model, chunks[-1].choices[0].finish_reason), ("m", "tool_calls"))
            usage = chunks[-1].usage
            self.assertEqual((usage.prompt_tokens, usage.completion_tokens, usage.total_tokens), (140, 20, 160))
            sent = [{"id": c.id, "function": {"name": c.function.name, "arguments": c.function.arguments}} for c in calls]
            messages.append({"role": "assistant", "content": SAID, "tool_calls": sent})
            messages += [
                {"role": "tool", "name": "read", "tool_call_id": id, "content": text} for id, text in RESULTS.items()
            ]
            chunks = self.ask(client, messages)
            self.assertEqual("".join(chunk.choices[0].delta.content for chunk in chunks), SUM)
            self.assertEqual(chunks[-1].choices[0].finish_reason, "stop")
            self.assertEqual(len(self.requests(fake)[1]["messages"]), 4)

    def test_whole_answers(self):
        with legs.Fake(TALK) as fake:
            said = self.client(fake).chat.complete(model="m", messages=[{"role": "user", "content": ASKED}])
            message = said.choices[0].message
            self.assertEqual((len(message.content), len(message.tool_calls)), (2, 2))
            self.assertEqual(said.usage.total_tokens, 160)

    def test_reasons_to_stop(self):
        with legs.Fake(STOPS) as fake:
            client = self.client(fake)
            ended = [self.ask(client, [{"role": "user", "content": "x"}])[-1] for _ in "ab"]
            # Its clients take words that they do not know; refusals have none here.
            self.assertEqual(ended[0].choices[0].finish_reason, "length")
            self.assertTrue(ended[1].choices[0].finish_reason)

    def test_errors(self):
        of = mistralai.client.errors
        with legs.Fake(errors()) as fake:
            client = self.client(fake)
            raised = self.raised(lambda: self.ask(client, [{"role": "user", "content": "x"}]), of.MistralError)
        self.assertEqual(set(raised.values()), {of.SDKError})


if __name__ == "__main__":
    legs.main(Anthropic, OpenAiChat, OpenAiResponses, Google, Mistral)
