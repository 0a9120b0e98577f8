"""The page about permissions: its examples are rows of the table of cases."""

from pathlib import Path

from agent.permissions.cases import CASES, Case

PAGE = Path(__file__).parents[3] / "docs" / "permissions.md"
SHOWN = [
    "Bash: npm run test unit",
    "Bash: npm run tests",
    "Bash: npm test && rm -rf x",
    "Bash: npm test `rm x`",
    "Bash: npm test > out.txt",
    "Bash: LANG=C npm test",
    "Bash: PATH=/tmp npm test",
    "Bash: timeout 30 npm test",
    "Bash: bash -c 'npm test'",
    "Bash: sudo rm x",
    "Bash: bash -c 'rm x'",
    "Bash: find . -exec rm {} \\;",
    "Bash: /bin/rm x",
    "Bash: $X x",
    "Bash: echo rm",
    "Bash: git $X",
    "Bash: cat src/app.py",
    "Bash: cat out.txt",
    "Bash: cat .env",
    "Bash: git diff --output=x",
    "Bash: cd sub && git status",
    "Bash: rm -rf src",
    "Bash: rm -rf *",
    "Bash: rm -rf ~",
    "Read: /etc/passwd",
    "Read: {project}/out.txt",
    "Edit: {project}/src/app.py",
    "Write: {project}/sub/src/x.py",
    "Write: {project}/.git/hooks/pre-commit",
    "WebFetch: https://example.com@evil.org/",
    "mcp__git__log",
]


def row_of(case: Case) -> str:
    named = [("allow", case.allow), ("ask", case.ask), ("deny", case.deny)]
    rules = [f"{kind} `{rule}`" for kind, lines in named for rule in lines.splitlines()]
    mode = [case.mode] if case.mode != "default" else []
    call = case.call.replace("|", "\\|")
    shown = f"`` {call} ``" if "`" in call else f"`{call}`"
    return f"| {shown} | {', '.join([*rules, *mode]) or 'none'} | {case.verdict} |"


def examples() -> str:
    rows = [row_of(case) for call in SHOWN for case in CASES if case.call == call]
    return "\n".join(["| call | rules and mode | verdict |", "|---|---|---|", *rows, ""])


def test_the_examples_of_the_page_are_those_of_the_table() -> None:
    _, found, shown = PAGE.read_text("utf-8").partition("<!-- examples -->\n\n")
    assert found
    assert shown == examples()


def test_each_example_is_a_row_of_the_table() -> None:
    assert set(SHOWN) <= {case.call for case in CASES}
