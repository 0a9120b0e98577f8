"""Read the words of a bash command exactly as bash does, or mark the script as unclear.

Every character is either consumed under a rule of bash's own grammar or leads to an `unclear`
reason; nothing is skipped. Nested commands in `$(…)`, backticks and `<(…)` are parsed as well.
"""

import re
from abc import ABC, abstractmethod

from turnlog.agent.permissions.bash.syntax import HOLE, Script, Word

META = " \t\n;&|<>()"
"""Characters that end an unquoted word."""
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SPECIAL_PARAMETERS = "@*#?-$!0123456789"
SIMPLE_PARAMETER = re.compile(r"\{(?:[A-Za-z_][A-Za-z0-9_]*|[@*#?$!-]|[0-9]+)\}")
HOME_PREFIX = re.compile(r"~(?:/|\Z)")
ANSI_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
GLOB_CHARACTERS = "*?["
UNFINISHED = "it cannot be parsed"
JOINED = "a word or an operator continues on the next line"


class SyntaxFault(Exception):
    """The command ends, or continues, where bash's grammar does not allow it."""


def has_braces(bare: str) -> bool:
    """Return whether a word may be subject to brace expansion: `{a,b}` or `{1..3}`."""
    inner = bare[bare.find("{") : bare.rfind("}") + 1] if "{" in bare else ""
    return "," in inner or ".." in inner


