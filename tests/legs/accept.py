"""The requests that we send, held against the official SDKs' own types.

Reads one JSON object a line (`{"dialect", "name", "path", "body"}`, see crates/app/examples/requests.rs) and checks
each body with the types of the SDK that speaks its dialect. A key that the SDK does not know is an error, at any depth;
to be sure of it, each body is checked again with such a key added in every place where one can be.
"""

import functools
import importlib
import json
import pkgutil
import sys
import unittest

import pydantic
import typing_extensions

import legs

# Objects whose keys are the user's own: schemas, arguments, results. An SDK takes any key there.
FREE = {"schema", "input_schema", "parameters", "input", "args", "response", "properties", "responseSchema"}


@functools.cache
def close(package):
    """Makes every type of a package refuse keys that it does not name."""
    root = importlib.import_module(package)
    models = set()
    for found in pkgutil.walk_packages(root.__path__, package + "."):
        module = importlib.import_module(found.name)
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, pydantic.BaseModel):
                # What a server said may be given back as it was read: these take any key if nobody tells them.
                value.model_config["extra"] = "forbid"
                models.add(value)
            elif typing_extensions.is_typeddict(value):
                # Files may be given as they are: nothing that a request in JSON can hold.
                value.__pydantic_config__ = pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    for model in models:
        model.model_rebuild(force=True)


def exhaust(value):
    """Reads to the end what is checked only when it is read."""
    if isinstance(value, dict):
        for item in value.values():
            exhaust(item)
    elif not isinstance(value, (str, bytes)) and hasattr(value, "__iter__"):
        for item in value:
            exhaust(item)


class Typed:
    """Checks a body with a typed dictionary."""

    def __init__(self, kind):
        self.adapter = pydantic.TypeAdapter(kind)

    def __call__(self, body):
        exhaust(self.adapter.validate_python(body))


def anthropic():
    close("anthropic.types")
    params = importlib.import_module("anthropic.types.message_create_params")
    return Typed(params.MessageCreateParamsStreaming)


def openai_chat():
    close("openai.types")
    params = importlib.import_module("openai.types.chat.completion_create_params")
    return Typed(params.CompletionCreateParamsStreaming)


def openai_responses():
    close("openai.types")
    params = importlib.import_module("openai.types.responses.response_create_params")
    return Typed(params.ResponseCreateParamsStreaming)


def google():
    types = importlib.import_module("google.genai.types")

    def check(body):
        body = dict(body)
        for content in body.pop("contents"):
            types.Content.model_validate(content)
        # The SDK has one configuration for what the wire has in two places.
        config = body.pop("generationConfig", {})
        overlap = config.keys() & body.keys()
        assert not overlap, overlap
        types.GenerateContentConfig.model_validate({**config, **body})

    return check


def mistral():
    models = importlib.import_module("mistralai.client.models")

    def check(body):
        # These models pass over what they do not know: it is missing in what they would send themselves.
        read = models.ChatCompletionStreamRequest.model_validate(body)
        sent = read.model_dump(mode="json", by_alias=True, exclude_unset=True)
        lost = legs.difference(body, sent)
        assert lost is None, lost

    return check


CHECKS = {
    "anthropic_messages": anthropic,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "google_generate": google,
    "mistral": mistral,
}


def spoiled(value, path=()):
    """The same with a key too many, once for each object whose keys are not free."""
    if isinstance(value, dict):
        if not (path and path[-1] in FREE):
            yield path, {**value, "zz_unknown": 1}
            for key, item in value.items():
                for where, worse in spoiled(item, path + (key,)):
                    yield where, {**value, key: worse}
    elif isinstance(value, list):
        for at, item in enumerate(value):
            for where, worse in spoiled(item, path + (at,)):
                yield where, value[:at] + [worse] + value[at + 1 :]


class Accept(unittest.TestCase):
    """One test for each request; see `load`."""


def load(lines):
    checks = {}
    for line in lines:
        asked = json.loads(line)
        dialect, name, body = asked["dialect"], asked["name"], asked["body"]

        def check(dialect=dialect):
            if dialect not in checks:
                checks[dialect] = CHECKS[dialect]()
            return checks[dialect]

        def accepted(self, body=body, check=check):
            check()(body)

        def nothing_unknown_is(self, body=body, check=check):
            for where, worse in spoiled(body):
                with self.assertRaises((pydantic.ValidationError, AssertionError), msg=where):
                    check()(worse)

        setattr(Accept, f"test_{dialect}_{name}_is_accepted", accepted)
        setattr(Accept, f"test_{dialect}_{name}_with_a_key_too_many_is_not", nothing_unknown_is)
    return set(checks)


if __name__ == "__main__":
    requests = open(sys.argv.pop(1), encoding="utf-8").read().splitlines()
    seen = {json.loads(line)["dialect"] for line in requests}
    assert seen == set(CHECKS), f"no request of {set(CHECKS) - seen}"
    load(requests)
    legs.main(Accept)
