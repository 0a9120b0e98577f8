"""Do programs that use the Agent SDK get the same from `turnlog-chat` as from the real client?

    sudo unshare --net env PYTHONPATH=src:tests python tests/conformance/sdk.py CLIENT [PROGRAM ...]

CLIENT is the path of an installed client. Each program runs against it and against `turnlog-chat`,
each with a home and a scripted API of its own. Prints a row for each program, and exits with 1 if
any outcome differs for no reason that docs/sdk.md states.

    --record    write the client's outcomes to sdk_outcomes.json, which `make test` compares with
    --own       run only `turnlog-chat`, and compare with what was recorded
    --show      print outcomes that differ
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from client import bring_up_loopback

from support import sdk_programs
from support.sdk_rig import DIFFERENT, PROGRAMS, own_client, run_program

assert sdk_programs.__all__, "importing it registers the programs"
OUTCOMES = Path(__file__).parents[1] / "data" / "sdk_outcomes.json"


def outcome(name: str, client: Path) -> Any:
    """The outcome of a program as JSON, or how it failed."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = run_program(name, Path(folder), client)
        except Exception as error:  # a program that fails is an outcome as well
            return {"failed": f"{type(error).__name__}: {error}"}
    return json.loads(json.dumps(found))


def compare(name: str, ours: Any, real: Any) -> str:
    """Return a verdict, in capitals if something is wrong."""
    if ours == real:
        return "equal"
    return "different on purpose" if ours == DIFFERENT.get(name) else "DIFFERENT"


def main() -> int:
    """Run and compare, print a row for each program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("client", type=Path)
    parser.add_argument("programs", nargs="*")
    for flag in ("--record", "--own", "--show"):
        parser.add_argument(flag, action="store_true")
    given = parser.parse_intermixed_args()
    bring_up_loopback()
    known: dict[str, Any] = json.loads(OUTCOMES.read_text()) if OUTCOMES.exists() else {}
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        own = own_client(Path(folder))
        for name in given.programs or PROGRAMS:
            real = known.get(name) if given.own else outcome(name, given.client)
            if given.record:
                known[name] = real
                OUTCOMES.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
                print(f"{name:40} {json.dumps(real)[:120]}", flush=True)
                continue
            ours = outcome(name, own)
            verdict = compare(name, ours, real)
            bad += verdict.isupper()
            print(f"{name:40} {verdict}", flush=True)
            if given.show and verdict != "equal":
                print(f"  client:  {json.dumps(real)}\n  turnlog: {json.dumps(ours)}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
