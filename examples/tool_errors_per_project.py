"""Print which tools fail in which projects, and the last error of each.

python examples/tool_errors_per_project.py [SINCE]     # a date or an age; by default all
"""

import sys
from collections import Counter

import turnlog


def main(since: str | None) -> None:
    calls = turnlog.open().calls(since=since)
    counts = Counter((call["project"], call["name"]) for call in calls)
    failed = [call for call in calls if call["ok"] is False]
    errors = Counter((call["project"], call["name"]) for call in failed)
    # Calls are sorted by time: later errors replace earlier ones.
    last = {(call["project"], call["name"]): call["error"] for call in failed}
    for (project, tool), count in errors.most_common():
        first_line = (last[project, tool] or "").strip().partition("\n")[0]
        print(f"{project}  {tool}  {count} of {counts[project, tool]}  {first_line[:60]}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
