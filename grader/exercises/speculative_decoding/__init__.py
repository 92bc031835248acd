"""generate: speculative decoding, whose outputs have exactly the target's distribution.

Leviathan et al. 2023, "Fast Inference from Transformers via Speculative Decoding", algorithm 1 and appendix A.1; Chen et
al. 2023, "Accelerating Large Language Model Decoding with Speculative Sampling". Nothing is estimated: on models whose
probabilities are multiples of 1/2 or 1/4 every way that a run can go is tried, and the outputs' distribution is compared
with the target's number by number.
"""

from __future__ import annotations

from grader.exercise import Check, Exercise
from grader.exercises.speculative_decoding import counts, spreads, tried
from grader.exercises.speculative_decoding.cases import cases
from grader.ranks.program import Function, Limits
from grader.worlds.ranks import Ranks

EXERCISE = Exercise(
    name="speculative_decoding",
    chapter="17",
    title="Speculative decoding",
    cost="seconds",
    minutes=60,
    difficulty=2,
    world=Ranks(
        (Function("generate", ("target", "draft", "prompt", "max_new_tokens", "k", "rng")),),
        cases,
        limits=Limits(cpu_seconds=20, idle_seconds=15, silent_seconds=40, wall_seconds=60),
    ),
    checks=(
        Check("short", "Few tokens, probabilities in quarters: exactly the target's distribution", 6,
              spreads.distribution("short")),
        Check("long", "Several rounds or drafts, in halves: exactly the target's distribution", 5,
              spreads.distribution("long")),
        Check("agreeing", "A draft that agrees: k + 1 tokens for each call of the target", 3, counts.calls("agreeing")),
        Check("wrong", "A draft that is wrong now and then, or always", 3, counts.calls("wrong")),
        Check("budget", "At most k drafts and 2k + 1 random numbers a round", 2, counts.budget),
        Check("length", "A list of exactly max_new_tokens ints", 1, tried.lengths),
    ),
)  # fmt: skip
