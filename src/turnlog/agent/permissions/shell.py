"""Shell commands taken apart: each program that would run, and what is redirected where.

What cannot be told with certainty is said to be unclear; the parts that were found count anyway.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct, field

from turnlog.agent.permissions.words import (
    EXPANSIONS,
    UNKNOWN,
    Unclear,
    Word,
    is_torn,
    text_of,
    word_of,
)

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

LONGEST = 10_000
"""Characters of a command that is looked at."""
GROUPS = frozenset(
    """
    program list pipeline subshell compound_statement if_statement elif_clause else_clause
    while_statement do_group for_statement case_statement case_item negated_command
    command_substitution process_substitution
    """.split()
)
SIGNS = frozenset(
    """
    && || ; ;; ;& ;;& | |& & ( ) { } ! if then elif else fi while until do done for select in case
    esac $( ` <( >(
    """.split()
) | {"\n", ""}
WORDS = EXPANSIONS | frozenset(
    "word number string raw_string ansi_c_string concatenation command_name".split()
)
APART = WORDS | {"variable_assignment", "variable_name"}
"""What must have a space in between."""
WRITING = frozenset("> >> >| &> &>> >&".split())
COPYING = frozenset(">&- <&- <&".split())
"""Redirections to what is open already."""
ON_ONE_LINE = frozenset("command declaration_command redirected_statement file_redirect".split())
GROUP = re.compile(r"\{\s")
RUNS_INSIDE = re.compile(r"\$\{[\s|]")
NAMED_DESCRIPTOR = re.compile(r"\{\w+\}[<>]")
OPAQUE = frozenset("string heredoc_body heredoc_redirect expansion arithmetic_expansion".split())
"""Whose pieces the parser does not account for one by one."""


class Assigned(Struct, frozen=True):
    """A variable that is set."""

    name: str
    value: Word


class Part(Struct, frozen=True):
    """One program with its arguments, or what a redirection or an assignment does without one."""

    words: tuple[Word, ...] = ()
    assigned: tuple[Assigned, ...] = ()
    writes: tuple[Word, ...] = ()
    reads: tuple[Word, ...] = ()
    source: str = ""
    is_test: bool = False
    """Whether it is a condition in brackets."""


class Script(Struct):
    """All parts of a command."""

    parts: list[Part] = field(default_factory=list[Part])
    unclear: list[str] = field(default_factory=list[str])
    """Why it cannot be told with certainty what would run."""


def parse_script(command: str) -> Script:
    """Take a command apart.

    >>> [" ".join(word.text for word in part.words) for part in parse_script("ls | wc -l").parts]
    ['ls', 'wc -l']
    """
    script = Script()
    if len(command) > LONGEST:
        return Script(unclear=[f"it is longer than {LONGEST:,} characters"])
    try:
        source = command.encode()
        script.unclear += _hidden(command)
        root = _parser().parse(source).root_node
        if root.has_error or any(map(is_torn, _all_in(root))):
            script.unclear.append("it cannot be parsed")
        _visit(root, script)
    except UnicodeEncodeError:
        script.unclear.append("it is not text")
    except RecursionError:
        script.unclear.append("it is nested too deeply")
    return script


def _parser() -> "Parser":
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _all_in(root: "Node") -> Iterator["Node"]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += node.children
        yield node


def _hidden(command: str) -> Iterator[str]:
    """Characters that a reader does not see, or that the shell joins words with."""
    if any(_is_hidden(char) for char in command):
        yield "it has hidden characters"
    if NAMED_DESCRIPTOR.search(command):
        yield "it names a file descriptor"
    if RUNS_INSIDE.search(command):
        yield "it runs a command inside of ${ }"
    for place, _ in enumerate(command):
        # The parser takes this for a space; the shell for nothing at all.
        if command.startswith("\\\n", place) and not _is_between_words(command, place):
            yield "a line goes on inside of a word"
            return


def _is_hidden(char: str) -> bool:
    return char not in " \t\n" and unicodedata.category(char) in (
        "Cc",
        "Cf",
        "Zs",
        "Zl",
        "Zp",
        "Co",
    )


def _is_between_words(command: str, place: int) -> bool:
    before, after = command[:place], command[place + 2 :]
    return before.endswith((" ", "\t", "\n")) or (
        not before.endswith("\\") and after.startswith((" ", "\t", "\n"))
    )


def _visit(node: "Node", script: Script) -> None:
    if node.type in GROUPS:
        _visit_group(node, script)
    elif visit := KINDS.get(node.type):
        visit(node, script)
    elif node.type in WORDS:
        _visit_inside(node, script)
    elif node.type not in ("comment", "variable_name", "heredoc_start", "heredoc_end"):
        script.unclear.append(f"it has {node.type.replace('_', ' ')}")
        for child in node.named_children:
            _visit(child, script)


def _visit_group(node: "Node", script: Script) -> None:
    # The parser sees a group where the shell, without a space, sees a word.
    is_word = node.type == "compound_statement" and not GROUP.match(text_of(node))
    if is_word or not _is_whole(node):
        script.unclear.append("it cannot be parsed")
    if node.type == "for_statement":
        names = [text_of(each) for each in node.named_children if each.type == "variable_name"]
        assigned = tuple(Assigned(name, UNKNOWN) for name in names)
        script.parts.append(Part(assigned=assigned, source=f"for {' '.join(names)}"))
    for child in node.children:
        if child.is_named:
            _visit(child, script)
        elif text_of(child).strip(" \t") not in SIGNS:
            script.unclear.append(f"it has {text_of(child)}")


def _is_whole(node: "Node") -> bool:
    """Whether nothing stands between the pieces of a node but spaces, and between words some."""
    if node.type in OPAQUE or not node.children:
        return True
    source, start, place = node.text or b"", node.start_byte, node.start_byte
    spaces = b" \t" if node.type in ON_ONE_LINE else b" \t\n"
    before = ""
    for child in node.children:
        gap = source[place - start : child.start_byte - start]
        if gap.replace(b"\\\n", b"").strip(spaces):
            return False
        needs_gap = before in APART or before.endswith("_redirect")
        if not gap and needs_gap and child.type in APART:
            return False
        place, before = max(place, child.end_byte), child.type
    return True


def _visit_inside(node: "Node", script: Script) -> None:
    """What runs inside of a word."""
    if node.type in ("command_substitution", "process_substitution"):
        written = text_of(node)
        if written.lstrip().startswith("`") and "\\" in written:
            script.unclear.append("it has quotes inside of backticks")
        _visit_group(node, script)
        return
    if node.type == "arithmetic_expansion":
        script.unclear.append("it calculates")
    if node.type == "expansion" and any(sign in text_of(node) for sign in "@![`"):
        script.unclear.append(f"{text_of(node)} has no plain meaning")
    for child in node.named_children:
        _visit_inside(child, script)


def _words(nodes: list["Node"], script: Script) -> tuple[Word, ...]:
    words: list[Word] = []
    for node in nodes:
        _visit_inside(node, script)
        try:
            words.append(word_of(node))
        except Unclear as unclear:
            script.unclear.append(str(unclear))
            words.append(UNKNOWN)
    return tuple(words)


def _visit_command(node: "Node", script: Script, redirects: tuple["Node", ...] = ()) -> None:
    if not _is_whole(node):
        script.unclear.append("it cannot be parsed")
    assigned: list[Assigned] = []
    words: list[Node] = []
    within: list[Node] = []
    for child in node.children:
        if child.type == "variable_assignment":
            assigned.append(_assigned(child, script))
        elif child.type.endswith("_redirect"):
            within.append(child)
        elif child.is_named:
            words.append(child)
        else:
            script.unclear.append(f"it has {text_of(child)}")
    _add(
        script,
        Part(_words(words, script), tuple(assigned), source=text_of(node)),
        [*within, *redirects],
    )


def _visit_declaration(node: "Node", script: Script) -> None:
    """`export`, `declare`, `unset` …, which set variables as arguments."""
    if not _is_whole(node):
        script.unclear.append("it cannot be parsed")
    words = [Word(text_of(node.children[0]))]
    for child in node.named_children:
        if child.type == "variable_assignment":
            words.append(_setting(_assigned(child, script)))
        else:
            words += _words([child], script)
    script.parts.append(Part(tuple(words), source=text_of(node)))


def _setting(assigned: Assigned) -> Word:
    return Word(f"{assigned.name}={assigned.value.text}")


def _visit_assignment(node: "Node", script: Script) -> None:
    nodes = [node] if node.type == "variable_assignment" else node.named_children
    assigned = tuple(_assigned(each, script) for each in nodes)
    script.parts.append(Part(assigned=assigned, source=text_of(node)))


def _assigned(node: "Node", script: Script) -> Assigned:
    name, *rest = node.named_children or [node]
    _visit_inside(name, script)
    if len(rest) == 1 and rest[0].type in WORDS:
        return Assigned(text_of(name), _words(rest, script)[0])
    for child in rest:
        _visit_inside(child, script)
    return Assigned(text_of(name), UNKNOWN if rest else Word(""))


def _visit_test(node: "Node", script: Script) -> None:
    _visit_inside(node, script)
    script.parts.append(Part((Word(text_of(node)),), source=text_of(node), is_test=True))


def _visit_function(node: "Node", script: Script) -> None:
    script.unclear.append("it defines a function")
    for child in node.named_children:
        _visit(child, script)


def _visit_redirected(node: "Node", script: Script) -> None:
    if not _is_whole(node):
        script.unclear.append("it cannot be parsed")
    redirects = [child for child in node.children if child.type.endswith("_redirect")]
    bodies = [child for child in node.children if not child.type.endswith("_redirect")]
    if len(bodies) == 1 and bodies[0].type == "command":
        _visit_command(bodies[0], script, tuple(redirects))
        return
    for body in bodies:
        _visit(body, script)
    _add(script, Part(source=text_of(node)), redirects)


def _visit_redirect(node: "Node", script: Script) -> None:
    _add(script, Part(source=text_of(node)), [node])


def _add(script: Script, part: Part, redirects: list["Node"]) -> None:
    """Add a part with its redirections; a word behind a target is an argument like any other."""
    words, writes, reads = list(part.words), list(part.writes), list(part.reads)
    for node in redirects:
        if node.type == "heredoc_redirect":
            _visit_document(node, script, part)
            continue
        if not _is_whole(node):
            script.unclear.append("it cannot be parsed")
        sign = next((text_of(each) for each in node.children if not each.is_named), "")
        nodes = [each for each in node.named_children if each.type != "file_descriptor"]
        target, *more = _words(nodes, script) or (UNKNOWN,)
        words += more
        if sign in WRITING and not (sign == ">&" and target.text.isdigit()):
            writes.append(target)
        elif sign == "<":
            reads.append(target)
        elif sign not in COPYING | {">&", "<<<"}:
            script.unclear.append(f"it has {sign}")
    script.parts.append(
        Part(tuple(words), part.assigned, tuple(writes), tuple(reads), part.source, part.is_test)
    )


def _visit_document(node: "Node", script: Script, part: Part) -> None:
    """A text in the command, up to a word of its own; what follows its sign runs as well."""
    end, body, start = "", "", ""
    for child in node.children:
        if child.type == "heredoc_start":
            start = text_of(child)
        elif child.type == "heredoc_body":
            body = text_of(child)
            _visit_inside(child, script)
        elif child.type == "heredoc_end":
            end = text_of(child)
        elif child.type.endswith("_redirect"):
            _add(script, Part(source=part.source), [child])
        elif child.is_named:
            if child.type in WORDS:
                script.unclear.append("it has words behind a document")
            _visit(child, script)
    is_raw = start[:1] in "'\"\\"
    if end != start.strip("'\"\\") or end in [line.lstrip("\t") for line in body.split("\n")]:
        script.unclear.append("it cannot be parsed")
    if not is_raw and any(sign in body for sign in ("`", "$(", "${", "\\\n")):
        script.unclear.append("it has a document with expansions")


KINDS: dict[str, Callable[["Node", Script], None]] = {
    "command": _visit_command,
    "redirected_statement": _visit_redirected,
    "declaration_command": _visit_declaration,
    "unset_command": _visit_declaration,
    "variable_assignment": _visit_assignment,
    "variable_assignments": _visit_assignment,
    "test_command": _visit_test,
    "function_definition": _visit_function,
    "file_redirect": _visit_redirect,
    "heredoc_redirect": _visit_redirect,
}
