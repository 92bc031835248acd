"""split, merge and ring_attention: exact attention over a sequence of which every rank has a part.

K and V go round a ring, and a softmax that is rescaled as it meets them needs no whole row (Liu, Zaharia, Abbeel 2023,
Ring Attention with Blockwise Transformers, section 3; Milakov and Gimelshein 2018, algorithm 3). Which positions a rank
has decides how even the work is under a causal mask (Brandon et al. 2023, Striped Attention, section 3).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from grader.exercise import Check, Draw, Exercise
from grader.exercises.common import checks
from grader.exercises.ring_attention import judging, measured, problems
from grader.exercises.ring_attention.judging import FAR, NEAR, Attention, Cut
from grader.exercises.ring_attention.problems import Size
from grader.ranks.network import ROUNDS, Network
from grader.ranks.program import Function, Strided
from grader.worlds.cases import Case
from grader.worlds.ranks import Ranks

PARAMETERS = ("q", "k", "v", "causal")
TOLD = 4  # ranks of the cases that are compared with real processes, which share one world
LAYOUTS = ("contiguous", "heads last", "every other")


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check. Logits are up to 6 or 12, and about 200 in "large"."""
    for count, length in ((1, 2), (2, 2), (3, 4), (4, 6), (1, 16), (2, 18), (3, 32), (5, 16), (8, 16), (4, 50)):
        yield _cut(draw, count, length)
    for causal in (False, True):
        group = "causal" if causal else "full"
        for n in range(1, 9):
            layout, most = LAYOUTS[n % 3], 12.0 if n % 3 == 1 else 6.0
            length = 2 if n in (5, 8) else 4
            sizes: tuple[Size, ...] = (Size(n, length, batch=1 + n % 2, heads=1 + n % 3, dim=(4, 5, 8)[n % 3]),)
            if n == TOLD:
                sizes = (Size(n, 6), Size(n, 6))  # two calls, as of a model's layers; only one of them with a mask
            yield _attend(draw, group, causal, sizes, most=most, layout=layout)
        yield _attend(draw, "large", causal, (Size(2, 8),), far="up and down", layout="heads last")
        yield _attend(draw, "large", causal, (Size(TOLD, 8),), far="mixed" if causal else "up and down")
    yield _attend(draw, "memory", False, (Size(5, 12),), coded=True)
    yield _attend(draw, "memory", True, (Size(TOLD, 16),), coded=True)
    for n in (TOLD, 8):
        yield _attend(draw, "overlap", False, (Size(n, 16, dim=16),), timed=True)
    yield _attend(draw, "real", True, (Size(TOLD, 160),), engine="gloo")


def _cut(draw: Draw, count: int, length: int) -> Case:
    """One tensor that two ranks split and merge, for itself each."""
    shape = (2, 3, length, 4)
    label = f"{count * length} positions in {count} shard{'s' * (count > 1)}"
    generator = draw.generator(f"split {label}")
    drawn = [generator.standard_normal(shape).astype(np.float32) for _ in range(2 * count)]
    whole, shards = np.concatenate(drawn[:count], axis=2), tuple(drawn[count:])
    given = (Strided.of(whole), [Strided.of(shard) for shard in shards], count)
    return Case("split", label, (given,) * 2, "split", by="cut", telling=False, expected=Cut(whole, shards))


def _attend(
    draw: Draw, group: str, causal: bool, sizes: tuple[Size, ...], *, timed: bool = False, engine: str = "sim",
    coded: bool = False, far: str = "", **more: Any,
) -> Case:  # fmt: skip
    """One or more calls on every rank, forward and backward. Only the first of them has a causal mask."""
    size, masks = sizes[0], (causal, *[False] * (len(sizes) - 1))
    label = f"{'a causal mask' if causal else 'no mask'} on {size}"
    if causal and len(sizes) > 1:
        label = f"a causal mask in call 1 and none in call 2, on {size}"
    generator = draw.generator(f"{group} {label}")
    made = [problems.draw(generator, each, coded=coded, far=far, **more) for each in sizes]
    given, codes = tuple(problem for problem, _ in made), made[0][1]

    def told(rank: int) -> tuple[Any, ...]:
        plan = {
            "causal": list(masks),
            "seconds": measured.seconds(size) if timed else 0.0,
            "together": 1.0 if timed else 0.0,
            "codes": [code for other, code in enumerate(codes) if other != rank] if coded else [],
        }
        return plan, *([*problem.told(rank)] for problem in given)

    network: Network = measured.network(size) if timed else ROUNDS
    arguments = tuple(told(rank) for rank in range(size.ranks))
    expected = Attention(given, masks, FAR if far else NEAR)
    telling = size.ranks == TOLD and not coded
    return Case(group, label, arguments, "ring_attention", engine, network, expected, telling, by="attend",
                simulated=coded)  # fmt: skip


EXERCISE = Exercise(
    name="ring_attention",
    chapter="16",
    title="Ring attention",
    minutes=90,
    difficulty=3,
    cost="seconds",
    world=Ranks(
        (Function("split", ("x", "n")), Function("merge", ("shards",)), Function("ring_attention", PARAMETERS)),
        cases,
        p2p_only=True,
        imported=("torch._dynamo",),
        limits=checks.TRAINING,
    ),
    checks=(
        Check("split", "split() cuts N equal shards, merge() undoes it bit for bit", 2, judging.split),
        Check("full", "Without a mask: full attention and its gradients, on 1 to 8 ranks", 5, judging.right("full")),
        Check("causal", "With a causal mask: the same", 5, judging.right("causal")),
        Check("large", "With logits of about 200, also far below zero", 3, judging.right("large")),
        Check("bytes", "At most N-1 times K and V forward, and 2N times backward", 3, measured.sent),
        Check("memory", "Two foreign shards at a time, none between the passes", 4, measured.memory),
        Check("overlap", "Transfers are hidden behind the computing", 3, measured.overlap),
        Check("balance", "Under the mask, every rank has the same work", 2, judging.balance),
        Check("waited", "Every request is waited for", 1, judging.waited),
        Check("real", "On four real processes, with a longer sequence", 2, judging.right("real")),
    ),
)
