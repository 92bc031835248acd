"""torch.distributed.checkpoint, every other step and when the agent sends SIGTERM, in a folder for each step."""

import argparse
import json
import os
import pathlib
import shutil
import signal
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

ending = False


def told_to_end(*_):
    global ending
    ending = True


class Trainer:
    def __init__(self, options):
        self.work = pathlib.Path(options.work)
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        held = torch.load(options.data)
        self.x, self.y, self.batch = held["x"], held["y"], options.global_batch
        self.steps_of_an_epoch = len(range(0, len(self.x), self.batch))
        self.total = options.epochs * self.steps_of_an_epoch
        torch.manual_seed(21)
        self.model = torch.nn.Sequential(torch.nn.Linear(self.x.shape[1], 6), torch.nn.GELU(), torch.nn.Linear(6, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)

    def committed(self):
        return max((int(path.name) for path in self.work.glob("[0-9]*") if (path / "done").exists()), default=0)

    def resume(self):
        agreed = torch.tensor([self.committed(), len(list(self.work.glob("start-*")))])
        dist.broadcast(agreed, 0)
        self.done, self.attempt = agreed.tolist()
        if self.rank == 0:
            (self.work / f"start-{self.attempt}").touch()
        if self.done:
            model, optimizer = get_state_dict(self.model, self.optimizer)
            dcp.load({"model": model, "optimizer": optimizer}, checkpoint_id=self.work / str(self.done))
            set_state_dict(self.model, self.optimizer, model_state_dict=model, optim_state_dict=optimizer)

    def save(self):
        folder = self.work / str(self.done)
        if self.rank == 0:
            shutil.rmtree(folder, ignore_errors=True)  # what is left of one that was cut off
        dist.barrier()
        model, optimizer = get_state_dict(self.model, self.optimizer)
        dcp.save({"model": model, "optimizer": optimizer}, checkpoint_id=folder)
        if self.rank == 0:
            (folder / "done").touch()
        dist.barrier()

    def step(self):
        epoch, number = divmod(self.done, self.steps_of_an_epoch)
        shuffled = torch.randperm(len(self.x), generator=torch.Generator().manual_seed(epoch)).tolist()
        rows = shuffled[number * self.batch :][: self.batch]
        mine = [row for place, row in enumerate(rows) if place % self.world == self.rank]
        self.optimizer.zero_grad()
        if mine:
            torch.nn.functional.mse_loss(self.model(self.x[mine]), self.y[mine], reduction="sum").backward()
        for parameter in self.model.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad)
            parameter.grad /= len(rows)
        self.optimizer.step()
        with open(self.work / f"steps-{self.rank}.jsonl", "a") as log:
            print(json.dumps({"step": self.done, "rows": mine, "world": self.world, "attempt": self.attempt}), file=log)
        self.done += 1

    def run(self):
        self.resume()
        while self.done < self.total:
            self.step()
            over = torch.tensor(int(ending))
            dist.all_reduce(over, dist.ReduceOp.MAX)
            if self.done % 2 == 0 or over:
                self.save()
            if over:
                sys.exit(0)
        if self.rank == 0:
            torch.save(self.model.state_dict(), self.work / "final.tmp")
            (self.work / "final.tmp").rename(self.work / "final.pt")
        dist.barrier()


def train_elastic(data, work, epochs, global_batch):
    dist.init_process_group("gloo")
    signal.signal(signal.SIGTERM, told_to_end)
    Trainer(argparse.Namespace(data=data, work=work, epochs=epochs, global_batch=global_batch)).run()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--work")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--global-batch", type=int)
    train_elastic(**vars(parser.parse_args()))
