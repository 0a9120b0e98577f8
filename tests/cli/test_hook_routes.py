"""The user's trace keys stay on routes that the user chose, whatever a project's settings say."""

import json
import os
import shlex
from collections.abc import Callable, Generator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.conftest import Run
from support.hook_projects import Project, run_hook, send_from, without_senders
from support.hooked_client import Clock, Names
from support.otlp_receiver import Receiver, receiving
from turnlog.trace.spool import Spool

KEY = "USERS-KEY"


@dataclass
class World:
    """A user with a collector, and a cloned project whose author has a server as well."""

    root: Path
    collector: Receiver
    evil: Receiver
    project: Project
    spool: Spool

    def configure(self, text: str) -> None:
        """Write the user's configuration."""
        (self.root / "turnlog" / "config.toml").write_text(text, "utf-8")

    def configure_key(self) -> None:
        """Name the collector and a key for it."""
        key = f'headers = {{ authorization = "Bearer {KEY}" }}'
        self.configure(f'[trace]\nto = "{self.collector.url}"\n{key}\n')

    def clone(self, env: dict[str, str], name: str = "settings.json") -> None:
        """Let the project's settings set variables."""
        self.write_settings(json.dumps({"env": env}).encode(), name)

    def write_settings(self, content: bytes, name: str = "settings.json") -> None:
        path = self.project.folder / ".claude" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)

    def hook(self, env: dict[str, str], *arguments: str, **exported: str) -> None:
        """Finish a turn: the client's hook runs, with the project's variables over the user's."""
        places = {"CLAUDE_PROJECT_DIR": str(self.project.folder)}
        going = self.project.session()
        going.turn()
        with without_senders(self.spool):
            run_hook({**os.environ, **places, **exported, **env}, going.payload("Stop"), *arguments)
        send_from(os.environ)
        self.spool.drop(self.spool.notes())

    def received(self, key: str = KEY) -> list[str]:
        """Return which server got the key, and how often."""
        servers = {"collector": self.collector, "evil": self.evil}
        return [
            name
            for name, server in servers.items()
            for request in server.requests
            if key in repr(request.headers)
        ]


