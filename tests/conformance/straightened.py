"""Does an older client send all of a session that was cloned for it with `--straighten`?

    sudo unshare --net env PYTHONPATH=tests python tests/conformance/straightened.py \
        VERSION CLIENT [--save DIRECTORY] PATH ...

CLIENT is the command of an installed client of that version; a PATH is a session, or a directory
with sessions at any depth. Each session is cloned into a store of its own, and resumed against a
scripted API. What the client sends is compared with `context` of the clone; the known forms in
which older clients send the same content are named (see docs/context.md). A call, result or prompt
of the source that the client does not send is LOST. With `--save`, requests are kept by the content
of the clone, and only clones that changed are resumed again.

Prints a row for each session and how many of each verdict there are; exits with 1 if any is in
capitals: REFUSED although `check --for VERSION` says nothing, DIFFERENT, or LOST.
"""

import argparse
import hashlib
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, UUID, uuid5

from client import bring_up_loopback
from resume import Messages, resume, said, without_thinking

from turnlog.conversation.session import Session, open_session
from turnlog.edit.apply import create_session
from turnlog.edit.check.checks import check_session
from turnlog.edit.check.findings import Severity
from turnlog.edit.clone import plan_clone
from turnlog.edit.journal import Journal
from turnlog.edit.plan_builder import EditOptions, prepared
from turnlog.errors import TurnlogError
from turnlog.format.json_values import is_array, is_object
from turnlog.store.paths import Store, sidecar_folder

Block = dict[str, Any]
Sent = list[dict[str, Any]] | None
TASK = "task-notification"
SUMMARISE = "Your task is to create a detailed summary"
AGENT = re.compile(r"agentId: \w+")
FILLERS = {
    "Continue from where you left off.",
    "No response requested.",
    "(no content)",
    "[Tool use interrupted]",
    "Tool loaded.",
}
CALL_FIELDS = ("type", "id", "name", "input")
ELSEWHERE = ("other-folder", "not-a-uuid")
"""What is wrong with where a session lies; it is resumed in another place."""
TIMED_OUT = "timed out"


class Pair(NamedTuple):
    """A session and its clone, to be compared with what a client sent."""

    source: Session
    clone: Session


# What older clients send in another form: each function takes the difference away.


def without_texts(messages: Messages, is_unwanted: Callable[[str], bool]) -> Messages:
    """Leave out texts, and join what then stands in a row."""
    kept: Messages = []
    for role, blocks in messages:
        left = [b for b in blocks if b["type"] != "text" or not is_unwanted(b["text"].strip())]
        if kept and left and kept[-1][0] == role == "user":
            kept[-1] = (role, [*kept[-1][1], *left])
        elif left:
            kept.append((role, left))
    return kept


def with_blocks(messages: Messages, change: Callable[[Block], Block]) -> Messages:
    return [(role, [change(block) for block in blocks]) for role, blocks in messages]


def plain_call(block: Block) -> Block:
    """A call without the fields that newer clients add, such as `caller`."""
    return {key: block.get(key) for key in CALL_FIELDS} if is_call(block) else block


def without_plan(block: Block) -> Block:
    return block | {"input": {}} if block.get("name") == "ExitPlanMode" else block


def without_references(block: Block) -> Block:
    """A result without the tools that it loaded, or what stands in their place."""
    content = block.get("content")
    told = json.dumps(content)
    is_about_tools = '"tool_reference"' in told or "[Tool references removed" in told
    return block | {"content": None} if is_about_tools else block


def in_order(messages: Messages) -> Messages:
    """Answers with their calls behind what they say."""
    return [
        (role, sorted(blocks, key=lambda b: b["type"] == "tool_use")) for role, blocks in messages
    ]


def is_call(block: Block) -> bool:
    return block["type"] == "tool_use"


def local_commands(session: Session) -> set[str]:
    nodes = [node for node in session.nodes if node.kind == "system/local_command"]
    return {str(value.get("content")).strip() for value in session.values(nodes)}


def notifications(session: Session) -> set[str]:
    """Return the recorded reports of background tasks; newer clients send them in a reminder."""
    nodes = [node for node in session.nodes if node.kind == "user"]
    origins = [(value.get("origin"), value) for value in session.values(nodes)]
    told = [value for origin, value in origins if is_object(origin) and origin.get("kind") == TASK]
    texts = [value["message"].get("content") for value in told]
    return {
        str(block.get("text") if is_object(block) else block).strip()
        for content in texts
        for block in (content if is_array(content) else [content])
    }


Form = Callable[[Messages, Pair], Messages]
FORMS: dict[str, Form] = {
    "fillers": lambda found, _: without_texts(found, FILLERS.__contains__),
    "local commands": lambda found, pair: without_texts(
        found, local_commands(pair.clone).__contains__
    ),
    "notifications": lambda found, pair: without_texts(
        found, notifications(pair.clone).__contains__
    ),
    "compacted first": lambda found, _: without_texts(
        found, lambda text: text.startswith(SUMMARISE)
    ),
    "fields of calls": lambda found, _: with_blocks(found, plain_call),
    "plans": lambda found, _: with_blocks(found, without_plan),
    "tool references": lambda found, _: with_blocks(found, without_references),
    "order of calls": lambda found, _: in_order(found),
    "thinking of other models": lambda found, _: without_thinking(found),
}


