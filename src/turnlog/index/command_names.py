"""What a shell command runs, in the few words that tell it from others."""

import re

from turnlog.store.paths import last_part

CHANGES_FOLDER = re.compile(r"\s*(?:cd|pushd)\s[^&;|\n]*(?:&&|;|\n)\s*")
WORD = re.compile(r"""(?:[^\s'";&|<>()]|'[^']*'|"[^"]*")+|[;&|<>()\n]+""")
SETTING = re.compile(r"[A-Za-z_]\w*=")
WRAPPERS = {"sudo": 0, "env": 0, "time": 0, "nohup": 0, "command": 0, "exec": 0, "timeout": 1}
"""Programs that run another, and how many words of their own come before it."""
WITH_COMMANDS = frozenset(
    "apt apt-get aws brew bun bundle cargo deno docker docker-compose dotnet gcloud gh git go "
    "gradle helm just kubectl make mix mvn npm npx pip pip3 pnpm poetry rails systemctl terraform "
    "turbo uv uvx yarn".split()
)
"""Programs whose next word says what they do."""


def program(command: str | None) -> str | None:
    """The program that a command runs, with its own command where it has several.

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
        return " ".join([name, *_own_command(name, rest)])
    return name


def _words(command: str) -> list[str]:
    """The words of the first command that does more than change the folder."""
    start = 0
    while found := CHANGES_FOLDER.match(command, start):
        start = found.end()
    words: list[str] = []
    skipped = 0
    for found in WORD.finditer(command, start):
        word = found[0]
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
    """Whether a word may stand before the program."""
    return word in WRAPPERS or word.startswith("-") or SETTING.match(word) is not None


def _own_command(name: str, words: list[str]) -> list[str]:
    is_value = False
    for word in words:
        if not word.startswith("-") and not is_value:
            return [word] if re.fullmatch(r"[\w:.@/-]{1,30}", word) else []
        is_value = name == "git" and word in ("-C", "-c")
    return []
