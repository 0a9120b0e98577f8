"""Program calls that the allowlist does not cover, and the files that they may read or write."""

import re
from itertools import zip_longest

from msgspec import Struct

from turnlog.agent.permissions.bash import HOLE, UNKNOWN, SimpleCommand, Word
from turnlog.agent.permissions.launchers import (
    INTERPRETERS,
    READERS,
    SHELLS,
    VERSION,
    name_of,
    runs_given_text,
)
from turnlog.agent.permissions.programs import (
    CONTENT_READERS,
    COPYING,
    NEVER_WRITING,
    WRITERS,
)
from turnlog.agent.permissions.restrictions import takes_data

SYSTEM = frozenset(("", "/bin", "/usr/bin"))
"""Directories in which a program's name identifies it; empty for a name without a directory."""
SCRIPTED = frozenset("ed ex gsed sed vi vim".split())
"""Programs with single-letter commands directly followed by a file name: `s/a/b/gw.env`."""
CREATING = frozenset("awk curl find gawk mawk nawk openssl perl sort uniq wget".split())
"""Programs that write some of the files that their arguments name."""
HARMLESS_GIT = frozenset(
    """
    add blame branch commit describe diff fetch log ls-files merge-base pull push remote rev-parse
    shortlog show status tag
    """.split()
)
"""Git subcommands that write to a file named by an argument only if an option says so."""
TREE_CHANGES = frozenset("checkout clean mv restore rm".split())
"""Git subcommands that change or remove everything below a directory argument."""
UNSTAGING, IN_WORK_TREE = frozenset(("-S", "--st")), frozenset(("-W", "--w", "--wo"))
"""Options of `git restore` for the index and for the work tree, cut to four characters."""
PATHSPEC = re.compile(r":.*|.*[*?\[\\].*", re.S)
"""A pathspec that git expands itself: `:/`, `:(glob)**/x`, `'docs/*'`."""
PATH_LIST = "--path"
"""Prefix of `--pathspec-from-file`, which git also accepts abbreviated."""
EXCLUDING = re.compile(r"-[A-Za-z]*e|--e[a-z]*")
"""The option of `git clean` that is followed by an exclude pattern."""
SHOWING_GIT = frozenset("blame diff log shortlog show".split())
"""The subset of `HARMLESS_GIT` with an option that names an output file."""
OUTPUT = re.compile(r"-[A-Za-z]*[oO]|--?out|--o")
"""An option whose value is a file to write, in most programs."""
LISTED = re.compile(r"-[^-]*[T@].*|--\w*-from.*|@.*")
"""An argument that makes a program read the names of files from a list."""
RESPONSES = re.compile(
    r"(?:.+-)?(?:addr2line|ar|as|c\+\+|c\+\+filt|c89|c99|cc|clang(?:\+\+)?|cpp|g\+\+|gcc|java|javac|javadoc"
    r"|ld|nm|objcopy|objdump|ranlib|readelf|rustc|size|strings|strip)(?:-[0-9.]+)?"
)
"""Programs that read response files: `@list` stands for the arguments in the file `list`."""
LISTING = frozenset(
    "ack ag cpio cscope ctags ctags-universal etags gtags pax pt rga rgrep sift ug ugrep".split()
)
"""Programs that read file names from stdin, or search the current directory by default."""
GREP_WRAPPER = re.compile(r"\w+grep")
RECURSIVE = re.compile(r"-[^-]*[dRr].*|--(?:de|di|r).*")
"""Options that wrappers pass on to grep: `bzgrep -r x a.bz2` searches the current directory."""
FINDERS = frozenset(("fd", "fdfind"))
FOUND = re.compile(r"-[^-]*[xX].*|--exec.*")
"""An option of fd that runs a program for each file found."""
SCRIPT = re.compile(r"[\w./~][\w./~+-]*")
"""The path of a script, as opposed to script text such as the first argument of awk."""
EXCLUDED = re.compile(r"--exclude=[^/]+/?")
"""An option of rsync and tar that leaves a file out.

With a slash, it may be the path of a file if another option takes it as its value.
"""
EXCLUDERS = frozenset("bsdtar gtar rsync tar".split())
SUBCOMMAND = re.compile(r"[a-z][a-z0-9-]*")
MESSAGE = re.compile(r"-[aqsv]*m|--message")
"""The option of `git commit` and `git tag` that a message follows: `-m`, or clustered as `-am`."""
LONE = re.compile(
    r"-[aefinopqsvz]+|-S.*|--[a-z-]+=.*|--(?:all|allow-empty|allow-empty-message|amend|annotate"
    r"|branch|create-reflog|dry-run|edit|force|gpg-sign|include|long|no-edit|no-gpg-sign"
    r"|no-post-rewrite|no-sign|no-signoff|no-status|no-verify|null|only|patch|porcelain|quiet"
    r"|reset-author|short|sign|signoff|status|verbose|verify)",
    re.S,
)
"""Options of `git commit` and `git tag` that do not take the next argument; others may."""

