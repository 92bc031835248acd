"""ExpertParallel(router, experts, k, capacity): a mixture of experts whose experts are spread over the ranks.

Tokens travel to their experts and back by all-to-all (Lepikhin et al. 2021, GShard, section 3.2), the router is replicated.
Top-k routing as Shazeer et al. 2017, section 2.1; with k = 1 as Fedus et al. 2022 (Switch), but for the weight, which is 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from grader.exercise import Check, Draw, Exercise
from grader.exercises.common import checks
from grader.exercises.expert_parallel import judging, moe, sending
from grader.exercises.expert_parallel.found import Job
from grader.exercises.expert_parallel.judging import calls, calls_without_tokens, judged, output
from grader.exercises.expert_parallel.moe import FEATURES, HIDDEN, LEAST_GAP, Batch, Layer
from grader.ranks.program import Function, Strided
from grader.worlds.cases import Case
from grader.worlds.ranks import Ranks

TRAINED = ("top2", "top1", "empty", "capacity")  # groups in which gradients are judged
CLASS = "ExpertParallel"
EXPERTS = {1: 4, 2: 4, 3: 6, 4: 8}
Tokens = Sequence[tuple[int, ...]]  # of each rank, step by step


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check."""
    counts = {1: ((7,), (4,)), 2: ((5, 9), (8, 3), (8, 3)), 3: ((6, 4, 9), (5, 8, 3)), 4: ((7, 4, 6, 9), (5, 8, 1, 6))}
    for n, tokens in counts.items():
        for engine in ("sim", "gloo")[: 1 + (n == 4)]:  # simulated ranks could share what they like
            yield _case(draw, "top1", tokens, k=1, experts=n if n > 2 else EXPERTS[n], engine=engine)
            yield _case(draw, "top2", tokens, k=2, engine=engine)
            yield _case(draw, "capacity", tokens[:1], k=2, capacity=3, engine=engine)
    yield _case(
        draw, "top1", ((5, 9), (8, 3)), k=1, layers=True, what="a layer for each step, all forward before any backward"
    )
    yield _case(draw, "capacity", ((5, 9),), k=2, capacity=0)
    yield _case(draw, "capacity", ((8, 9),), k=3, capacity=5)  # topk() sorts two without being asked, and not three
    yield _case(draw, "empty", ((6, 0, 5), (0, 7, 4)), k=2, what="no tokens on rank 1, then on rank 0")
    yield _case(draw, "empty", ((5, 6), (4, 7)), k=2, idle=(0,), what="no tokens for expert 0")
    for engine in ("sim", "gloo"):
        what = "none on rank 1, and none for the experts of ranks 1 and 3"
        yield _case(draw, "empty", ((3, 0, 6, 4),), k=2, idle=(2, 3, 6, 7), what=what, engine=engine)
    yield _case(draw, "budget", ((12, 16),), k=2)
    for k in (1, 2):
        yield _case(draw, "budget", ((12, 5, 9, 16), (8, 14, 10, 6)), k=k)
    yield _case(draw, "budget", ((12, 5, 9, 16),), k=2, capacity=9)
    yield _case(draw, "budget", ((90, 130),), k=1, away=True, what="each token's on the other rank")
    yield _case(draw, "real", ((640, 35, 61, 130),), k=2, experts=4, popular=(1, 2), engine="gloo")


def _case(
    draw: Draw, group: str, tokens: Tokens, *, k: int, experts: int = 0, capacity: int | None = None,
    idle: tuple[int, ...] = (), popular: tuple[int, ...] = (), what: str = "", engine: str = "sim", layers: bool = False,
    away: bool = False,
) -> Case:  # fmt: skip
    """A layer and its batches. No token chooses an expert that is `idle`, all others get some, and most tokens choose
    the `popular` ones; with `away` none chooses an expert of its own rank. Where experts have a capacity, the batches are such that every usual mistake drops other pairs
    than the rule."""
    n = len(tokens[0])
    experts = experts or EXPERTS[n]
    label = f"top-{k} of {experts} experts on {n} {'rank' if engine == 'sim' else 'real process'}"
    label += ("s" if engine == "sim" else "es") * (n > 1)
    label += f" with a capacity of {capacity}" * (capacity is not None) + f", {what}" * bool(what)
    generator = draw.generator(f"{group} {label}")
    layer = _layer(generator, n, experts, k, capacity)
    popular = (1, 2) if capacity else popular
    batches = tuple(_batch(generator, layer, counts, idle, popular, away) for counts in tokens)
    job = Job(layer, batches, layers, away)
    return Case(group, label, _arguments(layer, batches, layers), CLASS, engine, by="train", expected=job,
                simulated=group == "budget")  # fmt: skip


