"""The toy policy of chapter 18 and its fleets: what their numbers rest on."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from courselib import grpo, rollouts
from courselib.figures.rollouts import BATCH, STEPS, played
from courselib.rollouts import Fleet
from grader.ranks.engines import Engines
from grader.ranks.network import Network
from grader.ranks.program import Limits, Program, same_for_all


def test_log_probabilities_of_what_was_generated_are_those_that_it_was_drawn_with() -> None:
    torch.manual_seed(0)
    policy, asked = grpo.Policy(), grpo.prompts(50, 1)
    answers, drawn_with = grpo.generate(policy, asked, torch.Generator().manual_seed(2))
    assert torch.allclose(grpo.logprobs(policy, asked, answers), drawn_with, atol=1e-6)


def test_the_verifier_wants_the_digits_in_order() -> None:
    asked = torch.tensor([[3, 1, 2], [3, 1, 2], [5, 5, 0]])
    assert grpo.verified(asked, torch.tensor([[1, 2, 3], [3, 2, 1], [0, 5, 5]])).tolist() == [1, 0, 1]


def test_a_copy_has_changed_weights_and_leaves_the_policy_alone() -> None:
    torch.manual_seed(0)
    policy = grpo.Policy()
    before = [value.clone() for value in policy.parameters()]
    other = grpo.copied(policy, lambda weights: weights * 2)
    assert all(torch.equal(2 * a, b) for a, b in zip(policy.parameters(), other.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b in zip(before, policy.parameters(), strict=True))


@given(spread=st.floats(0.1, 1.2), seed=st.integers(0, 50))
def test_lengths_are_skewed_about_their_mean(spread: float, seed: int) -> None:
    drawn = rollouts.lengths(1600, spread, 2.0, seed)
    assert len(drawn) == 1600
    assert sum(drawn) / 1600 == pytest.approx(2.0, rel=0.15)
    assert sorted(drawn)[800] < sum(drawn) / 1600


def test_a_fleets_idle_time_counts_up_to_the_last_step() -> None:
    told = Fleet([[], [(1.0, 2.0, "1", "trains")], [(0.0, 1.0, "0", ""), (1.5, 3.0, "0", "")]], [0, 1])
    assert told.end == 2
    assert told.idle(1) == 0.5
    assert told.generators_idle == 0.25
    assert list(told.rows) == ["trainer", "generator 1"]


@pytest.mark.parametrize(("ahead", "seconds"), [(0, 0.5), (1, 0.5), (2, 4.0), (1000, 4.0)])
def test_the_figures_fleet_is_that_of_simulated_ranks(engines: Engines, ahead: int, seconds: float) -> None:
    durations = rollouts.lengths(400)
    source = (
        "import torch.distributed as dist\nfrom courselib import rollouts\n\n\ndef fleet(*given):\n"
        "    durations, steps, batch, ahead, seconds = given\n    if dist.get_rank() == 0:\n"
        "        return rollouts.control(int(steps), int(batch), int(ahead))\n"
        "    return rollouts.train(seconds) if dist.get_rank() == 1 else rollouts.generate(durations)\n"
    )
    call = same_for_all(6, durations, STEPS, BATCH, ahead, seconds)
    program = Program.of(source, "a cell", "fleet")
    run = engines.run("sim", program, 6, [call], 1, Limits(), Network(alpha=0.0, beta=0.0)).calls[0]
    told, drawn = rollouts.fleet(run), played(durations, 4, ahead, seconds)
    assert told.end == pytest.approx(drawn.end)
    assert list(told.ages) == list(drawn.ages)
    assert told.generators_idle == pytest.approx(drawn.generators_idle)
