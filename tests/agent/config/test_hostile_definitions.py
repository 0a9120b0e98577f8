"""Definitions and memory of a stranger's repository: bounded; a bad file affects no other."""

import json
from pathlib import Path
from time import process_time

import pytest

from support.chat_process import ChatProcess
from support.scripted_api import called, said, scripted_api
from turnlog.agent.config.agent_definitions import load_agents
from turnlog.agent.config.command_expansion import INJECTED
from turnlog.agent.config.custom_commands import load_commands
from turnlog.agent.config.definition_directories import TOO_LONG, DefinitionFiles
from turnlog.agent.config.frontmatter import HeadError, number_of, split_head
from turnlog.agent.config.memory import MemoryFiles
from turnlog.agent.config.memory_text import imports_of
from turnlog.agent.config.settings import load
from turnlog.agent.workspace.sandbox.patterns import PathPattern
from turnlog.store.paths import Store, expand_user

LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 10)}]\n" for n in range(9)
)
ALIASES = "its frontmatter has YAML aliases"
TOO_DEEP = "its frontmatter is nested deeper than 16 levels"
BAD_HEADS = [
    (f"{LAUGHS}tools: *j", ALIASES),
    ("tools: &t [*t]", ALIASES),
    ("hooks: &h {PreToolUse: *h}", ALIASES),
    ("base: &b {x: 1}\nhooks: {<<: *b}", ALIASES),
    (f"paths: {'[' * 5_000}", TOO_DEEP),
    (f"paths: {'[' * 40}{']' * 40}", TOO_DEEP),
    (f"paths: {'{a: ' * 40}1{'}' * 40}", TOO_DEEP),
    ("".join(f"{' ' * n}a:\n" for n in range(40)), TOO_DEEP),
    ("a: b: c\n" * 300, "its frontmatter is not YAML and has more than 200 fields"),
    ("description: " + "x" * 20_000, "its frontmatter is longer than 16 KiB"),
]
SECONDS = 2.0


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(("head", "why"), BAD_HEADS)
def test_a_head_has_bounds(head: str, why: str) -> None:
    started = process_time()
    with pytest.raises(HeadError, match=why):
        split_head(f"---\n{head}\n---\nbody")
    assert process_time() - started < SECONDS


@pytest.mark.parametrize("text", ["*test", "*.py", "*important* things", "*"])
def test_a_star_that_is_no_alias_is_text(text: str) -> None:
    assert split_head(f"---\nname: q\npaths: {text}\n---\nb")[0]["paths"] == text


@pytest.mark.parametrize(("head", "why"), [*BAD_HEADS[:2], BAD_HEADS[4]])
def test_a_bad_file_is_named_and_the_others_are_loaded(
    store: Store, tmp_path: Path, head: str, why: str
) -> None:
    root, files = tmp_path / "shop", ("agents/bad.md", "commands/bad.md", "skills/bad/SKILL.md")
    text = f"---\nname: q\ndescription: d\n{head}\n---\nb"
    bad = [put(root / ".claude" / name, text) for name in files]
    good = text.replace(head, "maxTurns: 3")
    for path in bad:
        put(
            root / ".claude" / path.relative_to(root / ".claude").as_posix().replace("bad", "ok"),
            good,
        )
    known = DefinitionFiles(store, root)
    assert load_agents(store, root, known)["q"].max_turns == 3
    assert set(load_commands(store, root, known)) == {"ok"}
    assert sorted(known.problems) == sorted(f"{path} is not loaded: {why}" for path in bad)


def test_a_file_that_breaks_its_reader_is_named_by_what_it_raised(store: Store) -> None:
    known = DefinitionFiles(store, store.root)

    def fail(path: Path) -> None:
        raise RecursionError

    assert known.read(Path("/x.md"), fail) is None
    assert known.problems == ["/x.md is not loaded: RecursionError"]


