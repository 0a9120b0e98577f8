"""Write a lake of made-up rows, without session files: more messages than any disk has files for.

    python bench/lake_rows.py --messages 100000000 --to /tmp/lake

Rows have the schema of a pushed lake and are live. Only digests are left out, so `verify` fails.
"""

import argparse
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from turnlog.lake.lake_parts import PartPlace, new_part, table_of_rows
from turnlog.lake.lake_schema import KEYS, TABLE_OF_UNITS, arrow_schema, pyarrow
from turnlog.lake.live_units import UnitRow
from turnlog.lake.unit_writer import SCHEMA

PER_FILE = 500
"""Messages of a session."""
PER_PART = 50_000
"""Messages of a machine on a day."""
PER_TURN = 20
PER_CALL = 10
MACHINES = 40
FIRST_DAY = np.datetime64("2026-01-01")
MODELS = ("claude-opus-5-5", "claude-sonnet-5", "claude-haiku-4-5")
RATES = (5.0, 25.0, 6.25, 10.0, 0.5)
"""Microdollars per token of input, output, cache writes and cache reads."""
TOOLS = ("Bash", "Read", "Edit", "Grep", "Write")
pa = pyarrow()
HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


def write_lake(folder: Path, messages: int, seed: int = 1) -> int:
    """Write parts with about this many messages; return the exact number."""
    parts = max(1, messages // PER_PART)
    for number in range(parts):
        day = FIRST_DAY + number // MACHINES
        _Part(np.random.default_rng([seed, number]), folder, number % MACHINES, str(day)).write()
    return parts * PER_PART


class _Part:
    """All rows of a machine on a day."""

    def __init__(self, rng: np.random.Generator, folder: Path, machine: int, day: str) -> None:
        self.rng, self.folder, self.day = rng, folder, day
        self.machine = sha256(b"machine %d" % machine).hexdigest()[:16]
        self.user, self.host = f"user-{machine:02}", f"host-{machine:02}"
        self.write_id = rng.bytes(8).hex()
        self.start = np.datetime64(day).astype("datetime64[s]").astype(np.int64)
        self.files = [rng.bytes(8).hex() for _ in range(PER_PART // PER_FILE)]
        self.units: list[UnitRow] = []

    def write(self) -> None:
        self._write("messages", PER_PART, self._messages())
        self._write("turns", PER_PART // PER_TURN, self._turns())
        self._write("calls", PER_PART // PER_CALL, self._calls())
        self._write("sessions", len(self.files), self._sessions())
        rows = table_of_rows(TABLE_OF_UNITS, self.units)
        self._put(*new_part(TABLE_OF_UNITS, None, self.machine, rows))

    def _write(self, table: str, count: int, columns: dict[str, Any]) -> None:
        schema = arrow_schema(table)
        of_file = pa.DictionaryArray.from_arrays(
            pa.array(np.arange(count) * len(self.files) // count, pa.int32()), self.files
        )
        keys = (self.machine, of_file.cast(pa.string()), self.day, self.write_id)
        columns = dict(zip((each.name for each in KEYS), keys, strict=True)) | columns
        arrays = [_array(columns.get(field.name), field.type, count) for field in schema]
        place, content = new_part(
            table, self.day, self.machine, pa.Table.from_arrays(arrays, schema=schema)
        )
        self._put(place, content)
        each = count // len(self.files)
        about = (place.digest, each, None, False, None, 0.0, SCHEMA, None, self.user, self.host)
        self.units += (
            UnitRow(self.machine, table, file, self.day, 1, 0, self.write_id, *about)
            for file in self.files
        )

    def _put(self, place: PartPlace, content: bytes) -> None:
        path = self.folder / place.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def _times(self, count: int) -> dict[str, Any]:
        """Lines and times that rise within each file."""
        within = count // len(self.files)
        line = np.tile(np.arange(1, within + 1), len(self.files))
        base = np.repeat(self.rng.integers(0, 40_000, len(self.files)), within)
        at = self.start + base + line * (40_000 / within)
        return {"line": line, "at": at, "quarter": at.astype(np.int64) // 900}

    def _messages(self) -> dict[str, Any]:
        rng, n = self.rng, PER_PART
        counts = {
            "input": rng.integers(1, 9, n),
            "output": rng.integers(5, 1500, n),
            "cache_write_5m": np.zeros(n, np.int64),
            "cache_write_1h": rng.integers(200, 6000, n),
            "cache_read": rng.integers(10_000, 180_000, n),
        }
        cost = sum(count * rate for count, rate in zip(counts.values(), RATES, strict=True))
        rates = {f"rate_{name}": _decimal(rate) for name, rate in zip(counts, RATES, strict=True)}
        return {
            **self._times(n),
            **counts,
            **rates,
            "turn_line": np.arange(n) % PER_FILE // PER_TURN * PER_TURN + 1,
            "key": _ids(rng, "msg_01", n),
            "request": _ids(rng, "req_01", n),
            "model": _chosen(rng, MODELS, n),
            "branch": "main",
            "version": "2.1.325",
            "stop_reason": "tool_use",
            "is_copy": False,
            "is_subagent": False,
            "is_understated": False,
            "searches": 0,
            "cache_created": counts["cache_write_1h"],
            "created_5m": 0,
            "created_1h": counts["cache_write_1h"],
            "rate_search": _decimal(10_000),
            "cost": pa.array(cost).cast(pa.decimal128(18, 6)),
        }

    def _turns(self) -> dict[str, Any]:
        n = PER_PART // PER_TURN
        times = self._times(n)
        ended = times["at"] + 30
        return {
            **times,
            "key": _ids(self.rng, "h-", n),
            "kind": "typed",
            "ended": ended,
            "branch": "main",
            "model": _chosen(self.rng, MODELS, n),
            "is_copy": False,
        }

    def _calls(self) -> dict[str, Any]:
        n = PER_PART // PER_CALL
        times = self._times(n)
        return {
            **times,
            "turn_line": times["line"],
            "key": _ids(self.rng, "toolu_01", n),
            "tool": _chosen(self.rng, TOOLS, n),
            "branch": "main",
            "model": _chosen(self.rng, MODELS, n),
            "result_line": times["line"],
            "ended": times["at"] + 1,
            "is_error": self.rng.random(n) < 0.04,
            "is_rejected": False,
            "added": self.rng.integers(0, 20, n),
            "removed": self.rng.integers(0, 10, n),
            "is_copy": False,
            "is_subagent": False,
        }

    def _sessions(self) -> dict[str, Any]:
        n = len(self.files)
        return {
            "opened_by": _ids(self.rng, "", n),
            "session": _ids(self.rng, "", n),
            "is_subagent": False,
            "is_gone": False,
            "user": self.user,
            "host": self.host,
            "project": f"project-{self.rng.integers(20)}",
            "project_key": "h-0",
            "path_key": _ids(self.rng, "h-", n),
            "store_key": "h-1",
            "started": float(self.start),
            "ended": float(self.start + 80_000),
            "size": 7_000_000,
        }


def _array(values: Any, kind: Any, count: int) -> Any:
    if values is None or isinstance(values, str | int | float | bool | pa.Scalar):
        found: Any = values if isinstance(values, pa.Scalar) else pa.scalar(values, kind)
        return pa.repeat(found.cast(kind), count)
    return pa.array(values).cast(kind)


def _decimal(value: float) -> Any:
    return pa.scalar(float(value)).cast(pa.decimal128(18, 6))


def _ids(rng: np.random.Generator, prefix: str, count: int, digits: int = 22) -> Any:
    """Random ids as the API makes them, each different."""
    width = len(prefix) + digits
    cells = np.empty((count, width), np.uint8)
    cells[:, : len(prefix)] = np.frombuffer(prefix.encode(), np.uint8)
    cells[:, len(prefix) :] = HEX[rng.integers(0, 16, (count, digits), np.uint8)]
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(cells))


def _chosen(rng: np.random.Generator, names: tuple[str, ...], count: int) -> Any:
    codes = pa.array(rng.integers(0, len(names), count), pa.int32())
    return pa.DictionaryArray.from_arrays(codes, list(names)).cast(pa.string())


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a lake of made-up rows.")
    parser.add_argument("--messages", type=int, default=100_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER")
    options = parser.parse_args()
    print(write_lake(options.to, options.messages, options.seed))


if __name__ == "__main__":
    main()
