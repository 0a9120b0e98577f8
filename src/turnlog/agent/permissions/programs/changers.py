"""Programs that only change files: in the mode `acceptEdits`, they run without asking."""

from turnlog.agent.permissions.programs.expressions import ZONE_FILE
from turnlog.agent.permissions.programs.sed import parse_sed
from turnlog.agent.permissions.programs.usage import ProgramEffect, ProgramUsage, parse_arguments

CHANGERS: dict[str, ProgramUsage] = {
    "cp": ProgramUsage(
        "aRrfinpuvPx", long="force no-clobber recursive verbose", operands="path..."
    ),
    "mkdir": ProgramUsage("pv", "m", "parents verbose", "mode"),
    "mv": ProgramUsage("finuv", long="force no-clobber verbose"),
    "rm": ProgramUsage("dfiIrRv", long="dir force recursive verbose"),
    "rmdir": ProgramUsage("v", long="verbose"),
    "tee": ProgramUsage("ai", long="append"),
    "touch": ProgramUsage("acm", "dt", "no-create", "date"),
}
REMOVERS = frozenset(("rm", "rmdir"))
WRITERS = CHANGERS.keys() | frozenset(
    """
    chgrp chmod chown csplit dd ed ex install ln patch rsync scp sed shred split sponge tar
    truncate unlink unzip vi vim
    """.split()
)
"""Programs whose operands may be written, whatever their options are."""
COPIERS = frozenset(("cp", "mv"))
DOTS = frozenset(("", ".", ".."))


def change_files(name: str, arguments: tuple[str, ...]) -> ProgramEffect | None:
    """Return what a program changes; None if it is not listed or might have other effects."""
    if name == "sed":
        found = parse_sed(arguments)
        return ProgramEffect(writes=found.paths) if found and found.in_place else None
    usage = CHANGERS.get(name)
    parsed = parse_arguments(arguments, usage) if usage else None
    # Only GNU programs accept options after operands: elsewhere, `mkdir a -m ../b` creates `../b`.
    if not parsed or parsed.late_options:
        return None
    if name == "touch" and any(ZONE_FILE in each for each in arguments):
        return None
    paths = tuple(parsed.operands)
    roles = tuple("path" if role == "operand" else role for role in parsed.roles)
    if name in COPIERS:
        return _copy(name, paths, roles)
    is_recursive = name == "rm" and bool(parsed.options & {"-r", "-R", "--recursive"})
    removes = paths if name in REMOVERS else ()
    return ProgramEffect(writes=paths, removes=removes, is_recursive=is_recursive, roles=roles)


def _copy(name: str, paths: tuple[str, ...], roles: tuple[str, ...]) -> ProgramEffect | None:
    sources, target = paths[:-1], paths[-1:]
    # The content of `dir/.` lands in the target under names that the command does not mention.
    if not sources or any(each.rstrip("/").rpartition("/")[2] in DOTS for each in sources):
        return None
    writes = paths if name == "mv" else target
    removes = sources if name == "mv" else ()
    return ProgramEffect(
        sources, writes, moved=sources, removes=removes, is_recursive=True, roles=roles
    )
