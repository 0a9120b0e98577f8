"""The rules that are offered to be saved, and saving them."""

import json
from pathlib import Path

import pytest

from agent.permissions.cases import Case
from agent.permissions.trial import make_project, verdict_of
from turnlog.agent.permissions import ApprovalMode, Policy, VerdictKind, decide, parse_rule
from turnlog.agent.permissions.saving import save_rules
from turnlog.agent.workspace.access import Access, Fetches, Reads, Runs, Uses
from turnlog.errors import UsageError

OFFERS: list[tuple[str, list[str]]] = [
    ("git commit -m 'a b'", ["Bash(git commit *)"]),
    ('git commit -m "$(date)"', ["Bash(git commit *)"]),
    ("npm test", ["Bash(npm test)"]),
    ("npm run lint --fix", ["Bash(npm run lint --fix)"]),
    ("npm run lint", ["Bash(npm run lint)"]),
    ("npm run lint -- --fix src", ["Bash(npm run lint -- *)"]),
    ("npm run lint -- '$(id)'", ["Bash(npm run lint -- '$(id)')"]),
    ("cargo test -- --nocapture", ["Bash(cargo test -- *)"]),
    ("cargo clippy -- -D warnings", ["Bash(cargo clippy -- -D warnings)"]),
    ("npm run", ["Bash(npm run)"]),
    ("docker compose up -d", ["Bash(docker compose up -d)"]),
    ("cargo build --release", ["Bash(cargo build --release)"]),
    ("git -C src status", ["Bash(git -C src status)"]),
    ("./build.sh all", ["Bash(./build.sh all)"]),
    ("pytest -x tests", ["Bash(pytest -x tests)"]),
    ("timeout 5 npm test", ["Bash(npm test)"]),
    ("git status && npm test", ["Bash(npm test)"]),
    ("npm test && cargo test", ["Bash(npm test)", "Bash(cargo test)"]),
    ("npm test; npm test", ["Bash(npm test)"]),
    ("python3 x.py", ["Bash(python3 x.py)"]),
    ("bash -c 'ls'", []),
    ("a; b; c; d; e; f", ["Bash(a)", "Bash(b)", "Bash(c)", "Bash(d)", "Bash(e)", "Bash(f)"]),
    ("python3 *.py", []),
    ("sudo apt update", []),
    ("eval x", []),
    ("$X y", []),
    ("make $X", []),
    ("X=1 npm test", []),
    ("npm test > out.txt", []),
    ("npm test && $X", []),
    ("npm test 'abc", []),
    ("rm -rf /", []),
    ("npm exec node x.js", ["Bash(npm exec node x.js)"]),
    ("pnpm exec sh run", ["Bash(pnpm exec sh run)"]),
    ("git config user.name x", ["Bash(git config user.name x)"]),
    ("kubectl exec pod ls", ["Bash(kubectl exec pod ls)"]),
    ("cat /etc/passwd", ["Read(//etc/**)"]),
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    made = make_project(tmp_path)
    # Patches that exist and change nothing that is protected: any other asks.
    for name in ("x", "x.patch", "y.patch", "src/x"):
        (made / name).write_text("--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+b\n")
    return made


@pytest.mark.parametrize(("command", "offered"), OFFERS)
def test_rules_are_offered(command: str, offered: list[str], project: Path) -> None:
    assert list(verdict_of(Case("", f"Bash: {command}"), project).remember) == offered


@pytest.mark.parametrize(
    "command", [command for command, offered in OFFERS if 0 < len(offered) < 5]
)
def test_a_rule_that_was_offered_lets_the_command_pass(command: str, project: Path) -> None:
    offered = verdict_of(Case("", f"Bash: {command}"), project).remember
    allowed = verdict_of(Case("", f"Bash: {command}", allow="\n".join(offered)), project)
    assert allowed.kind is VerdictKind.ALLOW


STEERED = [
    "npm run lint --script-shell=./evil.sh",
    "npm run lint --script-sh ./evil.sh",
    "npm run lint -script-shell=./evil.sh",
    "npm run lint -C ../evil",
    *("npm run lint --no-script-shell=./evil.sh", "npm run lint --NO-no-script-shell=./evil.sh"),
    *("npm run lint --script_shell=./evil.sh", "npm run lint --Script-Shell=./evil.sh"),
    *("npm run lint --scriptShell=./evil.sh", "npm run lint --json=--script-shell=./evil.sh"),
    *("npm run lint -sC ../evil", "npm run lint --C=../evil", "npm run lint -s=-C ../evil"),
    *("npm start --script-shell=./evil.sh", "npm t --script-shell=./evil.sh"),
    "npm run lint --node-options='--require ./evil.js'",
    "npm test --prefix=../evil",
    "npm test $X",
    'npm test "$(echo --script-shell=./evil.sh)"',
    "pnpm test --config.script-shell=./evil.sh",
    "yarn run lint --cwd ../evil",
    "cargo test --config 'build.rustc-wrapper=\"./evil.sh\"'",
    "cargo build --manifest-path ../evil/Cargo.toml",
    "cargo check -Zunstable-options",
    "npm test -- '$(touch x)'",
    "npm start -- '$(touch x)'",
    "yarn any-script '$(touch x)'",
    "npm run lint -- --name '`touch x`'",
    "pnpm run lint -- 'a$(touch x)b'",
    """npm test -- '\\"; touch x #'""",
    "npm test -- 'x\\' '; touch x #'",
]


@pytest.mark.parametrize("command", STEERED)
def test_a_rule_for_a_script_runs_no_other_program(command: str, project: Path) -> None:
    program, subcommand, *_ = command.split()
    start = f"{program} {subcommand} lint" if subcommand == "run" else f"{program} {subcommand}"
    for rule in (f"Bash({start} *)", f"Bash({start}:*)", f"Bash({start} -- *)"):
        assert verdict_of(Case("", f"Bash: {command}", allow=rule), project).kind is VerdictKind.ASK
    whole = Case("", f"Bash: {command}", allow=f"Bash({program} *)")
    assert verdict_of(whole, project).kind is VerdictKind.ALLOW


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        " --fix",
        " -s",
        " --if-present",
        " --coverage --ci=true",
        " --no-color -silent",
        " -- --config x $Y",
        " -- -t '^a \\d+$' \"b\"",
    ],
)
def test_a_rule_for_a_script_is_about_its_everyday_uses(arguments: str, project: Path) -> None:
    case = Case("", f"Bash: npm run lint{arguments}", allow="Bash(npm run lint *)")
    assert verdict_of(case, project).kind is VerdictKind.ALLOW


