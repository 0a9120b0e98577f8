"""Targets of spans: what each requires, and where settings come from."""

from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from turnlog.errors import UsageError
from turnlog.store.directories import config_path
from turnlog.trace.content import ContentMode
from turnlog.trace.span import ToolPlacement
from turnlog.trace.targets import FileTarget, Target, backend_of, target_of
from turnlog.trace.trace_settings import TraceSettings, convert_settings, load_targets, state_folder


def target(**settings: Any) -> Target:
    found = target_of(TraceSettings(**settings))
    assert isinstance(found, Target)
    return found


def test_langfuse_wants_its_keys_and_the_newest_ingestion() -> None:
    found = target(to="langfuse", public_key="pk", secret_key="sk", host="https://lf.example/")
    assert found.url == "https://lf.example/api/public/otel/v1/traces"
    assert found.headers["x-langfuse-ingestion-version"] == "4"
    scheme, _, keys = found.headers["authorization"].partition(" ")
    assert (scheme, b64decode(keys)) == ("Basic", b"pk:sk")


def test_langfuse_is_in_the_cloud_unless_told_otherwise() -> None:
    found = target(to="langfuse", public_key="pk", secret_key="sk")
    assert found.url == "https://cloud.langfuse.com/api/public/otel/v1/traces"


def test_langfuse_without_keys_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="key"):
        target(to="langfuse", public_key="pk")


def test_phoenix_is_told_the_project_by_the_resource() -> None:
    found = target(to="phoenix")
    assert found.url == "http://localhost:6006/v1/traces"
    assert found.resource == {"openinference.project.name": "claude-code"}
    assert found.headers == {}
    keyed = target(to="phoenix", project="shop", secret_key="k", host="http://p:1")
    assert keyed.url == "http://p:1/v1/traces"
    assert keyed.resource == {"openinference.project.name": "shop"}
    assert keyed.headers == {"authorization": "Bearer k"}


def test_mlflow_is_told_the_experiment_by_a_header() -> None:
    found = target(to="mlflow", project="7")
    assert found.url == "http://localhost:5000/v1/traces"
    assert found.headers == {"x-mlflow-experiment-id": "7"}


def load_settings(typed: dict[str, Any], environment: dict[str, str]) -> TraceSettings:
    """Load the settings of the only target."""
    (found,) = load_targets(typed, environment)
    return found


def test_an_address_is_taken_as_it_is_or_gets_the_path_of_otlp() -> None:
    assert target(to="http://c:4318").url == "http://c:4318/v1/traces"
    assert target(to="https://c/otlp/traces?x=1").url == "https://c/otlp/traces?x=1"


def test_header_values_in_a_variable_are_percent_decoded() -> None:
    held = "authorization=Basic%20YTpiPT0%3D,x-list=a%2Cb"
    settings = load_settings({"to": "http://c"}, {"TURNLOG_TRACE_HEADERS": held})
    assert settings.headers == {"authorization": "Basic YTpiPT0=", "x-list": "a,b"}


def test_further_headers_go_along() -> None:
    assert target(to="http://c", headers={"x-key": "v"}).headers == {"x-key": "v"}


@pytest.mark.parametrize("headers", [{"x-key": "secret\r\nx-b: 1"}, {"x key": "secret"}])
def test_a_header_that_would_break_the_request_is_an_error_that_names_no_value(
    headers: dict[str, str],
) -> None:
    with pytest.raises(UsageError) as caught:
        target(to="http://c", headers=headers)
    assert "secret" not in caught.value.message


def test_an_address_is_shown_without_its_password() -> None:
    assert target(to="https://ada:secret@c:1/x").address == "https://c:1/x"


def test_files_are_told_by_their_names() -> None:
    assert target_of(TraceSettings(to="out/t.json")) == FileTarget(Path("out/t.json"))
    for url in ("file:///tmp/my%20t.json", "file:/tmp/my t.json", "file://localhost/tmp/my t.json"):
        assert target_of(TraceSettings(to=url)) == FileTarget(Path("/tmp/my t.json"))
    assert target_of(TraceSettings(to="file:t.json")) == FileTarget(Path("t.json"))
    assert target_of(TraceSettings(to="perfetto:p.json")) == FileTarget(
        Path("p.json"), is_perfetto=True
    )


@pytest.mark.parametrize("to", [None, "nowhere", "ftp://x"])
def test_no_target_or_an_unknown_one_is_a_mistake(to: str | None) -> None:
    with pytest.raises(UsageError):
        target_of(TraceSettings(to=to))


@pytest.mark.parametrize(("to", "what"), [("", "no target"), ("nowhere", "unknown target")])
def test_hooks_are_not_offered_a_file(to: str, what: str) -> None:
    with pytest.raises(UsageError, match=f"{what}.*grafana or a URL\n") as caught:
        backend_of(TraceSettings(to=to))
    assert caught.value.hint == "turnlog hook install --to langfuse"
    with pytest.raises(UsageError, match=f"{what}.*grafana, a URL or FILE.json\n") as caught:
        target_of(TraceSettings(to=to))
    assert caught.value.hint == "turnlog trace last --to trace.json"


