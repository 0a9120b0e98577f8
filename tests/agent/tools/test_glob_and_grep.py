"""Glob and Grep: files by name and by content, with real ripgrep."""

import os

import pytest

from support.tool_calls import Calls


@pytest.fixture
def project(calls: Calls) -> Calls:
    """A few files, changed one after the other."""
    names = ["src/a.py", "src/deep/b.py", "src/c.ts", "notes.md", ".hidden/d.py"]
    for age, name in enumerate(names):
        path = calls.file(name, f"import os\nNAME = '{name}'\nprint(NAME)\n")
        os.utime(path, ns=(age * 10**9, age * 10**9))
    return calls


def paths(calls: Calls, *names: str) -> list[str]:
    return [str(calls.root / name) for name in names]


def test_files_are_found_by_pattern_newest_first(project: Calls) -> None:
    outcome = project.run("Glob", pattern="**/*.py")
    found = paths(project, ".hidden/d.py", "src/deep/b.py", "src/a.py")
    assert outcome.content == "\n".join(found)
    assert (outcome.data["filenames"], outcome.data["numFiles"]) == (found, 3)
    assert outcome.data["truncated"] is False


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("src/*.py", None, ["src/a.py"]),
        ("*.{ts,md}", None, ["notes.md", "src/c.ts"]),
        ("*.py", "src/deep", ["src/deep/b.py"]),
        ("./src/*.ts", None, ["src/c.ts"]),
    ],
)
def test_patterns(project: Calls, pattern: str, path: str | None, found: list[str]) -> None:
    outcome = project.run("Glob", pattern=pattern, path=path)
    assert outcome.data["filenames"] == paths(project, *found)


def test_a_pattern_may_start_with_its_directory(project: Calls) -> None:
    tool = project.tools["Glob"]
    given = {"pattern": str(project.root / "src" / "**" / "b.*")}
    assert project.run("Glob", **given).data["filenames"] == paths(project, "src/deep/b.py")
    [access] = tool.touches(tool.read(given), project.workspace)
    assert str(getattr(access, "path", "")) == str(project.root / "src")
    plain = {"pattern": str(project.root / "notes.md")}
    assert project.run("Glob", **plain).data["filenames"] == paths(project, "notes.md")


def test_no_more_than_a_hundred_files_come_back(calls: Calls) -> None:
    for number in range(130):
        path = calls.file(f"{number}.txt", "")
        os.utime(path, ns=(number * 10**9, number * 10**9))
    outcome = calls.run("Glob", pattern="*.txt")
    assert outcome.data["filenames"] == paths(calls, *(f"{n}.txt" for n in range(129, 29, -1)))
    assert outcome.data["truncated"] is True
    assert "30 older" in str(outcome.content)


def test_nothing_found_and_no_such_directory_are_told(calls: Calls) -> None:
    assert calls.text("Glob", pattern="*.none") == "No files found"
    assert calls.text("Grep", pattern="none") == "No files found"
    assert calls.text("Grep", pattern="none", output_mode="content") == "No matches found"
    assert "does not exist" in calls.refusal("Glob", pattern="*", path="nowhere")
    assert "does not exist" in calls.refusal("Grep", pattern="x", path="nowhere")


def test_files_are_found_by_content_newest_first(project: Calls) -> None:
    outcome = project.run("Grep", pattern="src/.*py")
    found = paths(project, "src/deep/b.py", "src/a.py")
    assert outcome.content == "\n".join(["Found 2 files", *found])
    assert outcome.data == {"mode": "files_with_matches", "filenames": found, "numFiles": 2}


def test_lines_come_with_paths_and_numbers(project: Calls) -> None:
    outcome = project.run("Grep", pattern="NAME", path="src/a.py", output_mode="content")
    assert outcome.content == "src/a.py:2:NAME = 'src/a.py'\nsrc/a.py:3:print(NAME)"
    assert outcome.data["numLines"] == 2
    plain = {"pattern": "print", "path": "src/a.py", "output_mode": "content", "-n": False}
    assert project.text("Grep", **plain) == "src/a.py:print(NAME)"


@pytest.mark.parametrize(("name", "lines"), [("-A", "23"), ("-B", "12"), ("-C", "123")])
def test_lines_around_a_match(project: Calls, name: str, lines: str) -> None:
    given = {"pattern": "NAME =", "path": "src/a.py", "output_mode": "content", name: 1}
    text = project.text("Grep", **given)
    assert [line.removeprefix("src/a.py")[1] for line in text.split("\n")] == list(lines)


def test_matches_are_counted(project: Calls) -> None:
    outcome = project.run("Grep", pattern="NAME", path="src", output_mode="count", type="py")
    assert sorted(str(outcome.content).split("\n")) == ["src/a.py:2", "src/deep/b.py:2"]
    assert (outcome.data["numFiles"], outcome.data["numMatches"]) == (2, 4)


