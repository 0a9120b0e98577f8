"""Programs that remove or move the files they are given, and the options that make them do so.

`tar cf x.tar --remove-files src` removes `src` as `rm -r src` does, also behind the links that it
follows. No other module knows such programs: those that judge removals ask this one.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from turnlog.agent.permissions.bash import UnknownValue, Word
from turnlog.agent.permissions.file_verdicts import WRITING, unknown_files
from turnlog.agent.permissions.folder_contents import (
    may_be_folder,
    protected_below,
    restrictions_below,
    with_linked,
)
from turnlog.agent.permissions.packing import packs_more
from turnlog.agent.permissions.path_access import is_guarded
from turnlog.agent.permissions.policy import AccessDecision, Policy, VerdictKind
from turnlog.agent.permissions.working_directories import arguments_in, path_in

MOVERS = frozenset("gmv grm mv rm shred".split())
"""Programs that change everything below a directory argument, and are judged as removals anyway."""
REMOVERS = frozenset(
    """
    del-cli rimraf rip rmtrash safe-rm saferm scrub srm tmpreaper tmpwatch trash trash-put wipe
    """.split()
)
RECURSIVE_PACKER = re.compile(r"-[^-S]*r.*|--rec.*", re.S)
SYNC = re.compile(r"mv|rm|--del.*")
OPTIONS = {
    **dict.fromkeys("gtar star tar".split(), re.compile(r"--rem.*|--recursive-u.*", re.S)),
    "zip": re.compile(r"-(?:ic|[^-ix])*m.*|--mo.*", re.S),
    **dict.fromkeys("7z 7za 7zr 7zz 7zzs".split(), re.compile(r"-sdel.*", re.I)),
    "rar": re.compile(r"mf?|-d[frw].*", re.I),
    **dict.fromkeys(("arj", "zoo"), re.compile(r"-?a?m\w*", re.I)),
    **dict.fromkeys(("lha", "lharc", "lhasa", "jlha"), re.compile(r"-?(?:m|[au]\w*d)\w*")),
    "arc": re.compile(r"m\w*", re.I),
    **dict.fromkeys("compress gunzip gzip pigz uncompress unpigz zcat".split(), RECURSIVE_PACKER),
    **dict.fromkeys("lz4 lz4c pzstd unlz4 unzstd zstd zstdmt".split(), re.compile(r"--rm")),
    "brotli": re.compile(r"-[^-]*j.*|--rm"),
    "lrzip": re.compile(r"-[^-]*D.*|--del.*"),
    "lzop": re.compile(r"-[^-]*U.*|--(?:del|un).*"),
    "rsync": re.compile(r"--remove-s.*|--del.*"),
    "rclone": re.compile(r"move(?:to)?|delete(?:file)?|purge|rmdirs?|(?:bi)?sync|cleanup|--del.*"),
    **dict.fromkeys("aws gcloud mc s3cmd s5cmd".split(), SYNC),
    "gsutil": re.compile(r"mv|rm|-[^-]*d.*"),
    "azcopy": re.compile(r"rm|remove|--del.*"),
    "gio": re.compile(r"move|remove|trash"),
    "stow": re.compile(r"--ad.*"),
    "exiftool": re.compile(r"-(?:directory|filename|testname)[+<=].*", re.I | re.S),
    "lftp": re.compile(r".*--(?:remove|delete).*", re.I | re.S),
    "ncftpput": re.compile(r"-[^-]*D.*"),
    **dict.fromkeys(("fdupes", "jdupes"), re.compile(r"-[^-]*[dHLlN].*|--(?:del|link).*")),
    "rdfind": re.compile(r"-(?:delete|make).*"),
}
"""Arguments of programs, also abbreviated or clustered, that make them remove their sources."""
ANY_OPTION = re.compile(
    r"--?(?:del(?:ete)?|erase|move|purge|remove|rm|unlink|wipe)-?"
    r"(?:file|input|local|orig|sent|source|src)[\w-]*(?:=.*)?",
    re.I | re.S,
)
"""An option that does the same, in any program."""
VALUE = re.compile(r"--[a-z-]+=(.+)|-[A-Za-z]*?[CD](.+)", re.S)
"""An option with a value, which may be a source: `tar --add-file=src`."""
TARGET_OPTION = re.compile(r"--del.*")
UNKNOWN_SOURCE = "which files it removes is only known when it runs"


def takes_sources(name: str, arguments: Sequence[str]) -> bool:
    """Return whether a program removes what it packs, copies or is otherwise given.

    >>> takes_sources("zip", ["-9rm", "x.zip", "src"]), takes_sources("zip", ["-r", "x.zip", "src"])
    (True, False)
    >>> takes_sources("tar", ["cf", "x.tar", "--remove-f", "src"])
    True
    """
    if name in MOVERS or name in REMOVERS:
        return True
    option = OPTIONS.get(name)
    return any(
        ANY_OPTION.fullmatch(each) or (option and option.fullmatch(each)) for each in arguments
    )


def taken_words(name: str, words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the arguments that may name what a program removes."""
    texts = [word.text for word in words]
    if not takes_sources(name, texts):
        return ()
    values = (VALUE.fullmatch(text) for text in texts)
    named = (Word(found[1] or found[2]) for found in values if found)
    operands = tuple(word for word in words if not word.is_option)
    if name == "rsync":
        # `--delete` empties the target, and `--remove-source-files` everything in front of it.
        has_target = any(map(TARGET_OPTION.fullmatch, texts))
        has_sources = any(text.startswith("--rem") for text in texts)
        return operands[:-1] * has_sources + operands[-1:] * has_target
    return (*operands, *named)


def guard_sources(
    name: str, words: tuple[Word, ...], place: Path | None, policy: Policy
) -> Iterator[AccessDecision]:
    """Ask about protected and denied files that a program removes together with a directory."""
    taken = taken_words(name, words)
    is_packer = name not in MOVERS
    if taken and is_packer and packs_more(name, [word.text for word in words]):
        yield unknown_files(UNKNOWN_SOURCE, policy)
    for word in taken:
        try:
            folders = [path_in(text, place) for text in arguments_in((word,), place)]
            folders = [each for path in folders for each in _all_of(path, follows=is_packer)]
        except UnknownValue:
            # Whether `rm` and `mv` get known arguments is judged with all other writers.
            if is_packer:
                yield unknown_files(UNKNOWN_SOURCE, policy)
            continue
        yield from protected_below(folders)
        yield from restrictions_below(folders, policy, WRITING, "Edit") if is_packer else ()
        for folder in folders if is_packer else ():
            if is_guarded(folder, policy.directories, policy.added_path):
                yield AccessDecision(VerdictKind.ASK, f"{folder} is protected", is_guarded=True)


def _all_of(path: Path, *, follows: bool) -> list[Path]:
    """Return a path, and the directories that links below it lead to."""
    return list(with_linked(path)) if follows and may_be_folder(path) else [path]
