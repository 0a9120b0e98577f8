"""Arguments that are only known when a command runs: none of them runs a denied program."""

from pathlib import Path

import pytest

from turnlog.agent.permissions import ApprovalMode, Policy, VerdictKind, decide, parse_rule
from turnlog.agent.workspace.access import Runs

X = '"$(printf cu%s rl)"'
RUNNING = (
    *("printf '. -exec cu%s ;' rl | xargs find", "git $(printf -- '-c alias.x=!cu%s x' rl)"),
    *("find . $(printf -- '-exec cu%s ;' rl)", f"sed {X} a.txt", f"split --filter={X} a.txt"),
    *(f"tar cf x --checkpoint-action=exec={X} a.txt", f"awk {X}", f"perl -e {X}", f"vim -c {X}"),
    *(f"npm exec -c {X}", f"zip -TT {X} x", f"make --eval={X}", f"make {X}", f"python3 -c {X}"),
    *("printf x | xargs tar", "printf x | xargs sed", "cat list | xargs awk", f"node -e {X}"),
    *(
        "cat list | xargs make",
        "a=cu; b=rl; env $a$b",
        "a=cu; make X=${a}rl",
        "x=$(cat f); make $x",
    ),
    *("read x < f; make $x", "sort $(cat f) a.txt", "git fetch $(cat f) .", "any-program $(cat f)"),
    *(f"ln -s {X} zz; ./zz", "ln -s bin/cu{r,}l zz; ./zz", f"cp {X} zz; ./zz"),
)
MATCHING = (
    *("/lib64/ld-linux-x86-64.so.2 bin/cu?l -V", "ln -s bin/cu?l zz; ./zz", "cp bin/c* zz; ./zz"),
    *("x=bin/cu?l; any-program $x", "ln -s bin zb; for i in zb/c*; do cp $i zz; done; ./zz"),
    *("any-program bin/[c]url", "cd bin; any-program *", "cd $x; any-program c*l"),
)
PRINTED = """
fd 'cu.l' ../bin -x sed 1e{} README.md
fd 'cu.l' ../bin -x make SHELL={//}/{/}
fd 'cu.l' ../bin -x any-program
npm exec -- "$(find ../bin -name 'cu?l')"
nice -n 5 find ../bin -name 'cu?l' -exec any-program {} ';'
find -files0-from x -name 'cu?l' -exec any-program {} ';'
find ../bin -name 'cu?l' -exec perl -e 'exec @ARGV' {} ';'
find ../bin -name 'cu?l' -exec awk 'BEGIN{system(ARGV[1])}' {} ';'
find .?/bin -name 'cu?l' -exec any-program {} ';'
sort c2.txt | xargs find
head -1 c4.txt | xargs git
head -1 c3.txt | xargs -I{} sed {} README.md
sort sh.txt | xargs make
git ls-files sh.txt | xargs head -1 | xargs make
head -1 c1.txt | xargs -I{} npm --script-shell={} test
find ../bin -name 'cu?l' -exec sed 1e{} README.md ';'
find ../bin -name 'cu?l' -exec git -c alias.x='!{}' x ';'
find ../bin -name 'cu?l' -exec tar -I {} -cf zz.tar README.md ';'
find ../bin -name 'cu?l' | xargs -I{} awk 'BEGIN{system("{}")}'
ls l | xargs -I{} sed {} README.md
find ../bin -name 'cu?l' -exec make SHELL={} ';'
find ../bin -name 'cu?l' | xargs -I{} make SHELL={}
tar -I "$(find ../bin -name 'cu?l')" -cf zz.tar README.md
rsync -e "$(find ../bin -name 'cu?l')" README.md h:x
split --filter "$(find ../bin -name 'cu?l')" README.md
split --filter="$(find ../bin -name 'cu?l')" README.md
cp "$(find ../bin -name 'cu?l')" zz; ./zz
ln -s "$(find ../bin -name 'cu?l')" zz; ./zz
install "$(find ../bin -name 'cu?l')" zz; ./zz
find ../bin -name 'cu?l' -exec cp {} zz ';'; ./zz
find ../bin -name 'cu?l' | xargs -I{} ln -s {} zz; ./zz
strip -o zz "$(find ../bin -name 'cu?l')"; ./zz
sed "$(ls l)" README.md
x=$(find ../bin -name 'cu?l'); git -c alias.x="!$x" x
x=$(find ../bin -name 'cu?l'); make SHELL="$x"
cat "$(find ../bin -name 'cu?l')" > zz; chmod +x zz; ./zz
tee zz < "$(find ../bin -name 'cu?l')"; chmod +x zz; ./zz
cat "$(find ../bin -name 'cu?l')" | tee zz; chmod +x zz; ./zz
sed -f c3.txt README.md
sed -nf c3.txt README.md
awk -f prog.awk
gawk --include=x 1
for f in $(find ../bin -name 'cu?l'); do make SHELL=$f; done
find . -maxdepth 0 -exec cat c2.txt ';' | xargs find
find . -maxdepth 0 -printf 'x' | xargs find
cat c2.txt | xargs -I{} find . -maxdepth 0 -exec make {} ';'
x=rl; make SHELL=$(pwd)/../cu$x
x=--use-compress-program=; y=$(find ../bin -name 'cu?l'); tar "$x$y" -cf a b
find ../bin -name 'cu?l' -exec eatmydata {} ';'
find {../bin,l} -name 'cu?l' -exec eatmydata {} ';'
cd ../bin; find . -name 'cu?l' -exec eatmydata {} ';'
make SHELL=$(date +cu%nrl)
make "$(find . -maxdepth 0 '-exec' cat c2 ';')"
ls; xargs find < c2.txt
ls; xargs -a c2.txt find
ls | sort c2.txt | xargs find
ls | xargs make
git ls-files | xargs git
git config alias.x "$(ls l)"
awk "$(ls l)" README.md
awk -v x={ "$(ls l)" README.md
vim -c "$(ls l)"
python3 -c "$(ls l)"
node -r "$(ls l)" x.js
""".strip().splitlines()
USUAL = """
fd -e py -x black {}
fd -e py -x sed -i s/a/b/
make -j$(nproc)
make -j"$(nproc)" test
make -j "$(nproc)"
cmake -B build -DX=$(pwd)
cmake --build build -j $(nproc)
docker rm x
docker rm -f x
docker rm $(docker ps -aq)
git ls-files | xargs black
git ls-files '*.py' | xargs black
git ls-files | grep py | xargs black
git ls-files | sort | uniq | head -5 | xargs eslint --fix
git diff --name-only | grep '\\\\.py$' | xargs ruff check
docker build -t app:$(git rev-parse --short HEAD) .
tar czf backup-$(date +%F).tgz src
tar -czf "$(basename $PWD).tgz" src
find . -name '*.py' -exec sed -i 's/a/b/' {} +
find . -name '*.py' -exec sed -i 's/here/there/' {} +
find . -name '*.js' -print0 | xargs -0 sed -i 's/a/b/'
find . -name '*.js' | xargs -I{} cp {} out/{}
grep -rl foo src | xargs sed -i 's/foo/bar/g'
rg -l foo | xargs sed -i 's/foo/bar/g'
find . -name '*.py' -exec python3 -m py_compile {} \\\\;
find . -name '*.py' -exec awk '{print $1}' {} \\\\;
git checkout $(git rev-list -n 1 HEAD -- README.md)
git diff $(git merge-base main HEAD)
git stash push -m "$(date)"
git add $(git ls-files -m)
git ls-files '*.test.js' | xargs npm test --
for f in $(git ls-files); do gcc -c $f; done
sed -i "s/x/$(date +%F)/" README.md
d=$(mktemp -d); cmake -B "$d/build"
x=$(git rev-parse HEAD); make VERSION=$x
make CC=$(which gcc)
git tag v1 "$(git rev-parse HEAD)"
cp "$a" "$b"; ./run.sh
gcc -o main $(ls src/*.c) && ./main
""".strip().splitlines()
PLAIN = (
    "git ls-files -m | xargs git add",
    'git log --since="$(date -d yesterday +%F)"',
    "git diff --name-only --diff-filter=d | xargs -r eslint",
    *('git commit -m "$(date)"', 'echo "$(date)"', "kill $(cat pid)", "wc -l $(git ls-files)"),
    *("for f in *.txt; do node $f; done", "for f in a b; do node src/$f.js; done", "make -C $HOME"),
    *("docker rm $(docker ps -q)", "docker logs $(docker ps -lq)", "kubectl get pods $x"),
    *(
        "black $(git ls-files '*.py')",
        "git ls-files | xargs black",
        "python3 a.py *",
        "eslint *.js",
    ),
    *("find . | xargs sed -i s/a/b/", "find . -name '*.py' -exec python3 {} \\;", "sleep $x"),
    *('git push origin "$(git branch --show-current)"', 'node "$PWD/a.js"', "npm test -- $FOO"),
    *('b=$(git rev-parse --abbrev-ref HEAD); git push origin "$b"', 'cp "$a" "$b"; ./run.sh'),
    *(
        'gh pr create --title x --body "$(cat b)"',
        "tar czf x.tgz $(git ls-files)",
        "cat * | node x",
    ),
    *("d=$(mktemp -d); tar xf x.tar -C $d", "grep -rl a src | xargs sed -i s/a/b/"),
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name in ("bin/curl", "a.txt", "src/a.js", "run.sh"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x\n")
    return root


def kind_of(command: str, place: Path, mode: str) -> VerdictKind:
    allowed, denied = parse_rule("Bash", place, "test"), parse_rule("Bash(curl:*)", place, "test")
    policy = Policy((denied,), (), (allowed,), ApprovalMode(mode), place, (place,))
    return decide("Bash", [Runs(command)], policy).kind


@pytest.mark.parametrize("command", [*RUNNING, *MATCHING, *PRINTED])
@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
def test_an_argument_that_may_run_a_denied_program_asks(
    mode: str, command: str, project: Path
) -> None:
    assert kind_of(command, project, mode) is VerdictKind.ASK


@pytest.mark.parametrize("command", PLAIN)
def test_arguments_that_name_no_program_do_not_ask(command: str, project: Path) -> None:
    assert kind_of(command, project, "bypassPermissions") is VerdictKind.ALLOW


@pytest.mark.parametrize("command", USUAL)
@pytest.mark.parametrize("rule", ["Bash(curl:*)", "Bash(git push:*)", "Bash(rm:*)"])
def test_numbers_and_names_of_files_do_not_ask(rule: str, command: str, project: Path) -> None:
    denied = parse_rule(rule, project, "test")
    policy = Policy((denied,), (), (), ApprovalMode.BYPASS, project, (project,))
    assert decide("Bash", [Runs(command)], policy).kind is VerdictKind.ALLOW


def test_a_pattern_does_not_hide_a_subcommand_of_git(project: Path) -> None:
    core = project.parent / "git-core"
    core.mkdir()
    (core / "git-push").write_text("")
    denied = parse_rule("Bash(git push:*)", project, "test")
    policy = Policy((denied,), (), (), ApprovalMode.BYPASS, project, (project,))
    verdict = decide("Bash", [Runs(f"{core}/git-p?sh . HEAD:x")], policy)
    assert verdict.kind is VerdictKind.ASK


@pytest.mark.parametrize("name", ["npm", "pnpm", "yarn"])
def test_a_rule_for_a_script_does_not_cover_unknown_arguments(name: str, project: Path) -> None:
    allowed = parse_rule(f"Bash({name} test:*)", project, "test")
    policy = Policy((), (), (allowed,), ApprovalMode.DEFAULT, project, (project,))
    given = {"$(cat x)": VerdictKind.ASK, "`cat x`": VerdictKind.ASK, "$X": VerdictKind.ALLOW}
    for text, kind in given.items():
        assert decide("Bash", [Runs(f"{name} test -- {text}")], policy).kind is kind
