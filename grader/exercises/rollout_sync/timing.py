"""Judges of rollout_sync's time and bytes: when generators idle, and what trainers send them."""

from __future__ import annotations

from grader import tally
from grader.exercises.common import checks
from grader.exercises.rollout_sync import lanes
from grader.exercises.rollout_sync.history import NANOSECONDS, History, at, stretches
from grader.trace.events import RECV_ANY, SEND, Operation, Trace

IDLE = 0.10  # of the time, outside generate
PARAMS = 1024  # bytes: a longer message from a trainer to a generator carries params
FACTOR, HEADERS = 1.1, 256  # of params' bytes for each version and generator; bytes for each generate()


# ---- idle


@lanes.judged("idle")
def idle(run: lanes.Run) -> None:
    """Of each generator: the time outside generate(), from its first one on and while there are prompts to hand out."""
    history, plan = run.history, run.history.plan
    if plan.prompts - 1 not in history.new:
        message = (
            f"no generator ever generated prompt {plan.prompts - 1}, the last one. Hand out all {plan.prompts} prompts."
        )
        raise run.lost("lost_or_duplicated", message)
    end = history.busy_until
    shares = {}
    for rank in plan.of_generators:
        mine = history.of(rank)
        if not mine or mine[0].since >= max(end, 0.0):
            message = f"rank {rank} generated nothing before {at(end)}, although there were prompts to hand out. Give each generator prompts as soon as it is free."
            raise run.lost("no_overlap", message, rank)
        window = end - mine[0].since
        shares[rank] = sum(b - a for a, b in stretches(history, rank, end)) / window
    worst = max(shares, key=lambda rank: shares[rank])
    tally.note("idle time of a generator", 100 * shares[worst], 100 * IDLE, "%", where=run.case.label)
    if shares[worst] <= IDLE:
        return
    since = history.of(worst)[0].since
    a, b = max(stretches(history, worst, end), key=lambda gap: gap[1] - gap[0])
    message = (
        f"rank {worst} was outside generate for {100 * shares[worst]:.3g} % of the time from {at(since)}, "
        f"its first generate, to {at(end)}. There were prompts to hand out all that time, so at most {100 * IDLE:.0f} % is "
        f"allowed. Its longest idle stretch is {at(a)} to {at(b)}. {_why(run.result.trace, history, worst, a, b)}"
    )
    raise run.lost("no_overlap", message, worst, f"at most {100 * IDLE:.0f} %", f"{100 * shares[worst]:.3g} %")


def _why(trace: Trace, history: History, rank: int, a: float, b: float) -> str:
    """What the generator and trainer 0 did in the middle of an idle stretch, and what to do."""
    middle = (a + b) / 2
    mine, zero = _waits_in(trace, rank, middle), _waits_in(trace, 0, middle)
    told = f"Rank {rank} waited in {_said(mine)}." if mine else ""
    step = next((s for s, (since, until) in enumerate(history.spans[0]) if since <= middle < until), None)
    if step is not None:
        during = f"Meanwhile, trainer 0 was in optimizer_step of step {step}, from {at(history.spans[0][step][0])} to {at(history.spans[0][step][1])}."
        return f"{told} {during} Let each generator have its next prompt before it begins the current one."
    if zero is None:
        return told
    during = f"Meanwhile, trainer 0 waited in {_said(zero)}"
    busy = next((made for made in history.of(zero.peer) if made.since <= middle < made.until), None)
    if zero.kind == SEND and busy is not None:
        return (
            f"{told} {during}. Rank {zero.peer} does not receive it, because it is inside generate of prompt {busy.prompt}. A "
            "send to one generator must not hold the others: use isend, and wait for it later."
        )
    if busy is not None and zero.kind != RECV_ANY:
        return (
            f"{told} {during}. Rank {zero.peer} was inside generate of prompt {busy.prompt} until {at(busy.until)}. Receive "
            "from any source, so that nobody waits for one generator."
        )
    running = [
        made for each in history.plan.of_generators for made in history.of(each) if made.since <= middle < made.until
    ]
    slow = max(running, key=lambda made: made.until, default=None)
    if slow is None:
        return f"{told} {during}."
    return (
        f"{told} {during}, and rank {slow.rank} was inside generate of prompt {slow.prompt} until {at(slow.until)}. Do not keep a "
        "free generator waiting for others: hand it the next prompt at once, also one of a later step."
    )


