"""rollout_sync: the harness and the grading process compute the same policy, and bounds of what trainer 0 knew hold."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from grader.exercise import Draw
from grader.exercises.rollout_sync import cases, history, in_box
from grader.exercises.rollout_sync.policy import Given, Plan, logprob, sample
from grader.ranks.program import CallResult
from grader.trace.events import RECV_ANY, SEND, Operation, Step, Trace

PLAN = Plan(1, 1, 1, 4, 1, ((1.0,) * 4,), 0.1, tuple(np.linspace(0.3, 2.8, 8).tolist()))


@pytest.fixture
def given() -> Given:
    return Given(PLAN, np.random.default_rng(1).normal(0, 0.5, 300).astype(np.float32))


def test_a_sample_in_the_box_is_that_of_the_grading_process(given: Given) -> None:
    policy = in_box._Policy(PLAN.told(), 300)
    place = policy.place(torch.from_numpy(given.start), "generate")
    np.testing.assert_allclose(place.numpy(), given.place(given.start), rtol=1e-12)
    for prompt in (0, 7, 200):
        np.testing.assert_allclose(
            in_box._sample(place, prompt).numpy(), sample(given.place(given.start), prompt), atol=2e-7
        )
        assert in_box._logprob(place, prompt) == pytest.approx(logprob(given.place(given.start), prompt), abs=1e-6)


def test_a_step_in_the_box_is_that_of_the_grading_process(given: Given) -> None:
    notes = [torch.zeros((), dtype=torch.int64), torch.zeros(1, 8, dtype=torch.float64), torch.zeros(1, 4, 11)]
    step = in_box._step(in_box._Policy(PLAN.told(), 300), PLAN.told(), notes)
    here = given.place(given.start)
    samples = [(prompt, 0, torch.from_numpy(sample(here, prompt)), logprob(here, prompt) - 0.3) for prompt in range(4)]
    got = step(torch.from_numpy(given.start), samples).numpy()
    rows = np.array([[prompt, 0, *values.numpy(), number] for prompt, _, values, number in samples])
    np.testing.assert_allclose(got, given.stepped(given.start, [rows]), atol=1e-6)
    np.testing.assert_allclose(notes[2][0].numpy(), rows, rtol=1e-6)


def test_the_synchronous_loop_is_its_steps(given: Given) -> None:
    here = given.place(given.start)
    rows = np.array([[prompt, 0, *sample(here, prompt), logprob(here, prompt)] for prompt in range(4)])
    np.testing.assert_allclose(given.synchronous(), given.stepped(given.start, [rows]))


def _told(sizes: list[tuple[int, int, int]]) -> CallResult:
    """A run in which rank 1 sends rank 0 messages: each when it is posted, its size, and when rank 0 has it."""
    sends = [Operation(1, n, SEND, 0, 0, size, 0, posted=posted) for n, (posted, size, _) in enumerate(sizes)]
    receives = [
        Operation(0, n, RECV_ANY, 1, 0, size, 0, posted=0, resumed=resumed, done=True)
        for n, (_, size, resumed) in enumerate(sizes)
    ]
    trace = Trace(2, [[Step("post", op) for op in receives], [Step("post", op) for op in sends]], virtual=True)
    return CallResult(((), ()), (None, None), trace)


@pytest.mark.parametrize(
    ("messages", "known"),
    [
        ([(11, 44, 15), (21, 44, 22)], [15, 22]),
        ([(2, 8, 3), (11, 44, 18), (12, 8, 19), (21, 44, 22)], [19, 22]),  # a request for the next prompt may come last
        ([(11, 8, 12), (21, 80, 23)], [23, 23]),  # nothing before the second one can hold a sample
        ([(11, 8, 12)], [np.inf, np.inf]),
    ],
)
def test_a_sample_is_known_when_all_is_there_that_may_tell_of_it(
    messages: list[tuple[int, int, int]], known: list[float]
) -> None:
    found = history._learned(PLAN, _told(messages), 1, [10, 20], [0, 13])
    assert [each * history.NANOSECONDS for each in found] == pytest.approx(known)


def test_the_killed_generator_never_ends_the_generate_in_which_it_dies() -> None:
    deadly = [case for case in cases(Draw(1)) if case.group == "death"]
    assert {case.expected.plan.dies_in for case in deadly} == {1, 2}
    for case in deadly:
        plan = case.expected.plan
        slowest = max(plan.seconds[plan.killed - plan.trainers])
        assert (plan.dies_in - 1) * slowest < plan.dies_at < in_box.FOREVER
