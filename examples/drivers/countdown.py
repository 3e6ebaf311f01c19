#!/usr/bin/env python3
"""A driver for drivetrain: writes a countdown to a file, reads it back, and claims to be finished.

Copy this file and change `decide`. Everything below it is the protocol: JSON-RPC 2.0, one JSON object a
line, requests on standard input and answers on standard output. Standard error is free for messages to
people; drivetrain shows its end when something goes wrong.
"""

import json
import sys


def decide(config, state, observations):
    """What to do next, from what is known. Touches nothing: drivetrain performs the actions.

    `state` is what the last answer gave as its state, None at the beginning. `observations` is what happened
    since: results of actions, lines and notes of people, failed verdicts. Because both come with every
    question, this function needs no memory, and a restarted process goes on where the last one stopped.
    """
    path = config.get("path", "countdown.txt")
    lines = [str(n) for n in range(config.get("from", 3), 0, -1)] + ["liftoff"]
    text = "\n".join(lines) + "\n"

    for seen in observations:
        if seen["kind"] == "verdict_failed":
            failed = [c["title"] for c in seen["criteria"] if not c["passed"]]
            return {"decision": "give_up", "reason": "not accepted: " + ", ".join(failed)}
        if seen["kind"] == "result" and seen["status"] != "ok":
            reason = f"{seen['tool']} ended with {seen['status']}: {seen['text']}"
            return {"decision": "give_up", "reason": reason}

    if state is None:
        action = {"tool": "write", "parameters": {"path": path, "content": text}, "label": "write"}
        return {"decision": "act", "actions": [action], "state": "written"}

    if state == "written":
        action = {"tool": "read", "parameters": {"path": path}, "label": "check"}
        return {"decision": "act", "actions": [action], "state": "checked"}

    results = [seen["text"] for seen in observations if seen["kind"] == "result"]
    if results and "liftoff" not in results[-1]:
        return {"decision": "give_up", "reason": f"{path} does not end in a liftoff"}
    return {"decision": "claim", "summary": f"counted down in {path}"}


def main():
    config = {}
    for line in sys.stdin:
        request = json.loads(line)
        method, params = request["method"], request.get("params") or {}
        answer = {"jsonrpc": "2.0", "id": request.get("id")}
        if method == "initialize":
            config = params.get("config") or {}
            answer["result"] = {"protocol": 1, "name": "countdown", "version": "1.0", "capabilities": {}}
        elif method == "decide":
            if "error" in params:
                print("the last answer was refused:", params["error"], file=sys.stderr)
            answer["result"] = decide(config, params["state"], params["observations"])
        else:
            answer["error"] = {"code": -32601, "message": f"no method {method}"}
        if "id" in request:  # one without an id is a notification: nobody waits for an answer
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
