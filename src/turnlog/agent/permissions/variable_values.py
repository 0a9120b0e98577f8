"""Check the values of variables: bash opens or evaluates some, and programs open others.

After `HISTFILE=.mcp.json`, `history -w` writes that file; after `PS4='$(cat .env)'`, `set -x`
shows that one; and `TMPDIR=hooks mktemp` creates a file where the link `hooks` leads.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from turnlog.agent.permissions.bash import (
    HOLE,
    UNKNOWN,
    Assignment,
    SimpleCommand,
    UnknownValue,
    Word,
    expand,
)
from turnlog.agent.permissions.derived_names import without_ending
from turnlog.agent.permissions.evaluated_text import CODE, NUMBER, evaluates_variables
from turnlog.agent.permissions.file_verdicts import READING, WRITING, restricted, unknown_files
from turnlog.agent.permissions.launchers import name_of, without_wrappers
from turnlog.agent.permissions.name_mentions import mentions_protected, mentions_rule
from turnlog.agent.permissions.option_variables import ASSIGNED, exported_variables
from turnlog.agent.permissions.path_access import is_guarded
from turnlog.agent.permissions.policy import AccessDecision, Policy, VerdictKind, may_apply
from turnlog.agent.permissions.programs import guess_paths
from turnlog.agent.permissions.restrictions import EVALUATORS, NAMING, is_safe_assignment
from turnlog.agent.permissions.shell_command import ShellCommand
from turnlog.agent.permissions.working_directories import path_in
from turnlog.agent.workspace.access import AMBIGUOUS_NAMES

# IFS is not among them: it splits only what is known at run time, which counts as unknown anyway.
SHELL_VARIABLE = re.compile(
    r"""BASH_\w+|BASHOPTS|CDPATH|EXECIGNORE|FCEDIT|FIGNORE|GLOBIGNORE|HISTCMD|HISTFILE|HISTFILESIZE
    |MAILPATH|OPTIND|POSIXLY_CORRECT|PROMPT_COMMAND|PS[0-4]|S?RANDOM|SHELLOPTS""",
    re.X,
)
"""Variables whose value bash itself opens, evaluates, or takes for an option."""
PROMPT = re.compile(r"PS[0-4]")
PLAIN_PROMPT = re.compile(r"(?:[^$`\\]|\\[^0-9])*", re.S)
NOTHING = frozenset(("", "/dev/null"))
SEARCHED = re.compile(r"\w*PATH|KUBECONFIG|AWS_\w+_FILE")
"""Variables with names of files that programs only read."""
OWN_FILE = re.compile(r"-[acdnrwps]*[anrw][acdnrwps]*")
"""An option of `history` that reads or writes a file: HISTFILE, unless another one is named."""
SWITCHES = frozenset("bash shopt".split())
CDABLE = "cdable_vars"
"""The option with which `cd name` changes to the directory in the variable `name`."""
MOST_GUESSES = 100
UNKNOWN_FILE = "which file bash uses is only known when it runs"


def judge_values(command: ShellCommand) -> Iterator[AccessDecision]:
    """Ask about values that bash opens or evaluates, and that name protected or denied files."""
    parts, policy = [inner.part for inner in command.inner], command.policy
    exported = [*exported_variables(parts), *_given(parts)]
    for each in _set_variables(parts):
        if SHELL_VARIABLE.fullmatch(each.name) and not _is_plain(each):
            yield unknown_files(f"bash itself uses {each.name}", policy)
        if policy.has_file_rules:
            yield from _judge_mentions(each, command)
    for each in dict.fromkeys(exported):
        if not is_safe_assignment(each) and not SEARCHED.fullmatch(each.name):
            yield from _judge_protected(each, command)
    if any(map(_uses_own_file, parts)):
        yield unknown_files(UNKNOWN_FILE, policy)
    if policy.has_file_rules and evaluates_variables(command.script, values_of(command)):
        reason = "it evaluates text that is only known when it runs"
        yield AccessDecision(VerdictKind.ASK, reason, is_firm=True)


def values_of(command: ShellCommand) -> dict[str, list[Word]]:
    """Return the values that a command gives to each variable that it sets."""
    loops = command.script.loop_words
    values = {name: list(words) for name, words in loops.items()}
    for part in (inner.part for inner in command.inner):
        for each in _set_by(part):
            # The words of a loop are known; its part only says that it sets the variable.
            if each.name not in loops or part.source != f"for {each.name}":
                values.setdefault(each.name, []).append(each.value)
    return values


def _set_variables(parts: Iterable[SimpleCommand]) -> list[Assignment]:
    return list(dict.fromkeys(each for part in parts for each in _set_by(part)))


def _set_by(part: SimpleCommand) -> Iterator[Assignment]:
    """Yield the variables that a part sets, also by a builtin: `read x`, `printf -v x`."""
    yield from part.assignments
    words = without_wrappers(part.words)
    name = name_of(words[0]) if words and not part.is_test else ""
    if name not in EVALUATORS or name == "unset":
        return
    for before, word in pairwise(words):
        found = ASSIGNED.match(word.text)
        if not found:
            continue
        is_name = name in NAMING or (name == "printf" and before.text == "-v")
        if found.end() == len(word.text) and found[2] is not None:
            yield Assignment(found[1], Word(found[2]))
            # After `declare -n x=HISTFILE`, assignments to `x` set HISTFILE.
            yield Assignment(found[2], UNKNOWN)
        elif is_name or "[" in word.text or SHELL_VARIABLE.fullmatch(word.text):
            yield Assignment(found[1], UNKNOWN)


def _given(parts: Iterable[SimpleCommand]) -> Iterator[Assignment]:
    """Yield the variables that only one program gets: `TMPDIR=x mktemp`."""
    return (each for part in parts if part.words for each in part.assignments)


def _is_plain(assignment: Assignment) -> bool:
    """Return whether a value does nothing: a number, no file, a prompt without substitutions."""
    text, source = assignment.value.text, assignment.value.source
    if assignment.name == "POSIXLY_CORRECT":
        return False
    if PROMPT.fullmatch(assignment.name):
        return HOLE not in text and PLAIN_PROMPT.fullmatch(text) is not None
    return text in NOTHING or text.isdecimal() or NUMBER.fullmatch(source) is not None


def _uses_own_file(part: SimpleCommand) -> bool:
    """Return whether a part uses the file in HISTFILE, or the directory in any variable."""
    words = without_wrappers(part.words)
    name, texts = name_of(words[0]) if words else "", [word.text for word in words[1:]]
    if name in SWITCHES:
        return CDABLE in texts
    named = [text for text in texts if not text.startswith("-")]
    return name == "history" and not named and any(map(OWN_FILE.fullmatch, texts))


def _judge_mentions(assignment: Assignment, command: ShellCommand) -> Iterator[AccessDecision]:
    """Ask about a value that names a file of a rule, or that may be run as code."""
    policy, text = command.policy, assignment.value.text
    if is_safe_assignment(assignment) or text in NOTHING:
        return
    if CODE.search(text):
        yield AccessDecision(VerdictKind.ASK, f"{assignment.name} may be run", is_firm=True)
    for rule in (*policy.deny, *policy.ask):
        if rule.tool in ("Read", "Edit") and mentions_rule(rule, [text.replace(HOLE, " ")]):
            yield may_apply(rule)
    for path in _paths(assignment.value, command):
        for denying, asking in ((READING, "Read"), (WRITING, "Edit")):
            if found := restricted(path, policy, denying, asking):
                yield AccessDecision(VerdictKind.ASK, found.reason, is_firm=True)


def _judge_protected(assignment: Assignment, command: ShellCommand) -> Iterator[AccessDecision]:
    """Ask about a variable of a program that may write a protected file by it."""
    policy: Policy = command.policy
    if mentions_protected([assignment.value.text.replace(HOLE, " ")]):
        reason = f"{assignment.name} names a protected file"
        yield AccessDecision(VerdictKind.ASK, reason, is_guarded=True)
    for path in _paths(assignment.value, command):
        if path.name not in AMBIGUOUS_NAMES and is_guarded(
            path, policy.directories, policy.added_path
        ):
            yield AccessDecision(VerdictKind.ASK, f"{path} is protected", is_guarded=True)


def _paths(value: Word, command: ShellCommand) -> Iterator[Path]:
    """Yield the paths that a value may contain."""
    for place in command.places:
        for text in _guesses(value, place):
            try:
                yield path_in(text, place)
            except UnknownValue:
                continue


def _guesses(value: Word, place: Path | None) -> list[str]:
    # Bash expands no patterns in an assignment. `$PWD/x` and `$(pwd)/x` may be `x`.
    text = value.text.lstrip(HOLE).lstrip("/") if value.text.startswith(HOLE) else value.text
    if value.has_tilde:
        try:
            (text,) = expand(Word(text, has_tilde=True), place or Path("/"))
        except UnknownValue:
            return []
    found = [text, *guess_paths(text)]
    found += [without_ending(each) or "" for each in found]
    return [each for each in dict.fromkeys(found) if each and HOLE not in each][:MOST_GUESSES]
