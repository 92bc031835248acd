"""ZeRO's stages and FSDP: what a rank keeps, and what it sends in a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from courselib.figures.shown import figure
from courselib.plot import bars

RECIPES = {  # bytes a parameter: parameters, gradients, optimizer state
    "mixed": (2, 2, 12),
    "float32": (4, 4, 8),
    "bf16": (2, 2, 4),
}


@dataclass(frozen=True)
class Sharded:
    """Bytes that a rank keeps of parameters, gradients and optimizer state, and bytes that it sends in one step."""

    parameters: float
    gradients: float
    optimizer: float
    sent: float

    @property
    def memory(self) -> float:
        return self.parameters + self.gradients + self.optimizer


def sharded(parameters: float, ranks: int, recipe: str, micro_batches: int) -> dict[str, Sharded]:
    """Five ways to keep a model of so many parameters on `ranks` ranks, by name.

    Memory is that of the states alone: no activations, no buffers, and in stage 3 not the layers that are whole at the
    moment (Rajbhandari et al., "ZeRO", 2020, sections 3 and 7). A reduce-scatter or an all-gather of S bytes sends
    (N-1)/N S from each rank. With `micro_batches` in a step DDP and stage 1 communicate once: gradients are summed in
    place. Stage 2 reduces each micro-batch's gradients, stage 3 also gathers the parameters twice for each. "kept" is
    FSDP with reshard_after_forward=False: parameters stay whole from the forward pass to the end of the backward pass.
    """
    whole, gradient, state = (parameters * each for each in RECIPES[recipe])
    one = (ranks - 1) / ranks * whole  # gradients have the type of the parameters
    often = micro_batches
    return {
        "DDP": Sharded(whole, gradient, state, 2 * one),
        "ZeRO 1": Sharded(whole, gradient, state / ranks, 2 * one),
        "ZeRO 2": Sharded(whole, gradient / ranks, state / ranks, (often + 1) * one),
        "ZeRO 3": Sharded(whole / ranks, gradient / ranks, state / ranks, 3 * often * one),
        "FSDP kept": Sharded(whole, gradient / ranks, state / ranks, 2 * often * one),
    }


def sharding(
    parameters: float = 7e9,
    ranks: int = 8,
    micro_batches: int = 8,
    recipe: str = "mixed",
    *,
    memory: float = 80e9,
    bandwidth: float = 50e9,
) -> Any:
    """Memory of a rank and traffic of a step for DDP, ZeRO's stages and FSDP.

    `recipe` is a key of `RECIPES`; `memory` in bytes a rank, `bandwidth` in bytes a second each way of a rank.
    """
    found = sharded(parameters, ranks, recipe, micro_batches)
    still = bars(
        "ZeRO and FSDP: memory and traffic of a rank", {name: one.memory for name, one in found.items()}, unit="B"
    )
    return figure(
        "sharding",
        still,
        question="Which of these fit into 80 GB, and which of those sends least? Try 1 micro-batch, then 64. Then "
        "take 70 billion parameters on 64 ranks: what is left?",
        answer="7 billion parameters on 8 ranks: all fit but DDP, which needs 112 GB. Stage 1 sends least, as "
        "much as DDP would. With 1 micro-batch stage 2 sends the same. With A micro-batches stage 1 sends"
        " 2 parts, stage 2 sends A + 1 and stage 3 sends 3 A. So take the lowest stage that fits. 70 "
        "billion on 64 ranks: only stage 3 fits, with 17.5 GB. Then take few micro-batches, as large as "
        "memory allows.",
        parameters=parameters, ranks=ranks, micro_batches=micro_batches, recipe=recipe, memory=memory,
        bandwidth=bandwidth,
    )  # fmt: skip