@pytest.mark.parametrize(
    "command",
    [
        *("git apply --unsafe-paths x.patch", "git apply --unsafe x.patch"),
        *("git apply --build-fake-ancestor=../x y.patch", "git apply -- * x.patch"),
        *("git stash list --output=../x", "git stash show -p --outp ../x"),
        "git stash list -- --output=../x",
        *("git add --pathspec-from-file=../x", "git checkout HEAD --pathspec-from-file ../x"),
        *("git commit -m x --pathspec-from-file ../x", "git stash push --pathspec-from-file=/x"),
        *("git cherry-pick --strategy=x/y side", "git cherry-pick side --strat x/y"),
        *("git log -1 --output=../x", "git diff --outp ../x", "git blame a --output=../x"),
        *("git reflog --output=../x", "git shortlog --output=../x", "git blame $(echo x) a"),
        *("git grep -nO./x y", "git grep --open-files-in-pager=./x y", "git rebase -x ./x main"),
        *("git fetch --upload-pack=./x .", "git pull --upl ./x .", "git push --exec=./x . main"),
        *("git push --receive-pack=./x .", "git ls-remote --upload-pack=./x .", "git fetch `x` ."),
        *("git fetch $(echo --upload-pack=./x) .", "git pull -s x/y .", "git rebase -s x/y main"),
        *("git clone -u ./x . y", "git clone --template=x . y", "git init --template=x"),
        *("git init --separate-git-dir=../x", "git clone --sep ../x https://h/y"),
        *("git archive --exec=./x --remote=. HEAD", "git difftool -yx ./x main"),
        *("git grep $'-O./x\\n' y", "git push . $BASH_REMATCH", "git fetch $_ .", "git pull $PWD"),
    ],
)
def test_a_rule_for_a_subcommand_of_git_reaches_no_file_elsewhere(
    command: str, project: Path
) -> None:
    offered = f"Bash({' '.join(command.split()[:2])} *)"
    case = Case("", f"Bash: {command}", allow=offered)
    assert verdict_of(case, project).kind is VerdictKind.ASK
    # Which files these change, or whose programs they run, is not known: they always ask.
    unknown = (
        "git apply",
        "pathspec-from-file",
        "strat",
        " -s x/y",
        "--remote",
        "git push",
        "git am",
    )
    if not any(sign in command for sign in ("$", "`", "*", *unknown)):
        assert verdict_of(case._replace(allow="Bash(git *)"), project).kind is VerdictKind.ALLOW
    assert offered not in verdict_of(case._replace(allow=""), project).remember


