"""Variables that hooks leave for the commands to come.

The file is a script that a project's hook may have written: it runs without credentials, and
cannot set where they are sent.
"""

import os
from pathlib import Path

from turnlog.agent.hooks.command_hooks import HookCommand, run_command
from turnlog.agent.workspace.project_environment import is_routing, without_credentials
from turnlog.store.paths import Store

READ = 'set -a; . "$0" >&2; env -0'
PATIENCE = 10.0
OWN = frozenset({"_", "PWD", "OLDPWD", "SHLVL"})
"""Variables that a shell sets by itself."""


def fresh_env_file(store: Store, session_id: str) -> Path:
    """Where hooks may leave variables; those of an earlier start are gone."""
    path = store.root / "session-env" / session_id / "hooks.sh"
    path.unlink(missing_ok=True)
    return path


async def left_variables(path: Path) -> dict[str, str]:
    """The variables that a file sets, as the shell sees it; none where it fails."""
    if not path.is_file():
        return {}
    argv = ("/bin/sh", "-c", READ, str(path))
    environment = without_credentials(os.environ)
    command = HookCommand(argv, str(path), path.parent, environment, b"", PATIENCE)
    run = await run_command("SessionStart", "SessionStart", command)
    pairs = [pair.partition("=") for pair in run.stdout.split("\0") if "=" in pair]
    found = {name: value for name, _, value in pairs if name not in OWN and not is_routing(name)}
    is_new = {name for name, value in found.items() if os.environ.get(name) != value}
    return {name: found[name] for name in sorted(is_new)} if run.exit_code == 0 else {}
