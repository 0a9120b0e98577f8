"""A command runs unprompted only if bash itself reads it as the parser does."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from agent.permissions.cases import CASES, Case
from agent.permissions.trial import make_project, verdict_of
from turnlog.agent.permissions import VerdictKind
from turnlog.agent.permissions.bash import Script, SimpleCommand, find_disagreement, parse_script

BASH = shutil.which("bash") or "bash"
PATIENT = 60.0
"""Seconds to wait for an answer on a busy machine."""
JOINED = [
    "(\\\n(echo '$(touch new)'))",
    "(\\\n\\\n(echo '$(touch new)'))",
    "cat <<< $(\\\n(echo '$(touch new)'))",
    "cat <<< \"$(\\\n(echo '$(touch new)'))\"",
    "cat <<\\\n-E\nE\ntouch new\n-E\n",
    "cat <<-\\\nE\nE\ntouch new\nE\n",
    "[[ a ]]\\\n && touch new && [[ b ]]",
    "[[ a &&\\\n b ]]\\\n || touch new",
    "[[ x =~\\\n (a #) ]] ; touch new\n) ]]",
    "(case x in a) cat a;; esac\\\n | ./evil.sh )\ncat b;; esac )",
    "(case x in a) cat a;; esac\\\n\t; touch new )\ncat b;; esac )",
    "if cat a; then cat b; fi\\\n ; touch new",
    "cat <\\\n(touch new)",
    "cat $\\\n(touch new)",
    "cat a &\\\n& touch new",
    "echo 2\\\n>new",
]
"""Bash removes a backslash at the end of a line before it looks for tokens."""
DOUBLED = [
    "cat <<< <((echo # )) ; touch new\n))",
    "cat <((echo # )) ; touch new\n))",
    "cat <((echo # )); (touch new; (ls\n))",
    "cat a > >((cat # )) ; touch new\n))",
    "diff <((echo # )) read.md; touch new\n))",
]
CLOSED = [
    "cat 2>&-../other/file.txt",
    "cat 2>& -../other/file.txt",
    "cat <&-.env",
    "cat 2>&-.env",
    "cat 2>&-'.env'",
    "sort read.md 2>&--onew",
    "sed 2>&-'1e touch new' p read.md",
    ">&-.env cat",
]
REFUSED = [
    *("(cat &&)", "echo $(echo |)", "{ cat ||}", "()", "[[ a b ]]", "cat <<< 1>x", "cat < 2>x"),
    *("{ }", "if ; then ls; fi", "while do ls; done", "[[ a && ]]", "[[ ( a ]]", "[[ ]]"),
    *("ls | )", "(ls |& )", "[[ -f ]]", "[[ a == ]]", "cat <<1>x\n1\n"),
]
EVERYDAY = [
    *("ls", "ls -la src", "cat read.md src/app.py", "grep -rn text src", "git status", "pwd; ls"),
    *("find . -name '*.py' -type f", "sed -n '1,5p' src/app.py", "cat src/*.py | head -20"),
    *("git log --oneline | head -5", "git diff src/app.py", "wc -l < read.md", "cat read.md 2>&1"),
    *("echo \"a b\" 'c d' e\\ f $'g\\th'", "(cd src && ls) || echo none", "ls src/ # sources"),
    *("[[ -f read.md ]] && cat read.md", "[[ a ]]", "[[ ! ( a == b* || -d src ) ]]; ls", "! ls"),
    *(
        "cat <<'E'\n$(touch x)\nE\n",
        "cat <<E | grep a\na\nE\n",
        "cat <<-E\n\ta\n\tE\nls",
        "cat <<< a",
    ),
    *("if [ -f read.md ]; then\n  cat read.md\nelse\n  ls\nfi", "ls |& head", "ls &&\\\n  pwd"),
    *(
        "case a in a|b) ls;; *) ;; esac",
        "ls \\\n  -l \\\n  src",
        "time ls",
        "{ ls; pwd; } 2>/dev/null",
    ),
    *(
        "ls 2>&-",
        "TZ=UTC ls | sort | uniq",
    ),
    *(
        "ls >&2",
        "ls <&-",
        "cat < read.md 2>/dev/null",
        "echo é ü",
        "ls;",
        "\nls\n\n",
        "ls && # c\npwd",
    ),
]
HOSTILE = """
touch {0}
$(touch {0}) `touch {0}` "$(touch {0})" <(touch {0}) >(touch {0}) > {0}
cat <<E
$(touch {0}) `touch {0}` ${{x:=$(touch {0})}}
E
alias ls='touch {0}'; shopt -s expand_aliases extglob
ls
trap 'touch {0}' EXIT DEBUG ERR; PROMPT_COMMAND='touch {0}'; PS4='$(touch {0})'; set -x
f() {{ touch {0}; }}; f; eval 'touch {0}'; exec touch {0}
(( a[$(touch {0})] )); [[ -v a[$(touch {0})] ]]; echo $(( a[$(touch {0})] )) $"$(touch {0})"
coproc touch {0}; x=(a $(touch {0})) ; exec > {0}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return make_project(tmp_path)


