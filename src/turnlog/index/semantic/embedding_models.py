"""Choose the model that embeds texts: the user's endpoint, or turnlog's own static model."""

import os
from collections.abc import Iterable, Mapping
from typing import Protocol

from turnlog.index.semantic.endpoint_model import EndpointModel, read_endpoint
from turnlog.index.semantic.static_model import static_model
from turnlog.index.semantic.vector_codes import StoredVector
from turnlog.store.configuration import configuration_file, read_section

KINDS = ("title", "prompt", "answer", "summary")
"""Kinds of texts that say what a conversation is about. Calls and results are mostly code."""
FEWEST_WORDS = 3


class EmbeddingModel(Protocol):
    """Anything that turns texts into vectors."""

    @property
    def name(self) -> str:
        """A name that is the same only if vectors can be compared."""
        ...

    def embed_texts(self, texts: Iterable[str]) -> list[StoredVector | None]:
        """Return the vector of each text; None for a text without meaning."""
        ...


def configured_model(environment: Mapping[str, str] = os.environ) -> EmbeddingModel:
    """Return the model that the configuration names; by default the static model."""
    path = configuration_file(environment)
    endpoint = read_endpoint(read_section("semantic", path), environment, f"$EDITOR {path}")
    return EndpointModel(endpoint) if endpoint else static_model()


class TextChoice:
    """Chooses the texts of a file that get a vector."""

    def __init__(self) -> None:
        self.titles: set[str] = set()

    def is_worth_embedding(self, kind: str, text: str) -> bool:
        """Return whether a text is long enough to have a subject, and not a repeated title."""
        # Slugs such as `fuzzy-dancing-hippo` are titles of one word.
        if kind not in KINDS or len(text[:200].split(None, FEWEST_WORDS)) < FEWEST_WORDS:
            return False
        if kind != "title":
            return True
        is_new = text not in self.titles
        self.titles.add(text)
        return is_new
