"""Turn a GGUF file of the Llama family into a Hugging Face folder that vLLM can serve.

Runs in the environment that vLLM is in: it needs numpy, gguf and tokenizers, not torch.

python scripts/gguf_to_hf.py MODEL.gguf FOLDER
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

CONTROL = 3
"""GGUF's kind of a token that stands for no text: the special ones."""

TOP = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
IN_A_BLOCK = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_norm": "input_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_norm": "post_attention_layernorm",
}

Tensor = Any
"""One entry of a GGUF file."""


@dataclass(frozen=True, slots=True)
class Gguf:
    """An opened file: its tensors, and its metadata by name."""

    tensors: list[Tensor]
    facts: Mapping[str, Any]

    @classmethod
    def open(cls, path: Path) -> "Gguf":
        """Raises SystemExit for a model of another family."""
        reader = GGUFReader(path)
        facts = {
            name: field.contents()
            for name, field in reader.fields.items()
            if not name.startswith("GGUF.")
        }
        kind = facts["general.architecture"], facts["tokenizer.ggml.model"]
        if kind != ("llama", "gpt2"):
            raise SystemExit(f"{path}: only Llama models with a GPT-2 tokenizer, not {kind}")
        return cls(list(reader.tensors), facts)

    def llama(self, name: str) -> Any:
        """A fact about the network."""
        return self.facts[f"llama.{name}"]

    def tokenizer(self, name: str) -> Any:
        """A fact about the tokenizer."""
        return self.facts[f"tokenizer.ggml.{name}"]


def hugging_face_name(name: str) -> str:
    """What Hugging Face calls a tensor of GGUF."""
    stem = name.removesuffix(".weight")
    if stem in TOP:
        return f"{TOP[stem]}.weight"
    block, part = re.fullmatch(r"blk\.(\d+)\.(\w+)", stem).groups()
    return f"model.layers.{block}.{IN_A_BLOCK[part]}.weight"


def weights(gguf: Gguf) -> Iterator[tuple[str, np.ndarray]]:
    """Every tensor as the halves of its float32 that are bfloat16, under its new name."""
    heads = {
        ".attn_q.": gguf.llama("attention.head_count"),
        ".attn_k.": gguf.llama("attention.head_count_kv"),
    }
    for tensor in gguf.tensors:
        shape = [int(size) for size in reversed(tensor.shape)]
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(shape)
        for part, count in heads.items():
            if part in tensor.name:
                values = unpermuted(values, count)
        yield hugging_face_name(tensor.name), as_bfloat16(values)


def unpermuted(values: np.ndarray, heads: int) -> np.ndarray:
    """Rows in the order of Hugging Face's rotary embedding: GGUF interleaves the two halves."""
    half = values.shape[0] // heads // 2
    return values.reshape(heads, half, 2, -1).swapaxes(1, 2).reshape(values.shape)


def as_bfloat16(values: np.ndarray) -> np.ndarray:
    """The upper half of each float, rounded to even."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def write_safetensors(path: Path, tensors: Iterator[tuple[str, np.ndarray]]) -> None:
    """The format is a JSON header with offsets, and the bytes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    blobs: list[bytes] = []
    end = 0
    for name, values in tensors:
        blob = values.tobytes()
        span = [end, end + len(blob)]
        header[name] = {"dtype": "BF16", "shape": list(values.shape), "data_offsets": span}
        blobs.append(blob)
        end += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.writelines(blobs)


def config(gguf: Gguf) -> dict[str, Any]:
    """What describes the network."""
    heads, size = gguf.llama("attention.head_count"), gguf.llama("embedding_length")
    names = {tensor.name for tensor in gguf.tensors}
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(gguf.tokenizer("tokens")),
        "hidden_size": size,
        "intermediate_size": gguf.llama("feed_forward_length"),
        "num_hidden_layers": gguf.llama("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": gguf.llama("attention.head_count_kv"),
        "head_dim": size // heads,
        "max_position_embeddings": gguf.llama("context_length"),
        "rms_norm_eps": gguf.llama("attention.layer_norm_rms_epsilon"),
        "rope_theta": gguf.llama("rope.freq_base"),
        "rope_scaling": None,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": "output.weight" not in names,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        **special_ids(gguf),
    }


def special_ids(gguf: Gguf) -> dict[str, int]:
    """The ids that begin, end and pad a text."""
    return {
        "bos_token_id": gguf.tokenizer("bos_token_id"),
        "eos_token_id": gguf.tokenizer("eos_token_id"),
        "pad_token_id": gguf.tokenizer("padding_token_id"),
    }


def tokenizer(gguf: Gguf) -> Tokenizer:
    """Byte-level BPE; a number is cut into its digits."""
    tokens = gguf.tokenizer("tokens")
    merges = [tuple(merge.split(" ")) for merge in gguf.tokenizer("merges")]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    made.decoder = decoders.ByteLevel()
    kinds = zip(tokens, gguf.tokenizer("token_type"), strict=True)
    special = [
        AddedToken(t, special=True, normalized=False) for t, kind in kinds if kind == CONTROL
    ]
    made.add_special_tokens(special)
    return made


def tokenizer_config(gguf: Gguf) -> dict[str, Any]:
    """What describes the tokenizer, the chat template included."""
    tokens = gguf.tokenizer("tokens")
    names = {name.removesuffix("_id"): tokens[index] for name, index in special_ids(gguf).items()}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **names,
        "unk_token": tokens[gguf.tokenizer("unknown_token_id")],
        "model_max_length": gguf.llama("context_length"),
        "clean_up_tokenization_spaces": False,
        "add_bos_token": False,
        "chat_template": gguf.facts["tokenizer.chat_template"],
    }


def convert(source: Path, folder: Path) -> None:
    """Write the folder."""
    gguf = Gguf.open(source)
    folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(folder / "model.safetensors", weights(gguf))
    tokenizer(gguf).save(str(folder / "tokenizer.json"))
    for name, content in (
        ("config.json", config(gguf)),
        ("generation_config.json", special_ids(gguf)),
        ("tokenizer_config.json", tokenizer_config(gguf)),
    ):
        (folder / name).write_text(json.dumps(content, indent=1), encoding="utf-8")


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
