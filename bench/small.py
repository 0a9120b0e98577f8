"""Write a store of many small sessions, one turn each: what matters is the number of files.

python bench/small.py --sessions 100000 --to /tmp/small
"""

import argparse
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from uuid import UUID

SESSIONS = 100_000
PROJECTS = 40
DAYS = 365
NEWEST = datetime(2026, 11, 15, tzinfo=UTC)
MODELS = ("claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929", "claude-haiku-4-5-20251001")
WORDS = "fix the error in this test and run all checks again before you commit it".split()


def write_small(folder: Path, sessions: int = SESSIONS, seed: int = 1) -> None:
    """Fill `folder` with sessions of two lines, laid out as the client does."""
    rng = Random(seed)
    for number in range(sessions):
        project = f"project-{number % PROJECTS}"
        target = folder / "projects" / f"-home-ada-{project}"
        if number < PROJECTS:
            target.mkdir(parents=True, exist_ok=True)
        session = _uuid(rng)
        lines = _turn(rng, session, f"/home/ada/{project}")
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        (target / f"{session}.jsonl").write_text(text)


def _turn(rng: Random, session: str, cwd: str) -> list[dict[str, object]]:
    asked = NEWEST - timedelta(seconds=rng.randrange(DAYS * 86400))
    said = asked + timedelta(seconds=rng.randrange(1, 60))
    prompt, answer = _uuid(rng), _uuid(rng)
    common: dict[str, object] = {
        "isSidechain": False,
        "userType": "external",
        "cwd": cwd,
        "sessionId": session,
        "version": "2.1.29",
        "gitBranch": "main",
    }
    usage = {name: rng.randrange(limit) for name, limit in USAGE.items()}
    message: dict[str, object] = {
        "id": f"msg_{rng.getrandbits(96):024x}",
        "type": "message",
        "role": "assistant",
        "model": rng.choice(MODELS),
        "content": [{"type": "text", "text": _text(rng)}],
        "stop_reason": "end_turn",
        "usage": usage,
    }
    return [
        {"parentUuid": None, **common, "type": "user", "uuid": prompt, "timestamp": _time(asked)}
        | {"message": {"role": "user", "content": _text(rng)}},
        {"parentUuid": prompt, **common, "type": "assistant", "uuid": answer}
        | {"timestamp": _time(said), "requestId": f"req_{rng.getrandbits(96):024x}"}
        | {"message": message},
    ]


def _text(rng: Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randrange(8, 60)))


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _uuid(rng: Random) -> str:
    return str(UUID(int=rng.getrandbits(128), version=4))


USAGE = {
    "input_tokens": 100,
    "output_tokens": 2000,
    "cache_creation_input_tokens": 20_000,
    "cache_read_input_tokens": 100_000,
}
"""Counts of an answer, and what they stay below."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a store of many small sessions.")
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER")
    options = parser.parse_args()
    write_small(options.to, options.sessions)


if __name__ == "__main__":
    main()
