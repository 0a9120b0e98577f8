"""A project on disk, and verdicts about calls in it."""

from pathlib import Path

from agent.permissions.cases import Case
from turnlog.agent.permissions import ApprovalMode, Policy, Rule, Verdict, decide, parse_rule
from turnlog.agent.workspace.access import Access, Fetches, Reads, Runs, Uses, Writes


def make_project(place: Path) -> Path:
    """The project that the cases are about; `other` and `home` lie beside it."""
    project, other = place / "project", place / "other"
    for name in ("src", "sub", "conf", "dash", "secrets"):
        (project / name).mkdir(parents=True)
    other.mkdir()
    (place / "home").mkdir()
    for name in ("objects", "refs"):
        (project / ".git" / name).mkdir(parents=True)
    (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    for name in (
        "src/app.py",
        "conf/pyrightconfig.json",
        "dash/-R",
        "secrets/key",
        ".env",
        "read.md",
    ):
        (project / name).write_text("text\n")
    (other / "file.txt").write_text("text\n")
    (project / "out.txt").symlink_to(other / "file.txt")
    (project / "out").symlink_to(other)
    (project / "in.txt").symlink_to(Path("src", "app.py"))
    return project


def policy_for(case: Case, project: Path) -> Policy:
    """The rules and the mode of a case."""
    return Policy(
        deny=_rules(case.deny, project),
        ask=_rules(case.ask, project),
        allow=_rules(case.allow, project),
        mode=ApprovalMode(case.mode),
        cwd=project,
        directories=(project,),
    )


def verdict_of(case: Case, project: Path) -> Verdict:
    """Return the verdict about the call of a case."""
    tool, _, used_on = case.call.partition(": ")
    return decide(tool, [access_of(tool, _filled(used_on, project))], policy_for(case, project))


def access_of(tool: str, used_on: str) -> Access:
    """Return what a call touches."""
    match tool:
        case "Bash":
            return Runs(used_on)
        case "Read" | "Grep" | "Glob":
            return Reads(Path(used_on))
        case "Edit" | "Write":
            return Writes(Path(used_on))
        case "WebFetch":
            return Fetches(used_on)
        case _:
            return Uses(used_on or None)


def _rules(lines: str, project: Path) -> tuple[Rule, ...]:
    return tuple(parse_rule(_filled(rule, project), project, "test") for rule in lines.splitlines())


def _filled(text: str, project: Path) -> str:
    for name in ("project", "other", "home"):
        text = text.replace(f"{{{name}}}", str(project.parent / name))
    return text
