"""Writes what a fuzz target begins with, from the fixtures of the tests: fuzz/corpus/TARGET."""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "crates/wire/tests/fixtures"
PROVIDERS = {
    "anthropic": "anthropic_messages",
    "openai-chat": "openai_chat",
    "mistral": "openai_chat",
    "openai-responses": "openai_responses",
    "gemini": "google_generate",
}
LINES = [
    '{"jsonrpc":"2.0","id":3,"result":{"a":1}}',
    '{"jsonrpc":"2.0","id":"x","method":"m","params":[1,null]}',
    '{"jsonrpc":"2.0","method":"log"}',
    '{"jsonrpc":"2.0","id":4,"error":{"code":-32601,"message":"no"}}',
]

GATE = [
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}',
    '{"jsonrpc":"2.0","method":"notifications/initialized"}',
    '{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"shell","arguments":{"command":"ls"},'
    '"_meta":{"drivetrain/key":"k"}}}',
    '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}',
]


def streams():
    for line in (FIXTURES / "sse.jsonl").read_text().splitlines():
        case = json.loads(line)
        if "in_hex" in case:
            yield case["id"], case["provider"], bytes.fromhex(case["in_hex"])
        elif "in" in case:
            yield case["id"], case["provider"], case["in"].encode()


def seeds(target):
    if target == "jsonrpc":
        return {str(at): line.encode() for at, line in enumerate(LINES)}
    if target == "gate_frame":
        lines = {str(at): f"{GATE[0]}\n{line}\n".encode() for at, line in enumerate(GATE)}
        return lines | {"all": "\n".join(GATE).encode()}
    if target == "script_file":
        text = (ROOT / "crates/wire/src/model/script.rs").read_text()
        block = text.split("```toml")[1].split("```")[0]
        whole = "\n".join(line.removeprefix("//!").strip() for line in block.splitlines())
        parts = whole.split("\n\n")
        return {str(at): part.encode() for at, part in enumerate([whole, *parts])}
    wanted = lambda provider: target == "sse" or PROVIDERS.get(provider) == target
    return {name: text for name, provider, text in streams() if wanted(provider)}


def main():
    target = sys.argv[1]
    folder = ROOT / "fuzz/corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in seeds(target).items():
        (folder / f"seed-{name}").write_bytes(content)


main()
