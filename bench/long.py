"""One very large session: hundreds of turns of calls with large results, never compacted."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import NamedTuple, TextIO

from texts import Call, Pools, make_long_calls, make_pools

NAME = "3f2a9c1e-0000-4000-8000-00000000000b"
TURNS = 240
BASE = (
    '"userType":"external","entrypoint":"cli","cwd":"/home/ada/shop","sessionId":"' + NAME + '",'
    '"version":"2.1.325","gitBranch":"main"'
)
USAGE = (
    '{"input_tokens":3,"cache_creation_input_tokens":159,"cache_read_input_tokens":12199,'
    '"output_tokens":11,"service_tier":"standard"}'
)


class Made(NamedTuple):
    """A session that was written."""

    size: int
    largest_turn: int
    """In bytes, as its time and memory are measured against it."""


def write_long_session(path: Path, size: int, seed: int = 1) -> Made:
    """Write a session of about `size` bytes; turns are of very different sizes."""
    rng = Random(seed)
    pools, calls = make_pools(rng, 200), make_long_calls(rng, 400)
    weights = [rng.uniform(0.2, 3) for _ in range(TURNS)]
    share = size / sum(weights)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        writer = _Writer(file, rng, pools, calls)
        turns = [writer.turn(int(share * weight)) for weight in weights]
    return Made(path.stat().st_size, max(turns))


class _Writer:
    def __init__(self, file: TextIO, rng: Random, pools: Pools, calls: list[Call]) -> None:
        self.file, self.rng, self.pools, self.calls = file, rng, pools, calls
        self.count = self.written = 0
        self.parent = "null"
        self.clock = datetime(2026, 1, 5, tzinfo=UTC)

    def turn(self, size: int) -> int:
        """A prompt, calls and results up to a size, and an answer; how many bytes all that is."""
        start = self.written
        prompt = self.rng.choice(self.pools.prompts)
        self._line(f'"type":"user","message":{{"role":"user","content":{prompt}}}')
        while self.written - start < size:
            self._step()
        self._say("end_turn", f'{{"type":"text","text":{self.rng.choice(self.pools.answers)}}}')
        return self.written - start

    def _step(self) -> None:
        """A message with calls, some of them parallel, whose results hang on their own calls."""
        chosen = self.rng.choices(self.calls, k=self.rng.choice((1, 1, 1, 2, 2, 4)))
        blocks: list[str] = []
        if self.rng.random() < 0.4:
            signature = self.rng.choice(self.pools.signatures)
            blocks.append(f'{{"type":"thinking","thinking":"","signature":{signature}}}')
        if self.rng.random() < 0.5:
            blocks.append(f'{{"type":"text","text":{self.rng.choice(self.pools.answers)}}}')
        names = [f"toolu_{self.count:08x}{place}" for place in range(len(chosen))]
        for name, call in zip(names, chosen, strict=True):
            use = f'"id":"{name}","name":"{call.name}","input":{call.input}'
            blocks.append(f'{{"type":"tool_use",{use}}}')
        sources = self._say("tool_use", *blocks)[-len(chosen) :]
        for name, call, source in zip(names, chosen, sources, strict=True):
            block = f'{{"tool_use_id":"{name}","type":"tool_result","content":{call.content}}}'
            message = f'"type":"user","message":{{"role":"user","content":[{block}]}}'
            self.parent = source
            self._line(
                message, f',"toolUseResult":{call.result},"sourceToolAssistantUUID":{source}'
            )

    def _say(self, reason: str, *blocks: str) -> list[str]:
        """A message of the model; the uuids of its lines, in quotes."""
        name = f"msg_{self.count:08x}"
        head = f'"message":{{"model":"claude-opus-5-5","id":"{name}","type":"message"'
        tail = f'"stop_reason":"{reason}","stop_sequence":null,"usage":{USAGE}}}'
        after = f'"requestId":"req_{self.count:08x}","type":"assistant"'
        return [
            self._line(f'{head},"role":"assistant","content":[{block}],{tail},{after}')
            for block in blocks
        ]

    def _line(self, body: str, after: str = "") -> str:
        """Add an entry that follows on the one before it; its uuid, in quotes."""
        self.count += 1
        self.clock += timedelta(milliseconds=self.rng.randrange(5, 4000))
        stamp = self.clock.isoformat(timespec="milliseconds")[:23] + "Z"
        uuid = f'"{self.rng.getrandbits(32):08x}-0000-4000-8000-{self.count:012x}"'
        line = (
            f'{{"parentUuid":{self.parent},"isSidechain":false,{body},"uuid":{uuid},'
            f'"timestamp":"{stamp}"{after},{BASE}}}\n'
        )
        self.file.write(line)
        self.written += len(line.encode())
        self.parent = uuid
        return uuid


def long_session(folder: Path, size: int) -> tuple[Path, Made]:
    """A long session, written unless it is there."""
    path, stamp = folder / f"{NAME}.jsonl", folder / "made.json"
    if not stamp.exists() or not path.exists():
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(json.dumps([size, write_long_session(path, size)]))
    wanted, made = json.loads(stamp.read_text())
    if wanted != size:
        stamp.unlink()
        return long_session(folder, size)
    return path, Made(*made)
