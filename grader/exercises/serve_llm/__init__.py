"""Engine: continuous batching over a paged cache of keys and values.

Iteration-level scheduling (Yu et al. 2022, "Orca", section 3), blocks, tables and preemption by computing anew (Kwon
et al. 2023, "PagedAttention", sections 4.2 to 4.5), prompts cut into chunks that share steps with decoding (Agrawal et
al. 2024, "Sarathi-Serve", section 4). The model is a real one, small, which reads and writes the blocks that tables
name. What a run was is read here from its record: whose each slot is, and what each step might have computed.
"""

from __future__ import annotations

from collections.abc import Iterator

from grader.exercise import Check, Draw, Exercise
from grader.exercises.common import checks
from grader.exercises.serve_llm import traces
from grader.exercises.serve_llm.judging import Served, right, throughput
from grader.ranks.program import Function
from grader.worlds.cases import Case
from grader.worlds.ranks import Ranks

PARAMETERS = ("model", "blocks", "block_size", "max_tokens_per_step")
RUN = ("tokens", "reads", "form")
BUILT = {  # groups of traces about who is served when, and the rules that they are built for
    "budget": ("budget", "fill", "again"),
    "order": ("order",),
    "preempt": ("preempt", "again", "stands", "order", *RUN),
}


def cases(draw: Draw) -> Iterator[Case]:
    """A call for each trace; an engine may take six times as many steps as one request after the other would."""
    for group, label, ample, script in traces.all_of({group: draw.generator(group) for group in traces.GROUPS}):
        trace, answers = script.drawn()
        steps = sum(len(one.prompt) for one in trace.requests) // trace.budget + sum(map(len, answers))
        told = (trace.told(), 60 + 6 * steps)
        yield Case(group, label, (told,), "Engine", expected=Served(trace, answers, ample), by="served")


EXERCISE = Exercise(
    name="serve_llm",
    chapter="17",
    title="Continuous batching over a paged cache",
    minutes=120,
    difficulty=3,
    cost="seconds",
    world=Ranks((Function("Engine", PARAMETERS),), cases, limits=checks.TRAINING),
    checks=(
        Check("tokens", "Every request gets the tokens that it gets alone", 5,
              right(("alone", "together"), (*RUN, "stands", "again"))),
        Check("slots", "Nobody writes to a slot that another request uses", 2, right(("twins", "prefix"), ("slots", *RUN))),
        Check("budget", "Decoding first, then prompts, up to max_tokens_per_step", 5,
              right(("budget",), BUILT["budget"])),
        Check("order", "First come, first served, also if the first does not fit", 2, right(("order",), BUILT["order"])),
        Check("preempt", "With too few blocks the youngest is preempted and computed anew", 5,
              right(("preempt",), BUILT["preempt"])),
        Check("prefix", "Whole blocks of an equal prompt are shared", 4, right(("prefix",), ("prefix", *RUN))),
        Check("cancel", "A cancelled request returns nothing, and its blocks are free at once", 3,
              right(("cancel",), ("waits", "stands", *RUN))),
        Check("leak", "After all that, every block is free", 2, right(("leak",), ("waits", "stands", "again", "preempt"))),
        Check("throughput", "At least 0.9 of the reference's throughput", 4,
              throughput("throughput", BUILT)),
    ),
)  # fmt: skip
