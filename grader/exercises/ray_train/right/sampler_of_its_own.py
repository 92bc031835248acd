"""DataLoader with a sampler of its own, plain DistributedDataParallel, one torch.save, ray.train's Checkpoint.update_metadata."""
import tempfile
from pathlib import Path

import ray.train
import torch
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Sampler, TensorDataset


class MyRows(Sampler):
    """Every workers-th row of an order that follows from the epoch."""

    def __init__(self, rows, rank, workers):
        self.rows, self.rank, self.workers, self.epoch = rows, rank, workers, 0

    def __iter__(self):
        order = torch.randperm(self.rows, generator=torch.Generator().manual_seed(1000 + self.epoch))
        return iter(order[self.rank :: self.workers].tolist())

    def __len__(self):
        return len(range(self.rank, self.rows, self.workers))


def loop(config):
    context = ray.train.get_context()
    rank = context.get_world_rank()
    x, y = (torch.as_tensor(config[name]) for name in "xy")
    sampler = MyRows(len(x), rank, context.get_world_size())
    loader = DataLoader(TensorDataset(x, y, torch.arange(len(x))), batch_size=config["batch_size"], sampler=sampler)
    torch.manual_seed(0)
    network = nn.Linear(x.shape[1], y.shape[1])
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(network.parameters(), config["lr"], momentum=0.9)
    first = 0
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            network_state, optimizer_state, first = torch.load(Path(folder, "all.pt"))
        network.load_state_dict(network_state)
        optimizer.load_state_dict(optimizer_state)
    observe = config.get("observe", lambda *_: None)
    for epoch in range(first, config["epochs"]):
        sampler.epoch = epoch
        squares = 0.0
        for some_x, some_y, numbers in loader:
            observe(rank, epoch, numbers.tolist())
            loss = nn.functional.mse_loss(model(some_x), some_y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            squares += float(loss) * len(numbers)
        with tempfile.TemporaryDirectory() as folder:
            if rank == 0:
                torch.save((network.state_dict(), optimizer.state_dict(), epoch + 1), Path(folder, "all.pt"))
            ray.train.report({"loss": squares / len(sampler), "epoch": epoch}, checkpoint=Checkpoint.from_directory(folder))


def train(config):
    run = RunConfig(
        storage_path=config["storage_path"],
        failure_config=FailureConfig(max_failures=-1),
        checkpoint_config=CheckpointConfig(num_to_keep=2),
    )
    trainer = TorchTrainer(loop, train_loop_config=config, scaling_config=ScalingConfig(num_workers=2), run_config=run)
    return trainer.fit()
