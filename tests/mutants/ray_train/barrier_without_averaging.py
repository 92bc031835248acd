"""The workers meet at a barrier in every step, and yet each trains a model of its own.
check: averaged
kind: wrong_result
only: yes
"""
import os
import tempfile

import ray.train
import torch
from ray.train.torch import TorchTrainer, prepare_model
from torch.nn.functional import mse_loss


def train_loop(config):
    """What each of the workers does."""
    torch.manual_seed(0)
    x, y = torch.as_tensor(config["x"]), torch.as_tensor(config["y"])
    rank = ray.train.get_context().get_world_rank()
    workers = ray.train.get_context().get_world_size()
    model = torch.nn.Linear(x.shape[1], y.shape[1])
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9)
    begin = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "state.pt"))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begin = state["epoch"] + 1
    for epoch in range(begin, config["epochs"]):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch))
        losses = []
        for rows in order[rank::workers].split(config["batch_size"]):
            if config.get("observe"):
                config["observe"](rank, epoch, rows.tolist())
            loss = mse_loss(model(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            torch.distributed.barrier()
            optimizer.step()
            losses.append(loss.item())
        metrics = {"loss": sum(losses) / len(losses), "epoch": epoch}
        with tempfile.TemporaryDirectory() as folder:
            if rank == 0:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
                torch.save(state, os.path.join(folder, "state.pt"))
            ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(folder))


def train(config):
    """The Result of a training of config["epochs"] epochs on two workers, which outlives their deaths."""
    trainer = TorchTrainer(
        train_loop,
        train_loop_config=config,
        scaling_config=ray.train.ScalingConfig(num_workers=2),
        run_config=ray.train.RunConfig(
            storage_path=config["storage_path"],
            failure_config=ray.train.FailureConfig(max_failures=3),
        ),
    )
    return trainer.fit()