@pytest.mark.parametrize("text", ["9" * 5_000, "٣" * 20, "-1", "1e3", ""])
def test_a_number_that_is_none_is_no_number(text: str) -> None:
    assert number_of(text) is None


@pytest.mark.parametrize(
    "text",
    [
        " ".join("`" * n for n in range(1, 800)),
        " ".join("`" * n for n in range(800, 1, -1)),
        "`" * 100_000 + " x " + "`" * 99_999,
        "` `` " * 50_000 + "```",
    ],
    ids=["growing", "shrinking", "long", "alternating"],
)
def test_runs_of_backticks_take_no_time(text: str) -> None:
    started = process_time()
    assert imports_of(f"{text}\n\n@b") in ([], ["b"])
    assert process_time() - started < SECONDS


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("`@a` @b", ["b"]),
        ("``@a ` @b`` @c", ["c"]),
        ("` @a", ["a"]),
        ("`` @a ` @b ``", []),
        ("@a @a", ["a"]),
    ],
)
def test_imports_in_code_spans_do_not_count(text: str, found: list[str]) -> None:
    assert imports_of(text) == found


@pytest.mark.parametrize(
    "text", ["@~nosuchuser/x", f"@{'a' * 5_000}", f"@{'a/' * 5_000}x", "@~/" + "b" * 300, "@~"]
)
def test_an_import_that_cannot_be_is_passed_over(store: Store, tmp_path: Path, text: str) -> None:
    root = tmp_path / "shop"
    put(root / "CLAUDE.md", f"Be kind. {text}.")
    assert [each.text for each in MemoryFiles(root, store.root).at_start()] == [f"Be kind. {text}."]


def test_endless_imports_are_cut_short_and_named(store: Store, tmp_path: Path) -> None:
    path = put(tmp_path / "shop" / "CLAUDE.md", " ".join(f"@x{n}" for n in range(30_000)))
    files = MemoryFiles(path.parent, store.root)
    assert len(files.at_start()) == 1
    assert files.problems == [f"{path}: some imports are not loaded, as there are too many"]


@pytest.mark.parametrize(
    "pattern",
    [
        "*a" * 40 + "b",
        "**/" * 30 + "b",
        "**a" * 20 + "b",
        "{a,b}" * 200,
        ",".join(["{a,b,c}x"] * 900),
    ],
    ids=["stars", "depths", "double stars", "braces", "many"],
)
def test_patterns_of_rules_take_no_time(store: Store, tmp_path: Path, pattern: str) -> None:
    root = tmp_path / "shop"
    put(root / ".claude" / "rules" / "y.md", f"---\npaths: '{pattern}'\n---\nRULE")
    target = put(root / ("a" * 60) / ("a" * 200), "x")
    started = process_time()
    MemoryFiles(root, store.root).for_file(target)
    assert process_time() - started < SECONDS * 2


@pytest.mark.parametrize("pattern", ["src/*.ts", "**/*.{ts,tsx}", "**", "/src/**", "src"])
def test_rules_are_for_the_files_that_patterns_name(
    store: Store, tmp_path: Path, pattern: str
) -> None:
    root = tmp_path / "shop"
    put(root / ".claude" / "rules" / "y.md", f"---\npaths: ['{pattern}']\n---\nRULE")
    files = MemoryFiles(root, store.root)
    assert [each.text for each in files.for_file(put(root / "src" / "a.ts", "x"))] == ["RULE"]


def test_a_rule_whose_pattern_is_not_valid_is_named(store: Store, tmp_path: Path) -> None:
    root = tmp_path / "shop"
    path = put(root / ".claude" / "rules" / "y.md", "---\npaths: '[z-a]'\n---\nRULE")
    files = MemoryFiles(root, store.root)
    assert files.for_file(put(root / "z", "x")) == []
    assert [each.partition(": '/[z-a]' is not")[0] for each in files.problems] == [
        f"{path} is not loaded"
    ]