def test_targets_that_differ_have_different_names() -> None:
    one, other = target(to="mlflow", project="1"), target(to="mlflow", project="2")
    assert one.name == target(to="mlflow", project="1").name != other.name


def test_a_new_secret_makes_no_new_target() -> None:
    old = target(to="langfuse", public_key="pk", secret_key="old")
    assert old.name == target(to="langfuse", public_key="pk", secret_key="new").name
    assert old.name != target(to="langfuse", public_key="other", secret_key="old").name


def test_what_is_typed_counts_before_the_environment_and_that_before_the_configuration(
    tmp_path: Path,
) -> None:
    configuration = '[trace]\nto = "phoenix"\nuser = "conf"\nlayout = "nested"\ncontent = "none"\n'
    (tmp_path / "config.toml").write_text(configuration, "utf-8")
    environment = {
        "TURNLOG_HOME": str(tmp_path),
        "TURNLOG_TRACE_USER": "env",
        "TURNLOG_TRACE_CONTENT": "full",
        "TURNLOG_TRACE_MAX_CHARS": "50",
    }
    found = load_settings({"content": "redacted", "user": None}, environment)
    assert (found.to, found.layout, found.user) == ("phoenix", ToolPlacement.NESTED, "env")
    assert (found.content, found.max_chars) == (ContentMode.REDACTED, 50)


def test_a_target_has_a_table_of_its_own_in_the_configuration(tmp_path: Path) -> None:
    configuration = (
        '[trace]\nto = "langfuse"\n[trace.langfuse]\nhost = "https://lf"\npublic_key = "pk"\n'
        'secret_key = "sk"\n[trace.phoenix]\nproject = "shop"\n'
    )
    (tmp_path / "config.toml").write_text(configuration, "utf-8")
    home = {"TURNLOG_HOME": str(tmp_path)}
    assert load_settings({}, home).host == "https://lf"
    other = load_settings({"to": "phoenix"}, home)
    assert (other.host, other.project, other.secret_key) == (None, "shop", None)


def test_the_names_of_each_backend_s_own_tools_are_understood() -> None:
    environment = {
        "TURNLOG_HOME": "/nowhere",
        "LANGFUSE_PUBLIC_KEY": "pk",
        "CC_LANGFUSE_SECRET_KEY": "cc",
        "LANGFUSE_SECRET_KEY": "sk",
        "LANGFUSE_HOST": "https://lf",
        "PHOENIX_PROJECT_NAME": "shop",
        "MLFLOW_EXPERIMENT_ID": "7",
    }
    found = load_settings({"to": "langfuse"}, environment)
    assert (found.public_key, found.secret_key, found.host) == ("pk", "cc", "https://lf")
    phoenix = load_settings({"to": "phoenix"}, environment)
    assert (phoenix.host, phoenix.project, phoenix.secret_key) == (None, "shop", None)
    assert load_settings({"to": "mlflow"}, environment).project == "7"


def test_headers_in_a_variable_have_commas_between_them() -> None:
    environment = {"TURNLOG_HOME": "/nowhere", "TURNLOG_TRACE_HEADERS": "x-a=1, x-b=2=3"}
    assert load_settings({}, environment).headers == {"x-a": "1", "x-b": "2=3"}