def verdict(project: Path, command: str, **rules: str) -> VerdictKind:
    return verdict_of(Case("", f"Bash: {command}", **rules), project).kind


def fake_bash(place: Path, answer: str, version: str = "5.2.15") -> str:
    """A program in the place of bash that answers each question as a shell script says."""
    path = place / "bin" / "bash"
    path.parent.mkdir(exist_ok=True)
    shown = f"echo 'GNU bash, version {version}(1)-release'"
    path.write_text(f'#!/bin/sh\ncase "$*" in *--version) {shown}; exit;; esac\n{answer}\n')
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("command", [*JOINED, *DOUBLED, *CLOSED])
@pytest.mark.parametrize("mode", ["default", "plan", "acceptEdits"])
def test_what_bash_reads_differently_does_not_run(project: Path, command: str, mode: str) -> None:
    assert verdict(project, command, mode=mode) is not VerdictKind.ALLOW


@pytest.mark.parametrize("command", [*JOINED, *DOUBLED, *CLOSED])
@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
def test_what_bash_reads_differently_passes_no_deny_rule(
    project: Path, command: str, mode: str
) -> None:
    for rule in ("Bash(touch:*)", "Read(.env)"):
        found = verdict(project, command, allow="Bash", deny=rule, mode=mode)
        assert found is not VerdictKind.ALLOW


@pytest.mark.parametrize("command", [*JOINED, *DOUBLED, *CLOSED, *REFUSED])
def test_the_parser_alone_is_not_certain_either(command: str) -> None:
    assert parse_script(command).unclear


def test_a_backslash_at_the_end_of_a_line_never_changes_what_is_found() -> None:
    commands = [case.call.removeprefix("Bash: ") for case in CASES if "Bash: " in case.call]
    for command in commands:
        whole = outline(parse_script(command))
        for place in range(min(len(command), 60)):
            joined = parse_script(f"{command[:place]}\\\n{command[place:]}")
            is_plain = not any(sign in command for sign in "#'\\")
            if is_plain and not joined.unclear:
                assert outline(joined) == whole, (command, place)


def outline(script: Script) -> list[tuple[list[str], list[str]]]:
    return [
        ([word.text for word in part.words], [each.target.text for each in part.redirects])
        for part in script.parts
    ]


@pytest.mark.parametrize("command", EVERYDAY)
def test_everyday_commands_run_unprompted(project: Path, command: str) -> None:
    found = verdict_of(Case("", f"Bash: {command}"), project)
    assert found.kind is VerdictKind.ALLOW, found.reason


