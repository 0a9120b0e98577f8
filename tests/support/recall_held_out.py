"""Sixty more questions about another generated store; no weight in turnlog was chosen with them.

They are harder than those of `recall_questions`: half of them are keywords as a model types them,
errors come back with other paths and numbers, files change in several sessions, and decoys share
words with the answers.
"""

from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from support.build import assistant, call, result, text, user
from support.recall_questions import (
    START,
    Decision,
    RecallQuestion,
    price_with_noise,
    write_between_noise,
    write_decision,
)

HELD_OUT_PROJECT = "/home/ada/clinic"

CLINIC_DECISIONS = (
    Decision(
        "How do patients confirm an appointment?",
        "By a text message with a link that is valid for 24 hours; no account is needed.",
        "how do patients confirm appointments",
        "valid for 24 hours",
    ),
    Decision(
        "Which message broker should the lab results go through?",
        "NATS with JetStream. Kafka was rejected: nobody here wants to run ZooKeeper.",
        "Why not Kafka for the lab results?",
        "nobody here wants to run ZooKeeper",
    ),
    Decision(
        "Where do X-ray images live?",
        "On the NAS under /srv/dicom, replicated to Frankfurt every night.",
        "x-ray images storage location",
        "/srv/dicom",
    ),
    Decision(
        "Wie lange heben wir Befunde auf?",
        "Zehn Jahre, Röntgenbilder 30 Jahre; danach löscht ein Job nach Freigabe durch Dr. Weiß.",
        "Wie lange müssen Befunde aufgehoben werden?",
        "Röntgenbilder 30 Jahre",
    ),
    Decision(
        "Dürfen Azubis Rezepte sehen?",
        "Lesen ja, ausstellen nein; die Rolle heißt trainee_ro.",
        "Welche Rolle haben Azubis bei Rezepten?",
        "trainee_ro",
    ),
    Decision(
        "Welche Schrift nehmen wir im Portal?",
        "Atkinson Hyperlegible in 18 Pixel, weil viele Patienten schlecht sehen.",
        "Schriftart Portal Entscheidung",
        "Atkinson Hyperlegible",
    ),
    Decision(
        "Comment appelle-t-on les services dans le code ?",
        "Toujours en anglais : ward, triage, pharmacy ; le français reste dans l'interface.",
        "quelle langue pour le nom des services dans le code",
        "Toujours en anglais",
    ),
    Decision(
        "¿Qué hacemos con las citas canceladas?",
        "Se conservan 90 días con estado cancelled y luego se anonimizan.",
        "qué pasa con las citas canceladas",
        "luego se anonimizan",
    ),
    Decision(
        "Do we let the browser talk to FHIR directly?",
        "No. A backend for frontend hides the tokens and trims bundles to what a screen shows.",
        "decision on calling FHIR from the browser",
        "trims bundles",
    ),
    Decision(
        "What triggers a page to the doctor on duty?",
        "Three missed heartbeats of an infusion pump, or any potassium above 6.0.",
        "When is the doctor on duty paged?",
        "potassium above 6.0",
    ),
    Decision(
        "Feature toggles: library or our own table?",
        "Our own table with a five second cache; Unleash needs a server we cannot host.",
        "feature toggles unleash",
        "five second cache",
    ),
    Decision(
        "Should the waiting room screen show names?",
        "Initials and the room only, as the data protection officer demanded in May.",
        "What may the waiting room screen show?",
        "Initials and the room only",
    ),
    Decision(
        "Offline mode for home visits?",
        "Yes: SQLite on the tablet, last writer wins except for medication, which asks the nurse.",
        "How are conflicts resolved in the offline mode for home visits?",
        "except for medication",
    ),
    Decision(
        "Unit tests or contract tests for the pharmacy interface?",
        "Contract tests with Pact; the pharmacy runs our pacts in its pipeline since April.",
        "pharmacy interface testing approach",
        "Contract tests with Pact",
    ),
    Decision(
        "How do we version the public REST interface?",
        "By date in a header, Clinic-Version: 2026-02-01, two versions are alive at a time.",
        "REST interface versioning",
        "Clinic-Version",
    ),
    Decision(
        "Upgrade to Java 25 now?",
        "After the audit in June, since the HSM driver supports 21 at most.",
        "Why haven't we upgraded Java yet?",
        "HSM driver supports 21",
    ),
    Decision(
        "Which colour for critical alarms?",
        "#B00020 with a white border; the plain red failed the contrast check on the old monitors.",
        "color of critical alarms",
        "#B00020",
    ),
    Decision(
        "Who may merge patient records?",
        "Two people: one proposes, a second from medical records confirms within a week.",
        "Who is allowed to merge two patient records?",
        "a second from medical records confirms",
    ),
    Decision(
        "Can the export run during the day?",
        "No, between 2 and 4 at night; it holds a share lock on encounters.",
        "at what time does the export run and why",
        "share lock on encounters",
    ),
    Decision(
        "Wer bekommt die Auswertung der Wartezeiten?",
        "Nur die Pflegedienstleitung, jeden Montag um sieben als PDF.",
        "An wen geht die Auswertung der Wartezeiten?",
        "Pflegedienstleitung",
    ),
)
DECOYS = (
    ("Appointments page: sort by doctor", "Sorted by doctor, then by time."),
    ("Show the lab results in a table", "The table has a row per result."),
    ("Wartezeiten im Diagramm zeigen", "Das Diagramm zeigt die Wartezeiten pro Stunde."),
    ("Rename the REST interface tests", "Renamed the tests of the REST interface."),
    ("Patient records: add a print button", "The button prints the open record."),
    ("Portal: fix the spelling", "Fixed the spelling on two pages of the portal."),
    ("Move the alarm sound to assets", "Alarms play the sound from assets now."),
    ("Export: write a progress line", "The export prints a line per thousand rows."),
)


