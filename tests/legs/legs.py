"""What the legs share: the tests' summary in cargo's words, the real binary as a server, and comparing JSON."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest


def main(*cases):
    """Runs the tests and ends with a line that is counted like cargo's."""
    suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromTestCase(c) for c in cases)
    result = unittest.TextTestRunner(verbosity=2 if "-v" in sys.argv else 1).run(suite)
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    passed = result.testsRun - failed
    assert not result.skipped, "a leg skips nothing"
    word = "ok" if failed == 0 and passed > 0 else "FAILED"
    print(f"test result: {word}. {passed} passed; {failed} failed; 0 ignored", flush=True)
    sys.exit(0 if word == "ok" else 1)


def difference(a, b, path="$"):
    """Where two JSON values differ first; none if nowhere."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in [*a, *(key for key in b if key not in a)]:
            if key not in a or key not in b:
                return f"{path}.{key} is only in {'the first' if key in a else 'the second'}"
            found = difference(a[key], b[key], f"{path}.{key}")
            if found:
                return found
        return None
    if isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            return f"{path} has {len(a)} items, then {len(b)}"
        found = (difference(x, y, f"{path}[{at}]") for at, (x, y) in enumerate(zip(a, b)))
        return next(filter(None, found), None)
    return None if a == b else f"{path}: {a!r}, then {b!r}"


class Fake:
    """`drivetrain fake model` with a script, as long as the block lasts."""

    def __init__(self, script):
        self.script = script

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        path = os.path.join(self.folder.name, "script.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.script)
        command = [os.environ["DRIVETRAIN"], "fake", "model", path, "--json"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.url = json.loads(self.process.stdout.readline())["url"]
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0, "the fake did not end well"
        self.process.stdout.close()
        self.folder.cleanup()
