"""Plugins that the client has installed: what settings can do with them, and hostile ones."""

from pathlib import Path

import pytest

from support.plugins import (
    MARKET,
    add_hook,
    install,
    make_marketplace,
    make_plugin,
    write_json,
    write_text,
)
from turnlog.agent.config.agent_definitions import load_agents
from turnlog.agent.config.custom_commands import load_commands
from turnlog.agent.config.definition_directories import DefinitionFiles
from turnlog.agent.config.installed_plugins import FoundPlugins, find_plugins
from turnlog.agent.config.output_styles import load_styles
from turnlog.agent.config.plugins import read_plugin
from turnlog.agent.config.settings import Settings, load
from turnlog.errors import UsageError
from turnlog.format.json_values import Fields
from turnlog.store.paths import Store

ID = f"fmt@{MARKET}"


class Machine:
    """A user with a project and a plugin in the client's cache."""

    def __init__(self, store: Store, project: Path) -> None:
        self.store = store
        self.project = project
        self.root = store.root / "plugins/cache/team/fmt/1.2.3"
        self.shared = project / ".claude/settings.json"
        self.managed = project.parent / "managed-settings.json"

    def settings(self, is_trusted: bool = False) -> Settings:
        return load(self.store, self.project, self.managed, is_trusted=lambda path: is_trusted)

    def found(self, is_trusted: bool = False, uses_user: bool = True) -> FoundPlugins:
        settings = self.settings(is_trusted)
        return find_plugins(self.store, settings, (), uses_user, lambda: is_trusted)

    def names(self, is_trusted: bool = False, uses_user: bool = True) -> list[str]:
        return [plugin.name for plugin in self.found(is_trusted, uses_user).plugins]


@pytest.fixture
def machine(store: Store, project: Path) -> Machine:
    return Machine(store, project)


@pytest.fixture
def installed(machine: Machine) -> Machine:
    install(machine.store, make_plugin(machine.root))
    return machine


def test_an_installed_plugin_is_loaded_unless_it_is_turned_off(installed: Machine) -> None:
    assert installed.names() == ["fmt"]
    write_json(installed.store.settings, enabledPlugins={ID: False})
    assert installed.names() == []
    write_json(installed.store.settings, enabledPlugins={ID: True})
    assert installed.names() == ["fmt"]


def test_a_plugin_may_be_off_by_default(machine: Machine) -> None:
    install(machine.store, make_plugin(machine.root, defaultEnabled=False))
    assert machine.names() == []
    write_json(machine.store.settings, enabledPlugins={ID: True})
    assert machine.names() == ["fmt"]


def test_a_plugin_of_one_project_counts_there_only(machine: Machine) -> None:
    make_plugin(machine.root)
    install(machine.store, machine.root, scope="project", projectPath="/somewhere/else")
    write_json(machine.store.settings, enabledPlugins={ID: True})
    assert machine.names() == []
    install(machine.store, machine.root, scope="project", projectPath=str(machine.project))
    assert machine.names() == ["fmt"]


def test_without_the_users_settings_none_of_theirs_is_loaded(installed: Machine) -> None:
    assert installed.names(uses_user=False) == []


def test_an_untrusted_project_turns_plugins_neither_on_nor_off(installed: Machine) -> None:
    write_json(installed.store.settings, enabledPlugins={ID: False})
    write_json(installed.shared, enabledPlugins={ID: True})
    assert installed.names() == []
    assert installed.settings().ignored == [f"{installed.shared} (enabledPlugins)"]
    assert installed.names(is_trusted=True) == ["fmt"]
    write_json(installed.store.settings, enabledPlugins={ID: True})
    write_json(installed.shared, enabledPlugins={ID: False})
    assert installed.names() == ["fmt"]
    assert installed.names(is_trusted=True) == []


def test_a_trusted_project_cannot_enable_what_is_not_installed(machine: Machine) -> None:
    market = make_marketplace(machine.project.parent / "market", "fmt")
    make_plugin(market / "fmt")
    known = {MARKET: {"source": {"source": "directory", "path": str(market)}}}
    write_json(machine.shared, enabledPlugins={ID: True})
    write_json(machine.store.settings, extraKnownMarketplaces=known)
    assert machine.names(is_trusted=True) == []
    write_json(machine.shared, enabledPlugins={ID: True}, extraKnownMarketplaces=known)
    assert machine.names(is_trusted=True) == []
    assert "outside of the project" in machine.found(is_trusted=True).problems[0]


def test_a_projects_marketplace_needs_trust(machine: Machine) -> None:
    make_plugin(make_marketplace(machine.project / "market", "fmt") / "fmt")
    known = {MARKET: {"source": {"source": "directory", "path": "./market"}}}
    write_json(machine.shared, enabledPlugins={ID: True}, extraKnownMarketplaces=known)
    assert machine.names() == []
    (plugin,) = machine.found(is_trusted=True).plugins
    assert plugin.source.is_project
    # The user's own settings enable it by name; what lies in the project still needs trust.
    write_json(
        machine.store.settings,
        enabledPlugins={ID: True},
        extraKnownMarketplaces={
            MARKET: {"source": {"source": "directory", "path": str(machine.project / "market")}}
        },
    )
    machine.shared.unlink()
    assert machine.names() == []
    assert "try: --trust" in machine.found().problems[0]


