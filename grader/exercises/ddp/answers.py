"""Wrong gradients in words: which mistake gives such numbers?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from grader import says
from grader.exercises.common import checks
from grader.exercises.ddp import training
from grader.exercises.ddp.training import Array, Job, Step

UNUSED = 1e-3  # of the largest gradient: what a parameter's own values are compared on at least


@dataclass(frozen=True)
class Wrong:
    """What is wrong, on which rank, and the numbers."""

    message: str
    rank: int
    expected: str
    got: str


def first_wrong(
    job: Job, step: Step, returned: list[dict[str, Any]], last: Step | None = None, before: Step | None = None
) -> Wrong | None:
    """The first gradient that is not what it must be, or None. `last` is the last micro-batch alone, where there are
    several; `before` is the step before."""
    floor = UNUSED * max(float(np.abs(mean).max()) for mean in step.mean.values() if mean is not None)
    for rank in range(len(returned)):
        for name in step.mean:
            got = [checks.array(theirs.get(name)) for theirs in returned]
            if told := _told(job, step, rank, name, got, floor, last, before):
                return told
    return None


def _told(
    job: Job, step: Step, rank: int, name: str, of_all: list[Array | None], floor: float, last: Step | None,
    before: Step | None,
) -> Wrong | None:  # fmt: skip
    right, got = step.mean[name], of_all[rank]
    users = step.users(name)
    if right is None:
        if got is None:
            return None
        if job.is_frozen(name):
            said = (
                f"{name} is frozen (requires_grad=False), but has a gradient on rank {rank}. Leave frozen parameters "
                "out of the all-reduce."
            )
        else:
            said = (
                f"no rank used {name}, but rank {rank} has a gradient for it. Leave that gradient None, otherwise "
                "weight decay and momentum move a parameter that one process would leave alone."
            )
            if before is not None and before.mean[name] is not None:
                said += " Ranks used it in the step before: find out anew in each step which parameters were used."
        return Wrong(said, rank, "None", _short(got))
    scale = max(float(np.abs(right).max()), floor)
    if training.close(got, right, scale):
        return None
    if got is None:
        said = f"the gradient of {name} is None on rank {rank}"
        if rank not in users:
            said += f". Only {says.names(users)} used {name}: let all others send zeros, and give all ranks the mean."
        else:
            said += f", although rank {rank} used {name}. Write the mean over the ranks into .grad."
        return Wrong(said, rank, _short(right), "None")
    habits = _habits(job, step, rank, name, last, of_all, before)
    habit = next((text for value, text in habits if training.close(got, value, scale)), "")
    if not habit and got.shape == right.shape and np.allclose(got, right, rtol=0, atol=0.02 * scale):
        habit = (
            "nearly right. If gradients travel in another dtype, send them in the model's own. Set .grad to exactly the mean, "
            "and let only the optimizer change parameters."
        )
    copied = len({0 if mine is None else mine.tobytes() for mine in of_all}) == 1 < job.ranks == len(users)
    if copied and name in step.own[rank] and training.close(got, step.own[rank][name], scale):
        habit = f"rank {rank}'s own, and the same on all ranks. Average the gradients instead of copying one."
    said = f"the gradient of {name} on rank {rank} is {habit or 'not that of a single process on all the data.'}"
    return Wrong(said, rank, *_differ(right, got))


def _habits(
    job: Job, step: Step, rank: int, name: str, last: Step | None, of_all: list[Array | None], before: Step | None
) -> Iterator[tuple[Array, str]]:
    """The values that usual mistakes give, and what to say of each."""
    n, right = job.ranks, step.mean[name]
    assert right is not None
    own = step.own[rank].get(name, np.zeros_like(right))
    users = step.users(name)
    if job.hooked:
        bare = training.step_of(replace(job, hooked=False), job.values, [0])
        said = f"that of a module without its forward hook, which multiplies its output by {training.HOOK}. "
        yield np.asarray(bare.mean[name]), said + "Call self.module(...): self.module.forward(...) runs no hooks."
    if last is not None and last.mean[name] is None and {*users} == {r for r in range(n) if of_all[r] is not None}:
        said = (
            f"still the rank's own. No rank used {name} in the last micro-batch, but rank {rank} accumulated a "
            "gradient for it under no_sync(). Average that one, too."
        )
        yield own, said
    if job.scales:
        copied = training.step_of(replace(job, scales=job.scales[:1] * n), job.values, [0])
        said = "that of ranks which all have rank 0's buffers. Broadcast the buffers at construction, and never again."
        yield np.asarray(copied.mean[name]), said
    if 0 < len(users) < n:
        said = f"the mean over {says.names(users)} only. Ranks that did not use {name} count as zeros: divide by {n}."
        yield right * n / len(users), said
    old = None if before is None else before.mean[name]
    if old is not None and (others := [other for other in range(n) if other not in users]):
        whose = says.names(others)
        said = f"not the mean: it holds gradients of the step before, although {whose} did not use {name} in this one. "
        yield right + len(others) * old, said + "Send zeros for it, in place of what the buffer still holds."
    yield own, "still the rank's own. All-reduce the gradients, and write the mean back into .grad."
    yield right * n, f"the sum over the ranks, {n} times the mean. Divide by the number of ranks."
    yield right / n, f"1/{n} of the mean. Divide by the number of ranks only once."
    yield own / n, f"the rank's own divided by {n}. Sum the gradients over the ranks by messages, too."
    if name.rpartition(".")[0] in job.tied.values():
        said = "twice the mean. Two layers share this tied weight, but it is one parameter: count its gradient once."
        yield right * 2, said
    said = f"zero, although {says.names(users)} used {name}. Send its gradient instead of zeros."
    if before is not None and before.users(name) == users:
        said += (
            " It was right in the step before. Whatever you count or keep for each bucket must start anew in every step, "
            "also after a step in which a rank did not use all parameters of the bucket."
        )
    yield np.zeros_like(right), said
    if last is not None and (of_last := last.mean[name]) is not None:
        yield of_last, "the mean for the last micro-batch alone. Add what was accumulated under no_sync()."
        mine = last.own[rank].get(name, np.zeros_like(right))
        said = "averaged for the last micro-batch only. Average what was accumulated under no_sync(), too."
        yield own - mine + of_last, said


def _short(value: Array) -> str:
    return f"[{says.some([f'{float(x):.4g}' for x in value.reshape(-1)], 3)}]"


def _differ(right: Array, got: Array) -> tuple[str, str]:
    """Both values where they differ most."""
    if got.shape != right.shape:
        return f"shape {right.shape}", f"shape {got.shape}"
    apart = np.nan_to_num(np.abs(got.astype(np.float64) - right), nan=np.inf)
    at = int(apart.argmax())
    where = f"element {at}: "
    return f"{where}{float(right.reshape(-1)[at]):.9g}", f"{where}{float(got.reshape(-1)[at]):.9g}"
