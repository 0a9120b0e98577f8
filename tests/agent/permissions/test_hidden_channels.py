"""Side channels of a command besides arguments: `~`, connections, variables, time."""

import subprocess
from pathlib import Path
from time import thread_time

import pytest

from turnlog.agent.permissions import ApprovalMode, Policy, Verdict, VerdictKind, decide, parse_rule
from turnlog.agent.permissions.bash import expand, parse_script
from turnlog.agent.workspace.access import Basis, Runs

CONNECTIONS = [
    "echo data > /dev/tcp/127.0.0.1/80",
    "echo data >> /dev/udp/127.0.0.1/53",
    "cat src.txt >& /dev/tcp/127.0.0.1/80",
    "cat < /dev/tcp/127.0.0.1/80",
    "echo data > '/dev/tcp'/host/80",
    "(cat src.txt) > /dev/tcp/host/80",
]
SHOWING = [
    'cat <<< "$KEY"',
    "sed -n p <<< $KEY",
    "(cat) <<< $KEY",
    "{ head -1; } <<< x$KEY",
    "cat <<E\n$KEY\nE\n",
    "cat <<-E\n$KEY\nE\n",
    "[[ $KEY == a* ]] && echo yes",
    '[[ -n "$KEY" ]]',
    "case $KEY in a*) echo yes;; esac",
    "case x in $KEY) echo yes;; esac",
]


def verdict_of(
    command: str, root: Path, *allow: str, mode: str = "default", deny: tuple[str, ...] = ()
) -> Verdict:
    allowed, denied = (tuple(parse_rule(t, root, "test") for t in each) for each in (allow, deny))
    policy = Policy(denied, (), allowed, ApprovalMode(mode), root, (root,))
    return decide("Bash", [Runs(command)], policy)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "src.txt").write_text("text\n")
    return root