@pytest.mark.parametrize(
    "command",
    [
        "git commit -m \"$(cat <<'EOF'\nAdd a parser\n\n- it's small\nEOF\n)\"",
        "npm run build 2>&1 | tail -20",
        "cd src && python3 - <<'EOF' > out.txt && cat out.txt\nprint('a b')\nEOF\n",
        'for f in *.py; do echo "$f"; python3 "$f" || exit 1; done',
        "x=$(ls  -l | wc -l); echo \"$x\" $'\\x1b[0m' ~/a *.md {a,b}",
        'while read -r line; do echo "$line"; done < read.md > out.txt',
        "sleep 1 & wait",
    ],
)
def test_with_a_rule_for_all_commands_ordinary_scripts_run(project: Path, command: str) -> None:
    found = verdict_of(Case("", f"Bash: {command}", allow="Bash"), project)
    assert found.kind is VerdictKind.ALLOW, found.reason


@pytest.mark.parametrize(
    ("command", "reading"),
    [
        ("(\\\n(echo '$(touch new)'))", "(  (echo '$(touch new)'))"),
        ("cat <<\\\n-E\nE\ntouch new\n-E\n", "cat <<  '-E'\nE\ntouch new\n-E\n"),
        ("cat 2>&-.env", "cat 2>./.env"),
        ("cat a # b; touch new", "cat a   b; touch new"),
        ("cat 'a; touch new'", "cat  a; touch new"),
        ("cat a; touch new", "cat 'a; touch new'"),
        ("cat a b", "cat 'a b'"),
        ("cat 'a b'", "cat  a b"),
        ("cat < a", "cat > a"),
        ("cat <<E\na\nE\n", "cat <<E\nb\nE\n"),
        ("cat a &", "cat a"),
        ("x=1 cat a", "x=2 cat a"),
        ("cat *", "cat '*'"),
    ],
)
def test_a_wrong_reading_is_noticed(command: str, reading: str) -> None:
    script = parse_script(command)
    assert script.unclear or find_disagreement(command, script, BASH) is None
    assert find_disagreement(command, parse_script(reading), BASH)


def test_commands_between_backticks_are_compared_as_well(tmp_path: Path) -> None:
    commands = "echo `cat  a  b` \"`cat 'c d'`\""
    script = parse_script(commands)
    assert find_disagreement(commands, script, BASH) is None
    bash = fake_bash(tmp_path, f'{BASH} "$@" | sed "/^cat/s/c d/c   d/"')
    assert find_disagreement(commands, script, bash)


def test_bash_runs_nothing_that_it_is_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, startup = tmp_path / "made", tmp_path / "startup"
    startup.write_text(f"touch {made}\n")
    for name in ("BASH_ENV", "ENV"):
        monkeypatch.setenv(name, str(startup))
    monkeypatch.setenv("PROMPT_COMMAND", f"touch {made}")
    monkeypatch.setenv("BASH_FUNC_cat%%", f"() {{ touch {made}; }}")
    monkeypatch.setenv("SHELLOPTS", "xtrace:verbose")
    monkeypatch.setenv("PS4", f"$(touch {made})")
    for text in (HOSTILE.format(made), *HOSTILE.format(made).strip().splitlines()):
        find_disagreement(text, parse_script(text), BASH)
    assert not made.exists()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("cat", None),
        ("sed 's/cat a/touch a/'", "differently"),
        ("sed 's/ 941/x 941/'", "words differently"),
        ("cat; exit 1", "does not accept"),
        ("cat > /dev/null", "does not accept"),
        ("kill -SEGV $$", "does not accept"),
    ],
)
def test_each_answer_but_the_same_reading_counts(
    tmp_path: Path, answer: str, reason: str | None
) -> None:
    # `cat` prints the question: what is marked does not move, so a single word is asked about.
    command = "cat" if reason is None else "cat a"
    bash = fake_bash(tmp_path, answer)
    found = find_disagreement(command, parse_script(command), bash, PATIENT)
    assert (found is None) if reason is None else (found and reason in found)


def test_no_answer_in_time_counts(tmp_path: Path) -> None:
    bash = fake_bash(tmp_path, "exec sleep 600")
    found = find_disagreement("cat a", parse_script("cat a"), bash, longest_wait=0.1)
    assert found == "bash did not parse it within 0.1 s"


