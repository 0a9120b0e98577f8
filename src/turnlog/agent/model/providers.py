"""Select the provider that runs the model: the API, Bedrock, Vertex and others."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from turnlog.agent.model.messages_api import KEYS
from turnlog.errors import ModelError

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from anthropic.lib.bedrock import AsyncAnthropicBedrock
    from anthropic.lib.vertex import AsyncAnthropicVertex

    Client = AsyncAnthropic | AsyncAnthropicBedrock | AsyncAnthropicVertex


class Provider(NamedTuple):
    """A provider of models."""

    name: str
    id: str
    """The name in `result` messages: `firstParty` is observed (2.1.325), others are inferred."""
    package: str
    """Additional package that it requires."""
    hint: str
    """Shell commands that set up the provider."""
    open: Callable[[Mapping[str, str]], "Client"]

    def unusable(self, error: Exception) -> ModelError:
        """Return a `ModelError` with a hint for a failure before anything was sent."""
        if isinstance(error, ImportError) or "pip install" in str(error):
            hint = f"pip install '{self.package}'"
            return ModelError(f"{self.name} support is not installed", hint)
        return ModelError(f"{self.name}: {' '.join(str(error).split())}", self.hint)


def provider_of(environment: Mapping[str, str]) -> Provider:
    """Return the provider selected by the client's environment variables."""
    return next((each for name, each in PROVIDERS.items() if environment.get(name)), ANTHROPIC)


def _open_anthropic(environment: Mapping[str, str]) -> "Client":
    from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

    # A redirect would send the conversation, and with it the key in `x-api-key`, to an address
    # that the user has not named.
    http = DefaultAsyncHttpxClient(follow_redirects=False)
    client = AsyncAnthropic(max_retries=0, http_client=http)
    if not (client.api_key or client.auth_token or client.credentials):
        raise ModelError("no key for the Messages API", KEYS)
    return client


def _open_bedrock(environment: Mapping[str, str]) -> "Client":
    from anthropic.lib.bedrock import AsyncAnthropicBedrock

    return AsyncAnthropicBedrock(max_retries=0)


def _open_vertex(environment: Mapping[str, str]) -> "Client":
    from anthropic.lib.vertex import AsyncAnthropicVertex

    project = environment.get("ANTHROPIC_VERTEX_PROJECT_ID", "")
    region = environment.get("CLOUD_ML_REGION", "")
    return AsyncAnthropicVertex(project_id=project, region=region, max_retries=0)


ANTHROPIC = Provider("the Messages API", "firstParty", "anthropic", KEYS, _open_anthropic)
PROVIDERS = {
    "CLAUDE_CODE_USE_BEDROCK": Provider(
        "Bedrock",
        "bedrock",
        "turnlog[bedrock]",
        "export AWS_REGION=us-east-1 AWS_PROFILE=default",
        _open_bedrock,
    ),
    "CLAUDE_CODE_USE_VERTEX": Provider(
        "Vertex",
        "vertex",
        "turnlog[vertex]",
        "export CLOUD_ML_REGION=us-east5 ANTHROPIC_VERTEX_PROJECT_ID=PROJECT;"
        " gcloud auth application-default login",
        _open_vertex,
    ),
}
