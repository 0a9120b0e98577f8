"""Memory files on disk, in the layouts that people use."""

from pathlib import Path

import pytest

from turnlog.agent.config.memory import Memory, MemoryFiles, MemoryKind, MemoryLimits


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository in a home directory, with nothing to remember."""
    folder = tmp_path / "ada" / "shop"
    (folder / ".git").mkdir(parents=True)
    return folder


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def files_of(cwd: Path) -> MemoryFiles:
    top = next(each for each in (cwd, *cwd.parents) if each.name == "ada").parent
    return MemoryFiles(cwd, top / "ada" / ".claude", top / "etc")


def texts(memories: list[Memory]) -> list[str]:
    return [memory.text for memory in memories]


def test_memory_comes_from_the_organisation_the_user_and_each_directory_down(
    project: Path,
) -> None:
    home = project.parent
    write(home.parent / "etc" / "CLAUDE.md", "managed")
    write(home / ".claude" / "CLAUDE.md", "user")
    write(home / "CLAUDE.md", "above")
    write(project / "CLAUDE.md", "project")
    write(project / ".claude" / "CLAUDE.md", "hidden")
    write(project / "CLAUDE.local.md", "local")
    write(project / "web" / "CLAUDE.md", "web")
    found = files_of(project / "web").at_start()
    assert texts(found) == ["managed", "user", "above", "project", "hidden", "local", "web"]
    assert [memory.kind for memory in found] == [
        MemoryKind.MANAGED,
        MemoryKind.USER,
        *[MemoryKind.PROJECT] * 3,
        MemoryKind.LOCAL,
        MemoryKind.PROJECT,
    ]


def test_the_users_memory_is_not_told_again_as_that_of_a_project(project: Path) -> None:
    write(project.parent / ".claude" / "CLAUDE.md", "user")
    assert texts(files_of(project).at_start()) == ["user"]


def test_an_import_is_relative_to_its_file_and_comes_before_it(project: Path) -> None:
    write(project / "CLAUDE.md", "See @docs/git.md.")
    write(project / "docs" / "git.md", "Rebase. @style.md")
    write(project / "docs" / "style.md", "Tabs.")
    assert texts(files_of(project).at_start()) == [
        "Tabs.",
        "Rebase. @style.md",
        "See @docs/git.md.",
    ]


def test_imports_go_four_files_deep(project: Path) -> None:
    write(project / "CLAUDE.md", "0 @1.md")
    for number in range(1, 6):
        write(project / f"{number}.md", f"{number} @{number + 1}.md")
    assert [text[0] for text in texts(files_of(project).at_start())] == ["4", "3", "2", "1", "0"]


def test_imports_in_a_circle_end(project: Path) -> None:
    write(project / "CLAUDE.md", "a @b.md")
    write(project / "b.md", "b @CLAUDE.md")
    assert texts(files_of(project).at_start()) == ["b @CLAUDE.md", "a @b.md"]


@pytest.mark.parametrize(
    "text",
    [
        "`@b.md`",
        "``x ` @b.md``",
        "```\n@b.md\n```",
        "~~~sh\n@b.md\n~~~",
        "<!-- @b.md -->",
        "ada@b.md",
    ],
)
def test_what_is_code_or_comment_or_address_is_no_import(project: Path, text: str) -> None:
    write(project / "CLAUDE.md", f"Rules.\n\n{text}\n")
    write(project / "b.md", "b")
    assert "b" not in texts(files_of(project).at_start())


def test_code_that_is_over_does_not_hide_an_import(project: Path) -> None:
    write(project / "CLAUDE.md", "````\n```\n````\n`code` @b.md")
    write(project / "b.md", "b")
    assert texts(files_of(project).at_start())[0] == "b"


def test_an_import_may_lead_home_or_hold_a_space(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project.parent))
    write(project / "CLAUDE.md", "@~/mine.md @my\\ notes.md")
    write(project.parent / "mine.md", "mine")
    write(project / "my notes.md", "notes")
    assert texts(files_of(project).at_start())[:2] == ["mine", "notes"]


def test_what_a_project_imports_from_outside_needs_approval(project: Path) -> None:
    outside = write(project.parent / "secret.md", "secret")
    write(project / "CLAUDE.md", f"@{outside} @inside.md")
    write(project / "inside.md", "inside")
    found = files_of(project).at_start()
    assert [memory.needs_approval for memory in found] == [True, False, False]


@pytest.mark.parametrize(
    "name", ["CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md", ".claude/rules/a.md"]
)
def test_memory_that_links_to_outside_of_the_project_is_not_loaded(
    project: Path, name: str
) -> None:
    outside = write(project.parent / "secret.md", "secret")
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).symlink_to(outside)
    files = files_of(project)
    assert texts(files.at_start()) == []
    told = f"{project / name} is not loaded: it links to {outside}, outside of the project"
    assert files.problems == [told]


def test_an_import_that_links_to_outside_is_not_loaded_even_if_imports_are_approved(
    project: Path,
) -> None:
    outside = write(project.parent / "secret.md", "secret")
    (project / "link.md").symlink_to(outside)
    write(project / "CLAUDE.md", "rest\n@link.md")
    files = MemoryFiles(
        project, project.parent / ".claude", limits=MemoryLimits(is_approved=lambda path: True)
    )
    assert texts(files.at_start()) == ["rest\n@link.md"]
    assert len(files.problems) == 1


def test_memory_of_the_user_may_be_links_and_is_the_users_alone(project: Path) -> None:
    home = project.parent / ".claude"
    (home / "rules").mkdir(parents=True)
    for name in ("CLAUDE.md", "rules/a.md"):
        (home / name).symlink_to(write(project.parent.parent / "dotfiles" / name, name))
    files = files_of(project)
    assert texts(files.at_start()) == ["CLAUDE.md", "rules/a.md"]
    assert files.problems == []
    limits = MemoryLimits(uses_user=False)
    assert MemoryFiles(project, home, limits=limits).at_start() == []


def test_a_link_within_the_project_is_loaded(project: Path) -> None:
    write(project / "AGENTS.md", "both")
    (project / "CLAUDE.md").symlink_to("AGENTS.md")
    assert texts(files_of(project).at_start()) == ["both"]


def test_what_a_rule_denies_is_neither_loaded_nor_imported(project: Path) -> None:
    write(project / "CLAUDE.md", "rest\n@.env")
    write(project / ".env", "KEY=1")
    limits = MemoryLimits(may_read=lambda path: path.name != ".env")
    files = MemoryFiles(project, project.parent / ".claude", limits=limits)
    assert texts(files.at_start()) == ["rest\n@.env"]
    assert files.problems == [f"{project / '.env'} is not loaded: a rule denies reading it"]


def test_a_file_read_elsewhere_brings_no_rules_along(project: Path) -> None:
    other = project.parent / "other"
    write(other / ".claude" / "rules" / "a.md", "---\npaths: '*.py'\n---\nobey")
    assert files_of(project).for_file(write(other / "x.py", "")) == []


def test_what_the_user_imports_needs_no_approval(project: Path) -> None:
    write(project.parent / ".claude" / "CLAUDE.md", "@more.md")
    write(project.parent / ".claude" / "more.md", "more")
    assert not files_of(project).at_start()[0].needs_approval


def test_comments_are_left_out_but_not_those_in_code(project: Path) -> None:
    text = "A\n<!-- for\nus -->\nB <!-- inline -->\n```html\n<!-- shown -->\n```\n"
    write(project / "CLAUDE.md", text)
    told = "A\nB <!-- inline -->\n```html\n<!-- shown -->\n```"
    assert texts(files_of(project).at_start()) == [told]


def test_memory_below_is_told_once_when_a_file_there_is_read(project: Path) -> None:
    write(project / "web" / "CLAUDE.md", "web")
    write(project / "web" / "src" / "CLAUDE.local.md", "src")
    files = files_of(project)
    assert texts(files.at_start()) == []
    assert texts(files.for_file(project / "web" / "src" / "a.ts")) == ["web", "src"]
    assert texts(files.for_file(project / "web" / "src" / "b.ts")) == []


def test_a_file_elsewhere_brings_no_memory(project: Path) -> None:
    write(project.parent / "other" / "CLAUDE.md", "other")
    assert texts(files_of(project).for_file(project.parent / "other" / "a.ts")) == []


def test_rules_are_told_at_the_start_or_with_the_files_they_are_for(project: Path) -> None:
    rules = project / ".claude" / "rules"
    write(rules / "all.md", "for all")
    write(rules / "api" / "ts.md", "---\npaths:\n  - src/**/*.{ts,tsx}\n---\nfor ts")
    write(project.parent / ".claude" / "rules" / "md.md", '---\npaths: "*.md"\n---\nfor md')
    files = files_of(project)
    assert texts(files.at_start()) == ["for all"]
    assert texts(files.for_file(project / "src" / "a" / "b.py")) == []
    assert texts(files.for_file(project / "src" / "a" / "b.tsx")) == ["for ts"]
    assert texts(files.for_file(project / "docs" / "x.md")) == []
    assert texts(files.for_file(project / "x.md")) == ["for md"]


@pytest.mark.parametrize(
    ("counts", "told"), [((10, 10, 10), ["many"]), ((7, 11, 13), [])], ids=["1,000", "1,001"]
)
def test_a_pattern_with_very_many_choices_matches_nothing(
    project: Path, counts: tuple[int, ...], told: list[str]
) -> None:
    choices = "".join(f"{{{','.join('abcdefghijklm'[:count])}}}" for count in counts)
    write(project / ".claude" / "rules" / "a.md", f"---\npaths: ['{choices}.ts']\n---\nmany")
    assert texts(files_of(project).for_file(project / "cba.ts")) == told


def test_a_file_that_is_no_text_is_left_out(project: Path) -> None:
    (project / "CLAUDE.md").write_bytes(b"a\0b")
    assert files_of(project).at_start() == []