def test_a_home_of_nobody_stays_as_it_is_written(store: Store, tmp_path: Path) -> None:
    assert expand_user("~nosuchuser/x") == Path("~nosuchuser/x")
    said = {"filesystem": {"denyRead": ["~nosuchuser/x"], "allowWrite": ["~nosuchuser"]}}
    rules = {"additionalDirectories": ["~nosuchuser"]}
    text = json.dumps({"sandbox": said, "permissions": rules})
    put(tmp_path / ".claude" / "settings.json", text)
    settings = load(store, tmp_path)
    assert settings.sandbox.hidden == (PathPattern(tmp_path, "/~nosuchuser/x"),)
    assert settings.directories == (tmp_path, tmp_path / "~nosuchuser")


def test_a_chat_starts_whatever_a_repository_brings(tmp_path: Path) -> None:
    with scripted_api(called(("t1", "Read", {"file_path": "a.txt"})), said("Done.")) as api:
        chat = ChatProcess(tmp_path, api.url)
        bad = [
            put(chat.work / ".claude" / name, f"---\nname: q\n{LAUGHS}paths: *j\n---\nBAD")
            for name in ("agents/x.md", "commands/x.md", "rules/x.md")
        ]
        put(chat.work / "CLAUDE.md", " ".join("`" * n for n in range(1, 250)) + " @~nobody9/x")
        put(chat.work / "a.txt", "x")
        told = chat.run("-p", "hello")
    assert (told.code, told.out) == (0, "Done.\n")
    assert all(f"turnlog: {path} is not loaded: {ALIASES}\n" in told.err for path in bad)
    assert "BAD" not in json.dumps([request.body for request in api.requests])


@pytest.mark.parametrize(
    "text",
    ["```!\n" * 100_000, "```!" + "\n" * 200_000, "!`" * 200_000, "```!\n" + "x\n" * 200_000],
    ids=["openings", "newlines", "spans", "lines"],
)
def test_commands_in_a_skill_are_found_in_no_time(text: str) -> None:
    started = process_time()
    assert INJECTED.findall(f"{text}\n\n!`ls`")[-1:] == [("ls", "")]
    assert process_time() - started < SECONDS


def test_a_block_of_commands_is_found() -> None:
    text = "a\n```!\nls\n\npwd\n```\nb\n```!\nid\n```"
    assert INJECTED.findall(text) == [("", "ls\n\npwd\n"), ("", "id\n")]


def test_many_long_heads_take_no_time_together(store: Store, tmp_path: Path) -> None:
    root = tmp_path / "shop"
    head = f"name: q\ndescription: d\ntools: [{'a,' * 7_000}]\npaths: x"
    for number in range(300):
        for kind in ("agents", "rules"):
            put(root / ".claude" / kind / f"{number:03}.md", f"---\n{head}\n---\nb")
    known, files = DefinitionFiles(store, root), MemoryFiles(root, store.root)
    started = process_time()
    assert "q" in load_agents(store, root, known)
    files.at_start()
    for name in "xyz":
        files.for_file(root / name)
    assert process_time() - started < 30
    assert known.problems[-1] == f"{root}/.claude/agents/299.md is not loaded: {TOO_LONG}"
    assert files.problems[-1] == f"{root}/.claude/rules/299.md is not loaded: {TOO_LONG}"


def test_a_rule_that_changes_is_read_again(store: Store, tmp_path: Path) -> None:
    root = tmp_path / "shop"
    rule, files = root / ".claude" / "rules" / "y.md", MemoryFiles(root, store.root)
    put(rule, "---\npaths: a.ts\n---\nRULE")
    assert files.for_file(root / "b.ts") == []
    put(rule, "---\npaths: a.tx\n---\nRULE")
    assert files.for_file(root / "a.ts") == []
    put(rule, "---\npaths: b.ts\n---\nRULE")
    assert [each.text for each in files.for_file(root / "b.ts")] == ["RULE"]
