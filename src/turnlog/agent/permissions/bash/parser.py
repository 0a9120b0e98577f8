"""Split a bash command into the simple commands that it would run.

Rules for commands depend on this parser: it reads each character as bash does, or reports that it
cannot. General-purpose grammars are not enough: they guess where a command is malformed
(tree-sitter-bash silently misreads 136 of 8,964 real commands).
"""

import re
import unicodedata
from collections.abc import Callable

from turnlog.agent.permissions.bash.lexer import UNFINISHED, Lexer, SyntaxFault, WordBuilder
from turnlog.agent.permissions.bash.syntax import (
    HOLE,
    UNKNOWN,
    Assignment,
    Redirect,
    Script,
    SimpleCommand,
    Word,
)

MAX_COMMAND_CHARS = 100_000
HIDDEN_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Co", "Zs", "Zl", "Zp"))
SEPARATORS = ("&&", "||", ";", "|&", "|", "&", "\n")
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=)")
ELEMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[[^\]\s]*\]\+?=")
DECLARATIONS = frozenset("declare export local readonly typeset".split())
"""Builtins whose arguments are assignments."""
CLOSING_WORDS = frozenset("then elif else fi do done esac } ]] in".split())


def parse_script(command: str) -> Script:
    """Split a command.

    >>> [" ".join(word.text for word in part.words) for part in parse_script("ls | wc -l").parts]
    ['ls', 'wc -l']
    >>> parse_script("echo 'a").problem
    'it cannot be parsed'
    """
    parser = Parser(command)
    if len(command) > MAX_COMMAND_CHARS:
        parser.doubt(f"it is longer than {MAX_COMMAND_CHARS:,} characters")
        return parser.script
    # A right-to-left mark or a non-breaking space makes a command look like another one.
    if any(map(_is_hidden, command)):
        parser.doubt("it has hidden characters")
    try:
        parser.read_list(frozenset())
        if parser.char or parser.heredocs:
            parser.doubt(UNFINISHED)
    except (SyntaxFault, RecursionError) as fault:
        parser.doubt(str(fault) if isinstance(fault, SyntaxFault) else "it is nested too deeply")
    return parser.script


def _is_hidden(char: str) -> bool:
    return char not in " \t\n" and unicodedata.category(char) in HIDDEN_CATEGORIES