@pytest.mark.parametrize(
    "text",
    [
        "[trace\n",
        "trace = 5",
        "[trace]\nto = 5",
        "[trace]\nto = 2026-01-01",
        '[trace]\nto = ["phoenix", 1]',
        '[trace]\nmax_chars = "many"\n',
        "[trace]\nmax_chars = -1",
        "[trace]\ntimeout = nan",
        '[trace]\nto = "phoenix"\n[trace.phoenix]\nhost = [1]',
        f"[trace]\nto = {'[' * 5000}{']' * 5000}",
    ],
)
def test_a_configuration_that_makes_no_sense_is_a_mistake(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_text(text, "utf-8")
    with pytest.raises(UsageError) as raised:
        load_settings({}, {"TURNLOG_HOME": str(tmp_path)})
    assert str(tmp_path / "config.toml") in raised.value.message
    assert raised.value.hint == f"$EDITOR {tmp_path / 'config.toml'}"


@pytest.mark.parametrize("nested", ["[" * 100_000, '{"a":' * 100_000])
def test_labels_that_are_nested_too_deeply_are_plain_text(nested: str) -> None:
    settings = convert_settings({"tags": nested, "resource_attributes": nested})
    assert (settings.tags, list(settings.resource_attributes)) == ((nested,), [nested])


@pytest.mark.parametrize("to", ["http://[x", "http://localhost:99999", "grpc://[::1", "file://["])
def test_an_address_that_cannot_be_parsed_is_a_mistake(to: str) -> None:
    with pytest.raises(UsageError, match="the address of the traces is not valid"):
        target_of(TraceSettings(to=to))


def test_places_follow_the_home_of_turnlog_or_the_system_s_own() -> None:
    home = {"TURNLOG_HOME": "/t"}
    assert (config_path(home), state_folder(home)) == ("/t/config.toml", Path("/t/trace"))
    system = {"XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "/d"}
    assert config_path(system) == "/c/turnlog/config.toml"
    assert state_folder(system) == Path("/d/turnlog/trace")


KEY = {"secret_key": "k"}
OTHER_PRESETS: dict[str, tuple[dict[str, str], str, dict[str, str], dict[str, str]]] = {
    "langsmith": (
        KEY | {"project": "shop"},
        "https://api.smith.langchain.com/otel/v1/traces",
        {"x-api-key": "k", "Langsmith-Project": "shop"},
        {},
    ),
    "weave": (
        KEY | {"project": "ada/shop"},
        "https://trace.wandb.ai/otel/v1/traces",
        {"wandb-api-key": "k"},
        {"wandb.entity": "ada", "wandb.project": "shop"},
    ),
    "logfire": (
        {"secret_key": "pylf_v1_eu_k"},
        "https://logfire-eu.pydantic.dev/v1/traces",
        {"authorization": "pylf_v1_eu_k"},
        {},
    ),
    "honeycomb": (KEY, "https://api.honeycomb.io/v1/traces", {"x-honeycomb-team": "k"}, {}),
    "datadog": (
        KEY | {"host": "datadoghq.eu"},
        "https://otlp.datadoghq.eu/v1/traces",
        {"dd-api-key": "k", "dd-otlp-source": "llmobs"},
        {},
    ),
    "grafana": (
        KEY | {"public_key": "123", "host": "https://otlp-gateway-x.grafana.net/otlp"},
        "https://otlp-gateway-x.grafana.net/otlp/v1/traces",
        {"authorization": "Basic MTIzOms="},
        {},
    ),
}


@pytest.mark.parametrize("name", OTHER_PRESETS)
def test_a_preset_knows_the_address_and_the_headers_of_its_backend(name: str) -> None:
    settings, url, headers, resource = OTHER_PRESETS[name]
    found = target(to=name, **settings)
    assert (found.url, found.headers, found.resource) == (url, headers, resource)


@pytest.mark.parametrize("name", OTHER_PRESETS)
def test_a_preset_without_its_key_names_the_variable(name: str) -> None:
    with pytest.raises(UsageError, match="needs") as raised:
        target(to=name)
    assert (raised.value.hint or "").startswith("export ")


@pytest.mark.parametrize(
    ("to", "variable", "value", "setting"),
    [
        ("langsmith", "LANGSMITH_API_KEY", "k", "secret_key"),
        ("weave", "WANDB_API_KEY", "k", "secret_key"),
        ("weave", "TURNLOG_TRACE_WEAVE_PROJECT", "a/b", "project"),
        ("logfire", "LOGFIRE_TOKEN", "k", "secret_key"),
        ("honeycomb", "HONEYCOMB_API_KEY", "k", "secret_key"),
        ("datadog", "DD_SITE", "datadoghq.eu", "host"),
        ("grafana", "GRAFANA_CLOUD_INSTANCE_ID", "1", "public_key"),
        ("langfuse", "CC_LANGFUSE_USER_ID", "ada", "user"),
        ("langfuse", "LANGFUSE_TRACING_ENVIRONMENT", "ci", "environment"),
        ("langfuse", "LANGFUSE_RELEASE", "r1", "release"),
        ("langfuse", "CC_LANGFUSE_VERSION", "v1", "version"),
    ],
)
def test_a_backend_s_own_variables_are_settings(
    to: str, variable: str, value: str, setting: str
) -> None:
    environment = {"TURNLOG_HOME": "/nowhere", variable: value}
    assert getattr(load_settings({"to": to}, environment), setting) == value
    assert getattr(load_settings({"to": "http://c"}, environment), setting) != value


@pytest.mark.parametrize("text", ["a, team:b,a", '["a", "team:b"]'])
def test_tags_in_a_variable_have_commas_between_them_or_are_json(text: str) -> None:
    environment = {"TURNLOG_HOME": "/nowhere", "CC_LANGFUSE_TAGS": text}
    assert load_settings({"to": "langfuse"}, environment).tags == ("a", "team:b")


def test_a_trace_has_a_link_where_its_address_follows_from_the_target_s() -> None:
    langfuse = target(to="langfuse", public_key="pk", secret_key="sk", host="https://lf/")
    assert langfuse.link_to("abc") == "https://lf/trace/abc"
    assert target(to="phoenix").link_to("abc") == "http://localhost:6006/redirects/traces/abc"
    assert target(to="http://c").link_to("abc") is None
