"""Typical runs, one for every element of a picture: name -> (trace, cycle, marks)."""

from __future__ import annotations

from collections.abc import Callable

from builders import Recording, Script

from grader.trace.events import RECV, SEND, Trace

Run = tuple[Trace, tuple[int, ...], dict[int, str]]


def ring(ranks: int, steps: int, size: int = 8) -> Trace:
    script = Script(ranks)
    for rank in range(ranks):
        for _ in range(steps):
            send = script.post(rank, SEND, (rank + 1) % ranks, size)
            script.call(rank, RECV, (rank - 1) % ranks, size)
            script.wait(send)
    return script.trace


def doubling(ranks: int, size: int = 1024) -> Trace:
    """Recursive doubling: in step k every rank exchanges with the one whose number differs in bit k."""
    script = Script(ranks)
    for rank in range(ranks):
        step = 1
        while step < ranks:
            send = script.post(rank, SEND, rank ^ step, size * step)
            script.call(rank, RECV, rank ^ step, size * step)
            script.wait(send)
            step *= 2
    return script.trace


def ring_deadlock(ranks: int) -> Run:
    script = Script(ranks)
    for rank in range(ranks):
        send = script.post(rank, SEND, (rank + 1) % ranks, 16)
        script.call(rank, RECV, (rank - 1) % ranks, 16)
        script.wait(send)
    for rank in range(ranks):
        op = script.post(rank, SEND, (rank + 1) % ranks, 16, line=16)
        script.wait(op)
        op.done = False
    return script.trace, tuple(range(ranks)), {}


def crossing_deadlock() -> Run:
    script = Script(6)
    for rank, peer in ((0, 3), (3, 1), (1, 4), (4, 0), (2, 5)):
        op = script.post(rank, RECV, peer)
        script.wait(op)
        op.done = False
    return script.trace, (0, 3, 1, 4), {5: "raised ValueError"}


def training_step(ranks: int = 4) -> Run:
    """Compute, then a collective that waits for the straggler, twice; times in microseconds."""
    run = Recording(ranks)
    now = 0.0
    for step in range(2):
        joins = {rank: run.compute(rank, now, now + 40 + 10 * rank * (1 - step)) for rank in range(ranks)}
        now = run.collective("all_reduce", joins, 25, 4 * 2**20)
        now = run.collective("barrier", dict.fromkeys(range(ranks), now), 4, 0)
    return run.done(), (), {}


def pipeline(ranks: int = 4) -> Run:
    """GPipe's forward pass of three micro-batches, with a slowed stage; times in milliseconds."""
    run = Recording(ranks, 1e6)
    free = [0.0] * ranks
    for _ in range(3):
        there = 0.0
        for rank in range(ranks):
            cost = 4.0 if rank == 2 else 2.0
            begins = max(there, free[rank])
            if rank:
                sent = free[rank - 1]
                there = run.message(rank - 1, rank, sent, max(free[rank], 0.0), 0.5, 2**16)
                begins = there
            free[rank] = run.compute(rank, begins, begins + cost)
    run.span(2, "slowed", 0, max(free))
    return run.done(), (), {}


def mesh() -> Run:
    """Sub-groups of a 2 x 4 mesh: rows are contiguous, columns are not, and overlap in time."""
    run = Recording(8)
    for rank in range(8):
        run.compute(rank, 0, 20 + 3 * (rank % 3))
    for number in range(2):
        ranks = list(range(4 * number, 4 * number + 4))
        run.group(1 + number, ranks)
        run.collective("all_gather_into_tensor", {r: 20 + 3 * (r % 3) for r in ranks}, 20, 65536, 1 + number)
    for number in range(4):
        run.group(3 + number, [number, number + 4])
        run.collective("all_reduce", {number: 50, number + 4: 55 + number}, 30, 2**20, 3 + number)
    return run.done(), (), {}


def odd_group() -> Run:
    run = Recording(6, 1e9)
    run.group(1, [0, 2, 3, 5])
    run.group(2, [1, 4])
    now = run.collective("reduce_scatter_tensor", {0: 0, 2: 0, 3: 1, 5: 0}, 3, 4096, 1)
    run.collective("broadcast", {1: 1, 4: 2}, 2, 512, 2)
    run.message(0, 5, now, now, 1, 100)
    return run.done(), (), {}


