"""Serving a language model: the roofline of prefill and decode, batch size against a goal, and room in the cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from courselib import inference
from courselib.figures.shown import figure
from courselib.plot import bars, plot


@dataclass(frozen=True)
class Roofs:
    """FLOPs a byte, and FLOP/s of one GPU at most, of prefill and of decode; and where the roofs cross."""

    prefill: tuple[float, float]
    decode: tuple[float, float]
    ridge: float


def roofs(model: str, machine: str, prompt: int, batch: int, context: int) -> Roofs:
    """`model` and `machine` are keys of `inference.MODELS` and `inference.MACHINES`."""
    of, on = inference.MODELS[model], inference.MACHINES[machine]
    reads, writes = inference.prefill(of, prompt), inference.decode(of, batch, context)
    return Roofs(
        (reads.intensity, inference.roof(on, reads) / on.gpus),
        (writes.intensity, inference.roof(on, writes) / on.gpus),
        on.ridge,
    )


def roofline(
    model: str = "70B", machine: str = "8xh100", prompt: int = 2048, batch: int = 32, context: int = 2048
) -> Any:
    """Sliders for the prompt, the batch and the context, and where they put prefill and decode."""
    found, on = roofs(model, machine, prompt, batch, context), inference.MACHINES[machine]
    still = plot(
        "The roofline of one GPU",
        {"roof": [(x, min(on.flops, x * on.bandwidth)) for x in (1, found.ridge, 1e4)]},
        {"prefill": [found.prefill], "decode": [found.decode]},
        x="FLOPs a byte",
        y="FLOP/s",
        log="xy",
    )
    return figure(
        "roofline",
        still,
        question="Which of the sliders move decode to the right? Can decode reach the flat roof at a context of 8,192?",
        answer="The batch does, and a shorter context. At 8,192 tokens a larger batch soon reads more cache than "
        "weights, and every sequence brings its own cache. So the intensity of the 70 B model stays below about 60 "
        "FLOPs a byte, however large the batch. Another machine moves the roof and not the points.",
        model=model, machine=machine, prompt=prompt, batch=batch, context=context,
    )  # fmt: skip


@dataclass(frozen=True)
class Goal:
    """The batch that is chosen, the largest within the goal and what it gives; the largest that fits at all."""

    now: inference.Point
    best: inference.Point | None
    fits: int


def goal(model: str, machine: str, context: int, batch: int, tpot: float) -> Goal:
    """`tpot` in seconds a token."""
    of, on = inference.MODELS[model], inference.MACHINES[machine]
    best = inference.largest(of, on, context, tpot)
    return Goal(
        inference.point(of, on, batch, context),
        inference.point(of, on, best, context) if best else None,
        int(inference.largest(of, on, context, float("inf"))),
    )


def batches(
    model: str = "70B", machine: str = "8xh100", context: int = 8192, batch: int = 32, tpot: float = 0.02
) -> Any:
    """Batch size against the time per token, tokens a second and dollars, with a goal."""
    of, on = inference.MODELS[model], inference.MACHINES[machine]
    points = [inference.point(of, on, 2**k, context) for k in range(13)]
    still = plot(
        "Time per token and batch size",
        {"time per token": [(each.batch, each.tpot) for each in points]},
        x="sequences in a batch",
        y="seconds",
        units=("", "s"),
        log="xy",
    )
    return figure(
        "batches",
        still,
        question="How many times cheaper is a million tokens at the largest batch than at batch one, and how many "
        "times slower is each reader's stream? What ends the growth, the goal or the memory?",
        answer="70 B, 8 × H100, 8,192 tokens: batch one gives 188 tokens a second at 29.60 dollars a million. The "
        "largest batch that keeps 20 ms is 147. It gives 39 times as many tokens at 0.75 dollars, and each reader gets "
        "50 a second, a quarter. At a goal of 50 ms the memory ends it, at 162 sequences.",
        model=model, machine=machine, context=context, batch=batch, tpot=tpot,
    )  # fmt: skip


def cached(layers: int, heads: int, kv_heads: int, head: int, context: int, room: float) -> dict[str, list[float]]:
    """For each kind of attention: bytes of a token in 16 bits, and sequences of `context` tokens in `room` bytes."""
    found = {}
    for each in inference.attentions(heads, kv_heads, head):
        a_token = 2 * layers * each.numbers
        found[each.kind] = [a_token, room // (a_token * context)]
    return found


def caches(
    layers: int = 80, heads: int = 64, kv_heads: int = 8, head: int = 128, context: int = 8192, room: float = 400e9
) -> Any:
    """How many sequences fit, by kind of attention."""
    found = cached(layers, heads, kv_heads, head, context, room)
    still = bars("Sequences that fit", {kind: fit for kind, (_, fit) in found.items()})
    return figure(
        "caches",
        still,
        question="Which sliders change the row of MLA, and which do not? How many KV heads would keep as much as MLA?",
        answer="Layers, context and the room change it. Heads and their size do not, because MLA keeps one vector of "
        "512 + 64 numbers for all heads. With heads of 128 numbers that is as much as 2.25 KV heads.",
        layers=layers, heads=heads, kv_heads=kv_heads, head=head, context=context, room=room,
    )  # fmt: skip
