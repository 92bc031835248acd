"""The small language model that goes through the course: its text, its shares of a batch, and what it learns."""

from __future__ import annotations

import pytest
import torch

from courselib import language


@pytest.fixture(autouse=True)
def _one_thread():  # type: ignore[no-untyped-def]
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_the_text_is_the_play_and_a_tenth_is_held_out() -> None:
    train, rest = language.tokens()
    assert language.TEXT.read_text("ascii").startswith("HAMLET, PRINCE OF DENMARK\n\nby William Shakespeare")
    assert len(train) + len(rest) == language.TEXT.stat().st_size
    assert len(rest) == pytest.approx(len(train) / 9, abs=1)


def test_ranks_share_the_sequences_of_one_batch() -> None:
    whole, next_ones = language.batch(7)
    assert torch.equal(whole[:, 1:], next_ones[:, :-1])
    shares = [language.batch(7, rank, 4)[0] for rank in range(4)]
    assert torch.equal(torch.stack(shares, 1).flatten(0, 1), whole)


def test_a_token_sees_none_that_comes_later() -> None:
    model, (x, _) = language.made(), language.batch(0)
    changed = x.clone()
    changed[:, 40] = 0
    assert torch.equal(model(changed)[:, :40], model(x)[:, :40])


@pytest.mark.heavy
def test_what_was_recorded_comes_again() -> None:
    model = language.made()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    told = language.fit(model, optimizer, language.STEPS)
    one, ddp = language.RECORDED[:2]
    assert (told["losses"][0][1], told["losses"][-1][1]) == pytest.approx((one.before, one.after), abs=0.03)
    assert told["state"] == one.state == ddp.state
    assert told["activations"] == pytest.approx(one.activations, rel=0.02)
    assert language.activation_bytes(model, *language.batch(0, 0, 2)) == pytest.approx(ddp.activations, rel=0.02)
    assert ddp.sent == 4 * sum(parameter.numel() for parameter in model.parameters())
    assert "| 07 | DDP | 2 |" in language.growing([language.Row("08", "pipeline", 2, 5.6, 2.3, 1, 1, 1)]).text
