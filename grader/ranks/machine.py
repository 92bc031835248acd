"""Machines by name: how fast one rank multiplies matrices, and what connects the ranks. Plain data, without torch.

The numbers are those of the course's table (chapter 01, "The machine of this course").
"""

from __future__ import annotations

from dataclasses import dataclass

from grader.ranks.network import PRESETS, BadNetwork, Network


@dataclass(frozen=True)
class Machine:
    """`peak` and `sustained` are FLOP/s of one rank's GPU in dense bf16; `network` is the preset of the same name."""

    peak: float
    sustained: float
    network: Network


# Peaks: NVIDIA's data sheets. Sustained while it computes: the course's assumption, 60 % of the peak,
# since messages and waiting are counted apart (chapter 01, "Two rates, and when to take which").
MACHINES = {
    "8xh100": Machine(989e12, 600e12, PRESETS["8xh100"][0]),  # DGX H100
    "nvl72": Machine(2500e12, 1500e12, PRESETS["nvl72"][0]),  # GB200 NVL72: 360 PFLOP/s with sparsity; half is dense
}


def parse(name: str) -> Machine:
    """The machine of that name. Raises BadNetwork with a sentence."""
    if name not in MACHINES:
        raise BadNetwork(f"no machine is called {name!r}; write {' or '.join(MACHINES)}")
    return MACHINES[name]
