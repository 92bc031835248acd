"""prefill(requests, model, decoders) and decode(model, prefillers): serving with prefill and decoding on ranks of their own.

Prefill computes, decoding reads memory: on the same devices each disturbs the other (Zhong et al. 2024, "DistServe:
Disaggregating Prefill and Decoding for Goodput-optimized Large Language Model Serving"; Patel et al. 2024, "Splitwise:
Efficient Generative LLM Inference Using Phase Splitting", section 4: the KV cache is transferred layer by layer).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grader.exercise import Check, Draw, Exercise
from grader.exercises.common import checks
from grader.exercises.disaggregated_serving import judging
from grader.exercises.disaggregated_serving.given import HEADS, Given, Plan, drawn
from grader.exercises.disaggregated_serving.served import served
from grader.ranks import faults
from grader.ranks.network import ROUNDS, Network
from grader.ranks.program import Function, Strided
from grader.says import counted
from grader.worlds.cases import Case
from grader.worlds.ranks import Ranks

LAYER = 1e-3  # seconds of a layer for each token of a prompt
WIDTH = 8
TOKEN_BYTES = 2 * WIDTH * 4  # of one layer's cache


def _network(share: float) -> Network:
    """One on which a layer's cache takes `share` of the time that the layer takes to compute."""
    return Network(alpha=LAYER / 100, beta=share * LAYER / TOKEN_BYTES)


