"""One session of very many short lines: prompts and answers in a single chain."""

from pathlib import Path

USER = (
    '{"parentUuid":%s,"isSidechain":false,"userType":"external","cwd":"/home/ada/shop",'
    '"sessionId":"3f2a9c1e-0000-4000-8000-00000000000a","version":"2.1.325","gitBranch":"main",'
    '"type":"user","message":{"role":"user","content":"question %d"},"uuid":"%s",'
    '"timestamp":"%s"}\n'
)
ASSISTANT = (
    '{"parentUuid":%s,"isSidechain":false,"userType":"external","cwd":"/home/ada/shop",'
    '"sessionId":"3f2a9c1e-0000-4000-8000-00000000000a","version":"2.1.325","gitBranch":"main",'
    '"message":{"id":"msg_%d","type":"message","role":"assistant","model":"claude-opus-5",'
    '"content":[{"type":"text","text":"answer"}],"stop_reason":"end_turn","usage":{"input_tokens":3,'
    '"cache_creation_input_tokens":159,"cache_read_input_tokens":12199,"output_tokens":11}},'
    '"type":"assistant","uuid":"%s","timestamp":"%s"}\n'
)


def write_chain(path: Path, count: int) -> None:
    """Write a session of so many lines, unless it is there."""
    if path.exists():
        return
    beside = path.with_suffix(".new")
    with beside.open("w") as file:
        parent = "null"
        for number in range(count):
            name = f"{number:08x}-0000-4000-8000-000000000000"
            hours, rest = divmod(number // 1000, 3600)
            time = f"{hours:02d}:{rest // 60:02d}:{rest % 60:02d}.{number % 1000:03d}"
            stamp = f"2026-01-01T{time}Z"
            file.write((ASSISTANT if number % 2 else USER) % (parent, number, name, stamp))
            parent = f'"{name}"'
    beside.replace(path)
