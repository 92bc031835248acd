"""Two models of the play, and the picture of what was written with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from courselib.speculated import Round, letters, written


def in_pairs(target: Any, draft: Any, prompt: Sequence[int], length: int, k: int, rng: Any) -> list[int]:
    """Greedy, with k drafts a round."""
    tokens = list(prompt)
    while len(tokens) < len(prompt) + length:
        guess = list(tokens)
        for _ in range(k):
            guess.append(int(draft(guess)[-1].argmax()))
        wanted = target(guess)[len(tokens) - 1 :].argmax(1).tolist()
        kept = next((at for at in range(k) if guess[len(tokens) + at] != wanted[at]), k)
        tokens += wanted[: kept + 1]
    return tokens[len(prompt) : len(prompt) + length]


@pytest.mark.parametrize("order", [0, 3])
def test_rows_are_distributions_of_what_follows_in_the_play(order: int) -> None:
    rows = letters(order)(b"HAMLET")
    assert rows.shape == (6, 256)
    assert rows.sum(1) == pytest.approx(1.0)
    assert order == 0 or int(rows[-1].argmax()) == ord(".") or rows[-1].max() < 1


def test_a_context_that_is_not_in_the_play_is_cut_until_it_is() -> None:
    model: Callable[[Sequence[int]], Any] = letters(3)
    assert np.array_equal(model(b"ZQXe")[-1], letters(1)(b"e")[-1])


def test_a_draft_like_the_target_gives_k_and_one_more_a_round() -> None:
    found = written(in_pairs, letters(3), letters(3), "HAMLET: ", 20, k=3)
    assert [len(one.gave) for one in found.rounds] == [4] * 5
    assert found.drafted == 15
    assert "5 calls of the target (plain decoding: 20)" in str(found)
    assert found.picture().title == "5 calls of the target for 20 bytes"


def test_what_was_accepted_is_what_the_output_has() -> None:
    found = written(in_pairs, letters(4), letters(1), "HAMLET: ", 24, k=2)
    assert b"".join(one.gave for one in found.rounds).decode() == found.text
    assert all(one.gave[: one.accepted] == one.drafts[: one.accepted] for one in found.rounds)
    assert Round(3, b"abc", b"abx").accepted == 2
    assert "refused" in found.picture().svg