@pytest.mark.parametrize(
    "command",
    [
        *("git apply x.patch", "git apply --index -p1 *.patch", "git apply -R --unidiff-zero x"),
        *("git stash", "git stash push -m x", "git stash pop", "git stash list --oneline"),
        *("git add --patch a.txt", "git commit -F -", "git checkout -- src"),
        *("git commit -F src/app.py", "git commit -am '-F ../x'", "git am src/x"),
        *("git commit -t x -m '-F ../x'", "git commit --author x -m '-F ../x'"),
        *("git commit -S --no-verify -m '-F ../x'", "git tag -a v1 -m '-F ../x'"),
        *('git commit -am "$(date)"', "git commit -mF/x --fixup=HEAD", "git tag v1 -m x"),
        *("git cherry-pick -x side", "git cherry-pick --strategy-option=theirs side"),
        *("git grep -neTODO -A3", "git fetch --all --prune", "git fetch origin $B"),
        *('git push -u origin "$B"', "git push origin $(git branch --show-current)"),
        *("git pull --rebase --strategy-option=ours", "git rebase -i main", "git log -- src/*"),
        *("git clone --depth 1 -b main https://x.org/y z", "git archive -o x.tar HEAD"),
    ],
)
def test_a_rule_for_a_subcommand_of_git_is_about_its_everyday_uses(
    command: str, project: Path
) -> None:
    offered = f"Bash({' '.join(command.split()[:2])} *)"
    case = Case("", f"Bash: {command}", allow=offered)
    assert verdict_of(case, project).kind is VerdictKind.ALLOW


@pytest.mark.parametrize(
    "command",
    [
        *("git commit -F ../x", "git commit -aF/x", "git commit --fil=../x", "git commit -t ~/x"),
        *("git commit -t -m -F../x", "git commit --tr -m -F ../x", "git commit -qt -m -F ../x"),
        *("git commit -F out.txt", 'git commit -F "$X"', "git commit $X", "git tag v1 -F ../x"),
        *("git merge --file ../x side", "git am ../x", "git am -3 out.txt"),
        *(
            "git tag --format -m -F ../x v1",
            "git tag -u -m -F ../x v1",
            "git tag --lo -m -F ../x v",
        ),
    ],
)
def test_a_rule_that_is_offered_for_git_quotes_no_file_elsewhere(
    command: str, project: Path
) -> None:
    offered = f"Bash({' '.join(command.split()[:2])} *)"
    case = Case("", f"Bash: {command}", allow=offered)
    assert verdict_of(case, project).kind is VerdictKind.ASK


def test_nothing_is_offered_where_a_rule_asks_or_denies(project: Path) -> None:
    assert not verdict_of(Case("", "Bash: git push", ask="Bash(git:*)"), project).remember
    assert not verdict_of(Case("", "Bash: git push", deny="Bash(git:*)"), project).remember


def test_other_tools_offer_what_names_them(project: Path) -> None:
    def offered(call: str) -> tuple[str, ...]:
        return verdict_of(Case("", call), project).remember

    assert offered("WebFetch: https://Docs.Example.com/x") == ("WebFetch(domain:docs.example.com)",)
    assert offered("mcp__git__log") == ("mcp__git__log",)
    assert offered("Skill: deploy") == ("Skill(deploy)",)
    assert offered("WebSearch") == ("WebSearch",)
    assert offered("Write: {project}/x") == ()


