"""Calls a learner's train with a data set, and an observe that asks at the gate before each batch. It decides nothing."""

from __future__ import annotations

import glob
import json
import math
import os
import tempfile
import time
from typing import Any

import numpy as np
import ray.train

from grader.jobs.rays.apart import apart
from grader.jobs.rays.rendezvous import tell

SNAPSHOT = "checkpoint_manager_snapshot.json"  # where Ray Train keeps which checkpoints are registered
REGISTERED_SECONDS = 15.0


def fit(
    train: Any, hot: list[int], scale: float, y: list[float], lr: float, epochs: int, size: int, own: bool,
    observed: bool,
) -> dict[str, Any]:  # fmt: skip
    """What train returns. Row k of x has `scale` in column hot[k], and zeros; `own`: each process has a y of its own.

    Without `observed`, config has no observe, and each process asks for its y, too: so it is known how many there are.
    """
    x = np.zeros((len(hot), max(hot) + 1), np.float32)
    x[np.arange(len(hot)), hot] = scale
    targets = np.array(y, np.float32).reshape(-1, 1)
    storage = tempfile.mkdtemp()

    def observe(rank: Any, epoch: Any, row_numbers: Any) -> None:
        told = tell(
            what="batch", rank=int(rank), epoch=int(epoch), rows=[int(row) for row in row_numbers], saved=_saved()
        )
        if told is not None:
            tell(what="waited", registered=_registered(storage, told))

    config = {
        "x": x, "y": apart(targets) if own or not observed else targets, "lr": lr, "epochs": epochs, "batch_size": size,
        "storage_path": storage,
    }  # fmt: skip
    result = train(config | {"observe": observe} if observed else config)
    metrics = getattr(result, "metrics", None)
    metrics = metrics if isinstance(metrics, dict) else {}
    checkpoint, files = getattr(result, "checkpoint", None), 0
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            files = sum(len(names) for _, _, names in os.walk(folder))
    return {
        "type": type(result).__name__, "error": str(getattr(result, "error", None) or "")[:500], "files": files,
        "loss": _number(metrics.get("loss")), "epoch": _number(metrics.get("epoch")), "checkpoint": checkpoint is not None,
    }  # fmt: skip


def _saved() -> bool:
    """Whether this worker has reported a checkpoint, or has begun with one. Outside of Ray's workers nobody knows."""
    try:
        return ray.train.get_checkpoint() is not None
    except Exception:
        return True


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _registered(storage: str, epoch: int) -> bool:
    """Wait until the checkpoint of that epoch is registered; not for ever, for there may be none."""
    until = time.monotonic() + REGISTERED_SECONDS
    while time.monotonic() < until:
        for path in glob.glob(os.path.join(storage, "**", SNAPSHOT), recursive=True):
            try:
                with open(path) as file:
                    known = json.load(file)["checkpoint_results"]
                if any((each["metrics"].get("epoch") or 0) >= epoch for each in known):
                    return True
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                pass  # just being written
        time.sleep(0.1)
    return False
