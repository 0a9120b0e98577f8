"""Slash commands: built-in ones, and custom ones that override them."""

from pathlib import Path

import pytest

from turnlog.agent.config.custom_commands import CustomCommand
from turnlog.agent.terminal.completer import offers
from turnlog.agent.terminal.slash_commands import COMMANDS, OWN, known


def command(name: str) -> CustomCommand:
    return CustomCommand(name, f"My {name}", "…", Path("x.md"), "project")


def test_each_name_stands_for_one_command() -> None:
    names = [name for each in OWN for name in (each.name, *each.aliases)]
    assert len(names) == len(set(names)) == len(COMMANDS)


@pytest.mark.parametrize("name", ["clear", "reset"])
def test_a_command_of_the_users_own_takes_the_place_of_another(name: str) -> None:
    shown = [each.note for each in offers(f"/{name}", known({name: command(name)}), [])]
    assert shown == [f"My {name}"]


def test_a_command_that_only_the_model_may_call_takes_no_place() -> None:
    hidden = CustomCommand("clear", "Mine", "…", Path("x.md"), "project", for_user=False)
    (offer,) = offers("/clear", known({"clear": hidden}), [])
    assert offer.note == "Start a new conversation; this one stays"


def test_a_command_in_a_folder_is_offered_once_by_either_name() -> None:
    build = command("web:build")
    commands = known({"web:build": build, "build": build})
    assert [each.text for each in offers("/buil", commands, [])] == ["/web:build"]
    assert [each.text for each in offers("/web", commands, [])] == ["/web:build"]


def test_another_name_of_a_command_comes_before_longer_ones() -> None:
    commands = known({"newsletter": command("newsletter")})
    first, second = offers("/new", commands, [])
    assert (first.text, first.shown, second.text) == ("/new", "/clear", "/newsletter")


def test_a_command_that_needs_something_is_only_begun() -> None:
    begun = [
        each.is_begun for name in ("rename", "export") for each in offers(f"/{name}", known({}), [])
    ]
    assert begun == [True, False]
