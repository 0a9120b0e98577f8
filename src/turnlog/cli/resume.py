"""turnlog resume: resume a session in its directory, after checking that it is resumable."""

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from turnlog.cli.arguments import dry_run_option, session_argument
from turnlog.cli.output import echo_json, plain
from turnlog.cli.store_options import store_option, stores_in
from turnlog.cli.suggested_commands import to_type
from turnlog.cli.terminal import dim, echo
from turnlog.edit.resume_preparation import (
    CopyChoice,
    ResumePlan,
    ResumeProgram,
    clone_command,
    copy_for_resume,
    move_for_resume,
    plan_resume,
    protect_from_cleanup,
    resume_program,
)
from turnlog.errors import Conflict, NotFound, Unresumable, UsageError
from turnlog.store.paths import Store, expand_user
from turnlog.store.resume_command import (
    VARIABLE,
    client_command,
    in_directory,
    is_clients_store,
    resume_command,
    with_store,
)
from turnlog.store.session_lookup import find_session
from turnlog.store.stores import AnyStores, each_store, holder_of

ARGUMENTS = "turnlog.resume.arguments"
"""Key of the client's arguments in a context's `meta`."""
COPY = "ID_OF_THE_COPY"
"""Placeholder for the id of a copy that is not made yet."""


@dataclass(frozen=True)
class ResumeOptions:
    """Options for resuming a session."""

    is_chat: bool = False
    arguments: tuple[str, ...] = ()
    """Additional arguments for the client."""
    is_fork: bool = False
    turn: int | None = None
    """The last turn of the copy to resume."""
    is_repaired: bool = False
    """Repair without asking."""
    is_unchecked: bool = False
    dry_run: bool = False
    as_json: bool = False

    @property
    def clone_words(self) -> list[str]:
        """The options of `turnlog clone` that make the copy."""
        return ["--keep-until", str(self.turn)] if self.turn is not None else []