def test_a_path_with_signs_of_a_pattern_is_offered_as_it_is(project: Path) -> None:
    folder = project.parent / "[new] *"
    folder.mkdir()
    policy = Policy((), (), (), ApprovalMode.DEFAULT, project, (project,))
    (offered,) = decide("Read", [Reads(folder / "a")], policy).remember
    rule = parse_rule(offered, project, "test")
    allowing = Policy((), (), (rule,), ApprovalMode.DEFAULT, project, (project,))
    assert decide("Read", [Reads(folder / "a")], allowing).kind is VerdictKind.ALLOW
    assert decide("Read", [Reads(project.parent / "n x" / "a")], allowing).kind is VerdictKind.ASK


def test_a_rule_with_quotes_counts_after_it_was_saved(project: Path) -> None:
    command = "./run.sh \"it's\" 'a b'"
    (offered,) = verdict_of(Case("", f"Bash: {command}"), project).remember
    rule = parse_rule(offered, project, "test")
    policy = Policy((), (), (rule,), ApprovalMode.DEFAULT, project, (project,))
    assert decide("Bash", [Runs(command)], policy).kind is VerdictKind.ALLOW
    assert decide("Bash", [Runs("./run.sh its a b")], policy).kind is VerdictKind.ASK


def test_saved_rules_join_what_is_there_and_every_other_byte_stays(tmp_path: Path) -> None:
    path = tmp_path / ".claude" / "settings.local.json"
    path.parent.mkdir()
    text = '{\n\t"model":  "x",\n\t"permissions": {"allow": ["A"%s], "deny": []}\n}\n'
    path.write_text(text % "")
    assert save_rules(path, ["Bash(npm test *)", "A"])
    assert path.read_text() == text % ', "Bash(npm test *)"'
    assert not save_rules(path, ["A", "Bash(npm test *)"])


@pytest.mark.parametrize("before", [None, "", "{}", '{"env": {}}', '{"permissions": {"deny": []}}'])
def test_rules_are_saved_whatever_was_there(before: str | None, tmp_path: Path) -> None:
    path = tmp_path / "new" / "settings.local.json"
    if before is not None:
        path.parent.mkdir()
        path.write_text(before)
    assert save_rules(path, ["A", "B", "A"])
    saved = json.loads(path.read_text())
    assert saved["permissions"]["allow"] == ["A", "B"]
    assert {**json.loads(before or "{}"), "permissions": saved["permissions"]} == saved


