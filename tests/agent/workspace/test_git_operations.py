"""Results of shell commands name commits, pushes and pull requests, as those of the client do."""

import subprocess
from pathlib import Path

import pytest

from support.chatting import hold_chat, lines_in
from support.scripted_api import ScriptedApi, called, said
from turnlog.agent.chat.assembly import ChatOptions
from turnlog.agent.workspace.git_operations import git_operation
from turnlog.format.json_values import Fields
from turnlog.store.paths import Store

MADE = {"sha": "5429ef1", "kind": "committed", "branch": "main"}
SHOP = "https://github.com/octo/shop/pull/7"


@pytest.mark.parametrize(
    ("command", "printed", "operations"),
    [
        ("git -C . commit -m a", "[main 5429ef1] a", {"commit": MADE}),
        ("git -c a=b --no-pager commit", "[main (root-commit) 5429ef1] a", {"commit": MADE}),
        ("git commit --amend", "[main 5429ef1] a", {"commit": MADE | {"kind": "amended"}}),
        ("git cherry-pick t", "[main 5429ef1] a", {"commit": MADE | {"kind": "cherry-picked"}}),
        (
            "git commit -m a",
            "[detached HEAD 5429ef1] a",
            {"commit": {"sha": "5429ef1", "kind": "committed"}},
        ),
        (
            "git commit -m a && git push",
            "[main 5429ef1] a\nTo ../o.git\n   5b43615..5429ef1  main -> main",
            {"commit": MADE, "push": {"branch": "main"}},
        ),
        ("git push", " * [new branch]      HEAD -> other", {"push": {"branch": "other"}}),
        ("git push", " ! [rejected]        main -> main (fetch first)", {}),
        (
            "git merge --no-ff -m why t2",
            "Merge made by the 'ort' strategy.",
            {"branch": {"ref": "t2", "action": "merged"}},
        ),
        ("git merge t2", "Already up to date.", {}),
        (
            "git rebase t2",
            "Successfully rebased and updated refs/heads/main.",
            {"branch": {"ref": "t2", "action": "rebased"}},
        ),
        ("gh pr create", SHOP, {"pr": {"number": 7, "url": SHOP, "action": "created"}}),
        ("gh pr merge 7 --auto", "octo#7", {"pr": {"number": 7, "action": "auto-merge-enabled"}}),
        ("gh pr view 7", SHOP, {}),
        ("git commit-tree a", "[main 5429ef1] a", {}),
        ("git log", "[main 5429ef1] a", {}),
    ],
)
def test_an_operation_counts_if_it_was_asked_for_and_printed(
    command: str, printed: str, operations: Fields
) -> None:
    assert git_operation(command, printed) == operations


def test_many_options_take_linear_time() -> None:
    assert git_operation("git " + "-c " * 5_000 + "!", "") == {}


def test_the_result_of_a_command_names_its_commit(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    names = "-c user.name=Ada -c user.email=ada@example.com"
    # A repository of its own: the folder of the tests may lie in that of turnlog.
    subprocess.run(["git", "init", "-q", "-b", "main", project], check=True)
    command = f"git {names} commit --allow-empty -m one"
    api.replies[:] = [called(("t1", "Bash", {"command": command})), said("Done.")]
    lines = lines_in(hold_chat(store, ChatOptions(cwd=project, allow=("Bash",)), "go"))
    (result,) = [line["toolUseResult"] for line in lines if "toolUseResult" in line]
    assert "gitOperation" in result, result
    made = result["gitOperation"]["commit"]
    assert made["sha"] in result["stdout"]
    assert (made["kind"], made["branch"]) == ("committed", "main")
