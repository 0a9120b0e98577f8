"""Do sessions go through a real SSH server, and a real rclone?

    PYTHONPATH=tests python tests/conformance/ssh_server.py SSHD

SSHD is the path of the server's binary, which needs a user called `sshd` if it runs as root. It
listens on loopback only, with keys of its own. Exits with 1 if anything is missing afterwards.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from support.build import session, user
from support.machines import SyncedMachine, all_sync


@contextmanager
def ssh_server(program: str, folder: Path) -> Generator[int]:
    """Run a server on loopback that knows one key; yield its port."""
    for name in ("host", "user"):
        key = str(folder / name)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    shutil.copy(folder / "user.pub", folder / "authorized")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = folder / "sshd_config"
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nStrictModes no\n"
        f"AuthorizedKeysFile {folder}/authorized\nPidFile none\nPermitRootLogin yes\n"
    )
    server = subprocess.Popen([program, "-D", "-e", "-f", str(config)])
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield port
    finally:
        server.terminate()
        server.wait()


def main(program: str) -> int:
    with tempfile.TemporaryDirectory() as name, ssh_server(program, Path(name)) as port:
        folder = Path(name)
        hosts = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
        options = f"-p {port} -i {folder}/user {hosts}"
        (folder / "bin").mkdir()
        ssh = folder / "bin" / "ssh"
        ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} {options} "$@"\n')
        ssh.chmod(0o755)
        os.environ["PATH"] = f"{folder}/bin:{os.environ['PATH']}"
        dest = f"ssh:127.0.0.1:{folder}/a b"
        these = [SyncedMachine(folder / name, dest) for name in ("one", "two")]
        for number, machine in enumerate(these):
            machine.write(session(user("hi"), user(f"m{number}", uuid=f"m{number}")))
        all_sync(these, rounds=2)
        found = [machine.lines() for machine in these]
        is_same = found[0] == found[1] and len(found[0]) == 3
        is_quiet = not any(report.sent or report.changes for report in all_sync(these))
        print("equal" if is_same and is_quiet else f"different: {found}")
        return 0 if is_same and is_quiet else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