class ResumeCommand(click.Command):
    """A command that passes the arguments after `--` to another program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # If SESSION is omitted, click would take the first of these arguments for it.
        end = args.index("--") if "--" in args else len(args)
        ctx.meta[ARGUMENTS] = tuple(args[end + 1 :])
        return super().parse_args(ctx, args[:end])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- CLAUDE_ARGS...]"]


@click.command("resume", cls=ResumeCommand)
@session_argument
@click.option("--chat", is_flag=True, help="Resume in turnlog chat instead of the client.")
@click.option("--fork", "is_fork", is_flag=True, help="Resume a copy; SESSION is not changed.")
@click.option(
    "--at",
    "turn",
    type=click.IntRange(1),
    metavar="TURN",
    help="Resume a copy that ends with TURN.",
)
@click.option(
    "--repair", "is_repaired", is_flag=True, help="Resume a repaired copy if SESSION is damaged."
)
@click.option("--no-check", "is_unchecked", is_flag=True, help="Do not check SESSION first.")
@store_option
@dry_run_option
@click.option("--json", "as_json", is_flag=True, help="With --dry-run: print JSON.")
@click.pass_context
def command(ctx: click.Context, session: str, chat: bool, **given: Any) -> None:
    """Resume SESSION in its directory, after checking it.

    Runs the installed client, or turnlog chat if there is none. If the client would refuse SESSION
    or lose part of it, turnlog offers to resume a repaired copy; if its directory no longer exists,
    to move it. Without a terminal to ask on, turnlog prints the command that helps. Arguments after
    -- go to the client.

    \b
    Examples:
      turnlog resume
      turnlog resume 3f2a --at 4
      turnlog resume 3f2a --dry-run
      turnlog resume 3f2a -- --model opus
    """
    if given["as_json"] and not given["dry_run"]:
        raise UsageError("--json needs --dry-run", "turnlog resume SESSION --dry-run --json")
    resume_session(stores_in(ctx), session, ResumeOptions(chat, ctx.meta[ARGUMENTS], **given))


def resume_session(stores: AnyStores, session: str, wanted: ResumeOptions) -> None:
    """Resume a session, asking the user how to solve problems; return only after a dry run."""
    program = resume_program(wanted.is_chat)
    path = _find(stores, session, wanted)
    plan = plan_resume(holder_of(stores, path), path, program.version)
    if wanted.is_unchecked:
        plan = replace(plan, findings=(), is_open=False)
    plan = _placed(plan, wanted)
    plan = _sound(plan, program, wanted)
    _run(plan, program, wanted)


def _can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _ask(question: str) -> bool:
    return click.confirm(question, default=True, err=True)


def _find(stores: AnyStores, name: str, wanted: ResumeOptions) -> Path:
    """Find a session; offer to restore one that only the archive still has."""
    try:
        return find_session(stores, name).path
    except NotFound as error:
        is_archived = (error.hint or "").startswith("turnlog restore ")
        if not is_archived or wanted.dry_run or not _can_ask():
            raise
        echo(error.message, err=True)
    if not _ask("Restore it and resume?"):
        raise click.Abort
    from turnlog.store.archive.archive import open_archive
    from turnlog.store.archive.restore import find_archived, restore_session

    archive, first = open_archive(), each_store(stores)[0]
    manifest = find_archived(archive, name)
    restore_session(archive, manifest, first.root.absolute(), True, None)  # noqa: FBT003
    return find_session(stores, manifest.session).path


def _placed(plan: ResumePlan, wanted: ResumeOptions) -> ResumePlan:
    """Offer to move a session whose directory is gone, or whose file is not where it belongs."""
    if plan.has_directory and not plan.is_misplaced:
        return plan
    if plan.directory is None and plan.is_refused:  # moving it would not help
        reason = f"{plan.id} cannot be resumed: {plan.findings[0].message}"
        raise NotFound(reason, f"turnlog check {shlex.quote(plan.id)}")
    known = plan.directory if plan.has_directory else None
    if known:
        problem = f"{plan.id} is filed under {plan.path.parent.name}, not under {plan.directory}"
    elif plan.directory:
        problem = f"the directory of {plan.id} no longer exists: {plan.directory}"
    else:
        problem = f"no entry of {plan.id} names its directory"
    hint = f"turnlog mv {shlex.quote(plan.id)} {shlex.quote(known or '.')}"
    if wanted.dry_run or not _can_ask():
        raise NotFound(problem, hint)
    echo(plain(problem), err=True)
    default = known or str(Path.cwd())
    chosen = click.prompt("Move the session to which directory?", default=default, err=True)
    moved = move_for_resume(plan, expand_user(chosen))
    echo(dim("moved; `turnlog undo` reverts it"), err=True)
    return replace(
        plan, path=moved, directory=os.path.realpath(expand_user(chosen)), is_misplaced=False
    )


def _sound(plan: ResumePlan, program: ResumeProgram, wanted: ResumeOptions) -> ResumePlan:
    """Return the plan for the session itself, or for a copy that the user requested or accepted."""
    is_fork, is_repaired = wanted.is_fork or wanted.turn is not None, False
    if plan.findings:
        is_repaired = wanted.is_repaired or _agrees_to_repair(plan, program, wanted)
    if plan.is_open and not (is_fork or is_repaired):
        is_fork = _agrees_to_fork(plan, wanted)
    if not (is_fork or is_repaired) or wanted.dry_run:
        return plan
    _require_terminal(wanted, _clone_command(plan, wanted, is_repaired))
    result = copy_for_resume(plan, CopyChoice(is_repaired, wanted.turn, program.version))
    echo(dim(f"resuming a copy, {result.clone.id}; `turnlog undo` removes it"), err=True)
    return replace(plan, path=result.clone.path, findings=(), is_open=False)


def _agrees_to_repair(plan: ResumePlan, program: ResumeProgram, wanted: ResumeOptions) -> bool:
    """Ask whether to resume a repaired copy.

    Without a terminal, raise Unresumable if the client would refuse the session.
    """
    worst = plan.findings[0]
    name = f"client {program.version}" if program.version else "the client"
    verb = "would refuse" if plan.is_refused else "would lose part of"
    message = f"{name} {verb} {plan.id}: {worst.message}"
    fix = worst.fix or f"turnlog clone {shlex.quote(plan.id)} --repair"
    if not _can_ask() or wanted.dry_run:
        if plan.is_refused and not wanted.dry_run:
            rows = [f"{each.severity}: {each.message}" for each in plan.findings[1:]]
            raise Unresumable(message, rows, f"turnlog resume {shlex.quote(plan.id)} --repair")
        echo(f"turnlog: {plain(message)} (try: {plain(to_type(fix))})", err=True)
        return False
    for finding in plan.findings:
        echo(f"{finding.severity}: {plain(finding.message)}", err=True)
    return _ask(f"{name[:1].upper()}{name[1:]} {verb} this session. Resume a repaired copy?")


def _agrees_to_fork(plan: ResumePlan, wanted: ResumeOptions) -> bool:
    """Ask whether to resume a copy of a session that is open elsewhere."""
    message = f"{plan.id} is open in a running client"
    # Two clients that write to one file would each continue a branch without the other's turns.
    if wanted.dry_run:
        hint = to_type(f"turnlog resume {shlex.quote(plan.id)} --fork")
        echo(f"turnlog: {message} (try: {hint})", err=True)
        return False
    if not _can_ask():
        raise Conflict(message, f"turnlog resume {shlex.quote(plan.id)} --fork")
    echo(message, err=True)
    if not _ask("Resume a copy of it?"):
        raise click.Abort
    return True


def _run(plan: ResumePlan, program: ResumeProgram, wanted: ResumeOptions) -> None:
    """Replace this process with the program that resumes the session, or print its command."""
    if wanted.dry_run:
        _preview(plan, program, wanted)
        return
    words = client_command(program.words, plan.id, wanted.arguments)
    if program.is_chat:
        # Not the `turnlog` in PATH, which may be another version.
        words = [sys.executable, "-P", "-m", "turnlog", *words[1:]]
    _require_terminal(wanted, _shown_command(plan, program, plan.id, ()))
    echo(dim(_shown_command(plan, program, plan.id, wanted.arguments)), err=True)
    protect_from_cleanup(plan)
    os.chdir(plan.directory or ".")
    execute(words, plan.store)


def _require_terminal(wanted: ResumeOptions, hint: str) -> None:
    """Raise UsageError without a terminal, unless there are arguments: -p needs no terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()) and not wanted.arguments:
        raise UsageError("resuming needs a terminal", hint)


