"""Find out whether bash evaluates the value of a variable as code.

Arithmetic and subscripts evaluate each variable that they name: after `x='a[$(id)]'`, `$((x))` runs
`id`, and so does `${y[x]}`. `${x@P}` runs what is in `x`, and `${!x}` the subscript in it.
"""

import re
from collections.abc import Mapping, Sequence

from turnlog.agent.permissions.bash import HOLE, Script, Word

CODE = re.compile(r"\$[({]|`|[<>]\(|\\0?44\(")
"""Text that would be a substitution if bash expanded it, also as an escape in a prompt."""
NUMBER = re.compile(
    r"""(?:"?(?:[-+]?[0-9]++
    |\$[?\#!$]
    |\$\{?(?:EPOCHSECONDS|LINENO|PPID|RANDOM|SECONDS|UID)\b\}?
    |\$\{\#\w+(?:\[[@*]\])?\}
    |\$\(\([^()`]*\)\)
    |\$\((?:date\ \+%[sYmdHMSju]|nproc|id\ -u)\)
    |\$\([^()`;&\n]*\|\ *wc\ -[clmw]\ *\)
    |\$\(wc\ -[clmw]\ *<[^()`;&|<>\n]*\)
    )"?)++""",
    re.X,
)
"""A value that is a number, whatever a program prints: `3`, `$#`, `$(ls | wc -l)`."""
COUNT = re.compile(rf"(?=\$)(?:{NUMBER.pattern})", re.X)
"""The same inside of a longer text."""
NAME = re.compile(r"(?<![\w$#])[A-Za-z_]\w*|(?<=\$)[A-Za-z_]\w*|(?<=\$\{)[A-Za-z_]\w*")
FILLED = re.compile(r"\$\(|`|\$\{?[0-9@*_](?!\w)")
"""Text that bash inserts before it evaluates the rest; `$_` and `$1` hold what came before."""
OWN = frozenset("BASH_REMATCH DIRSTACK MAPFILE OLDPWD OPTARG PWD REPLY".split())
"""Variables that bash sets, to any text."""
SUBSCRIPT = re.compile(r"[!#]?\w+\[(?![@*]\])(.*)", re.S)
SLICE = re.compile(r"[!#]?\w+(?:\[[^\]]*\])?:(?![-+=?])(.*)", re.S)
SHOWN = re.compile(r"!?(\w+)(?:\[[^\]]*\])?@P|!(\w+)(?!.*[@*]\]?\Z)", re.S)
"""An expansion that runs the value, or uses it as a name: `${x@P}`, `${!x}`."""
DEFAULT = re.compile(r"(\w+):?=")
FUNCTION = "it defines a function"


def evaluates_variables(script: Script, values: Mapping[str, Sequence[Word]]) -> bool:
    """Return whether bash evaluates text that is only known when it runs, or that holds code."""
    has_functions = FUNCTION in script.unclear
    texts = [text for each in script.evaluated for text in _calculated(each)]
    # A function may stand for a program: `wc() { echo 'a[$(id)]'; }`.
    plain = texts if has_functions else [COUNT.sub(" 0 ", text) for text in texts]
    if any(map(FILLED.search, plain)):
        return True
    pending = [name for text in plain for name in NAME.findall(text)]
    pending += [name for each in script.evaluated for name in _expanded(each)]
    given = {found[1] for each in script.evaluated if (found := DEFAULT.match(each))}
    seen = set[str]()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in OWN or name in given:
            return True
        for value in values.get(name, ()):
            if has_functions or not NUMBER.fullmatch(value.source):
                if _holds_code(value):
                    return True
                pending += NAME.findall(value.source or value.text)
    return False


def _calculated(source: str) -> list[str]:
    """Return the arithmetic in an expansion: subscripts, and offsets as in `${x:a:b}`."""
    if source.startswith("(("):
        return [source]
    found = [SUBSCRIPT.match(source), SLICE.match(source)]
    return [each[1] for each in found if each]


def _expanded(source: str) -> list[str]:
    found = None if source.startswith("((") else SHOWN.match(source)
    return [found[1] or found[2]] if found else []


def _holds_code(value: Word) -> bool:
    """Return whether a value has a subscript or substitution, or may be any text."""
    if "[" in value.text or CODE.search(value.text):
        return True
    # `$x` holds what `x` does, which is checked by its name.
    rest = re.sub(r"\$\{?(?![0-9_@*])\w+\}?", "", value.source)
    return HOLE in value.text and (not value.source or bool(FILLED.search(rest)))