FILE_OPTIONS = {
    "commit": ("--file", "--template"),
    **dict.fromkeys(("commit-tree", "merge", "notes", "tag"), ("--file",)),
}
"""Options of git subcommands whose value is a file with the message."""
FILE_LETTER = re.compile(r"-[A-Za-ln-z]*?[Ft](.*)", re.S)
"""The short options `-F` and `-t`, possibly clustered; the group is an attached value.

No `m` may precede them, because the text after `-m` is the message.
"""


class ProgramCall(Struct, frozen=True):
    """A call of a program whose use of its arguments is not fully known."""

    name: str
    words: tuple[Word, ...]
    """The arguments."""
    is_known: bool = True
    """True if the name identifies the program; `./cat` may be any program."""
    around: str = ""
    """The text of the whole command; empty if the program is known not to run its arguments."""
    is_fed: bool = False
    """True if its input is a pipe, a file or a here-document."""

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools whose rules may apply to the call."""
        return ("Read", "Edit") if self.can_write else ("Read",)

    @property
    def subcommand(self) -> tuple[Word, ...]:
        """The subcommand of git, which names no file: `config` in `git config user.name x`."""
        is_git = self.is_known and self.name == "git" and bool(self.words)
        return self.words[:1] if is_git and SUBCOMMAND.fullmatch(self.words[0].text) else ()

    @property
    def texts(self) -> list[str]:
        """All texts that may contain a file name."""
        given, around = self.words[len(self.subcommand) :], self.around
        for word in self.subcommand:
            around = re.sub(rf"\bgit\s+{re.escape(word.text)}(?=\s|\Z)", "git", around)
        return [around, *_texts_of(given)]

    @property
    def joined_texts(self) -> list[str]:
        """Arguments in which a file name may directly follow other characters: `-f.env`."""
        words = self.words if self.name in SCRIPTED else filter(lambda w: w.is_option, self.words)
        return list(_texts_of(tuple(words)))

    @property
    def written(self) -> tuple[Word, ...]:
        """The arguments that may name a file to write.

        The script of an interpreter and files that are left out are not among them.
        """
        if self.is_known and self.name in EXCLUDERS:
            return tuple(word for word in self.words if not EXCLUDED.fullmatch(word.text))
        is_script = self.words and SCRIPT.fullmatch(self.words[0].text)
        return self.words[1:] if is_script and _runs_scripts(self.name) else self.words

    @property
    def is_instructed(self) -> bool:
        """True if it may run its input as code."""
        return self.is_fed and runs_given_text(self.name)

    @property
    def opens_files(self) -> bool:
        """True if most of its operands are files."""
        return self.name in CONTENT_READERS or self.name in WRITERS or self.name in CREATING

    @property
    def lists_files(self) -> bool:
        """True if it may open files that no argument names, such as those in a list file."""
        has_list = any(LISTED.fullmatch(word.text) for word in self.words)
        runs_found = any(FOUND.fullmatch(word.text) for word in self.words)
        is_finder = self.name in FINDERS and runs_found
        is_search = self.name in LISTING or self._searches_by_grep
        is_packing = self.name in COPYING and has_list
        return is_search or is_finder or is_packing or self._takes_responses

    @property
    def changed_trees(self) -> tuple[Word, ...]:
        """Paths that git changes or removes recursively; `UNKNOWN` if only git can tell them."""
        rank = next((n for n, word in enumerate(self.words) if word.text in TREE_CHANGES), None)
        if self.name != "git" or rank is None or (rank and not self.words[0].is_option):
            return ()
        name, given = self.words[rank].text, self.words[rank + 1 :]
        options = {word.text[:4] for word in given if word.is_option}
        if name == "restore" and options & UNSTAGING and not options & IN_WORK_TREE:
            return ()
        if any(word.text.startswith(PATH_LIST) for word in given):
            return (UNKNOWN,)
        named = tuple(word for word in given if not word.is_option)
        named = named[:-1] if name == "mv" else named
        # The only operand may be the pattern of `-e`; git then removes everything else.
        is_whole = name == "clean" and (
            not named or any(EXCLUDING.fullmatch(w.text) for w in given)
        )
        named += (Word("."),) * is_whole
        # `git -C dir rm x` removes `dir/x`.
        is_plain = rank == 0 and not any(PATHSPEC.fullmatch(word.text) for word in named)
        return named if is_plain or not named else (UNKNOWN,)

    @property
    def may_write(self) -> bool:
        """True if it may write a file that an argument names."""
        if self.name == "git":
            return self._has_output or not self._is_harmless_git
        return self.can_write

    @property
    def can_write(self) -> bool:
        """True if the program has a way to write files."""
        return not self.is_known or self.name not in NEVER_WRITING

    @property
    def is_writer(self) -> bool:
        """True if an unknown argument is likely to be a file that it writes."""
        if self.name == "git":
            return self.may_write
        return self.name in WRITERS or self.name in CREATING or self._has_output

    @property
    def _takes_responses(self) -> bool:
        has_file = any(word.text.startswith("@") for word in self.words)
        return has_file and RESPONSES.fullmatch(self.name) is not None

    @property
    def _searches_by_grep(self) -> bool:
        is_grep = GREP_WRAPPER.fullmatch(self.name) and self.name != "pgrep"
        return bool(is_grep) and any(RECURSIVE.fullmatch(word.text) for word in self.words)

    @property
    def _is_harmless_git(self) -> bool:
        name = self.words[0].text if self.words else ""
        # `$x` may be `--output=.envrc`.
        may_be_option = any(word.may_split or word.text.startswith(HOLE) for word in self.words)
        return name in HARMLESS_GIT and not (name in SHOWING_GIT and may_be_option)

    @property
    def _has_output(self) -> bool:
        return any(OUTPUT.match(word.text) for word in self.words)


def call_of(part: SimpleCommand, words: tuple[Word, ...], text: str) -> ProgramCall:
    """Return the program call of a part.

    `words` is the part without wrappers such as `env`; `text` is the whole command.
    """
    name = name_of(words[0])
    is_known = words[0].text.rpartition("/")[0] in SYSTEM
    around = "" if takes_data(part) else text
    # An unknown program name may expand to arguments as well: `$x` may be `cat .env`.
    given = words if HOLE in words[0].text else without_messages(name, words[1:])
    return ProgramCall(name, given, is_known, around, part.is_fed)


def without_messages(name: str, words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Drop commit and tag messages: `git commit -m 'ignore .env'` does not open `.env`."""
    if name != "git" or not words or words[0].text not in ("commit", "tag"):
        return words
    kept: list[Word] = []
    is_message = is_value = False
    for word in words:
        if is_message and not word.may_split:
            is_message = False
            continue
        kept.append(word)
        # In `git commit -t -m -F x`, the value of `-t` is `-m`, and `-F` is an option.
        is_option = not is_value
        is_message = is_option and MESSAGE.fullmatch(word.text) is not None
        is_alone = not word.is_option or LONE.fullmatch(word.text) is not None
        is_value = is_option and not is_message and not is_alone
    return tuple(kept)