def _layer(generator: np.random.Generator, n: int, experts: int, k: int, capacity: int | None) -> Layer:
    rows, _ = np.linalg.qr(generator.standard_normal((FEATURES, FEATURES)))
    shapes = (HIDDEN, FEATURES), (HIDDEN,), (FEATURES, HIDDEN), (FEATURES,)
    made = [tuple(_values(generator, shape) for shape in shapes) for _ in range(experts)]
    weight, bias = rows[:experts].astype(np.float32), _values(generator, (experts,))
    return Layer(n, weight, bias, tuple(made), k, capacity)  # type: ignore[arg-type]


def _values(generator: np.random.Generator, shape: tuple[int, ...]) -> moe.Array:
    return np.asarray(generator.normal(0, 1 / np.sqrt(shape[-1]) if len(shape) > 1 else 0.5, shape), np.float32)


def _batch(
    generator: np.random.Generator, layer: Layer, counts: tuple[int, ...], idle: tuple[int, ...],
    popular: tuple[int, ...], away: bool,
) -> Batch:  # fmt: skip
    """Of each rank so many tokens."""
    own = len(layer.experts) // layer.ranks * away
    while True:
        xs = tuple(
            _tokens(generator, layer, count, (*idle, *range(rank * own, (rank + 1) * own)), popular)
            for rank, count in enumerate(counts)
        )
        wishes = tuple(np.asarray(generator.standard_normal(x.shape), np.float32) for x in xs)
        batch = Batch(xs, wishes)
        if layer.capacity == 0:
            return batch
        routing = moe.route(layer, batch)
        others = moe.other_drops(layer, batch, routing) if layer.capacity is not None else ()
        if {*routing.chosen[routing.kept].tolist(), *idle} == {*range(len(layer.experts))} and all(
            (routing.kept != kept).any() for kept, _ in others
        ):
            return batch


def _tokens(
    generator: np.random.Generator, layer: Layer, count: int, idle: tuple[int, ...], popular: tuple[int, ...]
) -> moe.Array:
    """[count, features], from the logits that are wished: two of a token are `LEAST_GAP` apart or more."""
    experts = len(layer.experts)
    logits = np.empty((count, experts))
    for row in logits:
        order = [expert for expert in generator.permutation(experts) if expert not in idle]
        if popular and generator.random() < 0.7:
            first = popular if generator.random() < 0.7 else popular[::-1]
            order = [*first, *(expert for expert in order if expert not in popular)]
        gaps = LEAST_GAP + generator.exponential(0.4, experts)
        row[[*order, *idle]] = np.cumsum(gaps)[::-1] - gaps.sum() / 2
    rest = generator.standard_normal((count, FEATURES))  # what the router does not see
    weight = layer.weight.astype(np.float64)
    x = (logits - layer.bias) @ weight + rest - (rest @ weight.T) @ weight
    return np.asarray(x, np.float32)


def _arguments(layer: Layer, batches: tuple[Batch, ...], layers: bool) -> tuple[tuple[Any, ...], ...]:
    each = len(layer.experts) // layer.ranks
    told = layer.k, layer.capacity, Strided.of(layer.weight), Strided.of(layer.bias)
    return tuple(
        (
            *told,
            [[Strided.of(part) for part in expert] for expert in layer.experts[rank * each : (rank + 1) * each]],
            [Strided.of(batch.x[rank]) for batch in batches],
            [Strided.of(batch.wish[rank]) for batch in batches],
            layers,
        )
        for rank in range(layer.ranks)
    )


EXERCISE = Exercise(
    name="expert_parallel",
    chapter="16",
    title="Expert parallelism: tokens travel to their experts and back",
    minutes=75,
    difficulty=3,
    cost="seconds",
    world=Ranks(
        (Function(CLASS, ("router", "experts", "k", "capacity")),),
        cases,
        limits=checks.TRAINING,
        imported=("torch._dynamo",),  # functional collectives do so when they are first called
    ),
    checks=(
        Check("output", "The output of two experts a token, on 1 to 4 ranks", 3, checks.right(calls, "top2", output)),
        Check("input", "The gradient of x", 3, judged(TRAINED, judging.inputs)),
        Check("experts", "The gradients of the experts", 3, judged(TRAINED, judging.experts)),
        Check("router", "The router's gradient, summed over the ranks", 3, judged(TRAINED, judging.router)),
        Check("top1", "One expert a token", 2, checks.right(calls, "top1", output)),
        Check("empty", "Ranks and experts without tokens", 3, checks.right(calls_without_tokens, "empty", output)),
        Check("capacity", "Drops exactly by the rule", 4, checks.right(calls, "capacity", output)),
        Check("bytes", "No more bytes than tokens and counts take", 3, judged(["budget"], sending.sent)),
        Check("messages", "Three exchanges forward, two backward", 3, judged(["budget"], sending.messages)),
        Check("real", "On four real processes", 2, checks.right(calls, "real", output)),
    ),
)  # fmt: skip
