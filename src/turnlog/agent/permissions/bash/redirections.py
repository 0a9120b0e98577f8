"""Read redirections: files, here-documents, and descriptors that are copied or closed."""

import re
from abc import ABC

from msgspec import Struct, field

from turnlog.agent.permissions.bash.lexer import UNFINISHED, SyntaxFault
from turnlog.agent.permissions.bash.syntax import HOLE, Redirect, Word
from turnlog.agent.permissions.bash.tokens import Heredoc, TokenReader

OPERATORS = ("&>>", "&>", "<<<", "<<-", "<<", "<&", "<>", ">>", ">&", ">|", "<", ">")
DESCRIPTOR = re.compile(r"[0-9]{1,4}(?=[<>])")
LARGE_DESCRIPTOR = re.compile(r"[0-9]{5,}[<>]")
"""A number that bash passes to the program as an argument if it is too large for a descriptor."""
NAMED_DESCRIPTOR = re.compile(r"\{\w+\}[<>]")
DESCRIPTOR_COPY = re.compile(r"[0-9]+-?|-")
"""A target of `>&` that is a descriptor, not a file name; only ASCII digits count."""


class Redirections(Struct):
    """The redirections of one command, as they are read."""

    files: list[Redirect] = field(default_factory=list[Redirect])
    copies: list[Word] = field(default_factory=list[Word])
    """The targets of redirections that copy or close a descriptor."""
    opened: set[str] = field(default_factory=lambda: {"0", "1", "2"})
    """Descriptors that the command has, or that a redirection before has opened."""


class RedirectReader(TokenReader, ABC):
    """Reads the redirections of a command."""

    def read_redirect(self, redirects: Redirections) -> str:
        """Read a redirection and return its operator; empty if there is none."""
        start, number = self.place, "0"
        if NAMED_DESCRIPTOR.match(self.source, start):
            self.doubt("it names a file descriptor")
            self.place = self.source.index("}", start) + 1
        elif LARGE_DESCRIPTOR.match(self.source, start):
            self.doubt("it has a very large file descriptor")
        elif found := DESCRIPTOR.match(self.source, start):
            self.place = found.end()
            number = found[0].lstrip("0")
        sign = next((each for each in OPERATORS if self.peek(each)), "")
        # `<(` and `>(` start a word, unless a blank stands in between.
        if not sign or (sign in "<>" and self._is_process()):
            self.place = start
            return ""
        self.place += len(sign)
        self._skip_space()
        if DESCRIPTOR.match(self.source, self.place):
            raise SyntaxFault(UNFINISHED)  # `1` in `<<< 1>x` belongs to the next redirection
        if sign in ("<<", "<<-"):
            self._read_delimiter(sign)
        elif sign in (">&", "<&"):
            sign = self._read_copy(sign, redirects)
        elif sign == "<<<":
            self.script.inputs.append(self.read_word().text)
        else:
            redirects.files.append(Redirect(self.read_word(), is_write=sign != "<"))
        redirects.opened.add(number)
        return sign

    def _read_copy(self, sign: str, redirects: Redirections) -> str:
        """Read the target of `>&` or `<&`; return `>&` if it closes the descriptor, else `sign`."""
        target = self.read_word()
        if target.source.startswith("-") and target.source != "-":
            # The dash is a token by itself: `cat 2>&-x` closes a descriptor and reads x.
            self.misread("a word follows the redirection that closes a file descriptor")
        if DESCRIPTOR_COPY.fullmatch(target.text):
            redirects.copies.append(target)
            # In the shell that runs commands, others are turnlog's: it notes the directory in one.
            # In what bash prints, `cross_check` has marked words with such redirections.
            number = target.text.removesuffix("-").lstrip("0")
            if number and number not in redirects.opened and not self.is_printed:
                self.doubt(f"it uses a file descriptor that it did not open: {number}")
            return ">&" if target.text == "-" else sign
        if sign == "<&":
            self.doubt("it copies a file descriptor that is only known when it runs")
        else:
            redirects.files.append(Redirect(target, is_write=True))
        return sign

    def _read_delimiter(self, sign: str) -> None:
        self._doubt_in_old_bash("a here-document")
        word = self.read_word()
        is_raw = any(char in word.source for char in "'\"\\")
        if word.text != re.sub(r"['\"\\]", "", word.source) or HOLE in word.text or not word.text:
            self.doubt("a here-document has an odd delimiter")
        self.heredocs.append(Heredoc(word.text, is_raw, sign == "<<-"))