class ClinicRepair(NamedTuple):
    """A failure, what fixed it, and the same failure as somebody meets it later."""

    command: str
    output: str
    fix: str
    later_command: str
    later_message: str


CLINIC_REPAIRS = (
    ClinicRepair(
        "mvn -q verify",
        "[ERROR] Failed to execute goal: release version 25 not supported",
        "sdk use java 25-tem",
        "mvn verify -pl portal",
        "Fatal error compiling: error: release version 25 not supported",
    ),
    ClinicRepair(
        "flutter build apk",
        "Execution failed for task ':app:mergeDebugResources'. SDK location not found",
        "echo sdk.dir=/opt/android > android/local.properties",
        "flutter build apk --release",
        "SDK location not found. Define a valid SDK location",
    ),
    ClinicRepair(
        "pytest tests/lab/test_units.py",
        "sqlalchemy.exc.OperationalError: (sqlite3.OperationalError) database is locked",
        "rm -f /tmp/lab-test.db-journal",
        "pytest tests/lab/test_ranges.py -x",
        "sqlite3.OperationalError: database is locked (tests/lab/test_ranges.py:88)",
    ),
    ClinicRepair(
        "helm upgrade portal ./chart",
        "Error: UPGRADE FAILED: another operation (install/upgrade/rollback) is in progress",
        "helm rollback portal 41",
        "helm upgrade portal ./chart --wait",
        "another operation (install/upgrade/rollback) is in progress",
    ),
    ClinicRepair(
        "dotnet ef database update",
        "Your startup project doesn't reference Microsoft.EntityFrameworkCore.Design.",
        "dotnet add package Microsoft.EntityFrameworkCore.Design",
        "dotnet ef migrations add Ward",
        "doesn't reference Microsoft.EntityFrameworkCore.Design",
    ),
    ClinicRepair(
        "git submodule update --init",
        "fatal: transport 'file' not allowed",
        "git config protocol.file.allow always",
        "git submodule update --init --recursive",
        "fatal: transport 'file' not allowed",
    ),
    ClinicRepair(
        "npm run e2e",
        "browserType.launch: Executable doesn't exist at /root/.cache/ms-playwright/chromium-1105",
        "npx playwright install chromium",
        "npm run e2e -- --grep login",
        "Executable doesn't exist at /home/bob/.cache/ms-playwright/chromium-1181",
    ),
    ClinicRepair(
        "ansible-playbook site.yml",
        "fatal: [ward-3]: UNREACHABLE! Host key verification failed.",
        "ssh-keygen -R ward-3",
        "ansible-playbook site.yml -l ward-9",
        "UNREACHABLE! Host key verification failed.",
    ),
    ClinicRepair(
        "cmake --build build",
        "fatal error: openssl/ssl.h: No such file or directory",
        "apt-get install -y libssl-dev",
        "cmake --build build -j8",
        "src/tls/channel.cc:12: fatal error: openssl/ssl.h: No such file or directory",
    ),
    ClinicRepair(
        "bundle install",
        "An error occurred while installing pg (1.5.4), and Bundler cannot continue.",
        "apt-get install -y libpq-dev",
        "bundle install --jobs 4",
        "An error occurred while installing pg (1.6.0), and Bundler cannot continue",
    ),
    ClinicRepair(
        "docker build -t dicom .",
        "failed to solve: node:18: no match for platform in manifest",
        "docker buildx build --platform linux/amd64 -t dicom .",
        "docker build -t viewer .",
        "no match for platform in manifest",
    ),
    ClinicRepair(
        "gradle test",
        "java.lang.OutOfMemoryError: Metaspace",
        "echo org.gradle.jvmargs=-XX:MaxMetaspaceSize=1g >> gradle.properties",
        "gradle test --tests '*Ward*'",
        "OutOfMemoryError: Metaspace",
    ),
    ClinicRepair(
        "uv sync",
        "error: Failed to build `psycopg2==2.9.9`: pg_config executable not found",
        "uv add psycopg2-binary",
        "uv sync --frozen",
        "pg_config executable not found",
    ),
    ClinicRepair(
        "hugo --minify",
        'error calling resources.GetRemote: Get "https://cdn": context deadline exceeded',
        "cp vendor/normalize.css assets/",
        "hugo server",
        "GetRemote context deadline exceeded",
    ),
    ClinicRepair(
        "swift test",
        "error: no such module 'XCTest'",
        "sudo xcode-select -s /Applications/Xcode.app",
        "swift test --filter Dose",
        "no such module 'XCTest'",
    ),
)
CLINIC_FILES = (
    "src/dose/rounding.py", "src/dose/limits.py", "src/ward/beds.kt", "web/portal.ts",
    "web/styles.css", "deploy/values.yaml", "sql/encounters.sql", "docs/triage.md",
    "src/lab/units.rs", "src/lab/ranges.rs", "scripts/export.sh", "config/alarm.json",
    "src/rezept/dosis.py", "src/rezept/druck.py", "Makefile",
)  # fmt: skip


