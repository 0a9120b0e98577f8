"""A generated store with known answers, and sixty questions about it.

Each question names the tool that the server's instructions tell a model to call, and a text that
the first answer must contain. Sessions contain noise: turns about other things, decoys that share
words with the questions, and rejected alternatives.
"""

import json
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from support.build import assistant, call, result, session, stamp, text, user
from support.mcp_peer import put

PROJECT = "/home/ada/market"
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
INPUT, OUTPUT = 4e-6, 20e-6
"""Dollars per token of the model in the sessions."""
NOISE = (
    ("Rename the helper in utils", "Renamed it and updated the imports."),
    ("Add a docstring to the parser", "Added one sentence that says what it returns."),
    ("Sortiere die Importe", "Die Importe sind sortiert."),
    ("What does this function return?", "A list of orders, the newest first."),
    ("Tidy up the README", "Shortened the introduction and fixed two links."),
    ("Which tests are slow?", "The browser tests take most of the time."),
)


class RecallQuestion(NamedTuple):
    """A question, the call that a model makes, and what answers it."""

    kind: str
    question: str
    tool: str
    given: dict[str, Any]
    answer: str


class Decision(NamedTuple):
    """A question in a session, the decision made there, and a later question about it."""

    prompt: str
    answer: str
    question: str
    expected: str


DECISIONS = (
    Decision(
        "Should orders live in Postgres or SQLite?",
        "I compared both. Decision: Postgres, because three workers write orders at once.",
        "Why did we choose Postgres for the orders?",
        "three workers write orders at once",
    ),
    Decision(
        "How do we roll out the new checkout?",
        "We settled on a feature flag named checkout_v2, raised by 10% a day.",
        "What was the plan for rolling out the checkout?",
        "raised by 10% a day",
    ),
    Decision(
        "Do we need a queue for the mails?",
        "No queue: a cron job every five minutes is enough at 200 mails a day.",
        "Did we decide on a queue for sending mails?",
        "cron job every five minutes",
    ),
    Decision(
        "Which licence for the client library?",
        "Apache-2.0, since two customers need the patent clause.",
        "Which licence did we pick for the client library and why?",
        "patent clause",
    ),
    Decision(
        "Cache product pages?",
        "Yes, in Redis with a TTL of 90 seconds, keyed by locale and price list.",
        "How long are product pages cached?",
        "TTL of 90 seconds",
    ),
    Decision(
        "Wie benennen wir die Branches?",
        "Beschluss: Zweige heißen team/ticket-kurztext, zum Beispiel kasse/4711-rabatt.",
        "Wie sollten unsere Branches benannt werden?",
        "team/ticket-kurztext",
    ),
    Decision(
        "Welche Zeitzone speichern wir bei Lieferungen?",
        "Wir speichern UTC und zeigen Europe/Berlin an, weil Lager in Polen dazukommen.",
        "In welcher Zeitzone werden Lieferungen gespeichert?",
        "Lager in Polen",
    ),
    Decision(
        "Brauchen wir eine Volltextsuche für Artikel?",
        "Ja, mit den Bordmitteln von Postgres (tsvector), kein Elasticsearch.",
        "Womit wird nach Artikeln gesucht, Elasticsearch?",
        "tsvector",
    ),
    Decision(
        "Retry policy for the payment gateway?",
        "At most three attempts with 2, 8 and 30 seconds, never after a timeout on capture.",
        "How often do we retry a payment?",
        "never after a timeout on capture",
    ),
    Decision(
        "Where do images go?",
        "Originals to the bucket market-raw, thumbnails are generated on request by imgproxy.",
        "Where are the original images stored?",
        "market-raw",
    ),
    Decision(
        "Monorepo or two repositories?",
        "Monorepo: the API schema changes with both sides in most pull requests.",
        "Why are we using a monorepo?",
        "changes with both sides",
    ),
    Decision(
        "How should invoices be numbered?",
        "Yearly sequence without gaps, INV-2026-000001, taken in the same transaction.",
        "What did we agree about numbering invoices?",
        "INV-2026-000001",
    ),
    Decision(
        "Minimum supported browser?",
        "Safari 16.4 and everything newer; the import maps need it.",
        "What is the oldest Safari that we support?",
        "16.4",
    ),
    Decision(
        "Sollen Rabatte kombinierbar sein?",
        "Nein, nur der höchste Rabatt zählt; Gutscheine gelten zusätzlich.",
        "Können mehrere Rabatte kombiniert werden?",
        "nur der höchste Rabatt",
    ),
    Decision(
        "Log format in production?",
        "JSON lines with the fields ts, level, request_id; no stack traces above 4 kB.",
        "Which fields do our production logs have?",
        "request_id",
    ),
    Decision(
        "Rate limits of the public API?",
        "60 requests a minute per key, 429 with Retry-After, counted in a sliding window.",
        "What rate limit does the public API have?",
        "60 requests a minute",
    ),
    Decision(
        "Money as float or integer?",
        "Integers in cents everywhere, Decimal only when parsing supplier files.",
        "How do we represent money amounts?",
        "Integers in cents",
    ),
    Decision(
        "Wer darf Bestellungen stornieren?",
        "Nur die Rolle Kundendienst, und nach dem Versand niemand mehr.",
        "Wer kann eine Bestellung stornieren?",
        "Rolle Kundendienst",
    ),
    Decision(
        "Keep the old admin?",
        "It stays until the end of June for refunds, then /admin/legacy is removed.",
        "When will the legacy admin be removed?",
        "end of June",
    ),
    Decision(
        "Which password hash?",
        "argon2id with 64 MB and three passes; bcrypt hashes are upgraded at login.",
        "What happens to old bcrypt hashes?",
        "upgraded at login",
    ),
)