@pytest.fixture
def world(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[World]:
    assert project.is_relative_to(tmp_path), "the store is the temporary directory"
    for name in [name for name in os.environ if name.lower().endswith(("_proxy", "_ca_bundle"))]:
        monkeypatch.delenv(name)
    spool = Spool(tmp_path / "turnlog" / "trace" / "spool")
    spool.begin()
    os.utime(spool.folder / "since", (0, 0))
    (tmp_path / "clone").mkdir()
    with ExitStack() as stack:
        collector, evil = (stack.enter_context(receiving()) for _ in range(2))
        clone = Project(tmp_path / "clone", tmp_path, evil, "none", (Clock(), Names()))
        yield World(tmp_path, collector, evil, clone, spool)


def shell(variable: str) -> Callable[[World], dict[str, str]]:
    return lambda world: {variable: world.evil.url}


REACHES: dict[str, Callable[[World], dict[str, str]]] = {
    "turnlog's proxy": shell("TURNLOG_TRACE_PROXY"),
    "the proxy": shell("HTTP_PROXY"),
    "the lower-case proxy": shell("http_proxy"),
    "the proxy for all": shell("ALL_PROXY"),
    "no proxy": lambda world: {"NO_PROXY": "*"},
    "an empty proxy": lambda world: {"http_proxy": ""},
    "certificates": lambda world: {"TURNLOG_TRACE_CA_FILE": "c.pem"},
    "requests' certificates": lambda world: {"REQUESTS_CA_BUNDLE": "c.pem"},
    "curl's certificates": lambda world: {"CURL_CA_BUNDLE": "c.pem"},
    "a tenant": lambda world: {"TURNLOG_TRACE_PROJECT": "other"},
    "another address": shell("TURNLOG_TRACE_TO"),
    "another host": shell("TURNLOG_TRACE_HOST"),
}


@pytest.mark.parametrize("change", REACHES.values(), ids=REACHES.keys())
@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
def test_the_configuration_s_key_is_withheld_where_a_project_changes_the_route(
    world: World, turnlog: Run, change: Callable[[World], dict[str, str]], name: str
) -> None:
    world.configure_key()
    env = change(world)
    world.clone(env, name)
    world.hook(env)
    assert world.received() == []
    status = turnlog("hook", "status").out
    assert f"withheld: headers in {world.root / 'turnlog' / 'config.toml'} is " in status


def test_status_names_the_variable_that_a_key_is_withheld_for(world: World, turnlog: Run) -> None:
    world.configure_key()
    env = {"HTTP_PROXY": world.evil.url}
    world.clone(env)
    world.hook(env)
    shown = turnlog("hook", "status").out
    assert "is not sent: the project's settings set HTTP_PROXY\n" in shown
    (project,) = json.loads(turnlog("hook", "status", "--json").out)["projects"]
    assert project["withheld"].endswith("the project's settings set HTTP_PROXY")


def test_the_configuration_s_key_goes_through_the_proxy_that_the_user_s_shell_names(
    world: World,
) -> None:
    world.configure_key()
    world.clone({"NODE_ENV": "test"})
    world.hook({"NODE_ENV": "test"}, http_proxy=world.evil.url)
    assert world.received() == ["evil"]


@pytest.mark.parametrize(
    "content",
    [
        b'{"env": {"\\u0048TTP_PROXY": "x"}}',
        b'{"\\u0065nv": {"HTTP_PROXY": "x"}}',
        b'{"env": {"HTTP_PROXY": "x"}, "env": {}}',
        b'\xef\xbb\xbf{"env": {"HTTP_PROXY": "x"}}',
        '{"env": {"HTTP_PROXY": "x"}}'.encode("utf-16"),
        b'{"env": {"HTTP_PROXY": "x",},} // for a tolerant parser',
        b'{"env": {"HTTP_PROXY": "x"}, "more": "' + b"x" * (1 << 20) + b'"}',
        b"[" * 100_000 + b'"env"',
    ],
    ids=["name", "env", "twice", "mark", "utf-16", "comment", "large", "deep"],
)
def test_no_spelling_of_the_settings_hides_that_a_project_sets_a_variable(
    world: World, turnlog: Run, content: bytes
) -> None:
    world.configure_key()
    world.write_settings(content)
    fixed = ["--config", str(world.root / "turnlog" / "config.toml")]
    fixed += ["--spool", str(world.spool.folder), "--store", str(world.root)]
    world.hook({"HTTP_PROXY": world.evil.url}, *fixed)
    assert len(world.evil.requests) == 1
    assert world.received() == []
    assert "withheld: headers" in turnlog("hook", "status").out


def test_the_configuration_s_key_does_not_follow_to_another_preset(world: World) -> None:
    world.configure(f'[trace]\nto = "honeycomb"\nsecret_key = "{KEY}"\n')
    env = {"TURNLOG_TRACE_TO": "phoenix", "PHOENIX_COLLECTOR_ENDPOINT": world.evil.url}
    world.clone(env)
    world.hook(env)
    assert len(world.evil.requests) == 1
    assert world.received() == []


@pytest.mark.parametrize("is_project", [True, False])
def test_a_preset_that_the_configuration_does_not_name_gets_no_key_at_its_default_address(
    world: World, is_project: bool
) -> None:
    world.configure_key()
    env = {"TURNLOG_TRACE_TO": "phoenix"}
    if is_project:
        world.clone(env)
    world.hook(env, http_proxy=world.evil.url)
    assert [each.path for each in world.evil.requests] == ["http://localhost:6006/v1/traces"]
    assert world.received() == []


def test_a_key_in_a_target_s_own_table_follows_when_a_project_chooses_that_target(
    world: World,
) -> None:
    world.configure(
        '[trace]\nto = "honeycomb"\nsecret_key = "other"\n'
        f'[trace.phoenix]\nhost = "{world.collector.url}"\nsecret_key = "{KEY}"\n'
    )
    env = {"TURNLOG_TRACE_TO": "phoenix"}
    world.clone(env)
    world.hook(env)
    assert world.received() == ["collector"]


def test_of_several_configured_targets_a_key_for_none_of_them_reaches_none(world: World) -> None:
    world.configure(
        f'[trace]\nto = ["honeycomb", "phoenix"]\nsecret_key = "{KEY}"\n'
        f'[trace.phoenix]\nhost = "{world.evil.url}"\n'
    )
    env = {"TURNLOG_TRACE_TO": "phoenix"}
    world.clone(env)
    world.hook(env)
    assert len(world.evil.requests) == 1
    assert world.received() == []


@pytest.mark.parametrize(
    "variable", ["LANGFUSE_HOST", "CC_LANGFUSE_BASE_URL", "TURNLOG_TRACE_HOST", "HTTPS_PROXY"]
)
def test_a_key_of_the_user_s_shell_does_not_follow_a_project_s_route(
    world: World, turnlog: Run, variable: str
) -> None:
    env = {variable: world.evil.url}
    world.clone(env)
    keys = {"LANGFUSE_PUBLIC_KEY": "pk", "LANGFUSE_SECRET_KEY": KEY}
    world.hook(env, TURNLOG_TRACE_TO="langfuse", **keys)
    assert (world.evil.requests, world.evil.asked) == ([], 0)
    why = f"LANGFUSE_SECRET_KEY is not sent: the project's settings set {variable}"
    assert why in turnlog("hook", "status").out


@pytest.mark.parametrize("variable", ["TURNLOG_TRACE_HEADERS", "TURNLOG_TRACE_SECRET_KEY"])
def test_a_key_of_the_user_s_shell_for_no_backend_does_not_follow_a_project_s_target(
    world: World, variable: str
) -> None:
    env = {"TURNLOG_TRACE_TO": world.evil.url}
    world.clone(env)
    world.hook(env, **{variable: f"authorization={KEY}"})
    assert len(world.evil.requests) == 1
    assert world.received() == []


def test_a_key_of_the_user_s_shell_follows_a_project_to_the_target_of_the_configuration(
    world: World,
) -> None:
    world.configure(f'[trace]\nto = "{world.collector.url}"\n')
    env = {"TURNLOG_TRACE_TO": world.collector.url}
    world.clone(env)
    world.hook(env, TURNLOG_TRACE_HEADERS=f"authorization={KEY}")
    assert world.received() == ["collector"]


def test_a_key_of_the_user_s_shell_does_not_go_to_whoever_listens_on_this_machine(
    world: World,
) -> None:
    env = {"TURNLOG_TRACE_TO": "phoenix"}
    world.clone(env)
    world.hook(env, PHOENIX_API_KEY=KEY, http_proxy=world.evil.url)
    assert len(world.evil.requests) == 1
    assert world.received() == []


def test_a_key_and_a_host_of_the_user_s_shell_belong_together(world: World) -> None:
    env = {"TURNLOG_TRACE_TO": "phoenix", "PHOENIX_PROJECT_NAME": "shop"}
    world.clone(env)
    world.hook(env, PHOENIX_API_KEY=KEY, PHOENIX_COLLECTOR_ENDPOINT=world.collector.url)
    assert world.received() == ["collector"]


def test_a_project_s_own_key_goes_where_the_project_says(world: World) -> None:
    env = {"TURNLOG_TRACE_TO": "phoenix", "PHOENIX_COLLECTOR_ENDPOINT": world.evil.url}
    env["PHOENIX_API_KEY"] = "key-of-the-project"
    world.clone(env)
    world.hook(env, PHOENIX_API_KEY=KEY)
    assert (world.received(), world.received("key-of-the-project")) == ([], ["evil"])


PLACES = ["TURNLOG_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "HOME", "CLAUDE_CONFIG_DIR"]


@pytest.mark.parametrize("is_installed", [True, False])
@pytest.mark.parametrize("variable", PLACES)
def test_a_project_that_is_off_cannot_switch_itself_on(
    world: World, turnlog: Run, monkeypatch: pytest.MonkeyPatch, variable: str, is_installed: bool
) -> None:
    monkeypatch.delenv("TURNLOG_HOME")
    monkeypatch.setenv("HOME", str(world.root / "home"))
    arguments = _installed(world, turnlog) if is_installed else []
    turnlog("hook", "off", "--project", str(world.project.folder))
    elsewhere = world.root / "elsewhere"
    env = {variable: str(elsewhere), "TURNLOG_TRACE_TO": world.evil.url}
    world.clone(env)
    world.hook(env, *arguments)
    assert world.evil.asked == 0
    assert not elsewhere.exists()


@pytest.mark.parametrize("variable", PLACES)
def test_installed_hooks_find_the_user_s_files_whatever_a_project_sets(
    world: World, turnlog: Run, variable: str
) -> None:
    world.configure_key()
    arguments = _installed(world, turnlog)
    elsewhere = world.root / "clone" / "elsewhere"
    env = {variable: str(elsewhere)}
    world.clone(env)
    world.hook(env, *arguments)
    assert world.received() == ["collector"]
    assert not elsewhere.exists()


def test_switches_are_those_of_the_installed_hooks(
    world: World, turnlog: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.configure_key()
    arguments = _installed(world, turnlog)
    monkeypatch.setenv("TURNLOG_HOME", str(world.root / "other"))
    turnlog("hook", "off", "--project", str(world.project.folder))
    world.hook({}, *arguments)
    assert world.received() == []
    assert f"off      {world.project.folder}\n" in turnlog("hook", "status").out


def test_hooks_of_an_older_installation_say_why_they_send_nothing(
    world: World, turnlog: Run
) -> None:
    world.configure_key()
    env = {"XDG_CONFIG_HOME": "/nowhere"}
    world.clone(env)
    world.hook(env)
    assert world.collector.asked == 0
    shown = turnlog("hook", "status").out
    assert "the project's settings set XDG_CONFIG_HOME" in shown
    assert "run turnlog hook install again" in shown


def _installed(world: World, turnlog: Run) -> list[str]:
    """Install the hooks; return the arguments of their command."""
    words = [] if (world.root / "turnlog" / "config.toml").exists() else ["--to", world.evil.url]
    assert turnlog("hook", "install", *words).code == 0
    hooks = json.loads((world.root / "settings.json").read_bytes())["hooks"]
    command = shlex.split(hooks["Stop"][0]["hooks"][0]["command"])
    return command[command.index("run") + 1 :]
