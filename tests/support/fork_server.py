"""Start many `turnlog-chat` processes without importing everything in each.

The server imports once and forks a process for each start; a small executable passes its arguments,
directory, environment and standard streams on, and exits as the process does.
"""

import array
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from io import FileIO, TextIOWrapper
from pathlib import Path

HEAVY = (
    *("anthropic", "mcp", "turnlog.cli.chat"),
    *("turnlog.agent.headless.hosted_chat", "turnlog.agent.headless.acp_agent"),
)
STUB = """#!{python} -ISE
import array, json, os, signal, socket
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    import sys
    told = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    fds = array.array("i", [0, 1, 2])
    server.sendmsg([len(told).to_bytes(8, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
    server.sendall(told)
    for stream in (0, 1):
        os.close(stream)
    answers = server.makefile()
    pid = int(answers.readline())
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda number, frame: os.kill(pid, number))
    code = int(answers.readline() or 1)
os._exit(code if code >= 0 else 128 - code)
"""


@contextmanager
def fork_server(folder: Path) -> Generator[Path]:
    """Run a server; yield the executable to start instead of `turnlog-chat`."""
    address, stub = folder / "server", folder / "turnlog-chat"
    stub.write_text(STUB.format(python=sys.executable, address=str(address)))
    stub.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen(16)
        # -P: a directory of helpers must not hide packages of the same names.
        command = [sys.executable, "-P", __file__, str(listener.fileno())]
        running = subprocess.Popen(command, pass_fds=[listener.fileno()])
    try:
        yield stub
    finally:
        running.terminate()
        running.wait()


def serve(listener: socket.socket) -> None:
    """Fork a process for each connection, which waits for another that is `turnlog-chat`."""
    for name in HEAVY:
        import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            _attend(connection)
        connection.close()


def _attend(connection: socket.socket) -> None:
    size, ancillary, _, _ = connection.recvmsg(8, socket.CMSG_SPACE(12))
    fds = array.array("i")
    fds.frombytes(ancillary[0][2])
    told = connection.makefile("rb").read(int.from_bytes(size, "big"))
    arguments, place, environment = json.loads(told)
    pid = os.fork()
    if pid == 0:
        connection.close()
        _become(list(fds), arguments, place, environment)
    for each in fds:
        os.close(each)
    with suppress(OSError):
        connection.sendall(f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    with suppress(OSError):
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(fds: list[int], arguments: list[str], place: str, environment: dict[str, str]) -> None:
    for number, descriptor in enumerate(fds):
        os.dup2(descriptor, number)
    for descriptor in fds:
        if descriptor > 2:
            os.close(descriptor)
    os.chdir(place)
    os.environ.clear()
    os.environ.update(environment)
    # Those of the server are still there, with what they have buffered.
    sys.stdin, sys.stdout, sys.stderr = (
        TextIOWrapper(FileIO(number, mode), encoding="utf-8") for number, mode in enumerate("rww")
    )
    sys.argv[1:] = arguments
    from turnlog.cli.hosted import main

    try:
        main()
    finally:
        os._exit(1)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
