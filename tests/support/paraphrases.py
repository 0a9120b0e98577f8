"""A store of sessions with known subjects, and a question about each that shares no word with it.

tests/data/paraphrases.txt has a line for each: the prompt, the answer and the question.
"""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from support.build import assistant, call, result, session, stamp, text, user
from support.mcp_peer import put

DATA = Path(__file__).parent.parent / "data"
TUNED, HELD_OUT = "paraphrases.txt", "paraphrases_held_out.txt"
"""Weights were chosen with the first set; nothing was chosen with the second."""
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
PROJECTS = ("shop", "robots", "school")
SMALL_TALK = (
    ("Looks good, thanks. Run the checks again please.", "All of them pass."),
    ("Commit this.", "Committed on the current branch."),
    ("What does that function return?", "A list, the newest item first."),
    ("Please tidy up the imports.", "They are sorted now, and two unused ones are gone."),
)
FUNCTION_WORDS = frozenset(
    "a about after again all am an and any are as at be because been before but by can could did do"
    " does during each every for from had has have how i if in inside into is it its last me my no"
    " nobody not of on one only or our own same should so than that the their them then there these"
    " they this through to too two until us use used was we were what when where which who why will"
    " with without would you your yourself".split()
)
_ENDING = re.compile(r"(ations?|ings?|ies|ed|es|s|e|ers?|y|ly)$")


class Paraphrase(NamedTuple):
    """A session, and a question about it in other words."""

    id: str
    prompt: str
    answer: str
    question: str


def paraphrases(name: str = TUNED) -> list[Paraphrase]:
    """Return all of a set."""
    lines = (DATA / name).read_text("utf-8").splitlines()
    return [
        Paraphrase(f"{number:08x}-0000-4000-8000-000000000000", *line.split(" | "))
        for number, line in enumerate(lines, 0x5E551000)
    ]


def unrelated_questions() -> list[str]:
    """Return a hundred questions about nothing that the samples are about."""
    return (DATA / "unrelated_questions.txt").read_text("utf-8").splitlines()


def content_words(sentence: str) -> set[str]:
    """Return the stems of the words that say something."""
    words = re.findall(r"[^\W_]+", sentence.lower())
    return {_stem(word) for word in words if word not in FUNCTION_WORDS and len(word) > 1}


def _stem(word: str) -> str:
    return _ENDING.sub("", word)[:6] if len(word) > 3 else word


def write_sessions(root: Path, name: str = TUNED) -> list[Paraphrase]:
    """Write a session for each of a set, with calls and small talk around its subject."""
    found = paraphrases(name)
    for number, each in enumerate(found):
        project = f"/home/ada/{PROJECTS[number % len(PROJECTS)]}"
        start = START + timedelta(hours=7 * number)
        moments = iter([stamp(start + timedelta(seconds=20 * step)) for step in range(8)])
        asked, answered = SMALL_TALK[number % len(SMALL_TALK)]
        lines = [
            user(each.prompt, cwd=project, timestamp=next(moments)),
            assistant(call("Bash", {"command": "git status"}, "c1"), timestamp=next(moments)),
            result("c1", "nothing to commit", timestamp=next(moments)),
            assistant(text(each.answer), timestamp=next(moments)),
            user(asked, cwd=project, timestamp=next(moments)),
            assistant(text(answered), timestamp=next(moments)),
        ]
        put(root, project, session(*lines, session_id=each.id), each.id)
    return found