class Repair(NamedTuple):
    """A command that failed, its output, what fixed it, and the message someone sees later."""

    command: str
    output: str
    fix: dict[str, Any]
    message: str
    expected: str


def _bash(command: str) -> dict[str, Any]:
    return {"tool": "Bash", "command": command}


REPAIRS = (
    Repair(
        "pytest -q",
        "E   ModuleNotFoundError: No module named 'attrs'",
        _bash("pip install attrs==26.1"),
        "No module named 'attrs'",
        "pip install attrs==26.1",
    ),
    Repair(
        "npm test",
        "Error: Cannot find module 'vite'",
        _bash("npm ci --include=dev"),
        "Cannot find module 'vite'",
        "npm ci --include=dev",
    ),
    Repair(
        "docker compose up -d",
        "Bind for 0.0.0.0:5432 failed: port is already allocated",
        _bash("systemctl stop postgresql"),
        "port is already allocated 5432",
        "systemctl stop postgresql",
    ),
    Repair(
        "git push",
        "! [rejected] main -> main (non-fast-forward)",
        _bash("git pull --rebase"),
        "rejected non-fast-forward",
        "git pull --rebase",
    ),
    Repair(
        "alembic upgrade head",
        "Multiple head revisions are present for given argument 'head'",
        _bash("alembic merge -m heads a1f3 c9d2"),
        "Multiple head revisions are present",
        "alembic merge -m heads a1f3 c9d2",
    ),
    Repair(
        "cargo build",
        "error: linker `cc` not found",
        _bash("apt-get install -y gcc"),
        "linker cc not found",
        "apt-get install -y gcc",
    ),
    Repair(
        "terraform plan",
        "Error: Error acquiring the state lock",
        _bash("terraform force-unlock 7c1e"),
        "acquiring the state lock",
        "terraform force-unlock 7c1e",
    ),
    Repair(
        "mypy src",
        'error: Library stubs not installed for "requests"',
        _bash("pip install types-requests"),
        "Library stubs not installed",
        "pip install types-requests",
    ),
    Repair(
        "make deploy",
        "ssh: Could not resolve hostname web-7",
        _bash("sed -i s/web-7/web-07/ hosts.ini"),
        "Could not resolve hostname web-7",
        "web-07",
    ),
    Repair(
        "kubectl apply -f shop.yaml",
        'error validating data: unknown field "spec.replica"',
        {
            "tool": "Edit",
            "file_path": f"{PROJECT}/shop.yaml",
            "old_string": "replica",
            "new_string": "replicas",
        },
        "unknown field spec.replica",
        "+replicas",
    ),
    Repair(
        "go test ./...",
        "x509: certificate signed by unknown authority",
        _bash("export SSL_CERT_FILE=/etc/ssl/corp.pem"),
        "certificate signed by unknown authority",
        "SSL_CERT_FILE=/etc/ssl/corp.pem",
    ),
    Repair(
        "poetry install",
        "SolverProblemError: no versions of pendulum match",
        _bash("poetry add pendulum@^3.0"),
        "no versions of pendulum match",
        "pendulum@^3.0",
    ),
    Repair(
        "rails server",
        "A server is already running. Check tmp/pids/server.pid",
        _bash("rm tmp/pids/server.pid"),
        "A server is already running",
        "rm tmp/pids/server.pid",
    ),
    Repair(
        "psql market",
        'psql: FATAL: role "ada" does not exist',
        _bash("createuser -s ada"),
        "role ada does not exist",
        "createuser -s ada",
    ),
    Repair(
        "yarn build",
        "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
        _bash("export NODE_OPTIONS=--max-old-space-size=4096"),
        "JavaScript heap out of memory",
        "max-old-space-size=4096",
    ),
)
FILE_NAMES = (
    "pricing.py", "checkout.ts", "cart.py", "invoice.py", "mailer.py", "search.sql", "Dockerfile",
    "settings.toml", "lieferung.py", "rabatt.py", "kasse.ts", "lager.py", "auth.py", "webhook.py",
    "report.py",
)  # fmt: skip


