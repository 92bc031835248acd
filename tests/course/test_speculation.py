"""Draft and verify: the distribution is the target's, and the speed-up is what the formulas say."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from courselib import inference, language
from courselib.counted import Products
from courselib.speculation import Chances, alone, joint, residual, speed_up, tokens_a_round


def target(text: str) -> Chances:
    return (
        {"a": Fraction(1, 3), "b": Fraction(2, 3)}
        if text.count("a") % 2
        else {"a": Fraction(3, 4), "b": Fraction(1, 4)}
    )


def draft(text: str) -> Chances:
    return {"a": Fraction(0), "b": Fraction(1)} if len(text) % 2 else {"a": Fraction(1, 2), "b": Fraction(1, 2)}


@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_the_distribution_is_exactly_the_targets(k: int) -> None:
    assert joint(target, draft, k, 4) == alone(target, 4)


def test_drawn_from_p_after_a_refusal_it_is_not() -> None:
    wrong = joint(target, draft, 2, 3, lambda p, q: p)
    assert sum(wrong.values()) == 1
    assert wrong != alone(target, 3)


def test_the_residual_is_what_p_has_more() -> None:
    assert residual({"a": Fraction(1, 2), "b": Fraction(1, 2)}, {"a": Fraction(1, 4), "b": Fraction(3, 4)}) == {
        "a": 1,
        "b": 0,
    }


def test_tokens_of_a_round() -> None:
    assert tokens_a_round(1, 4) == 5
    assert tokens_a_round(0, 4) == 1
    assert tokens_a_round(0.5, 2) == 1 + 0.5 + 0.25


def test_a_large_batch_is_slower_with_drafts() -> None:
    models = inference.LLAMA_70B, inference.LLAMA_8B, inference.H100_NODE
    assert speed_up(0.8, 4, 1, 2048, *models) > 2
    assert speed_up(0.8, 4, 256, 2048, *models) < 1
    assert speed_up(0.8, 0, 64, 2048, *models) == pytest.approx(1)


def test_products_are_counted_with_their_bytes() -> None:
    with Products() as seen:
        torch.ones(3, 4) @ torch.ones(4, 5)
        torch.bmm(torch.ones(2, 3, 4), torch.ones(2, 4, 5))
        torch.nn.functional.linear(torch.ones(3, 4), torch.ones(5, 4), torch.ones(5))
    assert seen.flops == 2 * 3 * 4 * 5 * 4
    assert seen.bytes == 4 * (3 * 4 + 4 * 5 + 3 * 5) * 4
    with Products() as whole, torch.no_grad():
        language.made()(language.tokens()[0][None, :8])
    assert whole.flops >= 2 * 8 * 2 * 12 * 64**2
