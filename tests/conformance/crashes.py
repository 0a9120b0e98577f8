"""Can a session be resumed that was cut off anywhere, or whose client was killed?

    sudo unshare --net env PYTHONPATH=tests python tests/conformance/crashes.py CLIENT ...

`turnlog chat -p` writes a session of 40 calls, with sub-agents. It is cut at line ends and in
between, and is also written anew and killed on the way; every client must resume each piece. The
first one, the newest, must send what turnlog says it will: older ones complete an end that broke
off in their own ways. Prints a row for each.
"""

import random
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from client import bring_up_loopback
from resume import resume
from resume import said as said_in

from support.chat_process import ChatProcess
from support.long_chat import answer_to, kill_at, run_long
from support.scripted_api import ScriptedApi, said, scripted_api
from turnlog.conversation.session import open_session
from turnlog.store.paths import sidecar_folder

CUTS = 24
KILLS = 12


def places(whole: bytes) -> list[int]:
    """Return where to cut: after lines and inside them, but not before the first prompt is
    complete.
    """
    random.seed(1)
    ends = [place + 1 for place, byte in enumerate(whole) if byte == 10]
    first = next(end for end in ends if b'"type":"user"' in whole[:end])
    chosen = random.sample([end for end in ends if end >= first], CUTS // 2)
    return sorted([*chosen, *(random.randrange(first, len(whole)) for _ in range(CUTS // 2))])


def is_resumed(clients: list[list[str]], session: Path, name: str) -> bool:
    """Let each client resume a session, and print a row."""
    expected = said_in(open_session(session).context())
    sent = [resume(client, session) for client in clients]
    is_equal = sent[0] is not None and said_in(sent[0]) == expected
    verdicts = ["refused" if each is None else "resumed" for each in sent]
    told = "equal" if is_equal else "DIFFERENT"
    print(f"{name:24} {told:10} {' '.join(verdicts)}", flush=True)
    return is_equal and "refused" not in verdicts


def cut_anywhere(clients: list[list[str]], home: Path, finished: ChatProcess) -> int:
    """Cut the session; return how many pieces do not resume."""
    whole = finished.session.read_bytes()
    cut = home / "cut" / finished.session.name
    shutil.copytree(sidecar_folder(finished.session), sidecar_folder(cut))
    bad = 0
    for place in places(whole):
        cut.write_bytes(whole[:place])
        bad += not is_resumed(clients, cut, f"cut at {place} of {len(whole)}")
    return bad


def kill_anywhere(clients: list[list[str]], home: Path, api: ScriptedApi, lines: int) -> int:
    """Write the session again and kill the writer; return how many do not resume."""
    bad = 0
    for number in range(KILLS):
        line = 2 + number * (lines - 2) // KILLS
        chat = ChatProcess(home / f"killed{number}", api.url)
        kill_at(chat, line)
        bad += not is_resumed(clients, chat.session, f"killed at line {line} of {lines}")
    return bad


def main() -> int:
    """Break off and resume, print a row for each."""
    bring_up_loopback()
    clients = [shlex.split(each) for each in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder, scripted_api(said("never")) as api:
        api.choose = answer_to
        home = Path(folder)
        finished = ChatProcess(home / "finished", api.url)
        run_long(finished)
        bad = cut_anywhere(clients, home, finished)
        lines = finished.session.read_bytes().count(b"\n")
        bad += kill_anywhere(clients, home, api, lines)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
