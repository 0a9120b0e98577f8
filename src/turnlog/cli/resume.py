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
    existing_directory,
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
NO_CLIENT = "claude is not installed: turnlog chat resumes the session"


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


@dataclass(frozen=True)
class Solution:
    """What is resumed: a session or a copy of it, perhaps moved."""

    is_repaired: bool = False
    is_copy: bool = False
    """True if a copy is resumed even if there is nothing to repair."""
    directory: str | None = None
    """The directory to move it to."""

    @property
    def copies(self) -> bool:
        return self.is_repaired or self.is_copy


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

    Runs the installed client; if there is none, turnlog asks before it runs turnlog chat. If the
    client would refuse SESSION or lose part of it, turnlog offers to resume a repaired copy; if its
    directory no longer exists, to move it. It asks once, and says what will run. Without a terminal
    to ask on, turnlog prints the command that helps. Arguments after -- go to the client.

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
    """Resume a session, asking once how to solve its problems; return only after a dry run."""
    program = resume_program(wanted.is_chat)
    path = _find(stores, session, wanted)
    plan = plan_resume(holder_of(stores, path), path, program.version)
    if wanted.is_unchecked:
        plan = replace(plan, findings=(), is_open=False)
    solution = _solution(plan, program, wanted)
    if wanted.dry_run:
        _preview(plan, program, wanted, solution)
    else:
        _run(_prepared(plan, program, wanted, solution), program, wanted)


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


def _solution(plan: ResumePlan, program: ResumeProgram, wanted: ResumeOptions) -> Solution:
    """Return what is to be resumed, after asking about obstacles on a terminal.

    Without one, raise an error for an obstacle that keeps the session from being resumed.
    """
    if plan.directory is None and plan.is_refused:  # moving it would not help
        reason = f"{plan.id} cannot be resumed: {plan.findings[0].message}"
        raise NotFound(reason, f"turnlog check {shlex.quote(plan.id)}")
    is_copy = wanted.is_fork or wanted.turn is not None
    requested = Solution(wanted.is_repaired and bool(plan.findings), is_copy)
    if wanted.dry_run or not _can_ask():
        _require_solved(plan, program, wanted, requested)
        return requested
    known = plan.has_directory and plan.directory
    offered = Solution(
        bool(plan.findings),
        is_copy or (plan.is_open and not plan.findings),
        (known or str(Path.cwd())) if _misplaced(plan) else None,
    )
    if offered == requested and not program.is_replacement:
        return requested
    _explain(plan, program, wanted, offered)
    return _ask_once(plan, program, offered, requested)


def _explain(
    plan: ResumePlan, program: ResumeProgram, wanted: ResumeOptions, offered: Solution
) -> None:
    """Print the obstacles, and the commands that are offered."""
    lines = [_misplaced(plan)]
    if plan.findings:
        lines.append(f"{_verdict(plan, program)} this session")
        lines += [f"{finding.severity}: {finding.message}" for finding in plan.findings]
    if plan.is_open:
        lines.append(f"{plan.id} is open in a running client")
    if program.is_replacement:
        lines.append(NO_CLIENT)
    for line in filter(None, lines):
        echo(plain(line), err=True)
    for line in _commands(plan, program, wanted, offered):
        echo(dim(f"  {line}"), err=True)


def _ask_once(
    plan: ResumePlan, program: ResumeProgram, offered: Solution, requested: Solution
) -> Solution:
    """Ask whether to resume as offered; where, if the session has to be moved."""
    what = "a repaired copy" if offered.is_repaired else "a copy of it" if offered.is_copy else "it"
    if offered.directory:
        place = f"Resume {what} in" if offered.copies else "Move the session to"
        chosen = click.prompt(f"{place} which directory?", default=offered.directory, err=True)
        return replace(offered, directory=existing_directory(expand_user(chosen)))
    if _ask(f"Resume {what}{' in turnlog chat' if program.is_replacement else ''}?"):
        return offered
    if plan.is_open or program.is_replacement:
        raise click.Abort
    return requested


def _require_solved(
    plan: ResumePlan, program: ResumeProgram, wanted: ResumeOptions, requested: Solution
) -> None:
    """Report the obstacles of a session that nobody can be asked about."""
    if misplaced := _misplaced(plan):
        where = (plan.has_directory and plan.directory) or "."
        raise NotFound(misplaced, f"turnlog mv {shlex.quote(plan.id)} {shlex.quote(where)}")
    if plan.findings and not requested.is_repaired:
        _require_accepted(plan, program, wanted)
    if plan.is_open and not requested.copies:
        _require_closed(plan, wanted)
    if program.is_replacement:
        echo(f"turnlog: {NO_CLIENT}", err=True)


