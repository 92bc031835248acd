"""A DataLoader that Ray prepares, which brings the rows' numbers, and a network with a hidden layer."""
import os
import tempfile

import ray.train
import ray.train.torch
import torch
from torch.utils.data import DataLoader, TensorDataset


def train(config):
    def loop():
        torch.manual_seed(7)
        x, y = torch.from_numpy(config["x"]), torch.from_numpy(config["y"])
        network = torch.nn.Sequential(torch.nn.Linear(x.shape[1], 96), torch.nn.Tanh(), torch.nn.Linear(96, 1))
        network = ray.train.torch.prepare_model(network)
        data = TensorDataset(x, y, torch.arange(len(x)))
        loader = DataLoader(data, batch_size=config["batch_size"], shuffle=True)
        loader = ray.train.torch.prepare_data_loader(loader)
        optimizer = torch.optim.SGD(network.parameters(), lr=config["lr"], momentum=0.9)
        context, first = ray.train.get_context(), 0
        if checkpoint := ray.train.get_checkpoint():
            with checkpoint.as_directory() as folder:
                known = torch.load(f"{folder}/all.pt", weights_only=False)
            network.load_state_dict(known["network"])
            optimizer.load_state_dict(known["optimizer"])
            first = known["next"]
        for epoch in range(first, config["epochs"]):
            loader.sampler.set_epoch(epoch)
            total, count = 0.0, 0
            for inputs, targets, numbers in loader:
                if "observe" in config:
                    config["observe"](context.get_world_rank(), epoch, numbers.tolist())
                loss = ((network(inputs) - targets) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total, count = total + loss.item() * len(inputs), count + len(inputs)
            folder = tempfile.mkdtemp()
            known = {"network": network.state_dict(), "optimizer": optimizer.state_dict(), "next": epoch + 1}
            torch.save(known, os.path.join(folder, "all.pt"))
            ray.train.report(
                {"loss": total / count, "epoch": epoch + 1}, checkpoint=ray.train.Checkpoint.from_directory(folder)
            )

    return ray.train.torch.TorchTrainer(
        lambda: loop(),
        scaling_config=ray.train.ScalingConfig(num_workers=2, use_gpu=False),
        run_config=ray.train.RunConfig(
            name="mine", storage_path=config["storage_path"],
            failure_config=ray.train.FailureConfig(max_failures=-1),
        ),
    ).fit()
