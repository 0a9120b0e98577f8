"""Shorten a shell command to the program it runs, for grouping in reports."""

import re

from turnlog.store.paths import last_part

CHANGES_FOLDER = re.compile(r"\s*(?:cd|pushd)\s[^&;|\n]*(?:&&|;|\n)\s*")
WORD = re.compile(r"""(?:[^\s'";&|<>()]|'[^']*'|"[^"]*")+|[;&|<>()\n]+""")
SETTING = re.compile(r"[A-Za-z_]\w*=")
WRAPPERS = {"sudo": 0, "env": 0, "time": 0, "nohup": 0, "command": 0, "exec": 0, "timeout": 1}
"""Programs that run another program, and how many arguments of their own precede it."""
WITH_COMMANDS = frozenset(
    "apt apt-get aws brew bun bundle cargo deno docker docker-compose dotnet gcloud gh git go "
    "gradle helm just kubectl make mix mvn npm npx pip pip3 pnpm poetry rails systemctl terraform "
    "turbo uv uvx yarn".split()
)
"""Programs whose subcommand matters as much as their name: `git commit`, `npm test`."""


def program(command: str | None) -> str | None:
    """Return the program that a command runs, with its subcommand if it has one.

    >>> program("cd /tmp/shop && FORCE=1 git -C sub commit -m 'a b'"), program("/usr/bin/ls -la")
    ('git commit', 'ls')
    >>> program(r'"C:\\Program Files\\Git\\git.exe" status')
    'git status'
    >>> program("timeout 60 python3 -m pytest -q"), program(None)
    ('python3 -m pytest', None)
    """
    if command is None:
        return None
    words = _words(command)
    if not words:
        return ""
    name = last_part(words[0].strip("\"'")).removesuffix(".exe")
    rest = words[1:]
    if name.startswith("python") and rest[:1] == ["-m"]:
        return " ".join([name, *rest[:2]])
    if name in WITH_COMMANDS:
        return " ".join([name, *_subcommand(name, rest)])
    return name


def _words(command: str) -> list[str]:
    """Return the words of the first command that is not just `cd` or `pushd`."""
    start = 0
    while found := CHANGES_FOLDER.match(command, start):
        start = found.end()
    words: list[str] = []
    skipped = 0
    for found in WORD.finditer(command, start):
        word = found[0]
        # An operator ends the command, unless it comes before the program, as in "(ls -l)".
        if word[0] in ";&|<>()\n":
            if words:
                break
            continue
        if words or not (skipped or _is_before(word)):
            words.append(word)
        else:
            skipped = WRAPPERS.get(word, max(0, skipped - 1))
    return words


def _is_before(word: str) -> bool:
    """Return whether a word may precede the program: `FORCE=1`, `sudo`, an option of a wrapper."""
    return word in WRAPPERS or word.startswith("-") or SETTING.match(word) is not None


def _subcommand(name: str, words: list[str]) -> list[str]:
    is_value = False
    for word in words:
        if not word.startswith("-") and not is_value:
            return [word] if re.fullmatch(r"[\w:.@/-]{1,30}", word) else []
        # In `git -C sub commit`, "sub" is the value of an option, not the subcommand.
        is_value = name == "git" and word in ("-C", "-c")
    return []
