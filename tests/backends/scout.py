"""Run scanners of a real inspect_scout on the transcripts of a lake.

    .venv/bin/python tests/backends/scout.py .cache/scout/bin/python

The scanners are those of any user of inspect_scout: they know nothing of turnlog.
"""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from support.build import assistant, call, result, session, text, user
from support.lake_machines import PushingMachine
from turnlog.lake.scout_export import export_scout

SCAN = """
import json, sys
from inspect_scout import (
    Result, Scanner, Transcript, grep_scanner, scan, scan_results_df, scanner, transcripts_from,
)

@scanner(messages="all")
def calls() -> Scanner[Transcript]:
    async def execute(transcript: Transcript) -> Result:
        answers = [each for each in transcript.messages if each.role == "assistant"]
        return Result(value=[use.function for each in answers for use in each.tool_calls or []])
    return execute

@scanner(messages="all")
def words() -> Scanner[Transcript]:
    return grep_scanner("needle")

if __name__ == "__main__":
    where, scans = sys.argv[1:]
    done = scan(
        scanners=[calls(), words()], transcripts=transcripts_from(where), scans=scans,
        max_processes=1, display="none",
    )
    found = scan_results_df(done.location).scanners
    values = {name: frame["value"].astype(str).tolist() for name, frame in found.items()}
    print(json.dumps([done.complete, values]))
"""


def main(python: str) -> None:
    with TemporaryDirectory(prefix="scout-") as name:
        folder = Path(name)
        machine = PushingMachine(
            folder / "ada", str(folder / "lake"), consents=frozenset({"texts"})
        )
        machine.write(
            session(
                user("Find the needle"),
                assistant(
                    text("The needle?"),
                    call("Bash", {"command": "grep -r needle"}, "toolu_1"),
                    message_id="msg_1",
                ),
                result("toolu_1", "hay.txt: needle"),
                assistant(text("There."), message_id="msg_2"),
            )
        )
        machine.push()
        export_scout(machine.dest, folder / "transcripts")
        script = folder / "scan.py"
        script.write_text(SCAN)
        done = subprocess.run(
            [python, script, folder / "transcripts", folder / "scans"],
            check=False,
            text=True,
            capture_output=True,
            cwd=folder,
        )
        assert done.returncode == 0, done.stderr
        is_complete, values = json.loads(done.stdout.splitlines()[-1])
        assert is_complete, done.stderr
        assert json.loads(values["calls"][0]) == ["Bash"], values
        assert int(float(values["words"][0])) >= 3, values
        print("inspect_scout: scanners run on transcripts of a lake")


if __name__ == "__main__":
    main(sys.argv[1])
