"""A model that writes with a cache: the tokens that it would write without one, and the bytes that the formula says."""

from __future__ import annotations

import pytest
import torch

from courselib import decoding, language

MODEL = language.made()
TEXT = language.tokens()[0][None, :24]


@pytest.mark.parametrize("parts", [(24,), (1,) * 24, (10, 14), (23, 1)], ids=str)
def test_what_is_read_in_parts_is_expected_as_what_is_read_whole(parts: tuple[int, ...]) -> None:
    cache: decoding.Cache = []
    logits = []
    with torch.inference_mode():
        for part in TEXT.split(parts, 1):
            more, cache = decoding.read(MODEL, part, cache)
            logits.append(more)
        torch.testing.assert_close(torch.cat(logits, 1), MODEL(TEXT), atol=1e-5, rtol=1e-4)
    assert decoding.cache_bytes(cache) == 24 * 2 * 2 * 64 * 4  # tokens, key and value, blocks, width, bytes


def test_a_cache_changes_no_token() -> None:
    prompts = torch.cat([TEXT, TEXT.flip(1)])
    written = decoding.write(MODEL, prompts, 30)
    assert written.shape == (2, 30)
    assert written.tolist() == decoding.write_without_cache(MODEL, prompts, 30).tolist()
