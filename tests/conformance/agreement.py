"""Do the Agent SDK's readers and turnlog see the same in a folder of session files?

    PYTHONPATH=src:tests python tests/conformance/agreement.py FOLDER

Compares title, directory, branch and tag of `list_sessions`, and the calls, results and answers of
`get_session_messages`, with `turnlog ls` and `turnlog context`. Prints the number of differences by
their reasons in docs/session-format.md, and exits with 1 if one has none.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

from support.sdk_agreement import disagreements, placed, reason_for


def main(folder: Path) -> int:
    """Compare, print a table, return the exit code."""
    paths = [path for path in sorted(folder.rglob("*.jsonl")) if path.stat().st_size]
    equal, unexplained = 0, 0
    counts: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as home:
        for path in paths:
            content = path.read_bytes()
            with placed(content, Path(home)) as session:
                found = list(disagreements(session))
            equal += not found
            for each in found:
                reason = reason_for(each, content)
                counts[each.field, reason or "NONE"] += 1
                if reason is None:
                    unexplained += 1
                    print(path, each, file=sys.stderr)
    print(f"{len(paths)} files, {equal} equal in everything")
    for (field, reason), count in sorted(counts.items()):
        print(f"{field:12} {reason:18} {count}")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
