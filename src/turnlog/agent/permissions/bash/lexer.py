"""Read the words, redirections and here-documents of a bash command exactly as bash does.

Every character is either consumed under a rule of bash's own grammar or makes the script a problem;
nothing is skipped. Commands in `$(…)`, backticks and `<(…)` are read as well.
"""

import re
from abc import ABC, abstractmethod

from msgspec import Struct

from turnlog.agent.permissions.bash.syntax import HOLE, Redirect, Script, Word

META = " \t\n;&|<>()"
"""Characters that end an unquoted word."""
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SPECIAL_PARAMETERS = "@*#?-$!0123456789"
SIMPLE_PARAMETER = re.compile(r"\{(?:[A-Za-z_][A-Za-z0-9_]*|[@*#?$!-]|[0-9]+)\}")
SEVERAL = re.compile(r"\$(?:@|\{@|\{\w*\[)")
"""Expansions that become several arguments even within quotes."""
HOME_PREFIX = re.compile(r"~(?:/|\Z)")
ANSI_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
PLAIN_WORD = re.compile(r"[^\s;&|<>()\\'\"$`]+")
REDIRECTIONS = ("&>>", "&>", "<<<", "<<-", "<<", "<&", "<>", ">>", ">&", ">|", "<", ">")
DESCRIPTOR = re.compile(r"(?:[0-9]{1,4}|\{\w+\})(?=[<>])")
DESCRIPTOR_COPY = re.compile(r"[0-9]+-?|-")
UNFINISHED = "it cannot be parsed"


class SyntaxFault(Exception):
    """The command ends, or continues, where bash's grammar does not allow it."""


class Heredoc(Struct):
    """A here-document whose body starts on the next line."""

    delimiter: str
    is_raw: bool
    """True if the delimiter is quoted, so that nothing in the body is expanded."""
    strips_tabs: bool


