"""Read the tokens between words: blanks, comments, reserved words and here-documents."""

import re
from abc import ABC

from msgspec import Struct

from turnlog.agent.permissions.bash.lexer import JOINED, UNFINISHED, Lexer, SyntaxFault, WordBuilder
from turnlog.agent.permissions.bash.syntax import Script, detached
from turnlog.agent.workspace.shell.command_environment import is_modern_bash

PLAIN_WORD = re.compile(r"[^\s;&|<>()\\'\"$`]+")


class Heredoc(Struct):
    """A here-document whose body starts on the next line."""

    delimiter: str
    is_raw: bool
    """True if the delimiter is quoted, so that nothing in the body is expanded."""
    strips_tabs: bool


class TokenReader(Lexer, ABC):
    """A cursor in a command, with the here-documents whose bodies have not been read yet."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.heredocs: list[Heredoc] = []
        self.depth = 0
        """Nesting depth of substitutions."""
        self.is_printed = False
        """True if bash printed the text."""

    def _plain_word(self) -> str:
        """Return the next word if it may be a reserved word: without quotes and expansions."""
        found = PLAIN_WORD.match(self.source, self.place)
        if not found or self.source[found.end() : found.end() + 1] in tuple("\\'\"$`"):
            return ""
        return found[0]

    def _take_word(self, word: str) -> bool:
        found = self._plain_word() == word
        self.place += len(word) if found else 0
        return found

    def _expect_word(self, word: str) -> None:
        if not self._take_word(word):
            raise SyntaxFault(UNFINISHED)

    def _skip_space(self, *, newlines: bool = False) -> None:
        """Skip blanks, line continuations and comments; with `newlines`, also ends of lines."""
        while True:
            if self.char and self.char in " \t":
                self.place += 1
            elif self.peek("\\\n"):
                self._skip_joined_lines()
            elif self.char == "#":
                self._doubt_in_old_bash("a comment")
                end = self.source.find("\n", self.place)
                self.place = len(self.source) if end < 0 else end
            elif newlines and self.char == "\n":
                self._read_newline()
            else:
                return

    def _skip_joined_lines(self) -> None:
        r"""Skip line continuations, which bash removes before it looks for tokens.

        A continuation that is not next to a blank may join tokens: bash reads `(\<newline>(` as
        `((`, and `]]\<newline>` as `]]`.
        """
        before = self.source[max(0, self.place - 1) : self.place]
        while self.take("\\\n"):
            pass
        is_split = before in tuple(";&|(") and self.char in tuple(" \t")
        if before not in ("", " ", "\t", "\n") and not is_split:
            self.misread(JOINED)

    def _doubt_in_old_bash(self, what: str) -> None:
        """Record a doubt about syntax in `$(…)` that bash before 4.4, as on macOS, misreads.

        To find the closing parenthesis, it pairs quotes even in comments and here-documents:
        `$(ls # '` continues to the next quote.
        """
        if self.depth and not is_modern_bash():
            self.doubt(f"{what} inside of a substitution")

    def _read_newline(self) -> None:
        """Move to the next line, past the bodies of here-documents that start there."""
        self.place += 1
        waiting, self.heredocs = self.heredocs, []
        for rank, heredoc in enumerate(waiting):
            self.place += bool(rank)  # past the end of the line with the previous delimiter
            self._read_body(heredoc)

    def _read_body(self, heredoc: Heredoc) -> None:
        start = self.place
        while self.place < len(self.source):
            end = self.source.find("\n", self.place)
            stop = len(self.source) if end < 0 else end
            line = self.source[self.place : stop]
            body_end, self.place = self.place, stop + (end >= 0)
            line = line.lstrip("\t") if heredoc.strips_tabs else line
            if self.depth and line.startswith(heredoc.delimiter) and line != heredoc.delimiter:
                # Inside of `$(…)`, bash 5.2 also ends the body at `E)`.
                self.doubt("a here-document has a line that starts with its delimiter")
            if line == heredoc.delimiter:
                # The newline after the delimiter ends the command, as any other does.
                self.place = stop
                self._read_document(self.source[start:body_end], heredoc)
                return
        self.misread("a here-document has no end")
        self._read_document(self.source[start:], heredoc)

    def _read_document(self, body: str, heredoc: Heredoc) -> None:
        if heredoc.strips_tabs:
            body = re.sub(r"(?m)^\t+", "", body)
        self.script.inputs.append(body)
        if heredoc.is_raw:
            return
        if any(sign in body for sign in ("`", "$(", "${", "$[", "\\\n")):
            self.doubt("a here-document has expansions")
        inner = type(self)(body)
        try:
            while inner.char:
                inner.place += 1
                if inner.source[inner.place - 1] == "\\":
                    inner.place += 1
                elif inner.source[inner.place - 1] in "$`":
                    inner.place -= 1
                    inner.read_expansion(WordBuilder(), is_quoted=True)
        except SyntaxFault as fault:
            self.misread(str(fault))
        self.script.parts += detached(inner.script.parts)
        self._adopt_doubts(inner.script)

    def _adopt_doubts(self, nested: Script) -> None:
        """Copy the doubts about a nested script to the script of the whole command."""
        for reason in nested.unclear:
            self.doubt(reason)
        self.script.is_misread |= nested.is_misread