def test_an_older_bash_is_not_asked(tmp_path: Path) -> None:
    bash = fake_bash(tmp_path, "exit 2", version="4.4.20")
    assert find_disagreement("cat a", parse_script("cat a"), bash) is None


def test_a_bash_of_unknown_version_makes_commands_ask(tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    assert find_disagreement("cat a", parse_script("cat a"), missing)


def explain(project: Path, bash: str, command: str, *options: str) -> str:
    """Run `--explain-permission` with another program in place of bash; return its output."""
    path = f"{Path(bash).parent}:{os.environ['PATH']}"
    argv = [sys.executable, "-m", "turnlog", "chat", "--explain-permission", command, *options]
    environment = {**os.environ, "PATH": path}
    shown = subprocess.run(
        argv, cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    return shown.stdout + shown.stderr


def test_a_verdict_asks_bash_once_and_only_where_it_would_allow(
    project: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    bash = fake_bash(tmp_path, f'echo asked >> {log}\nexec {BASH} "$@"')
    assert "allow" in explain(project, bash, "cat read.md")
    assert log.read_text() == "asked\n"
    explain(project, bash, "touch new")
    assert log.read_text() == "asked\n"


def test_a_verdict_asks_where_bash_disagrees(project: Path, tmp_path: Path) -> None:
    bash = fake_bash(tmp_path, "sed 's/cat/touch/'")
    assert "bash may read it differently" in explain(project, bash, "cat read.md")


def test_names_of_digits_do_not_become_descriptors(project: Path) -> None:
    for name in ("1", "2"):
        (project / name).write_text(f"text {name}\n")
    case = Case("", "Bash: cat ?>out2.txt", mode="acceptEdits")
    found = verdict_of(case, project)
    assert found.kind is VerdictKind.ALLOW
    subprocess.run([BASH, "-c", found.command or ""], cwd=project, check=True)
    assert (project / "out2.txt").read_text() == "text 1\ntext 2\n"


PIECES = r"""cat¦echo¦a¦b¦ ¦ ¦ ¦ \¬¦\¬¦¬¦(¦)¦((¦))¦{ ¦; }¦'¦"¦`¦$(¦<(¦>(¦$¦#¦ #¦<<E¦<<'E'¦<<-E¦<<
¦<<<¦-¦E¦¬E¬¦¬E¬¦;¦&
¦|¦&&¦||¦<¦>¦>>¦>&¦1¦2¦case a in ¦esac¦;;¦ in ¦[[ ¦ ]]¦if ¦then ¦fi¦; fi¦while ¦do ¦done
¦; done¦!¦time ¦\¦~¦*¦=¦x=¦$x¦${x}¦$'¦\'¦\"¦=~¦==¦{a,b}¦cat a¦echo b¦¬cat b¬¦cat <<E¬¦ a b¦ 'a b'"""
RESERVED = "! { } [[ ]] case do done elif else esac fi if in then time while".split()
STARTS = [
    "cat ",
    "echo ",
    "[[ a ",
    "(cat ",
    "if cat ",
    "cat <<< ",
    "case a in a) cat ",
    "{ cat ",
    "cat <<E ",
    "while cat ",
    "echo $(cat ",
    'echo "$(cat ',
    "cat a; ",
]


def random_text(random: Random) -> str:
    pieces = PIECES.replace("\n", "").replace("¬", "\n").split("¦")
    return random.choice(STARTS) + "".join(random.choices(pieces, k=random.randint(3, 14)))


def is_reserved(part: SimpleCommand) -> bool:
    """Return whether a program has the name of a reserved word.

    It can be, behind a redirection: `>x time`. Bash prints it first, where it has another meaning.
    """
    return [word.text for word in part.words[:1]] in [[each] for each in RESERVED]


@pytest.mark.parametrize("seed", range(4))
def test_random_texts_mean_the_same_to_bash(seed: int) -> None:
    random, compared = Random(seed), 0
    while compared < 100:
        text = random_text(random)
        script = parse_script(text)
        if script.unclear or any(map(is_reserved, script.parts)):
            continue
        compared += 1
        assert find_disagreement(text, script, BASH) is None, text