@pytest.mark.parametrize("home", ["/", "//", "/./"])
@pytest.mark.parametrize(
    "command",
    ["ls ~", "ls ~/", "grep -r x ~", "cat ~/etc/hostname", "ls ~/*", "cd ~ && ls", "cat ''"],
)
def test_the_root_as_home_is_not_the_project(
    command: str, home: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", home)
    assert verdict_of(command, project).kind is VerdictKind.ASK
    assert verdict_of("cp src.txt ~", project, mode="acceptEdits").kind is VerdictKind.ASK


@pytest.mark.parametrize("home", ["/", "//", "/usr", "/usr/", "/usr//"])
@pytest.mark.parametrize("text", ["~", "~/", "~/lib", "~/l*b"])
def test_a_tilde_expands_to_what_bash_makes_of_it(
    text: str, home: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", home)
    [part] = parse_script(f"echo {text}").parts
    argv = ["bash", "-c", f"printf '%s\\n' {text}"]
    printed = subprocess.run(argv, capture_output=True, check=True, text=True, cwd=project).stdout
    expected = [Path(line).resolve() for line in printed.splitlines()]
    assert [Path(each).resolve() for each in expand(part.words[1], project)] == expected


@pytest.mark.parametrize("command", CONNECTIONS)
@pytest.mark.parametrize("rule", ["Edit", "Edit(//**)", "Read", "Read(//dev/**)"])
def test_no_rule_for_files_allows_a_connection(command: str, rule: str, project: Path) -> None:
    verdict = verdict_of(command, project, rule)
    assert verdict.kind is VerdictKind.ASK
    assert not verdict.remember


def test_a_connection_asks_in_every_mode_but_bypass(project: Path) -> None:
    for mode in ("default", "acceptEdits", "plan"):
        assert verdict_of(CONNECTIONS[0], project, "Edit", mode=mode).kind is not VerdictKind.ALLOW
    assert verdict_of("cat src.txt > copy.txt", project, "Edit").kind is VerdictKind.ALLOW


@pytest.mark.parametrize("command", SHOWING)
def test_a_rule_for_one_part_shows_no_variable_in_another(command: str, project: Path) -> None:
    alone = verdict_of(command, project)
    assert (alone.kind, alone.basis) == (VerdictKind.ALLOW, Basis.UNDERSTOOD)
    assert verdict_of(f"./t.sh; {command}", project, "Bash(./t.sh:*)").kind is VerdictKind.ASK
    assert verdict_of(f"echo x > new; {command}", project, "Edit").kind is VerdictKind.ASK


@pytest.mark.parametrize("command", SHOWING)
def test_a_rule_that_is_not_needed_takes_nothing_away(command: str, project: Path) -> None:
    verdict = verdict_of(f"ls; {command}", project, "Bash(ls:*)")
    assert (verdict.kind, verdict.basis) == (VerdictKind.ALLOW, Basis.UNDERSTOOD)


@pytest.mark.parametrize(
    "command",
    [
        './t.sh <<< "$KEY"',
        "./t.sh <<E\n$KEY\nE\n",
        './t.sh "$KEY"',
        "./t.sh; cat <<'E'\n$KEY\nE\n",
        "./t.sh; cat <<< text",
        "./t.sh; [[ -f src.txt ]] && echo yes",
        "./t.sh | tail -5",
    ],
)
def test_parts_with_a_rule_get_variables_and_others_get_text(command: str, project: Path) -> None:
    assert verdict_of(command, project, "Bash(./t.sh:*)").kind is VerdictKind.ALLOW
    assert verdict_of(f"{command}\ncat <<< $KEY", project, "Bash").kind is VerdictKind.ALLOW


@pytest.mark.parametrize(
    "name", ["l0/x{}", "h0/../h1/../h2/../h3/../h4/../l0/x{}", "h0/../h0/../h0/../h0/../x{}"]
)
def test_chains_of_links_are_given_up_in_time(name: str, project: Path) -> None:
    (project / "d").mkdir()
    for number in range(6):
        (project / f"h{number}").symlink_to("d")
        (project / f"l{number}").symlink_to(f"h{number}/../l{number + 1}")
    (project / "l6").mkdir()
    command = "cat " + " ".join(name.format(number) for number in range(450))
    started = thread_time()
    verdict = verdict_of(command[:9_900].rpartition(" ")[0], project)
    assert thread_time() - started < 2.0
    assert verdict.kind in (VerdictKind.ASK, VerdictKind.ALLOW)


EVALUATED = [
    *("let x=y", "builtin let x+=y", "declare -i x=y", 'declare "$y=1"', "[[ y -eq 0 ]]"),
    *("[[ 1 -lt $y ]]", "[[ -v $y ]]", '[ -v "$y" ]', 'test -v "$y"', '[ "$x" "$y" ]'),
    *("[ $y -eq 0 ]", 'printf -v "$y" x', 'printf "-v$y" x', 'read "$y"', 'wait -n -p "$y"'),
    "awk 'BEGIN { system(\"t$(:)ouch x\") }'",
]
"""Parts that run `touch` and read `.env` where `y` is `a[$(touch x; cat .env >&2)]`."""
COMPARED = [
    *('[ -n "$y" ]', '[ "$x" = "$y" ]', '[ "$y" -eq 0 ]', "[[ $y == x ]]", "[[ $? -eq 0 ]]"),
    *('[[ "$#" -lt 2 ]]', 'printf "%s" "$y"', "read -r x", "wait $y", 'export X="$y"', "unset x"),
    *("x=1", "echo '[x]'", "grep '[x]' a.txt", "printf '%s' '[x]'", "[ a = '[x]' ]"),
]


@pytest.mark.parametrize("part", EVALUATED)
def test_a_builtin_that_evaluates_a_variable_may_run_what_a_rule_denies(
    part: str, project: Path
) -> None:
    assert verdict_of(part, project, "Bash", deny=("Bash(touch:*)",)).kind is VerdictKind.ASK
    if "awk" not in part:
        assert verdict_of(part, project, "Bash", deny=("Read(./.env)",)).kind is VerdictKind.ASK


@pytest.mark.parametrize("part", COMPARED)
def test_a_builtin_that_only_compares_a_variable_runs_beside_rules(
    part: str, project: Path
) -> None:
    for rule in ("Bash(touch:*)", "Read(./.env)"):
        assert verdict_of(part, project, "Bash", deny=(rule,)).kind is VerdictKind.ALLOW


@pytest.mark.parametrize(
    "command", ["npm test -- '$(touch x)'", "pnpm run lint -- '`touch x`'", "yarn lint '$(touch)'"]
)
def test_an_argument_that_a_script_may_evaluate_is_a_command(command: str, project: Path) -> None:
    assert verdict_of(command, project, "Bash", deny=("Bash(touch:*)",)).kind is VerdictKind.ASK
    assert verdict_of("npm test -- 'touch x'", project, "Bash", deny=("Bash(touch:*)",)).kind is (
        VerdictKind.ALLOW
    )


@pytest.mark.parametrize(
    "command",
    [
        *("gzip -rk conf", "zstd -rc conf", "rename conf c2 conf", "pcre2grep -r KEY conf"),
        *("fd -x cat", "fdfind . conf --exec-batch=cat"),
    ],
)
def test_a_program_that_goes_through_a_directory_may_show_a_denied_file(
    command: str, project: Path
) -> None:
    (project / "conf").mkdir(exist_ok=True)
    (project / "conf" / "key").write_text("x")
    assert verdict_of(command, project, "Bash", deny=("Read(./conf/key)",)).kind is VerdictKind.ASK
    for other in ("gzip -k a.txt", "zstd -T0 a.txt", "fd -e py", "rename a b a.txt"):
        found = verdict_of(other, project, "Bash", deny=("Read(./conf/key)",))
        assert found.kind is VerdictKind.ALLOW


ZONES = ("", "UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "EST5EDT")
RULED_ZONES = ("CET-1CEST,M3.5.0,M10.5.0/3", "'<+0330>-3:30'", "UTC0", "GMT+3")
ZONE_FILES = (":/etc/passwd", "/etc/passwd", "../../x", "x/../../y", ":x", ".env", "a,../../b")


@pytest.mark.parametrize("value", ZONE_FILES)
def test_a_time_zone_that_names_a_file_asks(value: str, tmp_path: Path) -> None:
    for command in (f"TZ={value} date", f"TZ={value} ls -l", f"date -d 'TZ=\"{value}\" 0'"):
        assert verdict_of(command, tmp_path).kind is VerdictKind.ASK
    touching = f"touch -d 'TZ=\"{value}\" 0' x"
    assert verdict_of(touching, tmp_path, mode="acceptEdits").kind is VerdictKind.ASK


@pytest.mark.parametrize("value", [*ZONES, *RULED_ZONES])
def test_a_time_zone_by_its_name_or_rules_does_not_ask(value: str, tmp_path: Path) -> None:
    assert verdict_of(f"TZ={value} date -d yesterday", tmp_path).kind is VerdictKind.ALLOW
