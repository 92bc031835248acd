"""The cut language model of chapter 08 is the whole one: its loss, and the gradient below the cut blocks."""

from __future__ import annotations

import pytest
import torch

from courselib import cutting, language
from grader.ranks.engines import Engines
from grader.ranks.program import Limits, Program, same_for_all

SOURCE = """
from courselib import cutting, language

def compared():
    model, (x, y) = language.made(), language.batch(0)
    whole = language.loss(model(x), y)
    whole.backward()
    expected, model.embed.weight.grad = model.embed.weight.grad, None
    for block in model.blocks:
        cutting.cut(block)
    loss = language.loss(model(x), y)
    loss.backward()
    return [(loss - whole).item(), (model.embed.weight.grad - expected).abs().max().item()]
"""


def test_a_model_cut_by_heads_has_the_whole_ones_loss_and_gradients(engines: Engines) -> None:
    ran = engines.run("sim", Program.of(SOURCE, "a cell", "compared"), 2, [same_for_all(2)], 1, Limits()).calls[0]
    assert ran.returned == ([pytest.approx(0, abs=1e-6)] * 2,) * 2


def test_the_halves_one_after_the_other_are_the_model() -> None:
    model, (x, _) = language.made(), language.batch(0)
    front, back = cutting.halves(model)
    assert torch.equal(back(front(x)), model(x))