def test_an_installation_in_the_project_needs_trust(machine: Machine) -> None:
    install(machine.store, make_plugin(machine.project / "plugins/fmt"))
    assert machine.names() == []
    assert machine.names(is_trusted=True) == ["fmt"]


def test_a_marketplace_in_the_project_adds_nothing_to_an_installed_plugin(
    machine: Machine,
) -> None:
    hook = {"SessionStart": [{"hooks": [{"type": "command", "command": "touch x"}]}]}
    for place, expected in ((machine.project / "m", {}), (machine.project.parent / "m", hook)):
        make_marketplace(place, "fmt", hooks=hook)
        known = {"source": {"source": "directory"}, "installLocation": str(place)}
        write_json(machine.store.root / "plugins/known_marketplaces.json", **{MARKET: known})
        install(machine.store, make_plugin(machine.root))
        (plugin,) = machine.found(is_trusted=True).plugins
        assert list(plugin.hooks) == list(expected)


@pytest.mark.parametrize("kind", ["directory", "github"])
def test_only_a_plugin_of_a_marketplace_in_a_directory_is_read_there(
    installed: Machine, kind: str
) -> None:
    market = make_marketplace(installed.project.parent / "market", "fmt")
    inner = make_plugin(market / "fmt")
    known = {"source": {"source": kind}, "installLocation": str(market)}
    write_json(installed.store.root / "plugins/known_marketplaces.json", **{MARKET: known})
    (plugin,) = installed.found().plugins
    assert plugin.root == (inner if kind == "directory" else installed.root)


def test_the_organisation_has_the_last_word(installed: Machine) -> None:
    write_json(installed.store.settings, enabledPlugins={ID: True})
    write_json(installed.managed, enabledPlugins={ID: False})
    assert installed.names() == []
    source = {"source": "github", "repo": "acme/tools"}
    known = {MARKET: {"source": source, "installLocation": "/nowhere"}}
    write_json(installed.store.root / "plugins/known_marketplaces.json", **known)
    policies: list[tuple[Fields, list[str]]] = [
        ({"strictKnownMarketplaces": []}, []),
        ({"strictKnownMarketplaces": [source]}, ["fmt"]),
        ({"blockedMarketplaces": [source]}, []),
        ({"blockedMarketplaces": [{"source": "hostPattern", "hostPattern": ".*"}]}, []),
        ({"blockedMarketplaces": [{"source": "github", "repo": "acme/other"}]}, ["fmt"]),
    ]
    for policy, expected in policies:
        write_json(installed.managed, **policy)
        assert installed.names() == expected, policy


def test_a_plugin_brings_files_of_each_kind(installed: Machine) -> None:
    files = DefinitionFiles(installed.store, installed.project)
    files.add_plugins(installed.found().plugins)
    commands = load_commands(installed.store, installed.project, files)
    assert commands["fmt:go"].body == f"Go to {installed.root} now"
    assert commands["fmt:tidy"].is_skill
    agent = load_agents(installed.store, installed.project, files)["fmt:rev"]
    assert (agent.prompt, agent.permission_mode) == (f"Review {installed.root}.", None)
    assert "fmt:pirate" in load_styles(files)
    (plugin,) = files.plugins
    assert (plugin.source.id, plugin.root, plugin.version) == (ID, installed.root, "1.2.3")


def test_a_manifest_names_other_places(tmp_path: Path, store: Store, project: Path) -> None:
    inline = {"notes": {"command": "${CLAUDE_PLUGIN_ROOT}/serve"}}
    root = make_plugin(
        tmp_path / "fmt",
        commands=["./extra/hey.md", "./more"],
        skills="./other",
        hooks={"Stop": [{"hooks": []}]},
        mcpServers=["./servers.json", inline],
    )
    write_text(root / "extra/hey.md", "Hey")
    write_text(root / "more/ho.md", "Ho")
    write_text(root / "other/wash/SKILL.md", "---\ndescription: washes\n---\nWash.")
    write_json(root / "servers.json", mcpServers={"db": {"command": "db"}})
    plugin = read_plugin(root)
    files = DefinitionFiles(store, project).add_plugins([plugin])
    found = load_commands(store, project, files)
    named = {"fmt:hey", "fmt:ho", "fmt:tidy", "fmt:wash"}
    assert {name for name in found if name.startswith("fmt:")} == named
    assert list(plugin.hooks) == ["Stop"]
    assert plugin.servers == {"db": {"command": "db"}, "notes": {"command": f"{root}/serve"}}