def build_held_out(root: Path) -> list[RecallQuestion]:
    """Write the sessions; return the questions."""
    numbers = count(301)
    questions = [
        write_decision(root, next(numbers), each, HELD_OUT_PROJECT) for each in CLINIC_DECISIONS
    ]
    for asked, answered in DECOYS:
        _write(root, next(numbers), user(asked), assistant(text(answered)))
    questions += [_repaired(root, next(numbers), each) for each in CLINIC_REPAIRS]
    questions += [_changed(root, numbers, path) for path in CLINIC_FILES]
    questions += [_spent(root, next(numbers), place) for place in range(10)]
    return questions


def _write(root: Path, number: int, *lines: bytes) -> str:
    return write_between_noise(root, number, *lines, project=HELD_OUT_PROJECT)


def _repaired(root: Path, number: int, each: ClinicRepair) -> RecallQuestion:
    ids = [f"toolu_{number}_{n}" for n in range(4)]
    useless = "ls -la"
    _write(
        root,
        number,
        user("Does it build?"),
        assistant(call("Bash", {"command": each.command}, ids[0])),
        result(ids[0], "line of output\n" * 80 + each.output, is_error=True),
        assistant(call("Bash", {"command": useless}, ids[1])),
        result(ids[1], "total 8"),
        assistant(call("Bash", {"command": each.fix}, ids[2])),
        result(ids[2], "ok"),
        assistant(call("Bash", {"command": each.command}, ids[3])),
        result(ids[3], "done"),
        assistant(text("It runs.")),
    )
    given = {"message": each.later_message}
    if number % 3:
        given["command"] = each.later_command
    return RecallQuestion("fix", each.later_message, "errors", given, each.fix)


def _changed(root: Path, numbers: "count[int]", path: str) -> RecallQuestion:
    """Write a file in one session, change it in a second and read it in a third."""
    full = f"{HELD_OUT_PROJECT}/{path}"
    first, second, third = next(numbers), next(numbers), next(numbers)
    write: dict[str, Any] = {"file_path": full, "content": "step = 1\nunit = 'ml'\n"}
    edit = {"file_path": full, "old_string": "step = 1", "new_string": f"step = {second * 11}"}
    created = {"type": "create", "filePath": full, **write}
    one, two, three = (f"toolu_{number}" for number in (first, second, third))
    _write(
        root,
        first,
        user(f"Start {path}"),
        assistant(call("Write", write, one)),
        result(one, tool_use_result=created),
    )
    _write(
        root,
        second,
        user(f"The step in {Path(path).name} is too small"),
        assistant(call("Edit", edit, two)),
        result(two),
    )
    _write(
        root,
        third,
        user(f"Explain {path}"),
        assistant(call("Read", {"file_path": full}, three)),
        result(three, f"1\tstep = {second * 11}\n2\tunit = 'ml'"),
    )
    # As a model names it: from the project's directory, in full, or by its last part.
    names = (path, full, Path(path).name)
    given = {"path": names[first // 3 % 3]}
    expected = f"+step = {second * 11}"
    return RecallQuestion("file", f"Who last changed {path}?", "files", given, expected)


def _spent(root: Path, number: int, place: int) -> RecallQuestion:
    usage = {"input_tokens": 2_000 * (place + 1), "output_tokens": 300 + place}
    message = {"usage": usage, "model": "claude-opus-5-5"}
    id_ = _write(
        root,
        number,
        user(f"Plan ward {place}"),
        assistant(text("Four beds."), message=message),
    )
    day = START + timedelta(days=2 * number)
    given: dict[str, Any] = {"report": "daily", "since": f"{day:%Y-%m-%d}"}
    given["until"] = given["since"]
    if place % 3 == 1:
        given = {"session": id_[:8]}
    elif place % 3 == 2:
        given = {"report": "session", "since": f"{day:%Y-%m-%d}", "until": f"{day:%Y-%m-%d}"}
    return RecallQuestion(
        "cost", f"What did {id_} cost?", "usage", given, f"{price_with_noise(usage):.4f}"
    )