def _waits_in(trace: Trace, rank: int, at: float) -> Operation | None:
    """The operation in which a rank stands still at this time."""
    moment = at * NANOSECONDS
    for op in trace.operations(rank):
        if 0 <= op.waited <= moment and (op.resumed < 0 or op.resumed > moment):
            return op
    return None


def _said(op: Operation) -> str:
    to = {SEND: f"a send to rank {op.peer}", RECV_ANY: "a receive from any source"}.get(op.kind)
    what = to or (f"a receive from rank {op.peer}" if op.receives else f"{op.name}()")
    line = op.wait_line or op.line
    return what + (f" (line {line})" if line else "")


# ---- bytes


@lanes.judged("idle")
def sent(run: lanes.Run) -> None:
    """Params that trainers send generators, and all else between the two."""
    history = run.history
    lanes.in_messages(run)
    plan, trace = history.plan, run.result.trace
    size = history.given.start.nbytes
    params, other, longest, to = 0, 0, 0, dict.fromkeys(plan.of_generators, 0)
    by_line: dict[tuple[int, int], int] = {}
    for rank in range(plan.ranks):
        for op in trace.operations(rank):
            between = _to_the_other_half(trace, op, plan.trainers)
            if not between:
                continue
            if rank < plan.trainers and op.size > PARAMS:
                params, longest = params + between, max(longest, op.size)
                if op.kind == SEND:
                    to[op.peer] += between
            else:
                other += between
                by_line[rank, op.line] = by_line.get((rank, op.line), 0) + between
    per_version = params / (plan.steps * plan.generators)
    tally.note("params sent for each version and generator", per_version / size, FACTOR, "times", where=run.case.label)
    generates = len(history.made)
    tally.note("other bytes for each generate", other / max(generates, 1), HEADERS, "bytes", where=run.case.label)
    versions = plan.steps + 1
    allowed = FACTOR * plan.generators * size * versions
    if params > allowed:
        message = (
            f"the trainers sent the generators {params:,} bytes of params. There are {versions} versions of "
            f"{size:,} bytes and {plan.generators} generators, so this is {params / (versions * plan.generators * size):.3g} times "
            "what it takes to send each version to each generator. "
        )
        message += (
            f"One message has {longest:,} bytes. Send one version alone, in float32."
            if longest > FACTOR * size
            else "Remember which version was last sent to each generator, and send params only when they are newer than that."
        )
        raise run.lost("too_many_bytes", message, 0, f"at most {allowed:,.0f} bytes", f"{params:,} bytes")
    most_to, allowed = max(to, key=lambda rank: to[rank]), FACTOR * size * versions
    if to[most_to] > allowed:
        message = (
            f"the trainers sent rank {most_to} {to[most_to]:,} bytes of params. There are {versions} versions of {size:,} "
            f"bytes, so this is {to[most_to] / (versions * size):.3g} times what it takes to send it each version. Remember "
            "which version was last sent to each generator, and send params only when they are newer than that."
        )
        texts = f"at most {allowed:,.0f} bytes", f"{to[most_to]:,} bytes"
        raise run.lost("too_many_bytes", message, most_to, *texts)
    if other > HEADERS * generates:
        (rank, line), most = max(by_line.items(), key=lambda each: each[1])
        where = f"Line {line} on rank {rank} sent most of them: {most:,} bytes. " if line else ""
        message = (
            f"apart from params, generators and trainers sent each other {other:,} bytes for {generates} calls of "
            f"generate, that is {other / generates:.4g} bytes for each. At most {HEADERS} are allowed. {where}A sample and its "
            "logprob are 36 bytes. Send only what the other side needs."
        )
        raise run.lost("too_many_bytes", message, rank, f"at most {HEADERS * generates:,} bytes", f"{other:,} bytes")


def _to_the_other_half(trace: Trace, op: Operation, trainers: int) -> int:
    """Bytes of an operation that go from trainers to generators or back."""
    if op.kind == SEND:
        return op.size if (op.rank < trainers) != (op.peer < trainers) else 0
    if not op.collective:
        return 0
    group = trace.groups.get(op.tag, ())
    if all(rank < trainers for rank in group) or all(rank >= trainers for rank in group):
        return 0
    return checks.sent_by(op, group)