def _clone_command(plan: ResumePlan, wanted: ResumeOptions, is_repaired: bool) -> str:
    words = [*wanted.clone_words, *(["--repair"] if is_repaired else [])]
    return to_type(clone_command(plan, words))


def _preview(plan: ResumePlan, program: ResumeProgram, wanted: ResumeOptions) -> None:
    """Print the commands that resuming would run."""
    is_repaired = wanted.is_repaired and bool(plan.findings)
    is_copy = wanted.is_fork or wanted.turn is not None or is_repaired
    if is_copy:  # it may be impossible, as with a turn that does not exist
        copy_for_resume(plan, CopyChoice(is_repaired, wanted.turn, program.version), dry_run=True)
    copying = _clone_command(plan, wanted, is_repaired) if is_copy else None
    resuming = _shown_command(plan, program, COPY if is_copy else plan.id, wanted.arguments)
    if wanted.as_json:
        view = {
            "id": plan.id,
            "path": plan.path,
            "directory": plan.directory,
            "copy": copying,
            "command": resuming,
            "findings": plan.findings,
            "is_open": plan.is_open,
        }
        echo_json(view)
        return
    for line in filter(None, (copying, resuming)):
        echo(line)


def _shown_command(
    plan: ResumePlan, program: ResumeProgram, session_id: str, arguments: Sequence[str]
) -> str:
    if program.is_chat:
        words = client_command(program.words, session_id, arguments)
        return in_directory(plan.directory, with_store(shlex.join(words), plan.store))
    command = resume_command(session_id, plan.directory, plan.store)
    return f"{command} {shlex.join(arguments)}" if arguments else command


def execute(words: Sequence[str], store: Store) -> None:
    """Replace this process with a program, whose environment names the store."""
    environment = dict(os.environ)
    if not is_clients_store(store):
        environment[VARIABLE] = str(store.root)
    sys.stdout.flush()
    sys.stderr.flush()
    if os.name == "nt":
        # Windows starts a second process and returns to the shell, which then reads the same keys.
        import subprocess

        raise SystemExit(subprocess.call(list(words), env=environment))
    os.execve(words[0], list(words), environment)