@pytest.mark.parametrize(
    "before", ["{", "[]", '{"permissions": []}', '{"permissions": {"allow": 1}}']
)
def test_a_file_that_is_not_valid_stays_as_it_is(before: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.local.json"
    path.write_text(before)
    with pytest.raises(UsageError, match="is not valid"):
        save_rules(path, ["A"])
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("link", ["file", "folder"])
def test_no_rule_is_saved_through_a_link_of_the_project(link: str, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "settings.local.json").write_text("{}")
    folder = tmp_path / "project" / ".claude"
    folder.parent.mkdir()
    if link == "folder":
        folder.symlink_to(own)
    else:
        folder.mkdir()
        (folder / "settings.local.json").symlink_to(own / "settings.local.json")
    assert not save_rules(folder / "settings.local.json", ["Bash(npm test *)"])
    assert (own / "settings.local.json").read_text() == "{}"


@pytest.mark.parametrize(
    "command",
    [
        *(
            "rg --pre ./x y",
            "rg --pre=./x y",
            "rg $(echo --pre=./x) y",
            "rg $_ y",
            "echo y | xargs rg",
        ),
        *("rg --hostname-bin=./x y", "sort --compress-program=./x y", "sort --comp ./x y"),
        *("sed '1e ./x' y", "sed e y", "sed s/a/b/e y", "sed -n '/a/{p;e ./x' -e '}' y"),
        *("sed -ne '1e ./x' y", "sed --expression='1e ./x' y", "sed -f x y", "sed --file=x y"),
        *("sed p -e '1e ./x' y", "sed '1e ./x' -e p y", "sed '/[/s|]/e ./x;#|x|' y"),
        *("sed -e 's/a/b\\' -e 'a/;e ./x' y", "sed 's/e/b/m;e ./x' y", "sed -e 'w y' -e 'e ./x' y"),
        *("sed '1!e ./x' y", "sed '0~2e ./x' y", "sed '/e/Ie ./x' y", "sed --exp='1e ./x' y"),
    ],
)
def test_a_rule_for_a_program_that_reads_runs_no_other_program(command: str, project: Path) -> None:
    name = command.split()[command.startswith("echo") * 4]
    case = Case("", f"Bash: {command}", allow=f"Bash({name}:*)")
    assert verdict_of(case, project).kind is VerdictKind.ASK
    exact = case._replace(allow=f"Bash({command})")
    assert verdict_of(exact, project).kind is VerdictKind.ALLOW


@pytest.mark.parametrize(
    "command",
    [
        *("rg y /z", "rg $X", "rg --pretty y src", "sort -c /a"),
        *("sed -i '/here/{s/e/f/;p}' y", "sed -n '/a/,/be/!p' y", "sed ':a;N;$!ba;s/e/ /g' y"),
        *("sed '1i import re' y", "sed -i.bak -e 's/e/f/' -e '$d' y", "sed 's/é/b/' y"),
        *("sed '/e/a\\\nmore text' y", "sed 5r/etc/x y", "sed -l 5 -n 'l' e", "sed s/a/b/ e -i"),
        *("sed 'y/e/f/' y", "sed -E 's#(e)#\\1#2' /y", "sed -n '/e/I,+2p;/e/q1' y"),
    ],
)
def test_a_rule_for_a_program_that_reads_is_about_its_everyday_uses(
    command: str, project: Path
) -> None:
    case = Case("", f"Bash: {command}", allow=f"Bash({command.split(maxsplit=1)[0]}:*)")
    assert verdict_of(case, project).kind is VerdictKind.ALLOW


@pytest.mark.parametrize("command", ["lint *", "lint --fix ?*", "lint [-x]*", "lint --p*"])
def test_a_rule_does_not_allow_a_file_of_the_project_to_be_an_option(
    command: str, project: Path
) -> None:
    case = Case("", f"Bash: {command}", allow="Bash(lint:*)")
    assert verdict_of(case, project).kind is VerdictKind.ALLOW
    inner = case._replace(call=f"Bash: while cd src; do {command}; done")
    assert verdict_of(inner, project).kind is VerdictKind.ASK
    (project / "--plugin=x.js").touch()
    assert verdict_of(case, project).kind is VerdictKind.ASK
    for other in ("lint src/*", "lint ./*", "lint *.py", "lint '*'"):
        assert verdict_of(case._replace(call=f"Bash: {other}"), project).kind is VerdictKind.ALLOW


@pytest.mark.parametrize(
    ("tool", "access", "offered"),
    [
        ("WebFetch", Fetches("https://example.com/x"), ("WebFetch(domain:example.com)",)),
        ("WebFetch", Fetches("http://[2606:4700::1111]/"), ("WebFetch(domain:2606:4700::1111)",)),
        ("WebFetch", Fetches("http://*/"), ()),
        ("WebFetch", Fetches("https://*.com/"), ()),
        ("WebFetch", Fetches("https://ex%61mple.com/"), ()),
        ("Skill", Uses("deploy"), ("Skill(deploy)",)),
        ("Skill", Uses("*"), ()),
        ("Skill", Uses("de*"), ()),
    ],
)
def test_what_a_model_names_is_never_offered_as_a_pattern(
    tool: str, access: Access, offered: tuple[str, ...], project: Path
) -> None:
    policy = Policy((), (), (), ApprovalMode.DEFAULT, project, (project,))
    verdict = decide(tool, [access], policy)
    assert (verdict.kind, verdict.remember) == (VerdictKind.ASK, offered)