class WordBuilder:
    """Collects the pieces of one word."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.pattern: list[str] = []
        self.bare: list[str] = []
        """The unquoted characters, with a quote mark in place of each quoted piece."""
        self.may_split = False
        """True if an expansion may split the word into several arguments."""
        self.is_input = False
        """True if the word starts with `<(…)`."""

    def add(self, char: str) -> None:
        """Add an unquoted character."""
        self.text.append(char)
        self.pattern.append(char)
        self.bare.append(char)

    def add_quoted(self, text: str) -> None:
        """Add text that is not subject to any expansion."""
        self.text.append(text)
        # A quoted `*` is a literal character, so it is escaped in the pattern.
        self.pattern.append(re.sub(r"([*?\[\]\\])", r"\\\1", text))
        self.bare.append("'")

    def add_hole(self) -> None:
        """Add text that is only known when the command runs."""
        self.text.append(HOLE)
        self.pattern.append(HOLE)
        self.bare.append("'")

    def build(self, source: str, start: int) -> Word:
        """Return the finished word."""
        text, bare = "".join(self.text), "".join(self.bare)
        has_tilde = bool(HOME_PREFIX.match(bare))
        # `~user` and `~+` name other directories; `a=~/x` and `a:~/x` expand in some places only.
        is_odd_tilde = (bare.startswith("~") and not has_tilde) or re.search(r"[=:]~", bare)
        # Not expanded here: a hole only makes the command ask; a wrong expansion might let it run.
        if has_braces(bare) or is_odd_tilde:
            return Word(HOLE, source=source, start=start, may_split=True)
        # A lone `[` is the test command; with anything next to it, it may open a set.
        is_glob = bare != "[" and any(char in bare for char in GLOB_CHARACTERS)
        glob = "".join(self.pattern) if is_glob else None
        is_input = self.is_input and self.text == [HOLE]
        return Word(text, glob, has_tilde, source, start, self.may_split, is_input)


class Lexer(ABC):
    """A cursor in the source of a command, with methods that read words."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.place: int = 0
        self.script = Script()

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
        """Record why the meaning of the command is uncertain."""
        if reason not in self.script.unclear:
            self.script.unclear.append(reason)

    def misread(self, reason: str) -> None:
        """Record why the command may run something that is not among its parts."""
        self.doubt(reason)
        self.script.is_misread = True

    @abstractmethod
    def read_nested(self, end: str) -> None:
        """Read the commands of a substitution up to and including its end."""

    @abstractmethod
    def read_backticks(self, inner: str) -> None:
        """Read the commands between backticks."""

    def read_word(self) -> Word:
        """Read one word; the caller has made sure that one starts here."""
        start, word = self.place, WordBuilder()
        while self.char and (self.char not in META or self._is_process()):
            self._read_piece(word)
        if start == self.place:
            raise SyntaxFault(UNFINISHED)
        return word.build(self.source[start : self.place], start)

    def _is_process(self) -> bool:
        return self.peek("<(") or self.peek(">(")

    def _read_piece(self, word: WordBuilder) -> None:
        char = self.char
        if char == "\\":
            self._read_escape(word)
        elif char == "'":
            self.place += 1
            word.add_quoted(self._until("'"))
        elif char == '"':
            self.place += 1
            self.read_quoted(word)
        elif char in "$`" or self._is_process():
            self.read_expansion(word, is_quoted=False)
        else:
            word.add(char)
            self.place += 1

    def _until(self, end: str) -> str:
        stop = self.source.find(end, self.place)
        if stop < 0:
            raise SyntaxFault(UNFINISHED)
        text = self.source[self.place : stop]
        self.place = stop + len(end)
        return text

    def _read_escape(self, word: WordBuilder) -> None:
        self.place += 1
        if self.char == "\n":
            # Bash joins the lines before it looks for reserved words: `esac\<newline>` is `esac`.
            self.misread(JOINED)
        elif self.char:
            word.add_quoted(self.char)
        else:
            self.misread(UNFINISHED)
        self.place += 1

    def read_quoted(self, word: WordBuilder, end: str = '"') -> None:
        """Read the rest of a double-quoted string, including the closing quote."""
        word.add_quoted("")
        while not self.take(end):
            if not self.char:
                raise SyntaxFault(UNFINISHED)
            if self.char == "\\":
                self._read_quoted_escape(word)
            elif self.char in "$`":
                self.read_expansion(word, is_quoted=True)
            else:
                word.add_quoted(self.char)
                self.place += 1

    def _read_quoted_escape(self, word: WordBuilder) -> None:
        escaped = self.source[self.place + 1 : self.place + 2]
        if escaped == "\n":
            self.misread(JOINED)
        elif escaped and escaped in '$`"\\':
            word.add_quoted(escaped)
        else:
            word.add_quoted("\\" + escaped)
        self.place += 2

    def read_expansion(self, word: WordBuilder, *, is_quoted: bool) -> None:
        """Read an expansion that starts with `$`, a backtick, `<(` or `>(`."""
        # `"$@"` expands to several arguments despite its quotes.
        is_list = re.compile(r"\$(?:@|\{@|\{\w*\[)").match(self.source, self.place)
        is_text = self.peek("$'") and not is_quoted
        word.may_split |= bool(is_list) or not (is_quoted or is_text)
        if self.take("`"):
            self._read_backticked()
            word.add_hole()
        elif self.peek("<(") or self.peek(">("):
            word.is_input |= self.char == "<" and not word.text
            self.place += 2
            self.script.is_concurrent = True
            if self.char == "(":
                # Bash first tries to read `<((` as arithmetic, where `#` starts no comment.
                self.misread("a substitution starts with two parentheses")
            self.read_nested(")")
            word.add_hole()
        elif is_text:
            self._read_ansi(word)
        elif self.peek('$"') and not is_quoted:
            self.doubt('$"…" is translated')
            self.place += 2
            self.read_quoted(word)
            word.add_hole()
        else:
            self._read_parameter(word)

    def _read_parameter(self, word: WordBuilder) -> None:
        self.place += 1
        if self.peek("(("):
            self._read_arithmetic()
        elif self.take("("):
            self.read_nested(")")
        elif self.peek("["):
            self.doubt("it evaluates arithmetic")
            self.script.evaluated.append(f"(({self.source[self.place + 1 :]}")
        elif found := SIMPLE_PARAMETER.match(self.source, self.place):
            self.place = found.end()
        elif self.take("{"):
            self._read_braced()
        elif found := NAME.match(self.source, self.place):
            self.place = found.end()
        elif self.char and self.char in SPECIAL_PARAMETERS:
            self.place += 1
        else:
            # A lone `$`, as in `echo 5$`, is a literal character.
            word.add_quoted("$")
            return
        word.add_hole()

    def _read_backticked(self) -> None:
        start = self.place
        while self.char != "`":
            if not self.char:
                raise SyntaxFault(UNFINISHED)
            self.place += 2 if self.char == "\\" else 1
        inner = self.source[start : self.place]
        self.place += 1
        if "\\" in inner:
            self.doubt("it has escapes inside of backticks")
        self.read_backticks(re.sub(r"\\([$`\\])", r"\1", inner))

    def _read_braced(self) -> None:
        """Read `${x:=word}` and the like, which may set variables, calculate or run commands."""
        self.doubt("it has a parameter expansion other than ${name}")
        start = self.place
        if self.char and self.char in " \t\n|":
            self.read_nested("}")  # bash 5.3: runs the commands inside of the braces
            return
        ignored = WordBuilder()
        while not self.take("}"):
            if not self.char:
                raise SyntaxFault(UNFINISHED)
            if self.char in META and not self._is_process():
                self.place += 1
            else:
                self._read_piece(ignored)
        self.script.evaluated.append(self.source[start : self.place - 1])

    def _read_arithmetic(self) -> None:
        """Read `((…))`; array subscripts in it may run commands."""
        self.doubt("it evaluates arithmetic")
        start = self.place
        self.place += 2
        depth, ignored = 2, WordBuilder()
        while depth:
            if not self.char:
                raise SyntaxFault(UNFINISHED)
            if self.char in META and not self._is_process():
                depth += {"(": 1, ")": -1}.get(self.char, 0)
                self.place += 1
            else:
                self._read_piece(ignored)
        self.script.evaluated.append(self.source[start : self.place])

    def _read_ansi(self, word: WordBuilder) -> None:
        """Read `$'…'`; its text is a hole if it has an escape that is not in `ANSI_ESCAPES`."""
        self.place += 2
        text = ""
        while not self.take("'"):
            if not self.char:
                raise SyntaxFault(UNFINISHED)
            char = self.char
            if self.take("\\"):
                char = ANSI_ESCAPES.get(self.char, HOLE)
            text += char
            self.place += 1
        if HOLE in text:
            word.add_hole()
        else:
            word.add_quoted(text)