DEATHS = tuple(f"death {number}" for number in range(1, 11))  # a group each: one that goes wrong hides no other
SPREAD = DEATHS[3], DEATHS[4], DEATHS[6], DEATHS[9]  # in which several prefillers and decoders share what is lost
WITHOUT = "tokens", "bytes", "busy"  # groups of cases in which nobody dies
SLOW, FAST = _network(0.6), _network(0.1)


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check. No case but those of `real` is made on real processes: which decoder asks first may
    decide there who gets what, so messages may differ."""
    quick, long = 0.02, 0.3

    def plan(
        prefillers: int, decoders: int, lengths: tuple[int, ...], layers: int, *decode: float, **more: Any
    ) -> Plan:
        times = decode if len(decode) == decoders else decode * decoders
        return Plan(prefillers, decoders, lengths, layers, LAYER, times, **more)

    yield _case(draw, "tokens", plan(1, 1, (4, 7, 2), 2, quick), FAST)
    yield _case(draw, "tokens", plan(1, 2, (9,), 3, quick), FAST)
    yield _case(draw, "tokens", plan(2, 2, (5, 1, 9, 7, 12), 3, quick, zero=True), FAST)
    yield _case(draw, "tokens", plan(1, 4, (3, 8, 6, 11, 4, 9), 1, quick), FAST)
    yield _case(draw, "tokens", plan(3, 2, (8, 3, 12, 5, 2, 10, 7), 4, quick, 0.07), FAST)
    yield _case(draw, "tokens", plan(3, 4, (6, 9), 2, quick), FAST)
    yield _case(draw, "bytes", plan(2, 2, (60, 84, 72, 91), 3, quick), FAST)
    yield _case(draw, "bytes", plan(2, 3, (70, 95, 64, 82, 77, 58), 1, quick), FAST)  # little room for headers
    for pairs in (1, 2, 3):  # long prompts, beside which a few words between ranks take no time
        yield _case(draw, "overlap", plan(pairs, pairs, (150,) * pairs, 4, quick), SLOW)
    many = (6, 4, 7, 5, 8, 6, 4, 7, 5, 6, 8, 4, 6, 5, 7, 4, 8, 6, 5, 7, 4, 6, 8, 5)  # no bound on what is under way
    yield _case(draw, "busy", plan(1, 2, many, 3, 2.0, 0.004), FAST)
    yield _case(draw, "busy", plan(2, 3, (6, 9, 4, 7, 5, 8, 6, 7, 9, 4, 5, 6), 3, 0.004, 2.0, 0.004), FAST)
    yield _case(draw, "busy", plan(3, 2, (6, 9, 4, 7, 5, 8), 3, 0.004, 2.0), FAST)
    lengths = (6, 9, 4, 7, 5, 8)
    deaths = (
        plan(1, 2, lengths, 2, 0.005, killed=1, during=1),  # long before the last prefill
        plan(1, 3, lengths, 2, long, quick, quick, killed=1, during=2),  # all else was decoded long ago
        plan(2, 2, (7, 5), 3, long, killed=3, during=1),  # its only one
        plan(2, 3, lengths, 3, long, killed=2, during=1),  # sends to it are pending
        plan(2, 3, lengths, 3, long, killed=4, during=2),  # the prefillers have nothing more to do
        plan(3, 2, lengths, 3, long, quick, killed=4, during=3),  # it is done before the others
        # The others decode their first one. Of what is lost each prefiller has a part, so whoever is told first that all
        # is over misses something.
        plan(2, 3, lengths, 2, 0.001, long, long, killed=2, during=2),
        plan(2, 3, (4, 60, 3, 80, 5, 70), 3, 0.002, killed=4, during=1),  # a prefiller is late to hear of it
        # It had finished two of rank 1's requests, which take long to prefill, and dies in one of rank 0's, which is
        # soon done again: by then each request was decoded once, somewhere, and one is still to be handed out again.
        plan(2, 3, (4, 4, 60, 30, 60, 4, 4, 4, 4, 30, 4, 4), 2, 0.1, 0.002, 0.002, killed=2, during=4),
        # The other two may have other numbers of requests. Rank 0 still computes when the lost one is decoded again.
        plan(2, 3, (60, 9, 40, 7), 3, 0.1, 0.06, quick, killed=3, during=1, ordered=True),
    )
    for group, each in zip(DEATHS, deaths, strict=True):
        yield _case(draw, group, each, FAST)
    yield _case(draw, "real", Plan(2, 2, (5, 8, 3, 6, 9), 3, 0.0, (0.0, 0.0)), ROUNDS, "gloo")
    yield _case(draw, "real", Plan(1, 3, (7, 4, 6), 2, 0.0, (0.0, 0.0, 0.0)), ROUNDS, "gloo")


def _case(draw: Draw, group: str, plan: Plan, network: Network, engine: str = "sim") -> Case:
    """One run. Only prefillers are told the prompts; decoders know how long each is, and its answer."""
    label = (
        f"{counted(plan.prefillers, 'prefiller')}, {counted(plan.decoders, 'decoder')} and "
        f"{counted(len(plan.lengths), 'request')}"
    )
    found: Given = drawn(plan, draw, f"{group} {plan}")
    told = {"prefillers": plan.prefillers, "heads": HEADS, "layer": plan.layer}
    answers = {str(key): [len(each.prompt), len(each.tokens)] for key, each in found.requests.items()}
    prefills = {**told, "prefills": True, "requests": [[key, each.prompt] for key, each in found.requests.items()]}
    tensors = [Strided.of(value) for value in (found.embed, found.positions, found.weights)]
    arguments = [(prefills, *tensors) for _ in plan.prefilling]
    for decode in plan.decode:
        arguments.append(({**told, "prefills": False, "answers": answers, "decode": decode}, *tensors))
    befalls = (f"kill:{plan.killed}@compute={plan.during}",) if plan.during else ()
    return Case(
        group, label, tuple(arguments), engine=engine, network=network, by="serve", expected=found, telling=False,
        faults=tuple(faults.parse(text, plan.ranks) for text in befalls), simulated=engine == "sim",
    )  # fmt: skip


EXERCISE = Exercise(
    name="disaggregated_serving",
    chapter="17",
    title="Prefill and decode on ranks of their own",
    cost="seconds",
    minutes=75,
    difficulty=3,
    world=Ranks(
        (Function("prefill", ("requests", "model", "decoders")), Function("decode", ("model", "prefillers"))),
        cases,
        p2p_only=True,
        limits=checks.TRAINING,
    ),
    checks=(
        Check("tokens", "Each request's tokens are those of the model alone", 4, checks.right(served, "tokens")),
        Check(
            "balance",
            "Each request is prefilled and decoded once, and the work is shared evenly",
            3,
            judging.balance(*WITHOUT),
        ),
        Check("bytes", "Each cache is sent once, and little else", 3, judging.sizes),
        Check("overlap", "A layer's cache is on its way while the next is computed", 4, judging.overlap),
        Check("busy", "A busy decoder does not hold up a prefiller", 4, judging.busy),
        Check(
            "death",
            "A decoder dies, and all requests are decoded by the others",
            6,
            checks.right(served, DEATHS[0], others=DEATHS[1:]),
        ),
        Check(
            "shared_out", "Only the dead rank's requests are done again, shared evenly", 3, judging.shared_out(*SPREAD)
        ),
        Check("waited", "Every request is waited for", 2, judging.waited(*WITHOUT, *DEATHS)),
        Check("real", "On four real processes", 2, checks.right(served, "real")),
    ),
)
