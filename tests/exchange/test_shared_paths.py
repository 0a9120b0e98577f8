"""Paths of files on one machine, and their roles in an exchange with others."""

import pytest

from turnlog.exchange.shared_paths import path_of, role_of

ID = "5e551011-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    ("path", "role"),
    [
        (f"projects/-p/{ID}.jsonl", "projects/{id}.jsonl"),
        (f"projects/-p/{ID}/subagents/{ID}.jsonl", f"projects/{{id}}/subagents/{ID}.jsonl"),
        (f"projects/-p/{ID[:-1]}2.jsonl", f"projects/{ID[:-1]}2.jsonl"),
        (f"projects/-p/{ID}.jsonl.{{id}}", "projects/{id}.jsonl.{id}"),
        (f"todos/{ID}-agent-{ID}.json", f"todos/{{id}}-agent-{ID}.json"),
        (f"todos/{ID}-agent-{{id}}.json", "todos/{id}-agent-{id}.json"),
        (f"file-history/{ID}/{{id}}", "file-history/{id}/{id}"),
    ],
)
def test_a_path_is_restored_from_its_role(path: str, role: str) -> None:
    folder = "-p" if path.startswith("projects") else ""
    assert role_of(path, ID) == (role, folder)
    assert path_of(role, folder, ID) == path
