"""Commands that only read: how each may be called so that nothing else can happen."""

import re
from collections.abc import Callable

from turnlog.agent.permissions.git_usage import read_git
from turnlog.agent.permissions.operands import Usage, loose_paths, read_operands
from turnlog.agent.permissions.sed_script import read_sed
from turnlog.agent.permissions.words import Word

GREP = tuple(
    f"--{name}"
    for name in """
    after-context basic-regexp before-context binary-files byte-offset color colour context count
    exclude exclude-dir extended-regexp files-with-matches files-without-match
    fixed-strings ignore-case include initial-tab invert-match line-buffered line-number
    line-regexp max-count no-filename no-messages null null-data only-matching perl-regexp quiet
    recursive regexp silent text version with-filename word-regexp
    """.split()
)
RIPGREP = tuple(
    f"--{name}"
    for name in """
    after-context before-context case-sensitive color column context count count-matches crlf
    files files-with-matches files-without-match fixed-strings glob glob-case-insensitive heading
    hidden iglob ignore-case invert-match json line-number line-regexp max-columns max-count
    max-depth max-filesize multiline multiline-dotall no-config no-filename no-heading no-ignore
    no-ignore-vcs no-line-number null only-matching passthru pcre2 quiet regexp replace
    smart-case sort sortr stats text trim type type-list type-not unrestricted vimgrep
    with-filename word-regexp
    """.split()
)
LS = tuple(
    f"--{name}"
    for name in """
    all almost-all author classify color directory escape file-type format full-time
    group-directories-first hide human-readable ignore inode literal no-group numeric-uid-gid
    quote-name recursive reverse si size sort time time-style width
    """.split()
)
FILES = {
    "cat": Usage("AbeEnstTuv", names=("--number", "--number-nonblank", "--show-all")),
    "cmp": Usage("bls", "in", most=2),
    "cut": Usage(
        "nsz", "bcdf", ("--bytes", "--characters", "--complement", "--delimiter", "--fields")
    ),
    "df": Usage("ahHiklmPT", names=("--human-readable", "--total", "--type")),
    "diff": Usage(
        "abBcdeEiNnqstTuwyZ",
        "CIFULWx",
        (
            *("--brief", "--color", "--context", "--ignore-all-space", "--ignore-blank-lines"),
            *("--ignore-case", "--minimal", "--side-by-side", "--suppress-common-lines"),
            *("--unified", "--width"),
        ),
    ),
    "du": Usage(
        "0abcDhHklmsSx",
        "Bdt",
        (
            *("--all", "--apparent-size", "--exclude", "--human-readable", "--max-depth"),
            *("--summarize", "--total"),
        ),
    ),
    "file": Usage("bhiLNprsz", names=("--brief", "--mime", "--mime-encoding", "--mime-type")),
    "grep": Usage("abcEFGhHiIlLnoPqrsTUvwxyzZ", "ABCDdem", GREP, others=1, takes_numbers=True),
    "head": Usage("qvz", "cn", ("--bytes", "--lines", "--quiet", "--verbose"), takes_numbers=True),
    "ls": Usage("1aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ", names=LS),
    "md5sum": Usage("btz"),
    "nl": Usage("p", "bdfhilnsvw"),
    "readlink": Usage("efmnqsvz"),
    "realpath": Usage("eLmPqsz"),
    "rev": Usage(),
    "rg": Usage("0.aFHiIclnNopPqsSuUvVwx", "ABCdegjmMrtT", RIPGREP, others=1),
    "sha1sum": Usage("btz"),
    "sha256sum": Usage("btz"),
    "sha512sum": Usage("btz"),
    "sort": Usage(
        "bcCdfghiMmnRrsuVz",
        "kt",
        (
            "--field-separator",
            "--human-numeric-sort",
            "--key",
            "--numeric-sort",
            "--reverse",
            "--unique",
        ),
        allows_globs=False,
    ),
    "stat": Usage("fLt", "c", ("--dereference", "--format", "--printf", "--terse")),
    "tac": Usage("br", "s"),
    "tail": Usage(
        "fFqvz", "cns", ("--bytes", "--follow", "--lines", "--quiet", "--retry"), takes_numbers=True
    ),
    "tree": Usage(
        "aACdDfFghiJlNpqQrsStuUvx", "ILP", ("--dirsfirst", "--du", "--gitignore", "--noreport")
    ),
    "uniq": Usage("cdDiuz", "fsw", ("--count", "--repeated", "--unique"), most=1),
    "wc": Usage("clLmw", names=("--bytes", "--chars", "--lines", "--max-line-length", "--words")),
}
FILES["egrep"] = FILES["fgrep"] = FILES["grep"]
HARMLESS = frozenset(
    """
    : arch basename dirname echo false nproc pwd seq sleep true type uname uptime which whoami
    """.split()
)
"""Which touch no file, whatever they are given."""
RECURSIVE = {
    "grep": {"r", "--recursive"},
    "egrep": {"r", "--recursive"},
    "fgrep": {"r", "--recursive"},
}
FIND_TESTS = {
    **dict.fromkeys(
        """
        -amin -anewer -atime -cmin -cnewer -ctime -gid -group -iname -inum -ipath -iregex -links
        -maxdepth -mindepth -mmin -mtime -name -newer -path -perm -printf -regex -regextype -size
        -type -uid -user -wholename -xtype
        """.split(),
        1,
    ),
    **dict.fromkeys(
        """
        -a -and -daystart -depth -empty -executable -false -ls -mount -not -o -or -print -print0
        -prune -quit -readable -true -writable -xdev ! ( ) ,
        """.split(),
        0,
    ),
}
CONDITION = re.compile(r"""[\w\s./$"'=!\-]+""", re.ASCII)
CALCULATES = re.compile(r"-(eq|ne|lt|le|gt|ge|v)\b")


