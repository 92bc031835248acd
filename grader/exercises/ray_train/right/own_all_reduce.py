"""No DDP and no DataLoader: gradients averaged by one all-reduce of its own, errors summed."""

import os
import tempfile

import ray.train
import torch
import torch.distributed as dist
from ray.train.torch import TorchTrainer
from torch import nn


def mean_gradients(model, world):
    flat = torch.cat([p.grad.flatten() for p in model.parameters()])
    dist.all_reduce(flat)
    flat /= world
    for p, part in zip(model.parameters(), flat.split([p.numel() for p in model.parameters()])):
        p.grad.copy_(part.view_as(p))


def train_loop(config):
    context = ray.train.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    x, y = torch.as_tensor(config["x"]), torch.as_tensor(config["y"])
    torch.manual_seed(0)
    model = nn.Linear(x.shape[1], y.shape[1])
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9)
    begin = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            saved = torch.load(os.path.join(folder, "state.pt"), weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        begin = saved["epoch"] + 1

    batches = -(-(-(-len(x) // world)) // config["batch_size"])  # of the rank with the most rows
    for epoch in range(begin, config["epochs"]):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch))[rank::world]
        total = 0.0
        for number in range(batches):
            rows = order[number * config["batch_size"] : (number + 1) * config["batch_size"]]
            if config.get("observe") and len(rows):
                config["observe"](rank, epoch, rows.tolist())
            optimizer.zero_grad()
            errors = (model(x[rows]) - y[rows]).square().sum()
            (errors / max(len(rows), 1)).backward()
            total += errors.item()
            mean_gradients(model, world)
            optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            if rank == 0:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
                torch.save(state, os.path.join(folder, "state.pt"))
            metrics = {"loss": total / max(len(order), 1), "epoch": epoch}
            ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(folder))


def train(config):
    trainer = TorchTrainer(
        train_loop,
        train_loop_config=config,
        scaling_config=ray.train.ScalingConfig(num_workers=2),
        run_config=ray.train.RunConfig(
            storage_path=config["storage_path"], failure_config=ray.train.FailureConfig(max_failures=-1)
        ),
    )
    return trainer.fit()
