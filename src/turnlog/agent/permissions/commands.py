"""Decide about shell commands: which sandbox one runs in, and when to ask.

The sandbox is the boundary for files and network. Rules about words (`Bash(git push:*)`) are
compared with each simple command of the text; they are a convenience, as programs have many names.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from turnlog.agent.permissions.bash import HOLE, UNKNOWN, SimpleCommand, Word, parse_script
from turnlog.agent.permissions.files import judge_read, judge_write
from turnlog.agent.permissions.offers import offers_for
from turnlog.agent.permissions.policy import AccessDecision, Policy, Verdict, VerdictKind
from turnlog.agent.permissions.rules import COMMANDS, Rule, fits_command
from turnlog.agent.permissions.wildcards import command_text, fits, pattern_of
from turnlog.agent.workspace.access import ApprovalMode, Basis, Runs, Tier
from turnlog.agent.workspace.sandbox.bubblewrap import is_hidden
from turnlog.agent.workspace.sandbox.masks import TooManyMasks, find_masks
from turnlog.agent.workspace.sandbox.patterns import names_of
from turnlog.agent.workspace.sandbox.profile import Profile
from turnlog.agent.workspace.sandbox.protected import critical_paths

WRAPPERS = {
    "builtin": "",
    "command": "",
    "env": "uC",
    "exec": "a",
    "nice": "n",
    "nohup": "",
    "stdbuf": "ioe",
    "sudo": "CDgpRTu",
    "time": "",
    "timeout": "ks",
    "xargs": "aEInPsdL",
}
"""Programs that run their arguments, with the letters of options that take a value."""
PLAIN_WRAPPERS = frozenset("builtin command nice nohup stdbuf time timeout xargs".split())
"""Those that a rule for the inner command also allows."""
OPERANDS = {"timeout": 1}
SHELLS = frozenset("bash dash sh zsh".split())
MAX_NESTING = 6
SAFE_VARIABLE = re.compile(
    r"LANG|LC_[A-Z]+|TZ|NO_COLOR|FORCE_COLOR|TERM|COLUMNS|LINES|CI|DEBUG|NODE_ENV|RUST_LOG"
    r"|RUST_BACKTRACE|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|GOFLAGS|CGO_ENABLED|TOKIO_.*"
)
"""Variables that a rule for a command tolerates in front of it: none of them changes what runs."""

SHORT_LIST = frozenset(
    """
    : [ arch base64 basename break cat cd cksum cmp column comm continue cut diff dirname du echo
    exit expand expr false fold free getconf grep groups head hexdump id join ls md5sum nl nproc od
    paste pr printenv printf ps pwd read readlink realpath return rev seq sha1sum sha256sum shift
    sleep stat strings sum tac tail test tr true type uname unexpand uptime wait wc which whoami
    """.split()
)
"""Programs that only read files or print, whatever their options are."""
EVALUATING = re.compile(
    r"\(\(|\[\[|\$\[|\$\{\w*[^\w}]|\w\[|\{\w+\}[<>]|(?<![\w/.-])(?:printf|read)(?![\w/.-])"
)
"""Text with which bash may set any variable, or run what a variable holds: `read y < f; ((y))`."""
TREE_READERS = frozenset("diff du grep".split())
"""Those that read whole directories, and so files that a rule denies."""
CLIENT_LIST = re.compile(
    r"(?:awk|date|fd|file|find|hostname|jq|less|more|rg|sed|sort|tree|uniq|who|xxd"
    r"|git (?:blame|branch|cat-file|describe|diff|grep|log|ls-files|ls-tree|merge-base|name-rev"
    r"|reflog|remote|rev-list|rev-parse|shortlog|show|status|tag))(?: .*)?",
    re.S,
)
"""Further commands that the client runs unasked (2.1.325, observed); a sandbox contains them."""
ACTIVE_OPTIONS = re.compile(
    r"-(?:delete|exec|execdir|ok|okdir|fls|fprint.*|x|X|i.*|[dDmM])"
    r"|--(?:exec|pre|in-place|output|ext-diff|delete|move).*|-o.*",
    re.S,
)
"""Options with which one of them runs a program or writes."""
EDITORS = frozenset("cp mkdir mv rm rmdir sed touch".split())
"""Programs that the client runs unasked in the mode acceptEdits."""
REMOVERS = frozenset("rm rmdir unlink shred srm trash".split())


class Inner(Struct, frozen=True):
    """A simple command as it is compared with rules."""

    words: tuple[Word, ...]
    part: SimpleCommand
    is_wrapped: bool = False
    """True if another program runs it that a rule for the inner command does not cover."""

    @property
    def name(self) -> str:
        """The name of the program, without its directory."""
        return self.words[0].text.rpartition("/")[2] if self.words else ""

    @property
    def text(self) -> str:
        """The text that rules are compared with."""
        return command_text(self.words)


class CommandJudgement(Struct, frozen=True):
    """The decisions about a command, and the parts that they follow from."""

    findings: list[AccessDecision]
    parts: tuple[SimpleCommand, ...] = ()
    rule: str = ""
    """The rule that decided."""


def judge_command(runs: Runs, policy: Policy) -> CommandJudgement:
    """Decide about a shell command."""
    script = parse_script(runs.command)
    parts = tuple(script.parts)
    has_rules = any(rule.tool == COMMANDS for rule in (*policy.deny, *policy.ask))
    if script.problem:
        reason = f"the command is unclear: {script.problem}"
        found = AccessDecision(VerdictKind.ASK, reason, is_firm=has_rules)
        return CommandJudgement([found], parts)
    calls = [each for part in parts for each in inner_commands(part)]
    for rules, kind, verb in (
        (policy.deny, VerdictKind.DENY, "denies it"),
        (policy.ask, VerdictKind.ASK, "asks for it"),
    ):
        if rule := _matching(rules, calls):
            found = AccessDecision(kind, f"{rule.text} {verb}", is_firm=True)
            return CommandJudgement([found], parts, rule.text)
    if any(removes_much(each, policy) for each in calls):
        reason = "it removes the root, a home or a working directory"
        return CommandJudgement([AccessDecision(VerdictKind.ASK, reason, is_firm=True)], parts)
    if policy.mode is ApprovalMode.BYPASS:
        return CommandJudgement([AccessDecision(VerdictKind.ALLOW, "", basis=Basis.BYPASS)], parts)
    allowing = [_allowing(part, policy) for part in parts]
    is_ruled = any(allowing) and all(
        rule or (is_listed(part) and _is_inert(runs, parts, policy))
        for rule, part in zip(allowing, parts, strict=True)
    )
    if is_ruled and policy.mode is not ApprovalMode.PLAN:
        rule = next(filter(None, allowing))
        return CommandJudgement([_by_rule(rule, policy)], parts, rule.text)
    return CommandJudgement([_by_tier(runs, parts, policy)], parts)


def is_excluded(command: str, policy: Policy) -> bool:
    """Return whether the settings exclude all parts of a command from the sandbox."""
    patterns = [each for written in policy.excluded for each in pattern_of(written)]
    calls = [each for part in parse_script(command).parts for each in inner_commands(part)]
    return bool(calls and patterns) and all(
        any(fits(pattern, each.text) for pattern in patterns) for each in calls
    )


def _by_rule(rule: Rule, policy: Policy) -> AccessDecision:
    """Decide about a command that rules allow: without a sandbox, file rules cannot hold."""
    why = f"{rule.text} allows it"
    if policy.tier is Tier.NONE and policy.has_file_rules:
        reason = f"{why}, but no sandbox works here to enforce the rules about files"
        return AccessDecision(VerdictKind.ASK, reason)
    basis = Basis.ANY_COMMAND if rule.about is None else Basis.RULE
    return AccessDecision(VerdictKind.ALLOW, why, basis=basis)


def _by_tier(runs: Runs, parts: tuple[SimpleCommand, ...], policy: Policy) -> AccessDecision:
    """Decide about a command that no rule allows."""
    listed = all(map(is_listed, parts)) and _is_inert(runs, parts, policy)
    if runs.is_bare:
        why = "it is to run without a sandbox"
    elif is_excluded(runs.command, policy):
        why = "the settings exclude it from the sandbox"
    elif policy.tier is Tier.NONE and not listed:
        why = "no rule allows it, and no sandbox works here"
    elif policy.tier is Tier.NONE:
        unread = next((each for part in parts for each in _file_questions(part, policy)), None)
        return unread or AccessDecision(VerdictKind.ALLOW, "", basis=Basis.LISTED)
    elif basis := _tier_of(parts, policy):
        # A server that cannot be reached, or a build that writes nothing, would help nobody.
        if basis is not Basis.READ or not runs.in_background or listed:
            return AccessDecision(VerdictKind.ALLOW, "", basis=basis)
        why = "it goes on in the background"
    else:
        why = "no rule allows it"
    return AccessDecision(VerdictKind.ASK, why, remember=_offers(parts))


def command_offers(command: str) -> tuple[str, ...]:
    """Return the rules that would allow a command from now on."""
    return _offers(tuple(parse_script(command).parts))


def _offers(parts: tuple[SimpleCommand, ...]) -> tuple[str, ...]:
    offers = [offers_for(part) for part in parts if not is_listed(part)]
    return tuple(dict.fromkeys(rule for each in offers for rule in each)) if all(offers) else ()


def _tier_of(parts: tuple[SimpleCommand, ...], policy: Policy) -> Basis | None:
    """Return the sandbox in which a command may run unasked; None if it must ask."""
    is_editing = policy.mode is ApprovalMode.ACCEPT_EDITS
    if policy.tier is Tier.LISTED:
        if is_editing and all(_program(part) in EDITORS or is_listed(part) for part in parts):
            return Basis.WRITE
        return Basis.READ if all(map(_is_client_listed, parts)) else None
    is_writing = is_editing or policy.tier is Tier.WRITE
    return Basis.WRITE if is_writing and policy.mode is not ApprovalMode.PLAN else Basis.READ


def inner_commands(part: SimpleCommand) -> Iterator[Inner]:
    """Yield a simple command, and those that wrappers and shells in it run."""
    yield Inner(part.words, part)
    yield from _unwrapped(part.words, part, MAX_NESTING)


def _unwrapped(words: tuple[Word, ...], part: SimpleCommand, depth: int) -> Iterator[Inner]:
    name = words[0].text.rpartition("/")[2] if words else ""
    if not depth or part.is_test:
        return
    if name in WRAPPERS:
        behind = _behind(words, name)
        if behind:
            yield Inner(behind, part, name not in PLAIN_WRAPPERS)
            yield from _unwrapped(behind, part, depth - 1)
    elif name in SHELLS or name == "eval":
        texts = [word.text for word in words[1:] if not word.is_option]
        has_code = name == "eval" or any(re.match(r"-[a-z]*c", word.text) for word in words)
        for inner in parse_script(" ".join(texts)).parts if has_code else ():
            yield Inner(inner.words, inner, is_wrapped=True)
            yield from _unwrapped(inner.words, inner, depth - 1)
    elif name == "find":
        ranks = [n for n, word in enumerate(words) if re.match("-(?:exec|ok)", word.text)]
        for rank in ranks:
            yield Inner(words[rank + 1 :], part, is_wrapped=True)


def _behind(words: tuple[Word, ...], name: str) -> tuple[Word, ...]:
    """Return the command that a wrapper runs; xargs adds arguments that are not known."""
    rest, operands = list(words[1:]), OPERANDS.get(name, 0)
    while rest and (rest[0].text.startswith("-") or "=" in rest[0].text or operands):
        word = rest.pop(0).text
        if not word.startswith("-"):
            operands -= "=" not in word or name not in ("env", "sudo")
        elif not word.startswith("--") and word[-1:] in tuple(WRAPPERS[name]) and len(word) == 2:
            rest[:1] = []
    return (*rest, UNKNOWN) if rest and name == "xargs" else tuple(rest)


def _matching(rules: tuple[Rule, ...], calls: list[Inner]) -> Rule | None:
    """Return the first rule that covers a call by the program's name or path."""
    for rule in rules:
        if rule.tool == COMMANDS and rule.about is None:
            return rule
        for call in calls:
            named = " ".join((call.name, *call.text.split(" ")[1:]))
            if fits_command(rule, call.text) or fits_command(rule, named):
                return rule
    return None


def _allowing(part: SimpleCommand, policy: Policy) -> Rule | None:
    """Return the rule that allows a simple command; None if none does."""
    rules = [rule for rule in policy.allow if rule.tool == COMMANDS]
    source = part.source.strip()
    for rule in rules:
        if rule.about is None or (rule.is_exact and rule.about == source):
            return rule
    if any(not SAFE_VARIABLE.fullmatch(each.name) for each in part.assignments) or not part.words:
        return None
    if any(_is_beyond(each.target, policy) for each in part.redirects if each.is_write):
        return None
    words = part.words
    while words and words[0].text in PLAIN_WRAPPERS and _behind(words, words[0].text):
        if rule := next((each for each in rules if fits_command(each, command_text(words))), None):
            return rule
        words = _behind(words, words[0].text)
    return next((each for each in rules if fits_command(each, command_text(words))), None)


def _is_beyond(target: Word, policy: Policy) -> bool:
    """Return whether bash writes a file for a program that a rule for the program does not cover.

    A rule for `git` allows `git log > out.txt` where a sandbox keeps it in the working directories.
    """
    if target.text == "/dev/null" or HOLE in target.text:
        return HOLE in target.text
    place = Path(target.text).expanduser() if target.has_tilde else Path(target.text)
    found = judge_write(policy.cwd / place, policy)
    return found.is_guarded or (policy.tier is Tier.NONE and found.kind is not VerdictKind.ALLOW)


def _program(part: SimpleCommand) -> str:
    return part.words[0].text if part.words else ""


def is_listed(part: SimpleCommand) -> bool:
    """Return whether a simple command is on the short list: it only reads or prints."""
    # In some places, bash runs substitutions within plain text: `test -v 'a[$(x)]'`.
    texts = [word.text for word in (*part.words, *(each.value for each in part.assignments))]
    if any("$(" in text or "`" in text for text in texts):
        return False
    # `PATH=.` changes what runs, and so may any other variable with a capital letter.
    if any(not each.name.islower() for each in part.assignments) or any(
        each.is_write and each.target.text != "/dev/null" for each in part.redirects
    ):
        return False
    return part.is_test or not part.words or _program(part) in SHORT_LIST


def _is_inert(runs: Runs, parts: tuple[SimpleCommand, ...], policy: Policy) -> bool:
    """Return whether nothing but the programs of a command runs, if no sandbox contains it."""
    texts = (runs.command, *(command_text(part.words) for part in parts))
    return policy.tier is not Tier.NONE or not any(map(EVALUATING.search, texts))


def _is_client_listed(part: SimpleCommand) -> bool:
    """Return whether the client runs a simple command unasked."""
    if is_listed(part):
        return True
    is_plain = not part.assignments and not any(each.is_write for each in part.redirects)
    is_active = any(ACTIVE_OPTIONS.fullmatch(word.text) for word in part.words[1:])
    return is_plain and not is_active and bool(CLIENT_LIST.fullmatch(command_text(part.words)))


def _file_questions(part: SimpleCommand, policy: Policy) -> Iterator[AccessDecision]:
    """Yield why a command on the short list must ask on a host without a sandbox."""
    if policy.has_file_rules and _program(part) in TREE_READERS:
        yield AccessDecision(VerdictKind.ASK, "it may read files that a rule denies")
    words = (*part.words[1:], *(redirect.target for redirect in part.redirects))
    for word in words:
        if HOLE in word.text:
            # What an expansion yields may be printed, but not opened.
            if _program(part) not in ("echo", "printf"):
                yield AccessDecision(VerdictKind.ASK, f"which file {word.source} is, is not known")
            continue
        # A path may also be the value of an option: `-f.env`, `--file=.env`.
        for text in {word.text, word.text.partition("=")[2], word.text[2:]} - {""}:
            start = Path(text).expanduser() if word.has_tilde else Path(text)
            place = policy.cwd / start
            paths = policy.cwd.glob(text) if word.has_glob and not start.is_absolute() else [place]
            for path in paths:
                found = judge_read(path, policy) if os.path.lexists(path) else None
                if found and found.kind is not VerdictKind.ALLOW:
                    yield found


def ask_outside(runs: Runs, policy: Policy, profile: Profile) -> Verdict | None:
    """Return a question about an allowed command that its sandbox would make useless.

    What a profile hides is not there for the command, so the user is asked about what it names.
    """
    if not profile.is_needed or policy.tier is Tier.NONE:
        return None
    try:
        masks = find_masks(profile)
    except TooManyMasks as error:
        return Verdict(VerdictKind.ASK, str(error), is_firm=True)
    calls = [each for part in parse_script(runs.command).parts for each in inner_commands(part)]
    if masks.hides_git and any(call.name == "git" for call in calls):
        return Verdict(VerdictKind.ASK, "a file that a rule denies is in git's history")
    for path in _named_paths(calls, policy.cwd):
        if profile.is_unasked and is_hidden(profile, path):
            return Verdict(VerdictKind.ASK, f"{path} is outside of the working directories")
    return None


def whole_program(rule: Rule) -> str:
    """Return the program that a rule names as a whole, as `Bash(curl:*)` does; empty if none."""
    name = (rule.about or "").removesuffix(":*").removesuffix("*").strip()
    return name if re.fullmatch(r"[\w./+-]+", name) and name != rule.about else ""


def _named_paths(calls: list[Inner], cwd: Path) -> Iterator[Path]:
    """Yield the paths outside of a directory that the words of calls name."""
    for call in calls:
        for word in (*call.words[1:], *(each.target for each in call.part.redirects)):
            text = word.text.partition("=")[2] if word.is_option else word.text
            start = re.split(rf"[*?\[{HOLE}]", text, maxsplit=1)[0]
            if word.has_tilde:
                yield Path(start).expanduser()
            elif start.startswith(("/", "..")) or "/../" in start:
                yield cwd / start


def removes_much(call: Inner, policy: Policy) -> bool:
    """Return whether a call removes a critical directory, or everything in one."""
    name, words = call.name, call.words[1:]
    if name == "find" and any(word.text in ("-delete", *REMOVERS) for word in words):
        is_narrow = any(re.match("-i?(?:name|path)", word.text) for word in words)
        words = () if is_narrow else tuple(w for w in words if not w.is_option)[:1] or (Word("."),)
    elif name not in REMOVERS or not any(re.match("-[a-z]*[rR]|--rec", w.text) for w in words):
        return False
    kept = critical_paths((*policy.directories, policy.cwd))
    for word in words:
        text = re.sub(r"(?:/\*+|/\.\*)+$", "", word.text) or "/"
        if word.is_option:
            continue
        if text in ("*", ".*") or HOLE in text:
            text = "." if text in ("*", ".*") else text
        if re.fullmatch(rf"{HOLE}/?[./*]*", text):
            return True
        path = Path(text).expanduser() if word.has_tilde else policy.cwd / text
        names = names_of(path) if HOLE not in text else ()
        if any(each in kept or len(each.parts) <= 2 for each in names):
            return True
    return False
