"""Embed texts with a server: any OpenAI-compatible or Ollama endpoint that the user configured.

Texts are masked before they are sent. Without a configuration, nothing is sent anywhere.
"""

import json
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any, NamedTuple

from turnlog.errors import Unavailable, UsageError
from turnlog.format.json_values import Fields, is_array, is_object, parse_json
from turnlog.index.semantic.vector_codes import StoredVector, quantize
from turnlog.secrets import mask

BATCH = 32
"""Texts per request."""
LONGEST_TEXT = 4_000
PATIENCE = 60
"""Seconds to wait for an answer."""
LARGEST_ANSWER = 64 << 20
MOST_DIMENSIONS = 8192
PROBE = "How many dimensions do the vectors have?"


class Endpoint(NamedTuple):
    """The `[semantic]` table of the configuration."""

    url: str
    """Such as `http://127.0.0.1:11434/api/embed` or `https://api.openai.com/v1/embeddings`."""
    model: str
    key: str | None
    hint: str
    """The command that opens the configuration."""


class EndpointModel:
    """A server that embeds texts."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.dimensions: int | None = None
        """Known after the first answer."""

    @property
    def name(self) -> str:
        """A name that is the same only if vectors can be compared."""
        if self.dimensions is None:
            self.embed_texts([PROBE])
        return f"{self.endpoint.url} {self.endpoint.model} {self.dimensions}"

    def embed_texts(self, texts: Iterable[str]) -> list[StoredVector | None]:
        """Return the vector of each text; raise Unavailable if the server does not answer."""
        masked = [mask(text[:LONGEST_TEXT]) for text in texts]
        found: list[StoredVector | None] = []
        for start in range(0, len(masked), BATCH):
            for values in self._request(masked[start : start + BATCH]):
                self.dimensions = self.dimensions or len(values)
                if len(values) != self.dimensions:
                    raise self._failure(f"vectors of {len(values)} and {self.dimensions} numbers")
                found.append(quantize(values))
        return found

    def _request(self, texts: list[str]) -> list[list[float]]:
        answer = self._decoded(self._post({"model": self.endpoint.model, "input": texts}))
        vectors = [_numbers(each) for each in _vectors_in(answer)]
        if len(vectors) != len(texts):
            raise self._failure(f"{len(vectors)} vectors for {len(texts)} texts")
        if not all(0 < len(each) <= MOST_DIMENSIONS for each in vectors):
            raise self._failure("something other than vectors")
        return vectors

    def _post(self, body: dict[str, Any]) -> bytes:
        # Imported late: with the static model, nothing is sent.
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import Request

        headers = {"Content-Type": "application/json"}
        if self.endpoint.key:
            headers["Authorization"] = f"Bearer {self.endpoint.key}"
        try:
            request = Request(self.endpoint.url, json.dumps(body).encode(), headers)
            with _opener().open(request, timeout=PATIENCE) as answer:
                return answer.read(LARGEST_ANSWER)
        except HTTPError as error:
            error.close()
            raise self._failure(f"status {error.code}") from error
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise Unavailable(
                f"cannot reach {self.endpoint.url}: {reason}", self.endpoint.hint
            ) from error

    def _decoded(self, content: bytes) -> Any:
        try:
            return parse_json(content)
        except ValueError as error:
            raise self._failure("something other than JSON") from error

    def _failure(self, answer: str) -> Unavailable:
        return Unavailable(f"{self.endpoint.url} answered with {answer}", self.endpoint.hint)


def read_endpoint(settings: Fields, environment: Any, hint: str) -> Endpoint | None:
    """Return the endpoint that a configuration names, if any; raise UsageError if it is invalid."""
    named = {name: settings.get(name) for name in ("endpoint", "model", "key_env")}
    wrong = [name for name, value in named.items() if not isinstance(value, str | None)]
    if wrong:
        raise UsageError(f"{wrong[0]} in [semantic] is not a string", hint)
    url, model, variable = named["endpoint"], named["model"], named["key_env"]
    if not url:
        return None
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"endpoint in [semantic] is not a URL: {url}", hint)
    if not model:
        raise UsageError("[semantic] names an endpoint, but no model", hint)
    if variable and not environment.get(variable):
        raise UsageError(f"{variable}, named by key_env in [semantic], is not set", hint)
    return Endpoint(url, model, environment.get(variable) if variable else None, hint)


def _opener() -> Any:
    """Return an opener that follows no redirects: texts and key are for the configured server."""
    from urllib.request import HTTPRedirectHandler, build_opener

    class NoRedirects(HTTPRedirectHandler):
        def redirect_request(self, *args: Any, **named: Any) -> None:
            return None

    return build_opener(NoRedirects)


def _vectors_in(answer: Any) -> Sequence[Any]:
    """Return the vectors of an answer: OpenAI's `data`, Ollama's `embeddings`."""
    if not is_object(answer):
        return ()
    if is_array(data := answer.get("data")):
        items = [each for each in data if is_object(each)]
        # OpenAI's answer gives the index of each text, and does not guarantee an order.
        items.sort(key=lambda each: each["index"] if isinstance(each.get("index"), int) else 0)
        return [each.get("embedding") for each in items]
    vectors = answer.get("embeddings")
    return vectors if is_array(vectors) else ()


def _numbers(value: Any) -> list[float]:
    """Return the numbers of a vector; an empty list if the value is not a vector."""
    if not is_array(value):
        return []
    is_sound = all(isinstance(each, int | float) and isfinite(each) for each in value)
    return [float(each) for each in value] if is_sound else []