def files_quoted(words: tuple[Word, ...]) -> list[Word]:
    """Return the files whose content a git call copies into the repository.

    After `git commit -F ../x`, `git log` shows that file; `git am ../x` copies it into `.git`. For
    a word that may expand to such an option, the result contains `UNKNOWN`.
    """
    subcommand, *given = without_messages("git", words[1:])
    if subcommand.text == "am":
        return [word for word in given if not word.is_option]
    names = FILE_OPTIONS.get(subcommand.text, ())
    pairs = zip_longest(given, given[1:], fillvalue=UNKNOWN) if names else ()
    values = [_file_in(word, behind, names) for word, behind in pairs]
    return [value for value in values if value and value.text != "-"]


def _file_in(word: Word, behind: Word, names: tuple[str, ...]) -> Word | None:
    """Return the file that an option names, attached to it or in the next word; None if none."""
    if word.may_split or word.text.startswith(HOLE):
        return UNKNOWN
    name, has_value, value = word.text.partition("=")
    if not name.startswith("--"):
        found = FILE_LETTER.fullmatch(word.text)
        has_value = value = found[1] if found else ""
        is_named = found is not None
    else:
        is_named = len(name) > len("--") and any(each.startswith(name) for each in names)
    if not is_named:
        return None
    return (Word(value) if word.is_known else UNKNOWN) if has_value else behind


def _texts_of(words: tuple[Word, ...]) -> list[str]:
    return [text.replace(HOLE, " ") for word in words for text in (word.text, word.source)]


def _runs_scripts(name: str) -> bool:
    return name in SHELLS or name in READERS or VERSION.sub("", name) in INTERPRETERS
