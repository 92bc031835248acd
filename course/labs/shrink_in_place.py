"""Recovery in place: a rank is killed, and the others make a smaller group without leaving their processes.

    python shrink_in_place.py [KILL_AT [STEPS]]

Three ranks train one weight. Rank 1 kills itself in step KILL_AT. The manager sees it die and names the members of the
next group; they meet there, agree on the step, and repeat it. Each line printed is one event, as JSON.
"""

import json
import multiprocessing as mp
import os
import signal
import sys
import time
from datetime import timedelta
from multiprocessing.connection import wait
from typing import Any

import torch
import torch.distributed as dist

RANKS, ROWS = 3, 12  # rows: of the whole batch, which stays the same
PATIENCE = timedelta(minutes=2)


def told(**event: Any) -> None:
    os.write(1, (json.dumps({**event, "at": time.time()}) + "\n").encode())  # in one piece: three ranks print here


def join(me: int, epoch: int, store: dist.TCPStore) -> list[int]:
    """Enter the group of this epoch, whose members the manager has named: who they are."""
    members: list[int] = json.loads(store.get(f"members {epoch}"))
    dist.init_process_group(
        "gloo", store=dist.PrefixStore(f"epoch {epoch}", store), rank=members.index(me), world_size=len(members),
        timeout=PATIENCE,
    )  # fmt: skip
    return members


def agree(step: int, weight: torch.Tensor) -> int:
    """The furthest member's step, and its weight: the others may have missed the last update."""
    steps = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(steps, torch.tensor([step]))
    ahead = max(range(len(steps)), key=lambda rank: int(steps[rank]))
    dist.broadcast(weight, ahead)
    return int(steps[ahead])


def train(me: int, port: int, kill_at: int, steps: int) -> None:
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=PATIENCE)
    weight, step, epoch = torch.zeros(1, dtype=torch.float64), 0, 0
    members = join(me, epoch, store)
    while step < steps:
        mine = range(ROWS)[members.index(me) :: len(members)]  # cut anew for each group
        gradient = torch.tensor([sum(float(step * row) for row in mine) / ROWS], dtype=torch.float64)
        time.sleep(0.05)  # the work
        if (me, step) == (1, kill_at):
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            dist.all_reduce(gradient)
        except RuntimeError:
            told(who=me, what="broken", step=step)
            dist.destroy_process_group()
            epoch += 1
            members = join(me, epoch, store)
            step = agree(step, weight)
            told(who=me, what="again", step=step, ranks=len(members), pid=os.getpid())
            continue  # the gradient may hold anything: compute it again
        weight -= 0.1 * gradient
        told(who=me, what="step", step=step, ranks=len(members), rows=len(mine), weight=weight.item(), pid=os.getpid())
        step += 1
    dist.barrier()
    dist.destroy_process_group()


def manage(kill_at: int, steps: int) -> None:
    """Start the ranks, and name those that live whenever one of them has died."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=PATIENCE)
    store.set("members 0", json.dumps([*range(RANKS)]))
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["torch.distributed"])  # once, and not once for each rank
    alive = {rank: context.Process(target=train, args=(rank, store.port, kill_at, steps)) for rank in range(RANKS)}
    for process in alive.values():
        process.start()
    epoch = 0
    while alive:
        wait([process.sentinel for process in alive.values()])
        gone = [rank for rank, process in alive.items() if process.exitcode is not None]
        failed = [rank for rank in gone if alive.pop(rank).exitcode]
        if failed:
            epoch += 1
            told(who="manager", what="dead", ranks=failed)
            store.set(f"members {epoch}", json.dumps([*alive]))


if __name__ == "__main__":
    manage(*(int(argument) for argument in (*sys.argv[1:], "3", "6")[:2]))
