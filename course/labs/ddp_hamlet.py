"""Tokens a second of chapter 07's language model under DDP: run it for 1, 2, 4 ... processes, and divide.

    torchrun --nproc-per-node=2 course/labs/ddp_hamlet.py --width 1024 --blocks 12

It takes NCCL and one GPU for each process where there are GPUs, gloo elsewhere. The batch is that of each process (weak
scaling), so the loss is not comparable between numbers of processes.
"""

from __future__ import annotations

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from courselib import language


def main() -> None:
    parser = argparse.ArgumentParser(description="Tokens a second of a small language model under DDP.")
    for name, default in (("width", 64), ("blocks", 2), ("context", 64), ("batch", 16), ("steps", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()

    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpu else "gloo")
    made = language.made(language.Shape(asked.blocks, asked.width, max(1, asked.width // 64), asked.context)).to(device)
    model = DistributedDataParallel(made, device_ids=[device.index] if gpu else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    train, _ = language.tokens()
    draw = torch.Generator().manual_seed(dist.get_rank())
    for step in range(asked.steps + 3):
        if step == 3:  # buckets are rebuilt after the first step, and a GPU's first steps load its kernels
            _finished(gpu)
            start = time.perf_counter()
        starts = torch.randint(len(train) - asked.context, (asked.batch, 1), generator=draw)
        places = starts + torch.arange(asked.context)
        x, y = train[places].to(device), train[places + 1].to(device)
        optimizer.zero_grad()
        with torch.autocast(device.type, torch.bfloat16, enabled=gpu):
            loss = language.loss(model(x), y)
        loss.backward()
        optimizer.step()
    _finished(gpu)
    seconds = (time.perf_counter() - start) / asked.steps
    if dist.get_rank() == 0:
        ranks = dist.get_world_size()
        speed = f"{ranks * asked.batch * asked.context / seconds:,.0f} tokens/s, {1e3 * seconds:.1f} ms a step"
        print(f"{ranks} ranks: {speed}, loss {loss.item():.2f}")
    dist.destroy_process_group()


def _finished(gpu: bool) -> None:
    """All ranks have done what they were asked for."""
    if gpu:
        torch.cuda.synchronize()
    dist.barrier()


if __name__ == "__main__":
    main()
