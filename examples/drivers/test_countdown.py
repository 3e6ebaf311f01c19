"""Talks to countdown.py over pipes, as drivetrain does. Run with: python3 -m unittest"""

import json
import pathlib
import subprocess
import sys
import unittest

PLUGIN = pathlib.Path(__file__).with_name("countdown.py")


class Plugin:
    """A running plugin."""

    def __init__(self, config=None, state=None):
        self.last_id = 0
        self.process = subprocess.Popen(
            [sys.executable, PLUGIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.hello = self.call("initialize", protocol=1, driver="countdown", config=config, state=state)

    def call(self, method, **params):
        self.last_id += 1
        request = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        self.send(request)
        answer = json.loads(self.process.stdout.readline())
        assert answer["jsonrpc"] == "2.0" and answer["id"] == self.last_id, answer
        return answer.get("result", answer.get("error"))

    def send(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def decide(self, state=None, *observations):
        return self.call("decide", goal="count", turns=0, state=state, observations=observations)

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(timeout=10)


def result(text="", status="ok", tool="read"):
    return {"kind": "result", "call": "c1", "tool": tool, "label": "", "status": status, "exit": None, "text": text}


class CountdownTest(unittest.TestCase):
    def start(self, **kwargs):
        plugin = Plugin(**kwargs)
        self.addCleanup(lambda: self.assertEqual(plugin.close(), 0))
        return plugin

    def test_it_introduces_itself(self):
        hello = self.start().hello
        self.assertEqual((hello["name"], hello["protocol"]), ("countdown", 1))

    def test_it_writes_checks_and_claims(self):
        plugin = self.start(config={"from": 2, "path": "t.txt"})
        first = plugin.decide()
        self.assertEqual(first["actions"][0]["parameters"], {"path": "t.txt", "content": "2\n1\nliftoff\n"})
        second = plugin.decide(first["state"], result(tool="write"))
        self.assertEqual(second["actions"][0]["tool"], "read")
        third = plugin.decide(second["state"], result("2\n1\nliftoff\n"))
        self.assertEqual(third, {"decision": "claim", "summary": "counted down in t.txt"})

    def test_a_restarted_process_goes_on(self):
        state = self.start().decide()["state"]
        again = self.start(state=state).decide(state, result(tool="write"))
        self.assertEqual(again["actions"][0]["tool"], "read")

    def test_it_gives_up_on_what_it_cannot_change(self):
        plugin = self.start()
        denied = plugin.decide("written", result("no rule allows write", "denied", "write"))
        self.assertEqual(denied["reason"], "write ended with denied: no rule allows write")
        criteria = [{"title": "file: x", "passed": False, "evidence": ""}]
        refused = plugin.decide("checked", {"kind": "verdict_failed", "criteria": criteria})
        self.assertEqual(refused, {"decision": "give_up", "reason": "not accepted: file: x"})

    def test_an_unknown_request_is_refused_and_a_notification_is_not_answered(self):
        plugin = self.start()
        plugin.send({"jsonrpc": "2.0", "method": "observe", "params": {}})
        self.assertEqual(plugin.call("sing")["code"], -32601)


if __name__ == "__main__":
    unittest.main()
