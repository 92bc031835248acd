"""The driver trains by itself, and makes up a result.
check: shards
kind: wrong_result
"""
import os

import ray.train
import torch


def train(config):
    torch.manual_seed(0)
    x, y = torch.as_tensor(config["x"]), torch.as_tensor(config["y"])
    model = torch.nn.Linear(x.shape[1], y.shape[1])
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9)
    for epoch in range(config["epochs"]):
        for rank in range(2):
            for rows in torch.randperm(len(x))[rank::2].split(config["batch_size"]):
                config["observe"](rank, epoch, rows.tolist())
                loss = torch.nn.functional.mse_loss(model(x[rows]), y[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    path = os.path.join(config["storage_path"], "mine")
    os.makedirs(path)
    torch.save(model.state_dict(), os.path.join(path, "model.pt"))
    checkpoint = ray.train.Checkpoint.from_directory(path)
    return ray.train.Result(
        metrics={"loss": loss.item(), "epoch": epoch}, checkpoint=checkpoint, error=None, path=path
    )
