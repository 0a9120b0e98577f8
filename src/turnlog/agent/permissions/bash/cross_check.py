"""Compare our parse of a command with bash's own.

`bash --pretty-print` reads commands from its input and prints them as it understood them, without
running or expanding anything. A command runs unprompted only if both parses agree, so a bug in our
parser makes a command ask instead of run.
"""

import os
import re
import secrets
import subprocess
from collections.abc import Iterator
from functools import lru_cache

from turnlog.agent.permissions.bash.parser import parse_printed, parse_script
from turnlog.agent.permissions.bash.syntax import HOLE, Script, SimpleCommand, Word
from turnlog.agent.workspace.shell.command_environment import bash_version

PRINTING = (5, 0)
"""The first version of bash that documents `--pretty-print`."""
REPRINTING = (5, 2)
"""The first version that also parses and reformats the commands in `$(…)`."""
LONGEST_WAIT = 5.0
"""Maximum seconds for one answer; it usually takes 5 ms, but a busy machine needs longer."""
LOCALE = ("LANG", "LC_ALL", "LC_CTYPE")
"""Variables that decide which bytes are letters; bash gets no others."""
MARK_FROM, MARK_TO = 941, 5_000_000
"""Descriptors of the redirections that mark words; the part's index is added to the second."""
MARK = re.compile(r"5[0-9]{6}")


class NoAnswer(Exception):
    """Bash did not answer, or did not accept the command."""


def find_disagreement(
    command: str, script: Script, bash: str, longest_wait: float = LONGEST_WAIT
) -> str | None:
    """Return why bash's parse of a command may differ from ours; None if they agree.

    `script` is our parse of the command. Also returns None for bash before 5.0, which cannot print
    its own.
    """
    version = bash_version(bash)
    if version is None:
        return "the version of bash is unknown"
    if version < PRINTING:
        return None
    marks_words = version >= REPRINTING
    texts = {command: script} | {text: parse_script(text) for text in script.backticked}
    marked = [_mark(*each) if marks_words else "" for each in texts.items()]
    try:
        printed = _print((*texts, *marked), bash, longest_wait)
    except NoAnswer as problem:
        return str(problem)
    for each, plain, behind in zip(texts.values(), printed, printed[len(texts) :], strict=False):
        if not _is_same(each, parse_printed(plain)):
            return "bash may read it differently"
        if marks_words and not _has_all_marks(each, parse_printed(behind)):
            return "bash may separate its words differently"
    return None


@lru_cache(maxsize=256)
def _print(commands: tuple[str, ...], bash: str, longest_wait: float) -> tuple[str, ...]:
    """Return commands as bash prints them; raise `NoAnswer` if it does not accept them all."""
    # Not `-c`, with which bash would run the text. `-p` and the lack of variables keep it from
    # reading BASH_ENV, functions and options of the environment.
    argv = [bash, "--noprofile", "--norc", "--pretty-print", "-p"]
    border = f": {secrets.token_hex(16)}\n"  # no command can contain it
    environment = {name: os.environ[name] for name in LOCALE if name in os.environ}
    try:
        answer = subprocess.run(
            argv,
            input=os.fsencode("".join(f"{command}\n{border}" for command in commands)),
            capture_output=True,
            timeout=longest_wait,
            check=False,
            cwd="/",
            env=environment,
        )
    except subprocess.TimeoutExpired as error:
        raise NoAnswer(f"bash did not parse it within {longest_wait:g} s") from error
    except (OSError, ValueError) as error:
        raise NoAnswer(f"bash cannot parse it: {error}") from error
    printed = os.fsdecode(answer.stdout).split(border)
    # Ignore stderr: bash warns at startup if the locale is not installed.
    if answer.returncode or len(printed) != len(commands) + 1:
        raise NoAnswer("bash does not accept it")
    return tuple(printed[:-1])


def _mark(command: str, script: Script) -> str:
    """Return a command with a redirection as a mark after each word.

    Bash prints redirections after the last word of a command. A mark that does not move there is
    inside of something that bash takes for quoted text, a comment or another command.
    """
    places = [
        (word.start + len(word.source), number)
        for number, part in enumerate(script.parts)
        for word in _marked_words(part)
    ]
    for place, number in sorted(places, reverse=True):
        mark = f" {MARK_FROM}>&{MARK_TO + number} "
        command = f"{command[:place]}{mark}{command[place:]}"
    return command


def _marked_words(part: SimpleCommand) -> Iterator[Word]:
    return (word for word in part.words if word.start >= 0 and not part.is_test)


def _has_all_marks(script: Script, found: Script) -> bool:
    """Return whether two parses agree and each part's marks follow its last word."""
    if not _is_same(script, found):
        return False
    for number, (part, printed) in enumerate(zip(script.parts, found.parts, strict=True)):
        marks = [copy for copy in printed.copies if MARK.fullmatch(copy.text)]
        expected = [str(MARK_TO + number)] * len(list(_marked_words(part)))
        if [mark.text for mark in marks] != expected:
            return False
        last = max((word.start for word in printed.words), default=-1)
        if any(mark.start < last for mark in marks):
            return False
    return True


def _is_same(script: Script, printed: Script) -> bool:
    """Return whether our parse equals that of bash's output, which raises no further doubts."""
    is_certain = not printed.is_misread and set(printed.unclear) <= set(script.unclear)
    if not is_certain or len(script.parts) != len(printed.parts):
        return False
    is_same = (
        script.inputs == printed.inputs
        and script.has_loop == printed.has_loop
        and script.has_background == printed.has_background
    )
    return is_same and all(map(_is_same_part, script.parts, printed.parts))


def _is_same_part(part: SimpleCommand, printed: SimpleCommand) -> bool:
    ours, theirs = _words_of(part), _words_of(printed)
    return (
        _shape(part) == _shape(printed)
        and len(ours) == len(theirs)
        and all(map(_is_same_word, ours, theirs))
    )


def _shape(part: SimpleCommand) -> tuple[object, ...]:
    names = tuple(each.name for each in part.assignments)
    writes = tuple(each.is_write for each in part.redirects)
    return names, writes, part.is_test, part.is_fed


def _words_of(part: SimpleCommand) -> list[Word]:
    """Return all words of a part, without the `-n` that bash adds in `[[ x ]]`."""
    words = [word for word in part.words if not (part.is_test and word.text == "-n")]
    words += [each.value for each in part.assignments]
    return words + [each.target for each in part.redirects]


def _is_same_word(word: Word, printed: Word) -> bool:
    if word.text != printed.text and "$'" in word.source:
        # Bash prints the text that escapes stand for: `'A'` for `$'\x41'`.
        pieces = map(re.escape, word.text.split(HOLE))
        return bool(re.fullmatch("(?s:.*)".join(pieces), printed.text))
    return (word.text, word.glob, word.has_tilde, word.may_split) == (
        printed.text,
        printed.glob,
        printed.has_tilde,
        printed.may_split,
    )
