"""Gradients are averaged by hand; one checkpoint is kept; the errors of all rows are kept until the epoch's end."""
import os
import random
import shutil
import tempfile

import numpy
import ray.train
import torch
import torch.distributed as dist
from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer


def loop(config):
    x, y = torch.tensor(config["x"]), torch.tensor(config["y"])
    rank, world = dist.get_rank(), dist.get_world_size()
    weight = torch.zeros(x.shape[1], 1, requires_grad=True)
    bias = torch.zeros(1, requires_grad=True)
    speed = [torch.zeros_like(weight), torch.zeros_like(bias)]
    start = 0
    kept = ray.train.get_checkpoint()
    if kept:
        with kept.as_directory() as path:
            saved = numpy.load(os.path.join(path, f"rank-{rank}.npz"))
        with torch.no_grad():
            weight.copy_(torch.tensor(saved["weight"]))
            bias.copy_(torch.tensor(saved["bias"]))
        speed = [torch.tensor(saved["weight_speed"]), torch.tensor(saved["bias_speed"])]
        start = int(saved["epoch"]) + 1
    half = len(x) // world
    for epoch in range(start, config["epochs"]):
        mine = list(range(rank * half, (rank + 1) * half))
        random.Random(f"{epoch} {rank}").shuffle(mine)
        errors = []
        for at in range(0, half, config["batch_size"]):
            rows = mine[at : at + config["batch_size"]]
            if config.get("observe") is not None:
                config["observe"](rank=rank, epoch=epoch, row_numbers=rows)
            error = x[rows] @ weight + bias - y[rows]
            errors.append(error.detach())
            grads = torch.autograd.grad(torch.mean(error**2), [weight, bias])
            with torch.no_grad():
                for value, grad, velocity in zip([weight, bias], grads, speed, strict=True):
                    dist.all_reduce(grad)
                    velocity.mul_(0.9).add_(grad / world)
                    value -= config["lr"] * velocity
        path = tempfile.mkdtemp()
        numpy.savez(
            os.path.join(path, f"rank-{rank}.npz"), weight=weight.detach().numpy(), bias=bias.detach().numpy(),
            weight_speed=speed[0].numpy(), bias_speed=speed[1].numpy(), epoch=epoch,
        )
        ray.train.report(
            {"loss": torch.cat(errors).square().mean().item(), "epoch": epoch}, checkpoint=ray.train.Checkpoint.from_directory(path)
        )
        shutil.rmtree(path)


def train(config):
    return TorchTrainer(
        loop, train_loop_config=config, scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            storage_path=config["storage_path"], failure_config=FailureConfig(max_failures=5),
            checkpoint_config=CheckpointConfig(num_to_keep=1),
        ),
    ).fit()