def test_files_are_narrowed_down(project: Calls) -> None:
    assert "Found 1 file\n" in project.text("Grep", pattern="import", glob="*.md")
    assert "Found 2 files\n" in project.text("Grep", pattern="import", glob="*.md, *.ts")
    assert "Found 2 files\n" in project.text("Grep", pattern="import", glob="*.{md,ts}")
    assert "Found 5 files\n" in project.text("Grep", pattern="IMPORT", **{"-i": True})
    over = {"pattern": r"os.NAME", "multiline": True, "path": "src/a.py"}
    assert "Found 1 file\n" in project.text("Grep", **over)


def test_a_limit_cuts_what_comes_back(project: Calls) -> None:
    outcome = project.run("Grep", pattern="import", head_limit=2)
    assert outcome.data["appliedLimit"] == 2
    assert outcome.data["numFiles"] == 2
    assert "Found 5 files" in str(outcome.content)
    lines = project.run("Grep", pattern=".", output_mode="content", head_limit=3)
    assert lines.data["numLines"] == 3
    assert "first 3" in str(lines.content)
    every = project.run("Grep", pattern=".", output_mode="content", head_limit=0)
    assert every.data["numLines"] == 15
    exact = project.run("Grep", pattern=".", output_mode="content", head_limit=15)
    assert "appliedLimit" not in exact.data
    assert "first 15" not in str(exact.content)


def test_very_many_lines_are_read_no_further_than_the_limit(calls: Calls) -> None:
    calls.file("many.txt", "match\n" * 2_000_000)
    outcome = calls.run("Grep", pattern="match", output_mode="content")
    assert outcome.data["numLines"] == 250


def test_long_results_are_kept_beside_the_session(calls: Calls) -> None:
    calls.file("wide.txt", ("match" + "x" * 400 + "\n") * 200)
    text = calls.text("Grep", pattern="match", output_mode="content")
    assert text.startswith("<persisted-output>\n")
    [kept] = (calls.workspace.folder / "tool-results").iterdir()
    assert kept.read_text().count("match") == 200


def test_a_pattern_that_starts_with_a_dash_is_a_pattern(calls: Calls) -> None:
    calls.file("a.txt", "use --fresh\n")
    assert "Found 1 file\n" in calls.text("Grep", pattern="--fresh")
    assert "regex parse error" in calls.refusal("Grep", pattern="(")


def test_what_git_ignores_is_left_out_by_content_but_found_by_name(calls: Calls) -> None:
    calls.file(".git/config", "word")
    calls.file(".gitignore", "build/\n")
    calls.file("build/out.txt", "word")
    assert calls.text("Grep", pattern="word") == "No files found"
    assert calls.text("Glob", pattern="**/out.txt") == str(calls.root / "build/out.txt")


def guess(calls: Calls, pattern: str, mode: str) -> str:
    """Search where no rule lets `.env` be read."""
    calls.workspace.may_read = lambda path, searched=None: path.name != ".env"
    return calls.text("Grep", **{"pattern": pattern, "output_mode": mode, "-A": 1})


@pytest.mark.parametrize("padding", ["", "x=y\n" * 30_000 + "\0"], ids=["text", "binary"])
@pytest.mark.parametrize("pattern", ["KEY={}", "KEY={}|END", "KEY={}|name", "KEY={}|name|END"])
def test_a_search_does_not_tell_whether_a_denied_file_matches(
    calls: Calls, pattern: str, padding: str
) -> None:
    calls.file(".env", f"KEY=canary\na=1\nb=2\nEND=1\n{padding}")
    calls.file("plain", "name=other\n")
    right, wrong = (guess(calls, pattern.format(letter), "content") for letter in "cd")
    assert right == wrong


@pytest.mark.parametrize("mode", ["content", "count", "files_with_matches"])
def test_an_unreadable_directory_does_not_tell_whether_a_denied_file_matches(
    calls: Calls, mode: str
) -> None:
    calls.file(".env", "KEY=canary\n")
    # Nobody can open a path of more than 4,096 bytes, not even root.
    place = os.open(calls.root, os.O_RDONLY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=place)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    assert guess(calls, "KEY=c", mode) == guess(calls, "KEY=d", mode)


def test_lines_of_several_matches_are_separated(calls: Calls) -> None:
    calls.file("a", "x1\n\n\n\nx2\n")
    given = {"pattern": "x", "path": "a", "output_mode": "content", "-A": 1}
    assert calls.text("Grep", **given) == "a:1:x1\na-2-\n--\na:5:x2"


def test_a_search_says_where_it_gave_up_a_binary_file(calls: Calls) -> None:
    calls.file("a", "x\n" + "y\n" * 60_000 + "\0")
    text = calls.text("Grep", pattern="x", output_mode="content")
    assert text.startswith("a:1:x\na: WARNING: stopped searching binary file")
