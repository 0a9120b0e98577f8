"""Rules and their precedence: what is allowed, asked about or denied, one row per path.

Commands are decided about as for programs of the SDK, where everything that no rule allows asks.
`{project}` is where the session was started; `{other}` lies beside it, `{home}` is the user's.
Links in the project: `out.txt` and `out` lead to `{other}`, `in.txt` to `src/app.py`.
"""

from pathlib import Path
from typing import NamedTuple

import pytest

from turnlog.agent.permissions import ApprovalMode, Policy, Verdict, decide, parse_rule
from turnlog.agent.permissions.explanation import explain_command
from turnlog.agent.workspace.access import Access, Basis, Fetches, Reads, Runs, Tier, Uses, Writes


class Case(NamedTuple):
    """Calls of one kind, and what is decided about each."""

    verdict: str
    calls: str
    """A tool, and after a colon what it is used on; one to a line."""
    allow: str = ""
    ask: str = ""
    deny: str = ""
    mode: str = "default"


def commands(verdict: str, text: str, **rules: str) -> Case:
    return Case(
        verdict, "\n".join(f"Bash: {line.strip()}" for line in text.strip().splitlines()), **rules
    )


TEST, GIT = "Bash(npm test:*)", "Bash(git:*)"
CASES = [
    commands("deny", "git push", allow="Bash(git push)", deny=GIT),
    commands("ask", "git push", allow="Bash(git push)", ask=GIT),
    commands("deny", "git push", ask="Bash(git push)", deny=GIT),
    commands("deny", "git status", deny="Bash", allow="Bash"),
    commands("deny", "git status", deny="Bash(*)"),
    commands("deny", "ls", deny="*"),
    commands("ask", "ls", ask="Bash"),
    commands("allow", "npm test", allow="Bash"),
    commands("allow", "npm test", allow="Bash(*)"),
    commands("ask", "npm test", allow="*"),
    commands("ask", "npm test", allow="B*"),
    commands("allow", "npm run build\nnpm run build >/dev/null", allow="Bash(npm run build)"),
    commands("ask", "npm run build --watch\nnpm run builder", allow="Bash(npm run build)"),
    commands(
        "allow",
        """
        npm test
        npm   test
        n\\pm test
        npm test -- "a b"
        timeout -k 5 30s npm test
        nice -n 10 npm test
        command npm test
        xargs -n1 npm test
        LANG=C npm test
        CI=1 NO_COLOR=1 npm test
        npm test > /dev/null 2>&1
        npm test > out.txt
        npm test &
        if npm test; then npm test; fi
        npm test && ls | head -5
        npm test "$MESSAGE"
        """,
        allow=TEST,
    ),
    commands(
        "ask",
        """
        npm 'test unit'
        /usr/bin/npm test
        env npm test
        sudo npm test
        bash -c 'npm test'
        find . -exec npm test ;
        PATH=/tmp npm test
        LD_PRELOAD=x.so npm test
        NODE_OPTIONS=--require=x npm test
        X=1; npm test; $X
        npm test && rm -rf x
        npm test | sh
        npm test ${X:-$(rm x)}
        npm test <(rm x)
        npm test <<< "$(rm x)"
        npm test $((a[$(rm x)]))
        for i in $(rm x); do npm test; done
        [[ -f $(rm x) ]] && npm test
        npm() { rm -rf x; }; npm test
        npm test && $X
        npm test && trap 'rm x' EXIT
        npm test && "
        npm test )
        npm test > .mcp.json
        npm test 2>> src/../.envrc
        npm test &> .git/hooks/pre-commit
        npm test > ~/.bashrc
        npm test > $X
        """,
        allow=TEST,
    ),
    commands("allow", "make\nmake all", allow="Bash(make *)"),
    commands("ask", "makefoo", allow="Bash(make *)"),
    commands("allow", "makefoo", allow="Bash(make*)"),
    commands("allow", "git checkout main", allow="Bash(git * main)"),
    commands("ask", "git checkout other", allow="Bash(git * main)"),
    commands("allow", "cargo --version", allow="Bash(* --version)"),
    commands("allow", "git commit -m 'a b'", allow='Bash(git commit -m "a b")'),
    commands("allow", "X=1 npm test", allow="Bash(X=1 npm test)"),
    commands("ask", "X=2 npm test", allow="Bash(X=1 npm test)"),
    commands("allow", "npm test && git push", allow=f"{TEST}\nBash(git push:*)"),
    commands("ask", "npm test", allow="Bash\nBash(npm test)", mode="plan"),
    commands("ask", "echo 'a", allow="Bash", deny="Bash(rm:*)", mode="bypassPermissions"),
    commands(
        "deny",
        """
        rm x
        ls | rm x
        sudo -u root rm x
        env -i A=1 rm x
        ls | xargs -I{} rm {}
        find . -name x -execdir rm {} +
        bash -lc "ls && rm x"
        bash -c "bash -c 'rm x'"
        bash -c "cd $X && rm $Y"
        eval "ls; rm x"
        echo "$(rm x)"
        echo ${x:-$(rm x)}
        cat <(rm x)
        r''m x
        /bin/rm x
        for i in 1; do rm x; done
        f() { rm x; }; f
        [[ -f $(rm x) ]]
        sudo >f rm x
        """,
        deny="Bash(rm:*)",
        allow="Bash",
    ),
    commands(
        "allow", "ls rm\nrmdir x\necho rm\ngit rm x\nnpm run rm", deny="Bash(rm:*)", allow="Bash"
    ),
    commands(
        "deny", "git push origin\ngit  'push'\nX=1 git push", deny="Bash(git push:*)", allow=GIT
    ),
    commands("ask", "sudo git push\nX=1 git push", ask="Bash(git push:*)", allow="Bash"),
    commands("ask", "git push", ask="Bash(git push:*)", mode="bypassPermissions"),
    commands("deny", "sudo rm x", deny="Bash(rm:*)", mode="bypassPermissions"),
    commands(
        "ask",
        """
        rm -rf /
        rm -rf /usr
        rm -rf .
        rm -rf *
        rm -rf .*
        rm -rf {project}
        rm -rf "$X"/*
        rm -rf "$X"
        rm -rf "$(pwd)"
        bash -c 'rm -rf ~'
        sh -c "rm -rf $HOME"
        echo "$(rm -rf ~)"
        /bin/rm -rf /
        ls && rm -r -f {project}/..
        find ~ -delete
        find / -type f -delete
        find . -delete
        find / -exec rm -rf {} +
        """,
        allow="Bash",
        mode="bypassPermissions",
    ),
    commands(
        "allow", "rm -rf src\nrm {project}/x\nrm -rf build/*\nfind . -name x -delete", allow="Bash"
    ),
    commands(
        "allow", "mkdir a\ncp src/app.py b\nrm src/app.py\nsed -i s/a/b/ x", mode="acceptEdits"
    ),
    commands("ask", "npm test\npython3 x.py", mode="acceptEdits"),
    commands("allow", "npm test\nrm x\necho x > /etc/x", mode="bypassPermissions"),
    commands("allow", "ls\ngit log -1\nfind . -name x\nrg x\nsort x"),
    commands(
        "ask", "find . -delete\nsort -o x y\ngit push\nsed -i s/a/b/ x\necho x > y\nPATH=. ls"
    ),
    Case(
        "allow",
        """
        Read: {project}/src/app.py
        Read: {project}/not/there
        Read: {project}/in.txt
        Read: {project}
        """,
    ),
    Case(
        "ask",
        """
        Read: /etc/passwd
        Read: {project}/../other/file.txt
        Read: {project}/out.txt
        Read: {project}/out/not-there
        Edit: {project}/src/app.py
        Write: {other}/new.py
        """,
    ),
    Case("allow", "Read: {other}/file.txt", allow="Read"),
    Case("allow", "Read: {other}/file.txt", allow="Read(/{other}/**)"),
    Case("allow", "Read: {other}/file.txt", allow="Edit(/{other}/**)"),
    Case("allow", "Read: {home}/notes/a.md", allow="Read(~/notes/**)"),
    Case("ask", "Read: {home}/other/a.md", allow="Read(~/notes/**)"),
    Case("ask", "Read: {project}/out.txt", allow="Read(/out.txt)"),
    Case(
        "deny",
        "Read: {project}/.env\nRead: {project}/sub/.env\nRead: {project}/.ENV",
        deny="Read(.env)",
    ),
    Case("deny", "Read: {project}/sub/.env", deny="Read(./.env)"),
    Case("deny", "Edit: {project}/.env", deny="Read(.env)", allow="Edit"),
    Case("deny", "Write: {project}/.env", deny="Read(.env)", mode="bypassPermissions"),
    Case("allow", "Read: {project}/.env", deny="Edit(.env)"),
    Case("deny", "Read: {project}/sub/secrets/key", deny="Read(secrets/**)"),
    Case("allow", "Read: {project}/sub/secrets/key", deny="Read(/secrets/**)"),
    Case("deny", "Read: {project}/out.txt", deny="Read(/{other}/**)"),
    Case("deny", "Read: {project}/in.txt", deny="Read(src/**)"),
    Case("deny", "Read: {project}/sub/../.env", deny="Read(/.env)"),
    Case("deny", "Read: /etc/passwd", deny="Read(//etc/**)", allow="Read"),
    Case("allow", "Edit: {project}/src/app.py\nWrite: {project}/src/new/x", allow="Edit(src/**)"),
    Case("ask", "Write: {project}/sub/src/x.py", allow="Edit(src/**)"),
    Case("allow", "Write: {project}/sub/src/x.py", allow="Edit(**/src/**)"),
    Case("deny", "Write: {project}/sub/src/x.py", deny="Edit(src/**)", allow="Edit"),
    Case("ask", "Write: {project}/src/x.py", allow="Write(src/**)"),
    Case("allow", "Write: {project}/src/x.py", allow="Write"),
    Case("deny", "Write: {project}/src/x.py", deny="Write", allow="Edit"),
    Case("ask", "Edit: {project}/src/x.py", ask="Edit(src/**)", mode="acceptEdits"),
    Case("ask", "Write: {project}/out/x", allow="Edit(out/**)", mode="acceptEdits"),
    Case("allow", "Edit: {project}/src/app.py\nWrite: {project}/new/dir/x", mode="acceptEdits"),
    Case("ask", "Write: {other}/x\nWrite: {project}/out.txt", mode="acceptEdits"),
    Case("deny", "Edit: {project}/src/app.py", mode="plan", allow="Edit"),
    Case(
        "ask",
        """
        Write: {project}/.git/hooks/pre-commit
        Write: {project}/.GIT/config
        Write: {project}/sub/.git/config
        Write: {project}/.claude/settings.local.json
        Write: {project}/.bashrc
        Write: {project}/.mcp.json
        Write: {project}/.aws/credentials
        Edit: {project}/.envrc
        """,
        mode="acceptEdits",
        allow="Edit\nWrite",
    ),
    Case(
        "allow",
        "Write: {project}/.claude/worktrees/a/x.py\nWrite: {project}/.aws/cli",
        mode="acceptEdits",
    ),
    Case("allow", "Write: {project}/.git/config\nRead: /etc/passwd", mode="bypassPermissions"),
    Case("ask", "WebFetch: https://example.com/x\nWebSearch\nmcp__git__log\nSkill: deploy"),
    Case(
        "allow",
        "WebFetch: https://example.com/x\nWebFetch: http://EXAMPLE.com:80/\nWebFetch: https://u@example.com./",
        allow="WebFetch(domain:example.com)",
    ),
    Case(
        "ask",
        """
        WebFetch: https://api.example.com/
        WebFetch: https://example.com@evil.org/
        WebFetch: https://evil.org\\@example.com/
        WebFetch: https://exаmple.com/
        WebFetch: example.com
        """,
        allow="WebFetch(domain:example.com)",
    ),
    Case("allow", "WebFetch: https://a.b.example.com", allow="WebFetch(domain:*.example.com)"),
    Case("ask", "WebFetch: https://example.com", allow="WebFetch(domain:*.example.com)"),
    Case("ask", "WebFetch: https://example.evil.com", allow="WebFetch(domain:example.*)"),
    Case("deny", "WebFetch: https://EVIL.org", deny="WebFetch(domain:evil.org)", allow="WebFetch"),
    Case("allow", "mcp__git__log\nmcp__git__get_log", allow="mcp__git"),
    Case("ask", "mcp__git__push\nmcp__github__log", allow="mcp__git__log"),
    Case("ask", "mcp__git__log", allow="mcp__*"),
    Case("ask", "mcp__git__log", allow="mcp__git", mode="plan"),
    Case("deny", "mcp__git__log", deny="mcp__git", allow="mcp__git__log"),
    Case("allow", "TodoWrite\nTaskCreate\nAgent: Explore"),
    Case("deny", "TodoWrite", deny="TodoWrite"),
    Case("deny", "Agent: Explore\nTask: Explore", deny="Task(Explore)"),
    Case("allow", "Agent: Plan", deny="Agent(Explore)"),
    Case("allow", "Skill: deploy prod", allow="Skill(deploy *)"),
    Case("ask", "Skill: deploy prod", allow="Skill(deploy)"),
    Case("deny", "Skill: deploy", deny="Skill(deploy *)", allow="Skill"),
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("project/src/app.py", "project/.env", "other/file.txt", "home/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text\n")
    place = tmp_path / "project"
    (place / "sub").mkdir()
    (place / "out.txt").symlink_to("../other/file.txt")
    (place / "out").symlink_to("../other")
    (place / "in.txt").symlink_to("src/app.py")
    return place


def policy(place: Path, case: Case, tier: Tier = Tier.LISTED) -> Policy:
    deny, ask, allow = (
        tuple(parse_rule(_filled(line, place), place, "test") for line in rules.splitlines())
        for rules in (case.deny, case.ask, case.allow)
    )
    return Policy(deny, ask, allow, ApprovalMode(case.mode), place, (place,), tier)


def verdict(call: str, place: Path, case: Case, tier: Tier = Tier.LISTED) -> Verdict:
    tool, _, used = call.strip().partition(": ")
    used = _filled(used, place)
    accesses: dict[str, Access] = {
        "Bash": Runs(used),
        "Read": Reads(Path(used)),
        "Edit": Writes(Path(used)),
        "Write": Writes(Path(used)),
        "WebFetch": Fetches(used),
    }
    return decide(tool, [accesses.get(tool, Uses(used or None))], policy(place, case, tier))


def _filled(text: str, place: Path) -> str:
    for name, path in (
        ("project", place),
        ("other", place.parent / "other"),
        ("home", place.parent / "home"),
    ):
        text = text.replace(f"{{{name}}}", str(path))
    return text


def test_each_call_gets_its_verdict(project: Path) -> None:
    wrong = [
        (found.kind.value, case.verdict, call.strip(), case[2:])
        for case in CASES
        for call in case.calls.strip().splitlines()
        if (found := verdict(call, project, case)).kind.value != case.verdict
    ]
    assert not wrong


@pytest.mark.parametrize(
    "text",
    [
        *("npm test\nrm x", "npm test # x\nrm x", "npm test \\\\\nrm x", "npm test\rrm x"),
        *("npm test\u00a0x", "npm test a\u200bb", "npm test \u202e", "npm test \ud800"),
        *("npm test <<EOF\n$(rm x)\nEOF", "npm test <<EOF\n$X and no end", "npm t\\\nest"),
        *("npm test <<EOF | sh\nrm x\nEOF", "npm test <<'EOF'\nEOF\nrm x\nEOF"),
        "npm test `echo \\`rm x\\``",
        "npm test " + "a" * 100_001,
        "$(" * 2_000 + "npm test" + ")" * 2_000,
    ],
    ids=range(16),
)
def test_a_rule_covers_no_second_command_in_several_lines(text: str, project: Path) -> None:
    assert verdict(f"Bash: {text}", project, Case("", "", allow=TEST)).kind.value == "ask"
    quoted = ("npm test <<'EOF'\n$(rm x) `y`\nEOF", "npm test <<EOF\nplain $X\nEOF", "npm test\nls")
    for plain in quoted:
        assert verdict(f"Bash: {plain}", project, Case("", "", allow=TEST)).kind.value == "allow"


@pytest.mark.parametrize(
    ("mode", "tier", "allow", "command", "basis"),
    [
        ("default", Tier.READ, "", "python3 x.py", Basis.READ),
        ("plan", Tier.WRITE, "Bash", "python3 x.py", Basis.READ),
        ("acceptEdits", Tier.READ, "", "python3 x.py", Basis.WRITE),
        ("default", Tier.WRITE, "", "python3 x.py", Basis.WRITE),
        ("default", Tier.READ, "Bash(python3:*)", "ls | python3 x.py", Basis.RULE),
        ("default", Tier.LISTED, "", "git log", Basis.READ),
        ("acceptEdits", Tier.LISTED, "", "touch x", Basis.WRITE),
        ("default", Tier.NONE, "", "ls src | head", Basis.LISTED),
        ("bypassPermissions", Tier.READ, "", "python3 x.py", Basis.BYPASS),
        ("default", Tier.NONE, "", "python3 x.py", None),
        ("acceptEdits", Tier.NONE, "", "touch x", None),
        ("default", Tier.LISTED, "", "python3 x.py", None),
    ],
)
def test_the_mode_and_the_host_choose_the_sandbox(
    mode: str, tier: Tier, allow: str, command: str, basis: Basis | None, project: Path
) -> None:
    found = verdict(f"Bash: {command}", project, Case("", "", allow, mode=mode), tier)
    assert (found.basis if found.kind.value == "allow" else None) is basis


@pytest.mark.parametrize(
    "command",
    [
        *("read y < src/app.py; ((y))", "[[ y -eq 0 ]]", "echo $((y))", "a[y]=1", "echo ${x:y}"),
        *("'re'ad PATH <<< 3; ls", "printf 'aaa%n' PATH; ls", "((PATH=3)); ls", "ls {PATH}<.env"),
        *("for PATH in 3; do ls; done", "PATH=3 ls", "echo ${PATH:=3}", "test -v 'a''[y]'"),
        *(
            "test -v 'a[$(x)]'",
            "cat $x",
            "cat ../other/file.txt",
            "cat out.txt",
            "cat ~/x",
            "git log",
        ),
        *(
            "ls > x",
            "grep -f../other/file.txt x",
            "wc --files0-from=out.txt",
            "find .",
            "sort -o x y",
        ),
    ],
)
def test_without_a_sandbox_only_what_reads_the_project_runs(command: str, project: Path) -> None:
    assert verdict(f"Bash: {command}", project, Case("", ""), Tier.NONE).kind.value == "ask"
    ruled = Case("", "", allow="Bash(npm:*)")
    if ".." not in command and "~" not in command and "out" not in command and "$x" not in command:
        assert verdict(f"Bash: npm test; {command}", project, ruled, Tier.NONE).kind.value == "ask"


@pytest.mark.parametrize("target", ["out.txt", "../x", "~/.bashrc", "/etc/x"])
def test_without_a_sandbox_a_rule_for_a_program_covers_no_file(target: str, project: Path) -> None:
    ruled = Case("", "", allow="Bash(npm:*)")
    assert verdict(f"Bash: npm test > {target}", project, ruled, Tier.NONE).kind.value == "ask"
    assert verdict("Bash: npm test > /dev/null 2>&1", project, ruled, Tier.NONE).basis is Basis.RULE


def test_without_a_sandbox_rules_about_files_make_other_rules_ask(project: Path) -> None:
    denied = Case("", "", allow="Bash", deny="Read(.env)")
    for command in ("python3 x.py", "cat .env", "grep -r x ."):
        assert verdict(f"Bash: {command}", project, denied, Tier.NONE).kind.value != "allow"
    assert (
        verdict("Bash: python3 x.py", project, Case("", "", "Bash"), Tier.NONE).basis
        is Basis.ANY_COMMAND
    )
    assert verdict(
        "Bash: cat src/app.py", project, Case("", "", deny="Read(.env)"), Tier.NONE
    ).basis is (Basis.LISTED)


def test_a_command_in_the_background_asks_instead_of_running_read_only(project: Path) -> None:
    rules = policy(project, Case("", ""), Tier.READ)
    assert decide("Bash", [Runs("npm start", in_background=True)], rules).kind.value == "ask"
    assert decide("Bash", [Runs("tail -f x", in_background=True)], rules).basis is Basis.READ
    bare = Runs("ls", is_bare=True)
    assert decide("Bash", [bare], rules).kind.value == "ask"


@pytest.mark.parametrize(
    ("command", "offered"),
    [
        ("git commit -m x", ["Bash(git commit:*)"]),
        ("npm run lint -- --fix", ["Bash(npm run lint:*)"]),
        ("npm test && git push -f", ["Bash(npm test:*)", "Bash(git push:*)"]),
        ("ls | make all | head", ["Bash(make all:*)"]),
        ("python3 x.py --all", ["Bash(python3 x.py --all)"]),
        ("git -C . push", ["Bash(git -C . push)"]),
        ("cat x > y; ./a.sh b", ["Bash(cat x > y)", "Bash(./a.sh b)"]),
        *(
            (command, [])
            for command in ("sudo ls", "eval x", "source x", "su -c x", "X=1 npm test")
        ),
        *((command, []) for command in ("$x y", "python3 $x", "python3 *", "echo 'a", "a.sh x:")),
    ],
)
def test_a_rule_is_offered_for_each_part_or_for_none(
    command: str, offered: list[str], project: Path
) -> None:
    found = verdict(f"Bash: {command}", project, Case("", ""))
    assert (found.kind.value, list(found.remember)) == ("ask", offered)
    if offered:
        saved = Case("", "", allow="\n".join(offered))
        assert verdict(f"Bash: {command}", project, saved).kind.value == "allow"


@pytest.mark.parametrize(
    ("tool", "used", "offered"),
    [
        ("WebFetch", "https://example.com/x", ["WebFetch(domain:example.com)"]),
        ("WebFetch", "http://*/", []),
        ("WebFetch", "https://ex%61mple.com/", []),
        ("Skill", "deploy", ["Skill(deploy)"]),
        ("Skill", "de*", []),
        ("Read", "{other}/[a].txt", ["Read(/{other}/**)"]),
        ("Edit", "{other}/x", []),
    ],
)
def test_what_a_model_names_is_offered_only_if_it_is_one_thing(
    tool: str, used: str, offered: list[str], project: Path
) -> None:
    found = verdict(f"{tool}: {used}", project, Case("", ""))
    assert list(found.remember) == [_filled(each, project) for each in offered]


def test_an_explanation_agrees_with_the_verdict_and_names_rule_and_sandbox(project: Path) -> None:
    rules = policy(project, Case("", "", TEST, deny="Read(.env)\nBash(rm:*)"), Tier.READ)
    found = explain_command("npm test | tail -1", rules)
    assert (found.verdict, found.rule, found.parts) == ("allow", TEST, ("npm test", "tail -1"))
    assert found.sandbox.startswith("rule: ")
    assert found.denied_files == ("Read(.env)",)
    denied = explain_command("sudo rm x", rules)
    assert (denied.verdict, denied.rule, denied.sandbox) == ("deny", "Bash(rm:*)", "")
    asked = explain_command("make x", policy(project, Case("", ""), Tier.LISTED))
    assert (asked.verdict, asked.rules_to_allow) == ("ask", ("Bash(make x:*)",))
    assert explain_command("make x", rules).sandbox.startswith("read: ")
