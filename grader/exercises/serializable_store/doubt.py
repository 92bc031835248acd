"""A transaction whose owners hear of no outcome for long, while others want its keys and give up."""

from __future__ import annotations

import random
from collections.abc import Callable

from grader.exercises.common.nodes import names
from grader.exercises.common.scenes import Script, Staged
from grader.exercises.serializable_store.faults import SETTLED
from grader.exercises.serializable_store.plans import Drawn, ask, plan, read
from grader.nodes.bench import NodeBench
from grader.nodes.life import Step
from grader.nodes.plan import Plan, Played

ASKED, BEGIN = "n3", 1.0  # which node coordinates the transaction, and when it is sent, in seconds
HEALED = 14.0  # seconds


def others_give_up(rng: random.Random, shape: None, seed: int) -> Plan:
    """Bob and Carol want a key of Alice's transaction at once, and again when they have waited for longer than the 5 s in
    which everybody must be answered."""
    nodes = names(4)
    drawn = Drawn(rng, nodes, seed)
    x, y = drawn.named("x", "n1"), drawn.named("y", "n2")
    asks = {
        "alice": (ask(ASKED, drawn.append(x), drawn.append(y), at=BEGIN),),
        "bob": (ask("n4", drawn.append(x), at=2.0), ask("n4", read(x), at=8.0), ask("n4", read(y), at=8.5)),
        "carol": (ask("n4", read(x), drawn.append(y), at=2.0), ask("n2", drawn.append(y), read(x), at=9.0)),
    }
    label = f"{ASKED} reaches nobody from its answer to alice on, up to {HEALED:g} s"
    return plan(drawn, asks, HEALED + SETTLED, label, healed=HEALED)


def unheard(bench: NodeBench) -> Callable[[Played], None]:
    """Prepares such a run: the coordinator is cut off in the step in which it answers."""

    def prepare(played: Played) -> None:
        scene = played.notes = Staged(played, bench)

        def look(node: str, step: Step) -> None:
            if node == ASKED and any(effect[0] == "send" and effect[1] == "alice" for effect in step.effects):
                scene.cut((ASKED,), [name for name in scene.names if name != ASKED])
                scene.sim.on_step.remove(look)

        scene.sim.on_step.append(look)
        scene.play(_script(scene))

    return prepare


def _script(scene: Staged) -> Script:
    yield from scene.pause(scene.played.plan.until)