def test_a_plugin_may_be_a_single_skill(tmp_path: Path, store: Store, project: Path) -> None:
    write_text(tmp_path / "1.0.0/SKILL.md", "---\nname: neat\ndescription: d\n---\nBe neat.")
    write_json(tmp_path / "1.0.0/.claude-plugin/plugin.json", name="solo")
    files = DefinitionFiles(store, project).add_plugins([read_plugin(tmp_path / "1.0.0")])
    assert load_commands(store, project, files)["solo:neat"].body == "Be neat."


@pytest.mark.parametrize(
    "manifest",
    [
        {"commands": "../secret"},
        {"agents": ["/etc"]},
        {"skills": "./../secret"},
        {"hooks": "./link/hooks.json"},
        {"mcpServers": "~/servers.json"},
        {"outputStyles": ["./\0"]},
        {"commands": [{"a": 1}]},
        {"name": "../../x"},
        {"name": "a b"},
    ],
)
def test_hostile_manifests_are_refused(installed: Machine, manifest: dict[str, object]) -> None:
    write_text(installed.root.parent / "secret/x.md", "secret")
    (installed.root / "link").symlink_to(installed.root.parent / "secret")
    write_json(installed.root / ".claude-plugin/plugin.json", **{"name": "fmt"} | manifest)
    found = installed.found()
    assert found.plugins == ()
    assert found.problems[0].startswith(f"plugin {ID} is not loaded: ")


def test_links_that_leave_a_plugin_are_not_followed(installed: Machine) -> None:
    secret = write_text(installed.project / "secret.md", "---\ndescription: d\n---\nsecret")
    (installed.root / "commands/stolen.md").symlink_to(secret)
    (installed.root / "skills/stolen").symlink_to(secret.parent)
    files = DefinitionFiles(installed.store, installed.project)
    files.add_plugins(installed.found().plugins)
    assert "fmt:stolen" not in load_commands(installed.store, installed.project, files)
    assert "outside of the plugin" in " ".join(files.problems)
    (installed.root / ".mcp.json").symlink_to(write_json(installed.project / "s.json", a={}))
    assert "links to outside of the plugin" in installed.found().problems[0]


def test_huge_deep_and_special_files_stop_a_plugin_not_the_chat(installed: Machine) -> None:
    hooks = installed.root / "hooks/hooks.json"
    for content in ("[" * 100_000, '{"a":' * 600 + "1" + "}" * 600, " " * (5 << 20), "[]"):
        write_text(hooks, content)
        found = installed.found()
        assert (len(found.plugins), len(found.problems)) in ((0, 1), (1, 0)), content[:10]
    write_text(installed.store.root / "plugins/installed_plugins.json", "{" * 100_000)
    assert installed.names() == []
    assert "cannot be read" in installed.found().problems[0]


@pytest.mark.parametrize("name", ["fmt", "../x@team", "fmt@", "@team", "a b@team", "fmt@../x"])
def test_an_odd_id_is_ignored(machine: Machine, name: str) -> None:
    record = {"scope": "user", "installPath": str(make_plugin(machine.root))}
    write_json(machine.store.root / "plugins/installed_plugins.json", plugins={name: [record]})
    assert machine.names() == []


def test_one_of_two_plugins_of_a_name_is_loaded(installed: Machine) -> None:
    install(installed.store, make_plugin(installed.root.parent / "other"), "zzz")
    found = installed.found()
    assert [plugin.source.id for plugin in found.plugins] == [ID]
    assert "another plugin has the name fmt" in found.problems[0]
    given = read_plugin(make_plugin(installed.project.parent / "given"))
    found = find_plugins(installed.store, installed.settings(), [given])
    assert [plugin.root for plugin in found.plugins] == [given.root]


def test_hooks_of_plugins_are_turned_off_with_all_others(installed: Machine) -> None:
    assert installed.settings().runs_hooks(is_managed=False)
    write_json(installed.store.settings, disableAllHooks=True)
    assert not installed.settings().runs_hooks(is_managed=False)
    write_json(installed.managed, allowManagedHooksOnly=True)
    settings = installed.settings()
    assert (settings.runs_hooks(is_managed=False), settings.runs_hooks(is_managed=True)) == (
        False,
        True,
    )


def test_a_hook_cannot_choose_its_origin(installed: Machine) -> None:
    group: Fields = {
        "is_project": False,
        "variables": {"LD_PRELOAD": "/x"},
        "plugin": "other",
        "hooks": [],
    }
    write_json(installed.root / "hooks/hooks.json", hooks={"Stop": [group]})
    (plugin,) = installed.found().plugins
    (marked,) = plugin.hooks["Stop"]
    data = str(installed.store.root / "plugins/data/fmt-team")
    places = {"CLAUDE_PLUGIN_ROOT": str(installed.root), "CLAUDE_PLUGIN_DATA": data}
    assert (marked["plugin"], marked["variables"]) == (ID, places)


def test_a_path_that_a_shell_would_read_is_refused(store: Store, tmp_path: Path) -> None:
    root = make_plugin(tmp_path / "$(touch x)")
    add_hook(root, "Stop", "${CLAUDE_PLUGIN_ROOT}/x")
    with pytest.raises(UsageError, match="special to a shell"):
        read_plugin(root)