def _misplaced(plan: ResumePlan) -> str | None:
    """Return why the client would not find a session in its directory; None if it does."""
    if plan.has_directory:
        where = f"{plan.path.parent.name}, not under {plan.directory}"
        return f"{plan.id} is filed under {where}" if plan.is_misplaced else None
    if plan.directory:
        return f"the directory of {plan.id} no longer exists: {plan.directory}"
    return f"no entry of {plan.id} names its directory"


def _verdict(plan: ResumePlan, program: ResumeProgram) -> str:
    name = f"client {program.version}" if program.version else "the client"
    return f"{name} {'would refuse' if plan.is_refused else 'would lose part of'}"


def _require_accepted(plan: ResumePlan, program: ResumeProgram, wanted: ResumeOptions) -> None:
    """Report what a session loses; raise Unresumable if the client would refuse it."""
    worst = plan.findings[0]
    message = f"{_verdict(plan, program)} {plan.id}: {worst.message}"
    if plan.is_refused and not wanted.dry_run:
        rows = [f"{each.severity}: {each.message}" for each in plan.findings[1:]]
        raise Unresumable(message, rows, f"turnlog resume {shlex.quote(plan.id)} --repair")
    fix = worst.fix or f"turnlog clone {shlex.quote(plan.id)} --repair"
    echo(f"turnlog: {plain(message)} (try: {plain(to_type(fix))})", err=True)


def _require_closed(plan: ResumePlan, wanted: ResumeOptions) -> None:
    """Report that a session is open elsewhere; raise Conflict unless nothing is run."""
    # Two clients that write to one file would each continue a branch without the other's turns.
    message = f"{plan.id} is open in a running client"
    hint = f"turnlog resume {shlex.quote(plan.id)} --fork"
    if not wanted.dry_run:
        raise Conflict(message, hint)
    echo(f"turnlog: {message} (try: {to_type(hint)})", err=True)


def _prepared(
    plan: ResumePlan, program: ResumeProgram, wanted: ResumeOptions, solution: Solution
) -> ResumePlan:
    """Make the copy that is to be resumed, and move it, or the session, to its directory."""
    if solution.copies or solution.directory:
        _require_terminal(wanted, _commands(plan, program, wanted, solution)[0])
    if solution.copies:
        choice = CopyChoice(solution.is_repaired, wanted.turn, program.version)
        plan = replace(plan, path=copy_for_resume(plan, choice).clone.path)
        echo(dim(f"resuming a copy, {plan.id}; `turnlog undo` removes it"), err=True)
    if solution.directory:
        moved = move_for_resume(plan, solution.directory)
        echo(dim("moved; `turnlog undo` reverts it"), err=True)
        plan = replace(plan, path=moved, directory=solution.directory)
    return plan


def _run(plan: ResumePlan, program: ResumeProgram, wanted: ResumeOptions) -> None:
    """Replace this process with the program that resumes the session."""
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


def _clone_command(plan: ResumePlan, wanted: ResumeOptions, solution: Solution) -> str:
    words = [*wanted.clone_words, *(["--repair"] if solution.is_repaired else [])]
    return to_type(clone_command(plan, words))


def _commands(
    plan: ResumePlan, program: ResumeProgram, wanted: ResumeOptions, solution: Solution
) -> list[str]:
    """Return the commands that resuming runs; the last one resumes."""
    name = COPY if solution.copies else plan.id
    commands = [_clone_command(plan, wanted, solution)] if solution.copies else []
    if solution.directory:
        commands.append(f"turnlog mv {name} {shlex.quote(solution.directory)}")
        plan = replace(plan, directory=solution.directory)
    return [*commands, _shown_command(plan, program, name, wanted.arguments)]


def _preview(
    plan: ResumePlan, program: ResumeProgram, wanted: ResumeOptions, solution: Solution
) -> None:
    """Print the commands that resuming would run."""
    if solution.copies:  # it may be impossible, as with a turn that does not exist
        choice = CopyChoice(solution.is_repaired, wanted.turn, program.version)
        copy_for_resume(plan, choice, dry_run=True)
    *copying, resuming = _commands(plan, program, wanted, solution)
    if wanted.as_json:
        view = {
            "id": plan.id,
            "path": plan.path,
            "directory": plan.directory,
            "copy": next(iter(copying), None),
            "command": resuming,
            "findings": plan.findings,
            "is_open": plan.is_open,
        }
        echo_json(view)
        return
    for line in (*copying, resuming):
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
