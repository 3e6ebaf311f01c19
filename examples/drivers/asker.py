#!/usr/bin/env python3
"""A driver for drivetrain that uses tools itself while it decides, through its gate.

Between the question `decide` and its answer, a plugin may connect to the socket in DRIVETRAIN_GATE, say the token in
DRIVETRAIN_GATE_TOKEN as the first line, and then speak MCP: one JSON object a line. Every call is journaled and judged
by the task's rules, and counts against its budget; nothing can be approved there.
"""

import json
import os
import socket
import sys


class Gate:
    """The tools of the task, by name."""

    def __init__(self):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(os.environ["DRIVETRAIN_GATE"])
        self.stream = connection.makefile("rw", encoding="utf-8", newline="\n")
        self.stream.write(os.environ["DRIVETRAIN_GATE_TOKEN"] + "\n")
        self.last = 0
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "asker", "version": "1"})

    def ask(self, method, **params):
        self.last += 1
        request = {"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}
        self.stream.write(json.dumps(request) + "\n")
        self.stream.flush()
        answer = json.loads(self.stream.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"]["message"])
        return answer["result"]

    def call(self, tool, **arguments):
        """How the call ended (ok, error, denied, …) and what it said."""
        result = self.ask("tools/call", name=tool, arguments=arguments)
        return result["_meta"]["drivetrain/status"], result["content"][0]["text"]


def decide(config):
    """Counts the lines of a file and writes the number beside it."""
    gate = Gate()
    path = config.get("path", "numbers.txt")
    status, text = gate.call("read", path=path)
    if status != "ok":
        return {"decision": "give_up", "reason": f"{path} cannot be read: {text}"}
    count = len(text.splitlines())
    status, text = gate.call("write", path=f"{path}.count", content=f"{count}\n")
    if status != "ok":
        return {"decision": "give_up", "reason": f"the count cannot be written: {text}"}
    return {"decision": "claim", "summary": f"{path} has {count} lines"}


def main():
    config = {}
    for line in sys.stdin:
        request = json.loads(line)
        method, params = request["method"], request.get("params") or {}
        answer = {"jsonrpc": "2.0", "id": request.get("id")}
        if method == "initialize":
            config = params.get("config") or {}
            answer["result"] = {"protocol": 1, "name": "asker", "version": "1.0", "capabilities": {}}
        elif method == "decide":
            answer["result"] = decide(config)
        else:
            answer["error"] = {"code": -32601, "message": f"no method {method}"}
        if "id" in request:
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
