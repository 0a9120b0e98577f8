"""Teams of users: `teams.toml`, in the lake or given by path.

```toml
[teams]
platform = ["ada", "grace"]
web = ["linus", "h-0f3a…"]   # users of a lake with hashed names, as `--by user` shows them
```
"""

from pathlib import Path
from typing import Any

from turnlog.errors import NotFound, UsageError
from turnlog.format.json_values import is_array, is_object
from turnlog.lake.lake_storage import LakeStorage, PartGone
from turnlog.store.configuration import parse_toml

TEAMS_FILE = "teams.toml"
EXAMPLE = 'teams.toml: [teams] web = ["ada", "linus"]'


def read_teams(storage: LakeStorage) -> dict[str, str]:
    """Return the team of each user from the file in a lake; empty if there is no file."""
    try:
        content = storage.read(TEAMS_FILE)
    except PartGone:
        return {}
    return parse_teams(content, f"{storage.dest}/{TEAMS_FILE}")


def load_teams(path: Path) -> dict[str, str]:
    """Return the team of each user from a local file."""
    try:
        return parse_teams(path.read_bytes(), str(path))
    except OSError as error:
        raise NotFound(f"cannot read {path}: {error.strerror}", EXAMPLE) from error


def parse_teams(content: bytes, where: str) -> dict[str, str]:
    """Return the team of each user; raise if a user is in two teams and would count twice."""
    try:
        found = parse_toml(content)
    except ValueError as error:
        raise UsageError(f"{where}: {error}", EXAMPLE) from error
    teams: Any = found.get("teams")
    if not is_object(teams):
        raise UsageError(f"{where} has no table [teams]", EXAMPLE)
    members: dict[str, str] = {}
    for team, users in teams.items():
        if not is_array(users) or not all(isinstance(user, str) for user in users):
            raise UsageError(f"{where}: {team} is not a list of users", EXAMPLE)
        for user in map(str, users):
            if members.setdefault(user, team) != team:
                raise UsageError(f"{where}: {user} is in {members[user]} and in {team}", EXAMPLE)
    return members
