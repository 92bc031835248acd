"""A language model that writes: it reads a prompt in one call, then makes one token a call, and keeps what it has read.

logits, cache = read(model, prompt)               # prefill
logits, cache = read(model, token, cache)         # decode, one token
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from courselib.language import Transformer

Cache = list[tuple[Tensor, Tensor]]  # of each block the keys and values: [sequences, heads, tokens, head size]


def read(model: Transformer, tokens: Tensor, cache: Sequence[tuple[Tensor, Tensor]] = ()) -> tuple[Tensor, Cache]:
    """Reads new tokens [sequences, tokens]; they attend to those in the cache, too. Logits of these, and all keys."""
    before = cache[0][0].shape[2] if cache else 0
    new = tokens.shape[1]
    seen = torch.ones(new, before + new, dtype=torch.bool).tril(before)  # nobody looks ahead
    x = model.embed(tokens) + model.place(torch.arange(before, before + new))
    longer: Cache = []
    for number, block in enumerate(model.blocks):
        q, k, v = block.heads_of(x)
        if cache:
            k, v = (torch.cat([old, more], 2) for old, more in zip(cache[number], (k, v), strict=True))
        longer.append((k, v))
        x = block.after(x, functional.scaled_dot_product_attention(q, k, v, attn_mask=seen))
    return model.head(model.norm(x)), longer


def cache_bytes(cache: Cache) -> int:
    """The size of all keys and values."""
    return sum(part.numel() * part.element_size() for both in cache for part in both)


@torch.inference_mode()  # type: ignore[untyped-decorator,unused-ignore]
def write(model: Transformer, prompts: Tensor, length: int) -> Tensor:
    """For each prompt [sequences, tokens] the likeliest next token, `length` times: [sequences, length]."""
    logits, cache = read(model, prompts)
    written = [logits[:, -1:].argmax(2)]
    while len(written) < length:
        logits, cache = read(model, written[-1], cache)
        written.append(logits.argmax(2))
    return torch.cat(written, 1)


@torch.inference_mode()  # type: ignore[untyped-decorator,unused-ignore]
def write_without_cache(model: Transformer, prompts: Tensor, length: int) -> Tensor:
    """The same tokens; each call reads all of the text once more."""
    whole = prompts
    for _ in range(length):
        whole = torch.cat([whole, model(whole)[:, -1:].argmax(2)], 1)
    return whole[:, prompts.shape[1] :]
