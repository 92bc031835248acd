"""Recovery in place: a rank is killed, and the others make a smaller group without leaving their processes.

    python shrink_in_place.py [KILL_AT [STEPS]]

Three ranks train the course's small language model on a play; the batch has 32 sequences. Rank 1 kills itself in step
KILL_AT. The manager sees it die and names the members of the next group. They meet there, agree on the step, and repeat
it with a larger share of the same batch. Each line printed is one event, as JSON.
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

from courselib import language

RANKS = 3
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


def begun(model: torch.nn.Module) -> torch.optim.AdamW:
    """An optimizer that has its moments before its first step, so that a peer's can be received into them."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for p in model.parameters():
        moments = {"exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
        optimizer.state[p] = {"step": torch.tensor(0.0), **moments}
    return optimizer


def agree(step: int, model: torch.nn.Module, optimizer: torch.optim.AdamW) -> int:
    """The furthest member's step, weights and moments: the others may have missed the last update."""
    steps = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(steps, torch.tensor([step]))
    ahead = max(range(len(steps)), key=lambda rank: int(steps[rank]))
    with torch.no_grad():
        for p in model.parameters():
            for tensor in (p, *optimizer.state[p].values()):
                dist.broadcast(tensor, ahead)
    return int(steps[ahead])


def train(me: int, port: int, kill_at: int, steps: int) -> None:
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=PATIENCE)
    model, step, epoch = language.made(), 0, 0  # with the same weights on each rank
    optimizer = begun(model)
    members = join(me, epoch, store)
    while step < steps:
        x, y = language.batch(step, members.index(me), len(members))  # the same 32 sequences, cut anew for each group
        optimizer.zero_grad()
        loss = language.loss(model(x), y) * len(x) / language.BATCH  # this rank's share of the mean over the batch
        loss.backward()
        if (me, step) == (1, kill_at):
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            whole = torch.cat([loss.detach().view(1), *(p.grad.view(-1) for p in model.parameters())])
            dist.all_reduce(whole)
        except RuntimeError:
            told(who=me, what="broken", step=step)
            dist.destroy_process_group()
            epoch += 1
            members = join(me, epoch, store)
            step = agree(step, model, optimizer)
            told(who=me, what="again", step=step, ranks=len(members), pid=os.getpid())
            continue  # the sums may hold anything: compute the gradients again, of the larger share
        for p, summed in zip(model.parameters(), whole[1:].split([p.numel() for p in model.parameters()]), strict=True):
            p.grad.copy_(summed.view_as(p))
        optimizer.step()
        told(who=me, what="step", step=step, ranks=len(members), rows=len(x), loss=whole[0].item(), pid=os.getpid())
        step += 1
    told(who=me, what="end", held_out=language.held_out(model))
    dist.barrier()
    dist.destroy_process_group()


def manage(kill_at: int, steps: int) -> None:
    """Start the ranks, and name those that live whenever one of them has died."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=PATIENCE)
    store.set("members 0", json.dumps([*range(RANKS)]))
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["torch._dynamo", "courselib.language"])  # once, and not once for each rank
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
    given = [int(argument) for argument in sys.argv[1:]]
    manage(*[*given, *(12, 30)[len(given) :]][:2])
