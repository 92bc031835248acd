"""The pipeline schedules that torch.distributed.pipelining ships, as tables of actions, and their runs in virtual time.

torch plans each rank's actions before the first step. `planned` asks it for them without a model, without processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.distributed.pipelining.schedules import _Action, get_schedule_class
from torch.distributed.pipelining.stage import _PipelineStageBase

from courselib.svg import Plot
from courselib.timeline import timeline

Act = list[Any]  # [name, kind, chunk, micro-batch, seconds, from where, to where]
KINDS = {"F": "forward", "B": "backward, whole", "I": "backward, inputs", "W": "backward, weights"}

_LETTERS = {"FORWARD": "F", "FULL_BACKWARD": "B", "BACKWARD_INPUT": "I", "BACKWARD_WEIGHT": "W"}


def named(act: str) -> str:
    """A pass such as "F1" in words: its kind and, where a pipeline's two ways are told apart, the second piece."""
    return KINDS[act[0]] + (", second piece" if act in ("F1", "I1") else "")


class _Bare(_PipelineStageBase):  # type: ignore[misc]
    """A stage as far as a plan needs it: its number and its rank; it has no module, and no process group."""

    def __init__(self, stage: int, stages: int, ranks: int) -> None:
        self.stage_index, self.num_stages = stage, stages
        self.group_size, self.group_rank = ranks, stage % ranks
        self.group, self.device, self.submod, self.has_backward = None, "cpu", None, True
        self.stage_index_to_group_rank: dict[int, int] = {}

    def _create_grad_recv_info(self, *_: Any) -> Any: ...

    def _prepare_forward_infra(self, *_: Any, **__: Any) -> Any: ...

    def _prepare_backward_infra(self, *_: Any, **__: Any) -> Any: ...


def planned(schedule: str, ranks: int, micro_batches: int, pieces: int = 2) -> dict[int, list[_Action]]:
    """What each rank does, in torch's own order: `schedule` is a name such as "ZBVZeroBubble" or "DualPipeV".

    Raises ValueError for a name that torch does not know.
    """
    stages = [_Bare(piece * ranks, ranks * pieces, ranks) for piece in range(pieces)]
    made = get_schedule_class(schedule)(stages, micro_batches, loss_fn=lambda *_: None)
    return {rank: [act for act in acts if act is not None] for rank, acts in made.pipeline_order.items()}


def homes(schedule: str, ranks: int, pieces: int = 2) -> dict[int, int]:
    """On which rank each stage is: in a V the second half goes back from the last rank to the first."""
    stages = range(ranks * pieces)
    if schedule in ("ZBVZeroBubble", "DualPipeV"):
        return {stage: stage if stage < ranks else 2 * ranks - 1 - stage for stage in stages}
    return {stage: stage % ranks for stage in stages}


def acts(
    schedule: str, ranks: int, micro_batches: int, seconds: Mapping[str, float], pieces: int = 2
) -> list[list[Act]]:
    """For each rank its acts, for `run_plan`. `seconds` of F, I and W of one piece; a whole backward pass is I + W.

    Two passes that DualPipeV overlaps become two acts, one after the other: what it hides is communication.
    """
    home, last = homes(schedule, ranks, pieces), ranks * pieces - 1
    takes = {**seconds, "B": seconds["I"] + seconds["W"]}

    def act(one: _Action) -> Act:
        kind, stage, batch = _kind(one), one.stage_index, one.microbatch_index
        before, after = (stage - 1, stage + 1) if kind == "F" else (stage + 1, stage - 1)
        comes = [home[before], _tag(kind, before, batch)] if kind != "W" and 0 <= before <= last else []
        goes = [home[after], _tag(kind, stage, batch)] if kind != "W" and 0 <= after <= last else []
        if comes and comes[0] == home[stage]:
            comes = []  # from one piece to the next on the same rank: nothing is sent
        if goes and goes[0] == home[stage]:
            goes = []
        return [f"{kind}{batch}", kind, stage // ranks, f"{stage}.{batch}", takes[kind], comes, goes]

    rows = planned(schedule, ranks, micro_batches, pieces)
    return [[act(one) for acted in rows[rank] for one in (acted.sub_actions or [acted])] for rank in range(ranks)]


def _kind(one: _Action) -> str:
    return _LETTERS[one.computation_type.name]


def _tag(kind: str, stage: int, batch: int) -> int:
    """A number for each message: activations and gradients of a stage and a micro-batch."""
    return 2 * (1000 * stage + batch) + (kind == "F")


def most_alive(rows: Sequence[Sequence[Act]]) -> list[int]:
    """How many activations each rank keeps at most: from a forward pass until its weights' gradient is there."""
    most = []
    for row in rows:
        alive = peak = 0
        for _, kind, *_ in row:
            alive += (kind == "F") - (kind in "BW")
            peak = max(peak, alive)
        most.append(peak)
    return most


def acts_of(order: Sequence[str], stage: int, stages: int = 4) -> list[Act]:
    """The acts of one stage a rank, for `run_plan`, of names such as "F0", "B0" (of inputs), "W0". Each takes 1 s."""
    acts: list[Act] = []
    for name in order:
        kind, batch = ("I" if name[0] == "B" else name[0]), int(name[1:])
        before, after = (stage - 1, stage + 1) if kind == "F" else (stage + 1, stage - 1)
        tag = 2 * batch + (kind == "F")
        comes = [before, tag] if kind != "W" and 0 <= before < stages else []
        goes = [after, tag] if kind != "W" and 0 <= after < stages else []
        acts.append([name, kind, 0, "", 1.0, comes, goes])
    return acts


def picture(title: str, run: Any) -> Plot:
    """What `run_plan` returned on each rank, as a row of its passes."""
    rows = {
        f"rank {r}": [(since, until, label, named(kind)) for since, until, label, kind in boxes]
        for r, boxes in enumerate(run.returned)
    }
    return timeline(title, rows)