class Parser(Lexer):
    """Reads commands and adds each simple command to the script."""

    def read_nested(self, end: str) -> None:
        outer, self.heredocs = self.heredocs, []
        start = self.place
        self.depth += 1
        self.read_list(frozenset((end,)))
        self.skip_space(newlines=True)
        if self.heredocs:
            self.doubt(UNFINISHED)
        self.depth -= 1
        self.heredocs = outer
        self.expect(end)
        # Versions of bash differ in where they look for the body of an outer here-document.
        if outer and "\n" in self.source[start : self.place]:
            self.doubt("a here-document continues inside of a substitution")

    def read_script(self, text: str) -> None:
        nested = parse_script(text)
        self.script.parts += nested.parts
        self.doubt(nested.problem)

    def read_list(self, ends: frozenset[str]) -> bool:
        """Read commands up to a word in `ends`, `)` or `;;`; return whether there are any."""
        is_empty = True
        while True:
            self.skip_space(newlines=True)
            if not self.char or self._is_end(ends):
                return not is_empty
            self._read_pipeline()
            is_empty = False
            self.skip_space()
            if not self.char or self._is_end(ends):
                return not is_empty
            self._read_separator()

    def _read_commands(self, ends: frozenset[str]) -> None:
        """Read a list of at least one command."""
        if not self.read_list(ends):
            raise SyntaxFault(UNFINISHED)

    def _is_end(self, ends: frozenset[str]) -> bool:
        return self.char == ")" or self.peek(";;") or self.peek(";&") or self.plain_word() in ends

    def _read_separator(self) -> None:
        if self.char == "\n":
            self.read_newline()
            return
        sign = next((each for each in SEPARATORS if self.take(each)), "")
        # `a &&` continues on the next line; nothing after it means that the command is cut off.
        if sign in ("&&", "||", "|", "|&"):
            self.skip_space(newlines=True)
            if not self.char or self._is_end(CLOSING_WORDS):
                raise SyntaxFault(UNFINISHED)
        if not sign:
            raise SyntaxFault(UNFINISHED)

    def _read_pipeline(self) -> None:
        """Read one command with any preceding `!` and `time`."""
        while self.take_word("!") or self._take_time():
            self.skip_space()
        word = self.plain_word()
        if read := COMPOUND.get(word):
            self.place += len(word)
            read(self)
        elif self.peek("(("):
            self.read_arithmetic()
        elif self.take("("):
            self._read_commands(frozenset((")",)))
            self.skip_space(newlines=True)
            self.expect(")")
        elif word in CLOSING_WORDS:
            raise SyntaxFault(UNFINISHED)
        else:
            self._read_simple()
            return
        self._read_trailing_redirects()

    def _take_time(self) -> bool:
        if not self.take_word("time"):
            return False
        self.skip_space()
        self.take_word("-p")
        return True

    def _read_trailing_redirects(self) -> None:
        """Read the redirections of a compound command."""
        start, files = self.place, list[Redirect]()
        self.skip_space()
        while self.read_redirect(files):
            self.skip_space()
        if files:
            source = self.source[start : self.place].strip()
            self.script.parts.append(SimpleCommand(redirects=tuple(files), source=source))
        if self.char and self.char not in ";&|\n)":
            raise SyntaxFault(UNFINISHED)

    def _read_simple(self) -> None:
        start = self.place
        words, assignments, files = list[Word](), list[Assignment](), list[Redirect]()
        while True:
            self.skip_space()
            if self.read_redirect(files):
                continue
            if not self.char or (self.char in ";&|\n)" and not self.is_process()):
                break
            if self.char == "(":
                self._read_function(words)
                return
            if (not words or words[0].text in DECLARATIONS) and self._read_assignment(
                words, assignments
            ):
                continue
            words.append(self.read_word())
        if start == self.place:
            raise SyntaxFault(UNFINISHED)
        source = self.source[start : self.place].strip()
        self.script.parts.append(
            SimpleCommand(tuple(words), tuple(assignments), tuple(files), source)
        )

    def _read_assignment(self, words: list[Word], assignments: list[Assignment]) -> bool:
        """Read `name=value`, if it is next; after `export` and the like, it counts as a word."""
        found = ASSIGNMENT.match(self.source, self.place)
        if element := ELEMENT.match(self.source, self.place):
            # Without its end in sight, the subscript is read as a word, with its substitutions.
            self.read_script(f": {element[0].partition('[')[2].rpartition(']')[0]}")
            found = element
        if not found:
            return False
        start, self.place = self.place, found.end()
        if self.take("("):
            self._read_array()
            value = UNKNOWN
        elif not self.char or (self.char in " \t\n;&|<>)" and not self.is_process()):
            value = Word("")
        else:
            value = self.read_word()
        is_plain = found.re is ASSIGNMENT and found[2] == "="
        if words:
            source = self.source[start : self.place]
            words.append(Word(f"{found[1]}={value.text}" if is_plain else HOLE, source=source))
        else:
            name = re.split(r"[+=\[]", found[0], maxsplit=1)[0]
            assignments.append(Assignment(name, value if is_plain else UNKNOWN))
        return True

    def _read_array(self) -> None:
        while True:
            self.skip_space(newlines=True)
            if self.take(")"):
                return
            self.read_word()

    def _read_function(self, words: list[Word]) -> None:
        """Read the body of `name() …`, whose commands count; else a parenthesis is an error."""
        self.place += 1
        self.skip_space()
        self.expect(")")
        if len(words) != 1:
            raise SyntaxFault(UNFINISHED)
        self.skip_space(newlines=True)
        self._read_pipeline()

    def read_condition(self) -> None:
        """Read `[[ … ]]` as a list of words and operators."""
        start, words = self.place, list[Word]()
        while True:
            self.skip_space(newlines=True)
            if self.take_word("]]"):
                break
            sign = next((each for each in ("&&", "||", "<", ">", "(", ")") if self.peek(each)), "")
            if sign and not self.is_process():
                self.place += len(sign)
                words.append(Word(sign, source=sign))
                continue
            is_regex = words[-1:] and words[-1].source == "=~"
            words.append(self._read_regex() if is_regex else self.read_word())
            if self.char == "(":
                # In `[[ a == @(x #'`, bash reads on to `)`: `#` starts no comment.
                self.doubt("it has an extended pattern")
        source = f"[[{self.source[start : self.place]}"
        self.script.parts.append(SimpleCommand(tuple(words), source=source, is_test=True))

    def _read_regex(self) -> Word:
        """Read the word after `=~`, in which parentheses, `|` and `#` are plain characters."""
        start, depth, word = self.place, 0, WordBuilder()
        while self.char and (depth or self.char not in " \t\n;&"):
            depth += {"(": 1, ")": -1}.get(self.char, 0)
            if self.char in "()|<>#;& \t\n":
                word.add(self.char)
                self.place += 1
            else:
                self.read_piece(word)
        if start == self.place or depth:
            raise SyntaxFault(UNFINISHED)
        return word.build(self.source[start : self.place])

    def _read_blocks(self, *closing: str) -> None:
        """Read a list of commands up to each closing word in turn."""
        for word in closing:
            self._read_commands(frozenset((word,)))
            self._expect_word(word)

    def _expect_word(self, word: str) -> None:
        if not self.take_word(word):
            raise SyntaxFault(UNFINISHED)

    def read_group(self) -> None:
        """Read `{ …; }`."""
        self._read_blocks("}")

    def read_loop(self) -> None:
        """Read a `while` or `until` loop."""
        self._read_blocks("do", "done")

    def read_if(self) -> None:
        """Read `if …; then …; fi`."""
        self._read_blocks("then")
        while True:
            self._read_commands(frozenset(("elif", "else", "fi")))
            if self.take_word("elif"):
                self._read_blocks("then")
            elif self.take_word("else"):
                self._read_blocks("fi")
                return
            else:
                self._expect_word("fi")
                return

    def read_for(self) -> None:
        """Read a `for` or `select` loop, which sets a variable."""
        self.skip_space()
        if self.peek("(("):
            self.read_arithmetic()
        else:
            name = self.read_word().text
            self.script.parts.append(
                SimpleCommand(assignments=(Assignment(name, UNKNOWN),), source=f"for {name}")
            )
        self.skip_space(newlines=True)
        if self.take_word("in"):
            self.skip_space()
            while self.char and self.char not in ";\n":
                self.read_word()
                self.skip_space()
        self.skip_space(newlines=True)
        self.take(";")
        self.skip_space(newlines=True)
        self._expect_word("do")
        self._read_blocks("done")

    def read_case(self) -> None:
        """Read `case … in … esac`."""
        self.skip_space()
        self.read_word()
        self.skip_space(newlines=True)
        self._expect_word("in")
        while True:
            self.skip_space(newlines=True)
            if self.take_word("esac"):
                return
            self._read_patterns()
            self.read_list(frozenset(("esac",)))
            # The last branch of a `case` needs no `;;`.
            if not any(map(self.take, (";;&", ";;", ";&"))) and self.plain_word() != "esac":
                raise SyntaxFault(UNFINISHED)

    def _read_patterns(self) -> None:
        self.take("(")
        while True:
            self.skip_space()
            self.read_word()
            self.skip_space()
            if not self.take("|"):
                self.expect(")")
                return

    def read_function(self) -> None:
        """Read `function name …`."""
        self.skip_space()
        name = self.read_word()
        self.skip_space(newlines=True)
        if self.peek("("):
            self._read_function([name])
        else:
            self._read_pipeline()

    def read_coproc(self) -> None:
        """Read the command of a coprocess."""
        self.skip_space()
        self._read_pipeline()


COMPOUND: dict[str, Callable[[Parser], None]] = {
    "{": Parser.read_group,
    "if": Parser.read_if,
    "while": Parser.read_loop,
    "until": Parser.read_loop,
    "for": Parser.read_for,
    "select": Parser.read_for,
    "case": Parser.read_case,
    "function": Parser.read_function,
    "coproc": Parser.read_coproc,
    "[[": Parser.read_condition,
}