def read_paths(words: tuple[Word, ...]) -> tuple[Word, ...] | None:
    """The paths that a command reads; None if it might do more than read."""
    name, arguments = words[0].text, words[1:]
    if name in FILES:
        found = read_operands(arguments, FILES[name])
        return found.paths if found else None
    reader = READERS.get(name)
    if reader:
        return reader(arguments)
    is_plain = name in HARMLESS and all(word.is_known for word in arguments)
    return () if is_plain else None


def guess_paths(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """What may be paths among the arguments of a command that reads files."""
    usage = FILES.get(words[0].text)
    if usage:
        return loose_paths(words[1:], usage)
    return loose_paths(words[1:], Usage()) if words[0].text in READERS else ()


def searches_folders(words: tuple[Word, ...]) -> bool:
    """Whether a command shows what is in files that it finds itself."""
    name = words[0].text
    if name == "rg":
        return True
    found = read_operands(words[1:], FILES[name]) if name in RECURSIVE else None
    return bool(found and found.letters & RECURSIVE[name])


def is_harmless_test(source: str) -> bool:
    """Whether a condition in brackets looks at nothing but texts and files."""
    inner = source.strip().strip("[]")
    return bool(CONDITION.fullmatch(inner)) and not CALCULATES.search(inner)


def _read_find(arguments: tuple[Word, ...]) -> tuple[Word, ...] | None:
    if not all(word.is_known for word in arguments):
        return None
    texts = [word.text for word in arguments]
    starts = next(
        (i for i, text in enumerate(texts) if text[:1] == "-" or text in "!("), len(texts)
    )
    rank = starts
    while rank < len(texts):
        if texts[rank] not in FIND_TESTS:
            return None
        rank += 1 + FIND_TESTS[texts[rank]]
    return arguments[:starts] or (Word("."),)


def _read_cd(arguments: tuple[Word, ...]) -> tuple[Word, ...] | None:
    if len(arguments) != 1 or not arguments[0].is_known or arguments[0].text.startswith("-"):
        return None
    return arguments


def _read_command(arguments: tuple[Word, ...]) -> tuple[Word, ...] | None:
    """`command -v`, which tells where a program is."""
    asks = bool(arguments) and arguments[0].text in ("-v", "-V")
    return () if asks and all(word.is_known for word in arguments) else None


def _read_date(arguments: tuple[Word, ...]) -> tuple[Word, ...] | None:
    usage = Usage("uRI", "d", ("--date", "--iso-8601", "--rfc-3339", "--utc", "--rfc-email"))
    found = read_operands(arguments, usage)
    return () if found and all(word.text.startswith("+") for word in found.paths) else None


def _read_id(arguments: tuple[Word, ...]) -> tuple[Word, ...] | None:
    return () if read_operands(arguments, Usage("Ggnru")) else None


def _read_printf(arguments: tuple[Word, ...]) -> tuple[Word, ...] | None:
    plain = all(word.is_known for word in arguments)
    return () if plain and arguments and not arguments[0].is_option else None


def _read_sed(arguments: tuple[Word, ...]) -> tuple[Word, ...] | None:
    found = read_sed(arguments)
    return found.paths if found and not found.in_place else None


def _read_test(arguments: tuple[Word, ...]) -> tuple[Word, ...] | None:
    text = " ".join(word.text for word in arguments)
    return () if all(word.is_known for word in arguments) and is_harmless_test(text) else None


def _read_tr(arguments: tuple[Word, ...]) -> tuple[Word, ...] | None:
    return () if read_operands(arguments, Usage("cCdst")) else None


READERS: dict[str, Callable[[tuple[Word, ...]], tuple[Word, ...] | None]] = {
    "cd": _read_cd,
    "command": _read_command,
    "date": _read_date,
    "find": _read_find,
    "git": read_git,
    "id": _read_id,
    "printf": _read_printf,
    "sed": _read_sed,
    "test": _read_test,
    "[": _read_test,
    "tr": _read_tr,
}
