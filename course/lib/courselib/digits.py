"""1,797 handwritten digits of 8 x 8 pixels, and a small convolutional network for them: chapter 07 trains it.

    x, y = digits.train()  # or digits.held_out()
    model = digits.network()

The images are those that scikit-learn's `load_digits` returns: the test part of *Optical Recognition of Handwritten
Digits* (E. Alpaydin and C. Kaynak, 1998, UCI Machine Learning Repository, doi.org/10.24432/C50P49, under CC BY 4.0).
The file has a line for each: the digit, and its 64 pixels row by row, each a letter for 0 to 16.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

FILE = Path(__file__).with_name("texts") / "digits.txt"
INKS = "0123456789abcdefg"
TRAINED = 1440  # four fifths, which 2, 3, 4 ... ranks share without a rest


@cache
def _all() -> tuple[Tensor, Tensor]:
    lines = FILE.read_text("ascii").splitlines()
    pixels = torch.tensor([[INKS.index(ink) for ink in line[2:]] for line in lines])
    return pixels.view(-1, 1, 8, 8) / 16, torch.tensor([int(line[0]) for line in lines])


def _some(which: slice, drawn: bool) -> tuple[Tensor, Tensor]:
    x, y = _all()
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0)) if drawn else torch.arange(len(y))
    return x[order[which]], y[order[which]]


def train(drawn: bool = True) -> tuple[Tensor, Tensor]:
    """1,440 images, [1440, 1, 8, 8] float32 from 0 (paper) to 1 (ink), and their digits, [1440] int64.

    They are drawn from all, the same for everybody; or, if not `drawn`, the first in the file.
    """
    return _some(slice(None, TRAINED), drawn)


def held_out(drawn: bool = True) -> tuple[Tensor, Tensor]:
    """The other 357, alike: no training sees them."""
    return _some(slice(TRAINED, None), drawn)


def network(seed: int = 0) -> nn.Sequential:
    """Two convolutions and one linear layer: 6,090 parameters, the same for the same seed."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),  # [batch, 16, 4, 4]
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),  # [batch, 32, 2, 2]
        nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip


def epoch(model: nn.Module, optimizer: torch.optim.Optimizer, loader: Iterable[Any]) -> float:
    """One pass over this rank's batches of one size; their mean loss on all ranks, each before its step."""
    total, batches = torch.zeros(()), 0
    for x, y in loader:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total, batches = total + loss.detach(), batches + 1
    dist.all_reduce(total)
    mean: float = total.item() / batches / dist.get_world_size()
    return mean


def held_out_right(model: nn.Module, drawn: bool = True) -> int:
    """How many of the held-out images the ranks together get right: each takes every N-th, and two ints are summed."""
    x, y = (part[dist.get_rank() :: dist.get_world_size()] for part in held_out(drawn))
    inner = getattr(model, "module", model)  # ranks have different numbers of images, so not through DDP
    with torch.no_grad():
        right = (inner(x).argmax(1) == y).sum()
    dist.all_reduce(right)
    return int(right)
