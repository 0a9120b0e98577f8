"""Sentences about software and everyday things, from Debian packages and package descriptions.

The table of semantic search is trained with their vectors; the sentences themselves are not kept.
"""

import gzip
import html
import re
import subprocess
import tarfile
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

MOST = 6_000
"""Maximum number of sentences of a package."""
SHARES = {"wordnet-base": 50_000, "available": 25_000, "python3.11-doc": 15_000}
"""Maximum number of sentences of larger sources."""
LARGEST = 60 << 20
MOST_WORDS, LONGEST = 28, 180
_DROPPED = re.compile(
    r"<(script|style|pre|head|nav|table|svg)\b.*?</\1\s*>|<!--.*?-->", re.DOTALL | re.IGNORECASE
)
_INLINE = re.compile(
    r"</?(a|abbr|ahelp|app|b|br|cite|cmd|code|dfn|em|emph|file|font|gui|guiseq|i|input|kbd|key|"
    r"keyseq|link|literal|media|output|q|s|samp|small|span|strong|sub|sup|sys|tt|u|var|xref)\b"
    r"[^>]*>",
    re.IGNORECASE,
)
_TAG = re.compile(r"<[^>]*>")
_END = re.compile(r"(?<=[a-z0-9)\"'][.!?:;])\s+(?=[A-Z\"'(])|\s*\n\s*\n\s*")
_WORD = re.compile(r"[A-Za-z][a-z']+|[A-Z]+\b")
_MARKUP = re.compile(r"[{}<>]|:\w+:|--")
_TRANSLATED = re.compile(
    r"/(da|de|es|fr|ja|ko|pt-br|tr|zh-cn)/|\.(da|de|es|fr|ja|ko|pt-br|tr|zh)\b|share/help/(?!C/)"
)
_NOT_PROSE = re.compile(r"changelog(?!\.html)|copyright|genindex|\.(css|index|js|json|py|svg)$")
_PLAIN = re.compile(r"\.(txt|rst|dict)$|fortunes/[^.]+$|RelNotes")
_LIBRARY = re.compile(r"^Package: (lib.*-dev|.*-dbg|librust-|golang-|node-|linux-|r-cran)", re.M)
_DESCRIPTION = re.compile(r"^Description(?:-en)?: (.*(?:\n .*)*)", re.M)


def read_sentences(sources: list[Path]) -> list[str]:
    """Return sentences of Debian packages and of the output of `apt-cache dumpavail`.

    The order does not depend on the order of sources, and the choice not on other sources.
    """
    chosen: dict[str, str] = {}
    for source in sources:
        is_package = source.suffix == ".deb"
        found = _texts_of_package(source) if is_package else _descriptions(source)
        name = source.stem.partition("_")[0]
        unique = {text.lower(): text for text in found if is_sentence(text)}
        chosen |= {
            key: unique[key] for key in sorted(unique, key=_digest)[: SHARES.get(name, MOST)]
        }
    return [chosen[key] for key in sorted(chosen, key=_digest)]


def is_sentence(text: str) -> bool:
    """Return whether a text is a short piece of prose.

    >>> is_sentence("Only keys in the old format are supported."), is_sentence("x = f(y[1:])")
    (True, False)
    """
    count = len(text.split())
    if not 4 <= count <= MOST_WORDS or len(text) > LONGEST or _MARKUP.search(text):
        return False
    letters = sum(each.isascii() and (each.isalpha() or each == " ") for each in text)
    return letters >= 0.85 * len(text) and len(_WORD.findall(text)) >= 0.7 * count


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()


def _texts_of_package(package: Path) -> Iterator[str]:
    for path, text in _files(package):
        if re.search(r"wordnet/data\.(noun|verb|adj|adv)$", path):
            yield from _glosses(text)
        elif _NOT_PROSE.search(path) or _TRANSLATED.search(path):
            continue
        elif path.endswith((".html", ".htm", ".page", ".xhp", ".xml", ".xhtml")):
            yield from _split(_without_tags(text))
        elif re.search(r"/man/man\d/", path):
            yield from _split(_without_requests(text))
        elif path.endswith(".md"):
            yield from _split(_without_markdown(text))
        elif _PLAIN.search(path):
            yield from _split(_without_marks(text))


def _files(package: Path) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each text file of a Debian package."""
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as unpacking,
        tarfile.open(fileobj=unpacking.stdout, mode="r|") as archive,
    ):
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is None or member.size > LARGEST:
                continue
            content, path = file.read(), member.name
            if path.endswith((".gz", ".dz")):
                content, path = gzip.decompress(content), path[:-3]
            if b"\0" not in content[:2_000]:
                yield path, content.decode("utf-8", "replace")


def _split(text: str) -> Iterator[str]:
    return (" ".join(each.split()) for each in _END.split(text) if each)


def _glosses(text: str) -> Iterator[str]:
    """Yield the definitions and examples of a WordNet file."""
    for line in text.splitlines():
        _, _, gloss = line.partition(" | ")
        yield from (each.strip(' "') for each in gloss.split(";"))


def _descriptions(available: Path) -> Iterator[str]:
    """Yield the sentences that describe packages, without libraries, which repeat each other."""
    for block in available.read_text("utf-8", "replace").split("\n\n"):
        found = _DESCRIPTION.search(block)
        if found and not _LIBRARY.search(block):
            title, *lines = found[1].split("\n")
            yield title[:1].upper() + title[1:]
            yield from _split(_without_marks("\n".join(_paragraphs(lines))))


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        # A dot alone is an empty line; an indented line is an item or preformatted.
        text = line.strip().removeprefix(".")
        yield f"\n\n{text}" if line.startswith("  ") else text


def _without_tags(text: str) -> str:
    text = _TAG.sub("\n\n", _INLINE.sub("", _DROPPED.sub("\n\n", text)))
    return html.unescape(text).replace("¶", "")


def _without_requests(text: str) -> str:
    """Return the prose of a man page."""
    found: list[str] = []
    for line in text.splitlines():
        if re.match(r"\.(SH|SS|TP|PP|P|LP|IP|TH|nf|fi|EX|EE|sp|HP|RS|RE)\b", line):
            found.append("\n")
        marked = re.sub(r"^\.(BR|IR|RB|RI|BI|IB|B|I)\s+", "", line)
        if not marked.startswith((".", "'")):
            plain = re.sub(r"\\f(\(..|.)|\\[&/,c]|\"", "", marked)
            found.append(plain.replace("\\-", "-").replace("\\(aq", "'").replace("\\(em", " - "))
    return "\n".join(found)


def _without_markdown(text: str) -> str:
    text = re.sub(r"```.*?```", "\n\n", text, flags=re.DOTALL)
    text = re.sub(r"\[([^\]]*)\](\([^)]*\)|\[[^\]]*\])", r"\1", text)
    return re.sub(r"^(#+|[-+*>]|\d+\.)\s+", "\n\n", re.sub(r"[`*]+", "", text), flags=re.MULTILINE)


def _without_marks(text: str) -> str:
    text = re.sub(r"[{}*|`]+", "", text)
    return re.sub(r"^\s*([-+o]|\d+\.)\s+", "\n\n", text, flags=re.MULTILINE)
