"""Runs of nodes that would never end: sooner over than the simulator's own limit, which is meant for all."""

from __future__ import annotations

from grader.lost import Lost
from grader.nodes.life import Step
from grader.nodes.plan import Played
from grader.verdict import Diagnosis


def bounded(played: Played, most: int) -> None:
    """End a run in which nodes have sent more than `most` messages. It is far beyond what any right solution sends."""
    sim = played.sim

    def look(node: str, step: Step) -> None:
        if len(sim.story.sent) > most:
            line = next((effect[-1] for effect in reversed(step.effects) if effect[0] == "send"), None)
            where = f" line {line}" if line else ""
            text = (
                f"The nodes went on sending: more than {most} messages by {sim.time:.2f} s, the last by {node}{where}. "
            )
            text += "Does every message cause others, for ever?"
            raise Lost(Diagnosis("timeout", text, None, sim.file, line, f"at most {most}", "more"))

    sim.on_step.append(look)