class WordBuilder:
    """Collects the pieces of one word."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.bare: list[str] = []
        """The unquoted characters, with a quote mark in place of each quoted piece."""
        self.may_split = False

    def add(self, char: str) -> None:
        """Add an unquoted character."""
        self.text.append(char)
        self.bare.append(char)

    def add_quoted(self, text: str) -> None:
        """Add text that is not subject to any expansion."""
        self.text.append(text)
        self.bare.append("'")

    def build(self, source: str) -> Word:
        """Return the finished word."""
        text, bare = "".join(self.text), "".join(self.bare)
        has_tilde = bool(HOME_PREFIX.match(bare))
        # `~user` and `~+` name other directories; `a=~/x` and `a:~/x` expand in some places only.
        is_odd_tilde = (bare.startswith("~") and not has_tilde) or re.search(r"[=:]~", bare)
        braces = bare[bare.find("{") : bare.rfind("}") + 1] if "{" in bare else ""
        if "," in braces or ".." in braces or is_odd_tilde:
            return Word(HOLE, source=source, may_split=True)
        # A lone `[` is the test command; with anything next to it, it may open a set.
        has_glob = bare != "[" and any(char in bare for char in "*?[")
        return Word(text, has_glob, has_tilde, source, self.may_split)


class Lexer(ABC):
    """A cursor in the source of a command."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.place: int = 0
        self.script = Script()
        self.heredocs: list[Heredoc] = []
        self.depth = 0
        """Nesting depth of substitutions."""

    @abstractmethod
    def read_nested(self, end: str) -> None:
        """Read the commands of a substitution up to and including its end."""

    @abstractmethod
    def read_script(self, text: str) -> None:
        """Read a text that bash parses as a script of its own, as that between backticks."""

    def peek(self, text: str) -> bool:
        """Return whether the source continues with a text."""
        return self.source.startswith(text, self.place)

    @property
    def char(self) -> str:
        """The next character; empty at the end."""
        return self.source[self.place : self.place + 1]

    def take(self, text: str) -> bool:
        """Move past a text if the source continues with it."""
        found = self.peek(text)
        self.place += len(text) if found else 0
        return found

    def expect(self, text: str) -> None:
        """Move past a text, or raise `SyntaxFault`."""
        if not self.take(text):
            raise SyntaxFault(UNFINISHED)

    def doubt(self, reason: str) -> None:
        """Record why the parts may not be what would run."""
        self.script.problem = self.script.problem or reason

    def plain_word(self) -> str:
        """Return the next word if it may be a reserved word: without quotes and expansions."""
        found = PLAIN_WORD.match(self.source, self.place)
        if not found or self.source[found.end() : found.end() + 1] in tuple("\\'\"$`"):
            return ""
        return found[0]

    def take_word(self, word: str) -> bool:
        """Move past a reserved word if it comes next."""
        found = self.plain_word() == word
        self.place += len(word) if found else 0
        return found

    def skip_space(self, *, newlines: bool = False) -> None:
        """Skip blanks, line continuations and comments; with `newlines`, also ends of lines."""
        while True:
            if self.char and self.char in " \t":
                self.place += 1
            elif self.peek("\\\n"):
                # Bash removes it before it looks for tokens: `(\<newline>(` is `((`.
                before = self.source[max(0, self.place - 1) : self.place]
                self.place += 2
                if before not in ("", *" \t\n\\") and self.char not in tuple(" \t\n"):
                    self.doubt("a word or an operator continues on the next line")
            elif self.char == "#":
                end = self.source.find("\n", self.place)
                self.place = len(self.source) if end < 0 else end
            elif newlines and self.char == "\n":
                self.read_newline()
            else:
                return

    def read_newline(self) -> None:
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
        self.doubt("a here-document has no end")
        self._read_document(self.source[start:], heredoc)

    def _read_document(self, body: str, heredoc: Heredoc) -> None:
        """Read the substitutions in a here-document."""
        if heredoc.is_raw:
            return
        inner = type(self)(re.sub(r"(?m)^\t+", "", body) if heredoc.strips_tabs else body)
        try:
            while inner.char:
                if inner.char == "\\":
                    inner.place += 2
                elif inner.char in "$`":
                    inner.read_expansion(WordBuilder(), is_quoted=True)
                else:
                    inner.place += 1
        except SyntaxFault as fault:
            self.doubt(str(fault))
        self.script.parts += inner.script.parts
        self.doubt(inner.script.problem)

    def read_redirect(self, files: list[Redirect]) -> bool:
        """Read a redirection, if one comes next; return whether there is one."""
        start = self.place
        if found := DESCRIPTOR.match(self.source, start):
            self.place = found.end()
        sign = next((each for each in REDIRECTIONS if self.peek(each)), "")
        # `<(` and `>(` start a word, unless a blank stands in between.
        if not sign or (sign in "<>" and self.is_process()):
            self.place = start
            return False
        self.place += len(sign)
        self.skip_space()
        if DESCRIPTOR.match(self.source, self.place):
            raise SyntaxFault(UNFINISHED)  # `1` in `<<< 1>x` belongs to the next redirection
        target = self.read_word()
        if sign in ("<<", "<<-"):
            is_raw = any(char in target.source for char in "'\"\\")
            plain = re.sub(r"['\"\\]", "", target.source)
            if target.text != plain or HOLE in target.text or not target.text:
                self.doubt("a here-document has an odd delimiter")
            self.heredocs.append(Heredoc(target.text, is_raw, sign == "<<-"))
        elif sign in (">&", "<&") and DESCRIPTOR_COPY.match(target.source):
            if not DESCRIPTOR_COPY.fullmatch(target.text):
                # The dash is a token by itself: `cat 2>&-x` closes a descriptor and reads x.
                self.doubt("a word follows the redirection that closes a file descriptor")
        elif sign != "<<<":
            files.append(Redirect(target, is_write=sign not in ("<", "<&")))
        return True

    def is_process(self) -> bool:
        """Return whether `<(…)` or `>(…)` comes next."""
        return self.peek("<(") or self.peek(">(")

    def read_word(self) -> Word:
        """Read one word; raise `SyntaxFault` if none starts here."""
        start, word = self.place, WordBuilder()
        while self.char and (self.char not in META or self.is_process()):
            self.read_piece(word)
        if start == self.place:
            raise SyntaxFault(UNFINISHED)
        return word.build(self.source[start : self.place])

    def read_piece(self, word: WordBuilder) -> None:
        """Read one character, quoted string or expansion."""
        char = self.char
        if char == "\\":
            self._read_escape(word)
        elif char == "'":
            self.place += 1
            stop = self.source.find("'", self.place)
            if stop < 0:
                raise SyntaxFault(UNFINISHED)
            word.add_quoted(self.source[self.place : stop])
            self.place = stop + 1
        elif char == '"':
            self.place += 1
            self.read_quoted(word)
        elif char in "$`" or self.is_process():
            self.read_expansion(word, is_quoted=False)
        else:
            word.add(char)
            self.place += 1

    def _read_escape(self, word: WordBuilder) -> None:
        self.place += 1
        if not self.char:
            raise SyntaxFault(UNFINISHED)
        if self.char == "\n":
            # Bash joins the lines before it looks for reserved words: `esac\<newline>` is `esac`.
            if not self.source[self.place - 2].isspace():
                self.doubt("a word continues on the next line")
        else:
            word.add_quoted(self.char)
        self.place += 1

    def read_quoted(self, word: WordBuilder) -> None:
        """Read the rest of a double-quoted string, including the closing quote."""
        word.add_quoted("")
        while not self.take('"'):
            if not self.char:
                raise SyntaxFault(UNFINISHED)
            if self.char in "$`":
                self.read_expansion(word, is_quoted=True)
                continue
            escaped = self.source[self.place + 1 : self.place + 2] if self.char == "\\" else ""
            if escaped and escaped in '$`"\\\n':
                word.add_quoted(escaped.replace("\n", ""))
                self.place += 2
            else:
                word.add_quoted(self.char)
                self.place += 1

    def read_expansion(self, word: WordBuilder, *, is_quoted: bool) -> None:
        """Read an expansion that starts with `$`, a backtick, `<(` or `>(`."""
        if self.peek("$'") and not is_quoted:
            self._read_ansi(word)
            return
        word.may_split |= not is_quoted or bool(SEVERAL.match(self.source, self.place))
        if self.take("`"):
            self._read_backticked()
        elif self.is_process():
            self.place += 2
            if self.char == "(":
                # Bash first tries to read `<((` as arithmetic, where `#` starts no comment.
                self.doubt("a substitution starts with two parentheses")
            self.read_nested(")")
        elif self.peek('$"') and not is_quoted:
            self.place += 2
            self.read_quoted(word)
        elif not self._read_parameter():
            word.add_quoted("$")  # a lone `$`, as in `echo 5$`, is a literal character
            return
        word.add_quoted(HOLE)

    def _read_parameter(self) -> bool:
        self.place += 1
        if self.peek("(("):
            self.read_arithmetic()
        elif self.take("("):
            self.read_nested(")")
        elif self.take("["):
            self._read_until("]")
        elif found := SIMPLE_PARAMETER.match(self.source, self.place):
            self.place = found.end()
        elif self.take("{"):
            if self.char and self.char in " \t\n|":
                self.read_nested("}")  # bash 5.3 runs the commands inside of the braces
            else:
                self._read_until("}")
        elif found := NAME.match(self.source, self.place):
            self.place = found.end()
        elif self.char and self.char in SPECIAL_PARAMETERS:
            self.place += 1
        else:
            return False
        return True

    def _read_until(self, end: str) -> None:
        """Read the rest of `${x:-word}` or `$[sum]`, whose substitutions run."""
        ignored = WordBuilder()
        while not self.take(end):
            if not self.char:
                raise SyntaxFault(UNFINISHED)
            if self.char in META and not self.is_process():
                self.place += 1
            else:
                self.read_piece(ignored)

    def read_arithmetic(self) -> None:
        """Read `((…))`, whose substitutions run."""
        self.place += 2
        depth, ignored = 2, WordBuilder()
        while depth:
            if not self.char:
                raise SyntaxFault(UNFINISHED)
            if self.char in META and not self.is_process():
                depth += {"(": 1, ")": -1}.get(self.char, 0)
                self.place += 1
            else:
                self.read_piece(ignored)

    def _read_backticked(self) -> None:
        start = self.place
        while self.char != "`":
            if not self.char:
                raise SyntaxFault(UNFINISHED)
            self.place += 2 if self.char == "\\" else 1
        inner = self.source[start : self.place]
        self.place += 1
        # Bash removes one level of backslashes; within quotes, also those of `\"`.
        if '\\"' in inner:
            self.doubt("it has escapes inside of backticks")
        self.read_script(re.sub(r"\\([$`\\])", r"\1", inner))

    def _read_ansi(self, word: WordBuilder) -> None:
        """Read `$'…'`; its text is a hole if it has an escape that is not in `ANSI_ESCAPES`."""
        self.place += 2
        text = ""
        while not self.take("'"):
            if not self.char:
                raise SyntaxFault(UNFINISHED)
            is_escape = self.take("\\")
            text += ANSI_ESCAPES.get(self.char, HOLE) if is_escape else self.char
            self.place += 1
        word.add_quoted(HOLE if HOLE in text else text)
