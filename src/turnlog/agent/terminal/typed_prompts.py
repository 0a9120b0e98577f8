"""The prompt history of a directory, shared with the client."""

from collections.abc import Iterator
from pathlib import Path
from time import time
from typing import Any

from turnlog.agent.terminal.pastes import NAMED
from turnlog.format.json_values import Fields
from turnlog.format.private_files import create_private_folder
from turnlog.store.paths import Store

MOST = 300


def typed_in(store: Store, project: Path, most: int = MOST) -> Iterator[str]:
    """Return a project's prompts, newest first, without consecutive duplicates."""
    from turnlog.format.decode import values_of
    from turnlog.format.json_values import is_object
    from turnlog.format.jsonl import read_lines_backwards

    last = None
    if not store.history.is_file():
        return
    for line in read_lines_backwards(store.history):
        for value in values_of(line):
            if is_object(value) and value.get("project") == str(project):
                text = _typed(value, store)
                # Consecutive repetitions count once.
                if text and text != last:
                    yield text
                    most -= 1
                last = text
        if most <= 0:
            return


def add_typed(store: Store, text: str, pasted: Fields, project: Path, session_id: str) -> None:
    """Append a prompt in the client's format."""
    from turnlog.edit.plan import encoded
    from turnlog.format.jsonl import append_lines

    entry: Fields = {
        "display": text,
        "pastedContents": pasted,
        "timestamp": round(time() * 1000),
        "project": str(project),
        "sessionId": session_id,
    }
    create_private_folder(store.root)
    append_lines(store.history, [encoded(entry)])


def _typed(value: Fields, store: Store) -> str:
    """Return a prompt, with its placeholders replaced by the pasted texts that were saved."""
    from turnlog.format.json_values import is_object

    pasted = value.get("pastedContents")
    contents = pasted if is_object(pasted) else {}
    text = str(value.get("display") or "")
    return NAMED.sub(lambda found: _pasted(contents.get(found[1]), store) or found[0], text)


def _pasted(value: Any, store: Store) -> str:
    from turnlog.format.json_values import is_object

    fields = value if is_object(value) else {}
    if isinstance(fields.get("content"), str):
        return fields["content"]
    # Use only the last component: a history file from elsewhere could name `../../.ssh/id_rsa`.
    name = Path(str(fields.get("contentHash"))).name
    try:
        return (store.pastes / f"{name}.txt").read_text("utf-8", "replace")
    except OSError:
        return ""