def forms_between(ours: Messages, theirs: Messages, pair: Pair) -> list[str] | None:
    """Return the fewest forms that distinguish both; None if they differ otherwise."""

    def is_same(names: list[str]) -> bool:
        one, other = ours, theirs
        for name in names:
            one, other = FORMS[name](one, pair), FORMS[name](other, pair)
        return one == other

    names = list(FORMS)
    if not is_same(names):
        return None
    for name in list(FORMS):
        fewer = [each for each in names if each != name]
        names = fewer if is_same(fewer) else names
    return names


# What is lost


def essentials(messages: Messages, pair: Pair) -> set[str]:
    """Calls and results by their ids, and what the user said."""
    found: set[str] = set()
    for role, blocks in messages:
        for block in blocks:
            if block["type"] in ("tool_use", "tool_result"):
                found.add(f"{block['type']} {block.get('id') or block.get('tool_use_id')}")
            elif block["type"] == "text" and role == "user":
                text = block["text"].strip().replace(pair.source.id, pair.clone.id)
                found.add(AGENT.sub("agentId: …", text))
    return found


def lost(sent: Messages, pair: Pair) -> set[str]:
    """Calls, results and prompts that `context` of the source has, and the client does not send."""
    whole = essentials(without_texts(said(pair.source.context()), is_note_of(pair)), pair)
    return whole - essentials(sent, pair)


def is_note_of(pair: Pair) -> Callable[[str], bool]:
    """Return whether a message is no prompt: a filler, or a command of the client's own."""
    notes = local_commands(pair.source) | FILLERS
    return notes.__contains__


# One session


def sessions_in(path: Path) -> Iterator[Path]:
    """The main sessions in a directory, or the one session that a path names."""
    if path.is_file():
        yield path
        return
    for found in sorted(path.rglob("*.jsonl")):
        is_aside = found.name.startswith("agent-") or "subagents" in found.parts
        if not is_aside and found.name != "history.jsonl":
            yield found


def clone_of(store: Store, path: Path) -> Pair:
    """Clone a session with `--straighten`; its new ids depend on nothing but its content."""
    project = store.projects / "-work"
    project.mkdir(parents=True)
    shutil.copyfile(path, project / path.name)
    if sidecar_folder(path).is_dir():
        shutil.copytree(sidecar_folder(path), sidecar_folder(project / path.name))
    source = open_session(project / path.name)
    with prepared(source, EditOptions(["straighten"])) as made:
        clone = plan_clone(store, source, made.plan, made.tally, _numbered_ids(path))
        create_session(Journal(store.root / "journal"), "clone", source, clone.files)
    return Pair(source, open_session(clone.path))


def _numbered_ids(path: Path) -> Callable[[], str]:
    seed = hashlib.sha256(path.read_bytes()).hexdigest()
    numbers = count()
    return lambda: str(UUID(bytes=uuid5(NAMESPACE_OID, f"{seed} {next(numbers)}").bytes, version=4))


def sent_for(client: list[str], path: Path, saved: Path | None) -> Sent | str:
    """Return what the client sends when it resumes a session; cached."""
    key = hashlib.sha256(path.read_bytes()).hexdigest()
    kept = saved / f"{key}.json" if saved else None
    if kept and kept.exists():
        return json.loads(kept.read_text("utf-8"))
    try:
        # A client that finds its context full compacts it first, or refuses if it may not.
        sent = resume(client, path) or resume(client, path, {})
    except subprocess.TimeoutExpired:
        sent = TIMED_OUT
    if kept:
        kept.write_text(json.dumps(sent), "utf-8")
    return sent


def verdict(sent: Sent | str, pair: Pair, version: str) -> str:
    """Compare what a client sent with what turnlog says of the clone."""
    findings = [each for each in check_session(pair.clone, version) if each.kind not in ELSEWHERE]
    if sent is None or isinstance(sent, str):
        fatal = [each.kind for each in findings if each.severity is Severity.FATAL]
        word = sent or "refused"
        return f"{word}, as told: {', '.join(fatal)}" if fatal else word.upper()
    if any(not is_object(b) for m in sent if is_array(m["content"]) for b in m["content"]):
        is_told = any(each.kind == "bare-block" for each in findings)
        return "sent with bare blocks, as told: bare-block" if is_told else "BARE BLOCKS"
    ours, theirs = said(pair.clone.context()), said(sent)
    if missing := lost(theirs, pair):
        told = [each.kind for each in findings if each.is_serious]
        word = f"lost, as told: {', '.join(told)}" if told else f"LOST {len(missing)}"
        return f"{word} ({sorted(missing)[0][:80]!r})"
    names = forms_between(ours, theirs, pair)
    if names is None:
        return "DIFFERENT"
    return f"equal but for {', '.join(names)}" if names else "equal"


def judge(options: argparse.Namespace, path: Path) -> str:
    with tempfile.TemporaryDirectory() as folder:
        try:
            pair = clone_of(Store(Path(folder)), path)
        except TurnlogError as error:
            return f"not cloned: {error.message}"
        sent = sent_for(shlex.split(options.client), pair.clone.path, options.save)
        return verdict(sent, pair, options.version)


def main() -> int:
    """Clone and resume sessions, print a row for each, and how many of each verdict."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    parser.add_argument("client")
    parser.add_argument("--save", type=Path)
    parser.add_argument("paths", type=Path, nargs="+")
    options = parser.parse_args()
    bring_up_loopback()
    if options.save:
        options.save.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    for path in (session for each in options.paths for session in sessions_in(each)):
        found = judge(options, path)
        counts[found] += 1
        print(f"{found:40} {path}", flush=True)
    for found, number in counts.most_common():
        print(f"{number:6}  {found}")
    return 1 if any(found.split()[0].isupper() for found in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