def mismatch() -> Run:
    run = Recording(4)
    run.collective("broadcast", dict.fromkeys(range(4), 5), 10)
    for rank, name in enumerate(("all_reduce", "all_reduce", "broadcast", "all_reduce")):
        run.never(rank, name, 20 + rank)
    return run.done(), (), {}


def missing_rank() -> Run:
    run = Recording(4, 1e6)
    for rank in range(4):
        run.compute(rank, 0, 2)
    for rank in range(3):
        run.never(rank, "all_reduce", 2)
    return run.done(), (), {3: "raised ValueError"}


def faulty() -> Run:
    """Every fault there is; times in milliseconds."""
    run = Recording(6, 1e6)
    run.compute(0, 0, 2)
    run.compute(1, 0, 4)
    run.span(1, "slowed", 0, 4)
    lost = run.post(0, SEND, 1, 2, 4096)
    run.span(0, "dropped", 2, 3, peer=1)
    del lost
    run.span(2, "delayed", 1, 4, peer=3)
    run.message(2, 3, 1, 0, 4, 2048, waited=1)
    run.span(2, "partitioned", 5, 8, peer=3)
    run.message(3, 2, 6, 5.5, 1, 64, starts=8)
    run.compute(4, 0, 3)
    run.span(4, "killed", 3, 3)
    run.wait(run.post(5, RECV, 4, 1, 128), 1)
    for _ in range(2):
        run.post(0, SEND, 1, 5, 256)
    return run.done(), (), {4: "killed", 5: "connection closed by rank 4"}


def far_partition() -> Run:
    run = Recording(5, 1e6)
    run.span(0, "partitioned", 1, 6, peer=3)
    run.span(4, "partitioned", 2, 5)
    run.message(1, 2, 0, 0, 3, 512)
    run.message(0, 3, 1, 1, 2, 512, starts=6)
    return run.done(), (), {}


def broken_axis() -> Run:
    """Ten milliseconds of computing for every hundred microseconds of messages."""
    run = Recording(4)
    now = 0.0
    for _ in range(3):
        for rank in range(4):
            run.compute(rank, now, now + 10_000)
        now += 10_000
        for _ in range(3):
            ends = []
            ops = [
                (run.post(r, SEND, (r + 1) % 4, now, 65536), run.post(r, RECV, (r - 1) % 4, now, 65536))
                for r in range(4)
            ]
            for send, recv in ops:
                run.wait(recv, now, (now, now + 30))
                run.wait(send, now + 30, (now, now + 30))
                ends.append(now + 30)
            now = max(ends)
    return run.done(), (), {}


def master(ranks: int) -> Run:
    """Rank 0 sends every other rank a block of another size, and is sent the result; one port."""
    script = Script(ranks)
    sends = [script.post(0, SEND, rank, 1000 * rank) for rank in range(1, ranks)]
    for send in sends:
        script.wait(send)
    for rank in range(1, ranks):
        script.call(0, RECV, rank, 8)
        script.call(rank, RECV, 0, 1000 * rank)
        script.call(rank, SEND, 0, 8)
    return script.trace, (), {}


RUNS: dict[str, Callable[[], Run]] = {
    "one rank": lambda: (Trace(1), (), {}),
    "two ranks": lambda: (ring(2, 2), (), {}),
    "ring of 4": lambda: (ring(4, 6, 4096), (), {}),
    "ring of 8": lambda: (ring(8, 14, 3 * 2**20), (), {}),
    "ring of 16": lambda: (ring(16, 30), (), {}),
    "long ring": lambda: (ring(4, 200), (), {}),
    "doubling on 4": lambda: (doubling(4), (), {}),
    "doubling on 8": lambda: (doubling(8), (), {}),
    "doubling on 16": lambda: (doubling(16), (), {}),
    "deadlock of 2": lambda: ring_deadlock(2),
    "deadlock of 4": lambda: ring_deadlock(4),
    "deadlock of 16": lambda: ring_deadlock(16),
    "crossing deadlock": crossing_deadlock,
    "training step": training_step,
    "training step on 16": lambda: training_step(16),
    "pipeline": pipeline,
    "mesh": mesh,
    "odd group": odd_group,
    "mismatch": mismatch,
    "missing rank": missing_rank,
    "faults": faulty,
    "far partition": far_partition,
    "broken axis": broken_axis,
    "master of 8": lambda: master(8),
    "ring of 32": lambda: (ring(32, 31), (), {}),
    "deadlock of 64": lambda: ring_deadlock(64),
    "training step on 24": lambda: training_step(24),
}