def build_history(root: Path) -> list[RecallQuestion]:
    """Write the sessions; return the questions."""
    numbers = count(1)
    questions = [write_decision(root, next(numbers), each) for each in DECISIONS]
    questions += [_repaired(root, next(numbers), each) for each in REPAIRS]
    questions += [_changed(root, next(numbers), name) for name in FILE_NAMES]
    questions += [_spent(root, next(numbers), place) for place in range(10)]
    return questions


def write_between_noise(root: Path, number: int, *lines: bytes, project: str = PROJECT) -> str:
    """Write a session between noise; its lines are a minute apart, sessions two days."""
    id_ = f"{number:08x}-0000-4000-8000-{number:012d}"
    first, second = NOISE[number % len(NOISE)], NOISE[(number * 5 + 1) % len(NOISE)]
    said = [
        user(first[0]),
        assistant(text(first[1])),
        *lines,
        user(second[0]),
        assistant(text(second[1])),
    ]
    start = START + timedelta(days=2 * number)
    timed = [
        _with_place(line, project, stamp(start + timedelta(minutes=n)), f"{id_}-{n}")
        for n, line in enumerate(said)
    ]
    put(root, project, session(*timed, session_id=id_), id_)
    return id_


def price_with_noise(usage: dict[str, int]) -> float:
    """Return the dollars of a session; two answers of noise have 10 and 20 tokens each."""
    return (usage["input_tokens"] + 20) * INPUT + (usage["output_tokens"] + 40) * OUTPUT


def _with_place(line: bytes, project: str, when: str, key: str) -> bytes:
    fields = json.loads(line) | {"timestamp": when, "cwd": project}
    if fields["type"] == "assistant":
        fields["message"]["id"] = f"msg_{key}"
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def write_decision(
    root: Path, number: int, each: Decision, project: str = PROJECT
) -> RecallQuestion:
    """Write a session with a decision; return the question about it."""
    lines = user(each.prompt), assistant(text(each.answer))
    write_between_noise(root, number, *lines, project=project)
    return RecallQuestion(
        "decision", each.question, "search", {"query": each.question}, each.expected
    )


def _repaired(root: Path, number: int, each: Repair) -> RecallQuestion:
    ids = [f"toolu_{number}_{n}" for n in range(4)]
    fix = dict(each.fix)
    tool = fix.pop("tool")
    write_between_noise(
        root,
        number,
        user("Try again please"),
        assistant(call("Bash", {"command": each.command}, ids[0])),
        result(ids[0], "starting\n" * 60 + each.output, is_error=True),
        assistant(call("Read", {"file_path": f"{PROJECT}/README.md"}, ids[1])),
        result(ids[1], "# market"),
        assistant(call(tool, fix, ids[2])),
        result(ids[2], "ok"),
        assistant(call("Bash", {"command": each.command}, ids[3])),
        result(ids[3], "done"),
        assistant(text("It works now.")),
    )
    # Every third time only the message is known, as in a log that the user pasted.
    given = {"message": each.message}
    if number % 3:
        given["command"] = each.command
    return RecallQuestion("fix", f"{each.command}: {each.message}", "errors", given, each.expected)


def _changed(root: Path, number: int, name: str) -> RecallQuestion:
    path = f"{PROJECT}/{name}"
    ids = [f"toolu_{number}_{n}" for n in range(3)]
    new = f"limit = {number * 37}"
    write = {"file_path": path, "content": "limit = 1\nmode = 'a'\n"}
    edit = {"file_path": path, "old_string": "limit = 1", "new_string": "limit = 2"}
    last = {"file_path": path, "old_string": "limit = 2", "new_string": new}
    write_between_noise(
        root,
        number,
        user(f"Create {name}"),
        assistant(call("Write", write, ids[0])),
        result(ids[0], tool_use_result={"type": "create", "filePath": path, **write}),
        assistant(call("Edit", edit, ids[1])),
        result(ids[1]),
        user(f"Raise the limit in {name}"),
        assistant(call("Edit", last, ids[2])),
        result(ids[2]),
    )
    return RecallQuestion(
        "file", f"What was the last change to {name}?", "files", {"path": name}, f"+{new}"
    )


def _spent(root: Path, number: int, place: int) -> RecallQuestion:
    usage = {"input_tokens": 1_000 * number, "output_tokens": 100 * number + place}
    id_ = write_between_noise(
        root,
        number,
        user(f"Estimate the work of part {place}"),
        assistant(text("Two days."), message={"usage": usage, "model": "claude-opus-5-5"}),
    )
    expected = f"cost_usd {price_with_noise(usage):.4f}"
    if place % 2:
        given: dict[str, Any] = {"report": "session", "session": id_}
        return RecallQuestion("cost", f"What did session {id_} cost?", "usage", given, expected)
    day = f"{START + timedelta(days=2 * number):%Y-%m-%d}"
    given = {"report": "daily", "since": day, "until": day}
    return RecallQuestion("cost", f"What did we spend on {day}?", "usage", given, expected)
