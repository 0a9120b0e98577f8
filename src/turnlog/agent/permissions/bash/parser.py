"""Parse a bash command into the programs that it would run.

Permissions depend on this parser: it must read each character as bash does, or report that it
cannot. General-purpose grammars are not enough: they guess where a command is malformed, and accept
words that bash splits differently.
"""

import re
import unicodedata
from collections.abc import Callable

from msgspec.structs import replace

from turnlog.agent.permissions.bash.conditions import is_condition
from turnlog.agent.permissions.bash.lexer import UNFINISHED, SyntaxFault
from turnlog.agent.permissions.bash.redirections import Redirections, RedirectReader
from turnlog.agent.permissions.bash.syntax import (
    HOLE,
    UNKNOWN,
    Assignment,
    Script,
    SimpleCommand,
    Word,
    detached,
)

LONGEST = 10_000
"""Maximum characters of a command; longer ones are not analyzed."""
LONGEST_PRINT = 100_000
"""Maximum characters of a command as bash prints it, with nested commands indented."""
MOVED_OPERATOR = re.compile(r"\n *(?=&&|\|)")
HIDDEN_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Co", "Zs", "Zl", "Zp"))
SEPARATORS = ("&&", "||", ";", "|&", "|", "&", "\n")
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=)")
SUBSCRIPT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[")
PLAIN_REGEX = re.compile(r"[A-Za-z0-9_.^$*+?/:=,-]+")
DECLARATIONS = frozenset("declare export local readonly typeset".split())
"""Builtins whose arguments are assignments."""
CLOSING_WORDS = frozenset("then elif else fi do done esac } ]] in".split())


def parse_script(command: str) -> Script:
    """Parse a command.

    >>> [" ".join(word.text for word in part.words) for part in parse_script("ls | wc -l").parts]
    ['ls', 'wc -l']
    >>> parse_script("echo 'a").unclear
    ['it cannot be parsed']
    """
    parser = Parser(command)
    if len(command) > LONGEST:
        parser.misread(f"it is longer than {LONGEST:,} characters")
        return parser.script
    # A right-to-left mark or a non-breaking space makes a command look like another one.
    if any(map(_is_hidden, command)):
        parser.doubt("it has hidden characters")
    return _parse(parser)


def parse_printed(text: str) -> Script:
    r"""Parse a command as bash prints it.

    Bash omits semicolons and moves operators to the next line where a here-document precedes them.

    >>> printed = parse_printed("ls && cat <<E\na\nE\n && { cat <<E\na\nE\n } pwd\n")
    >>> [part.words[0].text for part in printed.parts], printed.unclear
    (['ls', 'cat', 'cat', 'pwd'], [])
    """
    parser = Parser(text)
    parser.is_printed = True
    if len(text) > LONGEST_PRINT:
        parser.misread(UNFINISHED)
        return parser.script
    return _parse(parser)


def _parse(parser: "Parser") -> Script:
    try:
        parser.read_list(frozenset())
        if parser.char or parser.heredocs:
            raise SyntaxFault(UNFINISHED)
    except SyntaxFault as fault:
        parser.misread(str(fault))
    # Thousands of nested brackets; the limit of bash itself is much higher.
    except RecursionError:
        parser.misread("it is nested too deeply")
    return parser.script


def _is_hidden(char: str) -> bool:
    return char not in " \t\n" and unicodedata.category(char) in HIDDEN_CATEGORIES


class Parser(RedirectReader):
    """Reads commands and adds each program to the script."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.is_fed = False
        """True if the commands that are read next get input from a pipe."""

    def read_nested(self, end: str) -> None:
        outer, self.heredocs = self.heredocs, []
        start, is_fed = self.place, self.is_fed
        self.depth += 1
        # In `tee >(sh)`, the shell gets the output of `tee` as input.
        self.is_fed |= self.source[start - 2 : start] == ">("
        self.read_list(frozenset((end,)))
        self.is_fed = is_fed
        self._skip_space(newlines=True)
        if self.heredocs:
            self.doubt(UNFINISHED)
        self.depth -= 1
        self.heredocs = outer
        self.expect(end)
        # Versions of bash differ in where they look for the body of an outer here-document.
        if outer and "\n" in self.source[start : self.place]:
            self.doubt("a here-document continues inside of a substitution")

    def _read_subshell(self) -> None:
        """Read `( … )`, whose lines may hold the body of a here-document that started before it."""
        self._read_commands(frozenset((")",)))
        self._skip_space(newlines=True)
        self.expect(")")

    def read_backticks(self, inner: str) -> None:
        # Bash removes one level of backslashes, and parses the text between backticks as a script
        # of its own.
        nested = parse_script(inner)
        self.script.backticked += [inner, *nested.backticked]
        self.script.parts += [
            replace(part, is_fed=part.is_fed or self.is_fed) for part in detached(nested.parts)
        ]
        self.script.inputs += nested.inputs
        self.script.evaluated += nested.evaluated
        for name, words in nested.loop_words.items():
            self.script.loop_words.setdefault(name, []).extend(words)
        self.script.has_loop |= nested.has_loop
        self.script.has_background |= nested.has_background
        self.script.is_concurrent |= nested.is_concurrent
        self._adopt_doubts(nested)

    def _read_commands(self, ends: frozenset[str]) -> None:
        """Read a list of at least one command."""
        if not self.read_list(ends):
            raise SyntaxFault(UNFINISHED)

    def read_list(self, ends: frozenset[str]) -> bool:
        """Read commands up to a word in `ends`, `)` or `;;`; return whether there are any."""
        outer, is_empty = self.is_fed, True
        while True:
            self._skip_space(newlines=True)
            if not self.char or self._is_end(ends):
                break
            self._read_pipeline()
            is_empty = False
            self._skip_space()
            if not self.char or self._is_end(ends):
                break
            self._skip_moved_operator()
            is_pipe = self.char == "|" and not self.peek("||")
            if not self._take_separator() and not self.is_printed:
                raise SyntaxFault(UNFINISHED)
            self.is_fed = outer or is_pipe
        self.is_fed = outer
        return not is_empty

    def _skip_moved_operator(self) -> None:
        """Skip the body of a here-document that bash printed before an operator."""
        if not (self.is_printed and self.heredocs and self.char == "\n"):
            return
        self._read_newline()
        if found := MOVED_OPERATOR.match(self.source, self.place):
            self.place = found.end()

    def _is_end(self, ends: frozenset[str]) -> bool:
        if self.char == ")" or self.peek(";;") or self.peek(";&"):
            return True
        return self._plain_word() in ends

    def _take_separator(self) -> bool:
        if self.peek(";;") or self.peek(";&"):
            return False
        for sign in SEPARATORS:
            if sign == "\n" and self.char == "\n":
                self._read_newline()
                return True
            if self.take(sign):
                self.script.has_background |= sign == "&"
                self.script.is_concurrent |= sign in ("&", "|", "|&")
                # `a &&` continues on the next line; nothing after it means that the command is cut
                # off.
                if sign in ("&&", "||", "|", "|&"):
                    self._skip_space(newlines=True)
                    if not self.char or self._is_end(CLOSING_WORDS):
                        raise SyntaxFault(UNFINISHED)
                return True
        return False

    def _read_pipeline(self) -> None:
        """Read one command with any preceding `!` and `time`."""
        first = len(self.script.parts)
        while self._take_word("!") or self._take_time():
            self._skip_space()
        read = COMPOUND.get(self._plain_word())
        if read:
            self.place += len(self._plain_word())
            read(self)
        elif self.peek("(("):
            self._read_arithmetic()
        elif self.take("("):
            self._read_subshell()
        elif self._plain_word() in CLOSING_WORDS:
            raise SyntaxFault(UNFINISHED)
        else:
            self._read_simple()
            return
        if self._read_trailing_redirects():
            # All commands in a group or a loop share its input.
            parts = self.script.parts
            parts[first:] = [replace(part, is_fed=True) for part in parts[first:]]

    def _take_time(self) -> bool:
        if not self._take_word("time"):
            return False
        self._skip_space()
        self._take_word("-p")
        return True

    def _read_trailing_redirects(self) -> bool:
        """Read the redirections of a compound command; return whether one gives it input."""
        start, found, is_fed = self.place, Redirections(), False
        self._skip_space()
        while sign := self.read_redirect(found):
            is_fed |= "<" in sign
            self._skip_space()
        if found.files:
            source = self.source[start : self.place].strip()
            self.script.parts.append(SimpleCommand(redirects=tuple(found.files), source=source))
        self._skip_space()
        if self.char and self.char not in ";&|\n)" and not self.is_printed:
            raise SyntaxFault(UNFINISHED)
        return is_fed

    def _read_simple(self) -> None:
        start, is_fed = self.place, self.is_fed
        words, assignments, redirects = list[Word](), list[Assignment](), Redirections()
        while True:
            self._skip_space()
            if sign := self.read_redirect(redirects):
                is_fed |= "<" in sign
                continue
            if not self.char or (self.char in ";&|\n)" and not self._is_process()):
                break
            if self.char == "(":
                self._read_function(words)
                return
            if (not words or words[0].text in DECLARATIONS) and self._read_assignment(
                words, assignments
            ):
                continue
            words.append(self.read_word())
            # `{fd}<x` and `{a[x=1]}<x` store a descriptor in a variable.
            if words[-1].source.endswith("}") and self.char and self.char in "<>":
                self.doubt("it names a file descriptor")
        if start == self.place or not (words or assignments or redirects.files):
            raise SyntaxFault(UNFINISHED)
        self.script.parts.append(
            SimpleCommand(
                tuple(words),
                tuple(assignments),
                tuple(redirects.files),
                self.source[start : self.place].strip(),
                is_fed=is_fed,
                copies=tuple(redirects.copies),
            )
        )

    def _read_assignment(self, words: list[Word], assignments: list[Assignment]) -> bool:
        """Read `name=value`, if it is next; after `export` and the like, it counts as a word."""
        if SUBSCRIPT.match(self.source, self.place):
            self.doubt("it sets an element of an array")
            subscript, sign, _ = self.source[self.place :].partition("]")
            # Without a sign, or with a substitution in it, the rest of the command counts.
            self.script.evaluated.append(subscript + sign)
        found = ASSIGNMENT.match(self.source, self.place)
        if not found:
            return False
        start, self.place = self.place, found.end()
        if self.take("("):
            self.doubt("it sets an array")
            self._read_array()
            value = UNKNOWN
        elif not self.char or (self.char in " \t\n;&|<>)" and not self._is_process()):
            value = Word("")
        else:
            value = self.read_word()
        text = f"{found[1]}={value.text}" if found[2] == "=" else HOLE
        if words:
            words.append(Word(text, source=self.source[start : self.place]))
        else:
            assignments.append(Assignment(found[1], value if found[2] == "=" else UNKNOWN))
        return True

    def _read_array(self) -> None:
        while True:
            self._skip_space(newlines=True)
            if self.take(")"):
                return
            self.read_word()

    def _read_function(self, words: list[Word]) -> None:
        """Read the body of `name() …`; any other parenthesis after a word is an error."""
        self.place += 1
        self._skip_space()
        self.expect(")")
        if len(words) != 1:
            raise SyntaxFault(UNFINISHED)
        self.doubt("it defines a function")
        self._skip_space(newlines=True)
        self._read_pipeline()

    def read_condition(self) -> None:
        """Read `[[ … ]]` as a list of words and operators."""
        start, words = self.place, list[Word]()
        while True:
            self._skip_space(newlines=True)
            if self._take_word("]]"):
                break
            sign = next((each for each in ("&&", "||", "<", ">", "(", ")") if self.peek(each)), "")
            if sign and not self._is_process():
                self.place += len(sign)
                words.append(Word(sign, source=sign))
            else:
                words.append(self.read_word())
                if self.char == "(":
                    # In `[[ a == @(x #'`, bash reads on to `)`: `#` starts no comment.
                    self.doubt("it has an extended pattern")
            if words[-1].source == "=~":
                self._require_plain_regex()
        if not is_condition(tuple(words)):
            self.misread("it has a condition that bash does not accept")
        source = f"[[{self.source[start : self.place]}"
        self.script.parts.append(SimpleCommand(tuple(words), source=source, is_test=True))

    def _require_plain_regex(self) -> None:
        """Record a doubt about a regular expression with parentheses, quotes or the like.

        Bash reads `(a #'` after `=~` as part of one word, not as a comment.
        """
        self._skip_space()
        found = re.compile(r"\S*").match(self.source, self.place)
        if not found or not PLAIN_REGEX.fullmatch(found[0]):
            self.doubt("it has a regular expression with special characters")

    def _read_blocks(self, *closing: str) -> None:
        """Read a list of commands up to each closing word in turn."""
        for word in closing:
            self._read_commands(frozenset((word,)))
            self._expect_word(word)

    def read_group(self) -> None:
        """Read `{ …; }`."""
        self._read_blocks("}")

    def read_loop(self) -> None:
        """Read a `while` or `until` loop."""
        self.script.has_loop = True
        self._read_blocks("do", "done")

    def read_if(self) -> None:
        """Read `if …; then …; fi`."""
        self._read_blocks("then")
        while True:
            self._read_commands(frozenset(("elif", "else", "fi")))
            if self._take_word("elif"):
                self._read_blocks("then")
            elif self._take_word("else"):
                self._read_blocks("fi")
                return
            else:
                self._expect_word("fi")
                return

    def read_for(self) -> None:
        """Read a `for` or `select` loop, which sets a variable."""
        self.script.has_loop = True
        self._skip_space()
        if self.peek("(("):
            self._read_arithmetic()
            name = HOLE
        else:
            name = self.read_word().text
        self._skip_space(newlines=True)
        words = self.script.loop_words.setdefault(name, [])
        if self._take_word("in"):
            self._skip_space()
            while self.char and self.char not in ";\n":
                words.append(self.read_word())
                self._skip_space()
        else:
            words.append(UNKNOWN)
        self.script.parts.append(
            SimpleCommand(assignments=(Assignment(name, UNKNOWN),), source=f"for {name}")
        )
        self._skip_space(newlines=True)
        self.take(";")
        self._skip_space(newlines=True)
        self._expect_word("do")
        self._read_blocks("done")

    def read_case(self) -> None:
        """Read `case … in … esac`."""
        self._doubt_in_old_bash("case")
        self._skip_space()
        self.read_word()
        self._skip_space(newlines=True)
        self._expect_word("in")
        while True:
            self._skip_space(newlines=True)
            if self._take_word("esac"):
                return
            self._read_patterns()
            self.read_list(frozenset(("esac",)))
            # The last branch of a `case` needs no `;;`.
            if not any(map(self.take, (";;&", ";;", ";&"))) and self._plain_word() != "esac":
                raise SyntaxFault(UNFINISHED)

    def _read_patterns(self) -> None:
        self.take("(")
        while True:
            self._skip_space()
            self.read_word()
            self._skip_space()
            if not self.take("|"):
                self.expect(")")
                return

    def read_function(self) -> None:
        """Read `function name …`."""
        self._skip_space()
        name = self.read_word()
        self._skip_space(newlines=True)
        if self.peek("("):
            self._read_function([name])
            return
        self.doubt("it defines a function")
        self._read_pipeline()

    def read_coproc(self) -> None:
        """Read the command of a coprocess."""
        self.doubt("it starts a coprocess")
        self._skip_space()
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
