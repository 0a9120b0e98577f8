"""Write the table of attributes into docs/tracing.md, run by cog."""

from collections.abc import Iterable

from turnlog.trace.attributes import ROWS


def print_attributes() -> None:
    """Print a row for each thing that spans hold, with the names of each convention."""
    print("| what | GenAI | OpenInference | Langfuse |\n|---|---|---|---|")
    for row in ROWS:
        names = map(_listed, (row.gen_ai, row.openinference, row.langfuse))
        print(f"| {row.what} | {' | '.join(names)} |")


def _listed(names: Iterable[str]) -> str:
    return "<br>".join(f"`{name}`" for name in names)
