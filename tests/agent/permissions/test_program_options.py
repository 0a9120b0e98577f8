"""A rule for a program that handles files covers no other program that an option names."""

import subprocess
from pathlib import Path

import pytest

from turnlog.agent.permissions import ApprovalMode, Policy, VerdictKind, decide, parse_rule
from turnlog.agent.workspace.access import Runs

RUNNING = (
    *("rsync -e ./x src h:y", "rsync -avze './x -p 22' src h:y", "rsync --rsh=./x src h:y"),
    *("rsync --rsh 'ssh -o ProxyCommand=./x' src h:y", "rsync --rsync-path=./x src h:y"),
    *("scp -S ./x a h:y", "scp -o ProxyCommand=./x a h:y", "scp -qoProxyCommand=./x a h:y"),
    *("scp -F list a h:y", "scp -D ./x a h:y", "sftp -o ProxyCommand=./x h", "sftp -b list h"),
    *("tar cf y.tar --checkpoint=1 --checkpoint-action=exec=./x src", "tar -I ./x -cf y.tar src"),
    *("tar cIf ./x y.tar src", "tar --use-comp=./x -cf y.tar src", "tar cMf y.tar -F ./x src"),
    *("tar -cI./x -f y.tar src", "tar cf h:y --rsh-command=./x src", "tar xf y.tar --to-com=./x"),
    *("split --filter=./x a", "split --fi ./x a", "zip -TT ./x -T y.zip a", "zip --unz=./x y a"),
    *("curl --engine ./x.so http://h", "curl --en ./x.so http://h", "fd -x ./x", "fd -HX ./x"),
    *("curl --key 'pkcs11:a?module-path=./x.so' http://h", "fdfind . --exec-batch ./x"),
    *("ag --pager ./x y", "ack --pag=./x y", "bat --pager=./x a", "man -P ./x ls", "man -H./x ls"),
    *("sdiff --diff-prog=./x a b", "diff3 --d ./x a b c", "install -s --strip-program=./x a b"),
    *("sort --compress-program=./x a", "rg --pre ./x y", "rsync $(echo -e ./x) src h:y"),
    *("git submodule foreach ./x", "git bisect run ./x", "git submodule --quiet foreach ./x"),
)
PLAIN = (
    *("rsync -av --exclude=x -e ssh src h:y", "rsync -ae 'ssh -p 22 -l ada' src h:y"),
    *("rsync -av --delete src/ h:y", "scp -P 22 -i key a h:y", "scp -o Port=22 -q a h:y"),
    *("scp -oStrictHostKeyChecking=no a h:y", "tar czf y.tgz src", "tar -cf y.tar --exclude=F src"),
    *("tar -I 'zstd -19 -T0' -cf y.tar.zst src", "tar --use-compress-program=pigz -cf y src"),
    *("split -l 10 a y", "zip -r y.zip src", "curl -s https://h/x", "fd -e txt", "fd -tx"),
    *("ag x src", "bat --paging=never a", "man ls", "sdiff a b", "install -m 755 a b"),
    *("git submodule status", "git bisect good"),
)


@pytest.fixture(autouse=True)
def _repository(tmp_path: Path) -> None:
    """A repository of its own: the folders of tests lie in that of turnlog."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)


def verdict(command: str, place: Path) -> VerdictKind:
    start = " ".join(command.split()[: 2 if command.startswith("git ") else 1])
    allowed = (parse_rule(f"Bash({start}:*)", place, "test"),)
    policy = Policy((), (), allowed, ApprovalMode.DEFAULT, place, (place,))
    return decide("Bash", [Runs(command)], policy).kind


@pytest.mark.parametrize("command", RUNNING)
def test_an_option_that_names_a_program_asks(command: str, tmp_path: Path) -> None:
    assert verdict(command, tmp_path) is VerdictKind.ASK


@pytest.mark.parametrize("command", PLAIN)
def test_other_options_run_by_the_rule(command: str, tmp_path: Path) -> None:
    assert verdict(command, tmp_path) is VerdictKind.ALLOW
