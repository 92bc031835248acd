"""Writes a tiny Llama with random weights, as a GGUF file for llama.cpp and as an .npz file for our own server.

    python llama_tiny.py FOLDER        needs the package gguf; writes FOLDER/tiny.gguf and FOLDER/tiny.npz

Two layers, width 64, four heads, and a vocabulary of letters, the space and the 256 bytes that llama.cpp wants as a
fallback. What it writes is noise, but always of letters and spaces: number 0 of the hidden state is the same positive
number for each token, and all other tokens have a large negative weight there.
"""

from __future__ import annotations

import string
import sys
from pathlib import Path

import gguf
import numpy as np

LAYERS, WIDTH, HEADS, INNER, CONTEXT, EPSILON, BASE = 2, 64, 4, 128, 512, 1e-5, 10_000.0
SPACE = "\u2581"  # as SentencePiece writes it
WRITTEN = [SPACE, *string.ascii_lowercase]
TOKENS = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *WRITTEN]


def weights() -> dict[str, np.ndarray]:
    """All tensors by their names in GGUF, float32; a matrix has [outputs, inputs]."""
    draw = np.random.default_rng(7)

    def matrix(out: int, inputs: int, scale: float = 1.0) -> np.ndarray:
        return (draw.standard_normal((out, inputs)) * scale / inputs**0.5).astype(np.float32)

    embed = draw.standard_normal((len(TOKENS), WIDTH)).astype(np.float32)
    embed[:, 0] = 4.0
    head = matrix(len(TOKENS), WIDTH, 3.0)
    head[: -len(WRITTEN), 0], head[-len(WRITTEN) :, 0] = -100.0, 0.0
    found = {"token_embd.weight": embed, "output.weight": head, "output_norm.weight": np.ones(WIDTH, np.float32)}
    for layer in range(LAYERS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            found[f"blk.{layer}.{name}.weight"] = matrix(WIDTH, WIDTH, 2.0)
        found[f"blk.{layer}.ffn_gate.weight"] = matrix(INNER, WIDTH)
        found[f"blk.{layer}.ffn_up.weight"] = matrix(INNER, WIDTH)
        found[f"blk.{layer}.ffn_down.weight"] = matrix(WIDTH, INNER, 2.0)
        for name in ("attn_output", "ffn_down"):
            found[f"blk.{layer}.{name}.weight"][0] = 0.0  # no layer writes to number 0
        for name in ("attn_norm", "ffn_norm"):
            found[f"blk.{layer}.{name}.weight"] = np.ones(WIDTH, np.float32)
    return found


def write(folder: Path) -> None:
    tensors = weights()
    np.savez(folder / "tiny.npz", **tensors)
    file = gguf.GGUFWriter(str(folder / "tiny.gguf"), "llama")
    file.add_name("tiny")
    file.add_context_length(CONTEXT)
    file.add_embedding_length(WIDTH)
    file.add_block_count(LAYERS)
    file.add_feed_forward_length(INNER)
    file.add_head_count(HEADS)
    file.add_head_count_kv(HEADS)
    file.add_layer_norm_rms_eps(EPSILON)
    file.add_rope_dimension_count(WIDTH // HEADS)
    file.add_rope_freq_base(BASE)
    file.add_vocab_size(len(TOKENS))
    file.add_file_type(gguf.LlamaFileType.ALL_F32)
    kinds = gguf.TokenType
    file.add_tokenizer_model("llama")
    file.add_token_list(TOKENS)
    file.add_token_scores([0.0] * len(TOKENS))
    file.add_token_types(
        [kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL, *[kinds.BYTE] * 256, *[kinds.NORMAL] * len(WRITTEN)]
    )
    file.add_bos_token_id(1)
    file.add_eos_token_id(2)
    file.add_unk_token_id(0)
    file.add_add_bos_token(True)
    file.add_add_space_prefix(False)
    for name, tensor in tensors.items():
        file.add_tensor(name, tensor)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
