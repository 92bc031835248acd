"""ZeRO stages 0 to 3 of DeepSpeed on two CPU ranks: the losses, the bytes of state that a rank holds, what it sends.

    python deepspeed_zero.py

needs `pip install deepspeed` next to PyTorch, no GPU and no launcher: it starts its two ranks itself. Each stage trains
once in float32 and once in bf16 with a float32 master copy. One line of JSON each:
{"precision": "bf16", "stage": 1, "losses": [...], "bytes": {"parameters": ..., "state": ...}, "units": 3.0}. A unit is
what an all-gather of all parameters sends; an all-reduce of all gradients is two.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import os
import sys
import tempfile
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

WORLD, WIDTH, LAYERS, STEPS = 2, 128, 4, 4
MICRO, ACCUMULATION = 4, 2


def configuration(stage: int, precision: str) -> dict[str, Any]:
    """What DeepSpeed reads, usually from a JSON file."""
    return {
        "train_batch_size": MICRO * ACCUMULATION * WORLD,
        "train_micro_batch_size_per_gpu": MICRO,
        "gradient_accumulation_steps": ACCUMULATION,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
        "zero_allow_untested_optimizer": True,
        "bf16": {"enabled": precision == "bf16"},
        "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0},
    }


def train(rank: int, meeting: str, results: str) -> None:
    """One rank: every stage in turn, from the same weights on the same batches."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(WORLD), DS_ACCELERATOR="cpu")
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    sent = counted(dist)
    dist.init_process_group("gloo", f"file://{meeting}", timedelta(seconds=200), WORLD, rank)
    import deepspeed  # type: ignore[import-not-found,unused-ignore]

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # its C++ would be built for minutes
    deepspeed.init_distributed("gloo")
    for precision, stage in itertools.product(("fp32", "bf16"), (0, 1, 2, 3)):
        torch.manual_seed(0)
        model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
        engine, *_ = deepspeed.initialize(
            model=model, model_parameters=model.parameters(), config=configuration(stage, precision)
        )
        batches, losses = torch.Generator().manual_seed(1 + rank), []
        sent.clear()
        for _ in range(STEPS * ACCUMULATION):
            x = torch.randn(MICRO, WIDTH, generator=batches)
            x = x.bfloat16() if precision == "bf16" else x
            loss = (engine(x) - x.roll(1, 1)).float().square().mean()
            engine.backward(loss)
            engine.step()
            losses.append(loss.item())
        units = sum(sent) / STEPS / sum(WIDTH * (WIDTH + 1) for _ in range(LAYERS))
        mean = torch.tensor(losses).view(STEPS, ACCUMULATION).mean(1)
        dist.all_reduce(mean)
        if rank == 0:
            rounded = [round(loss, 6) for loss in (mean / WORLD).tolist()]
            line = {"precision": precision, "stage": stage, "losses": rounded, "bytes": held(engine)}
            line["units"] = round(units, 2)
            with open(results, "a") as file:
                file.write(json.dumps(line) + "\n")
    dist.barrier()
    os._exit(0)  # DeepSpeed may abort in its exit handlers after all is done


def counted(dist: Any) -> list[int]:
    """What collectives are called with from now on, in numbers: an all-reduce twice, it sends as much as two others."""
    sent: list[int] = []

    def counting(name: str, collective: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            tensors = [value for value in (*args, *kwargs.values()) if hasattr(value, "numel")]
            sent.append((2 if name == "all_reduce" else 1) * max((t.numel() for t in tensors), default=0))
            return collective(*args, **kwargs)

        return call

    for name in ("all_reduce", "reduce_scatter_tensor", "all_gather_into_tensor"):
        setattr(dist, name, counting(name, getattr(dist, name)))
    return sent


def held(engine: Any) -> dict[str, int]:
    """Bytes of this rank between two steps: parameters, and the float32 master copy (if any) with the moments."""
    parameters = [getattr(p, "ds_tensor", p) for p in engine.module.parameters()]  # ds_tensor: this rank's part
    outer = engine.optimizer
    inner = getattr(outer, "optimizer", outer)
    stage3 = getattr(outer, "fp32_partitioned_groups_flat", None)
    masters = stage3 or [p for group in inner.param_groups for p in group["params"]]
    moments = [value for kept in inner.state.values() for value in kept.values() if hasattr(value, "nbytes")]
    return {"parameters": total(parameters), "state": total([*masters, *moments], besides=parameters)}


def total(tensors: Iterable[Any], besides: Iterable[Any] = ()) -> int:
    """The bytes of the different storages behind the tensors, without those behind `besides`."""
    behind = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors if t.numel()}
    for t in besides:
        behind.pop(t.untyped_storage().data_ptr(), None)
    return sum(behind.values())


def main() -> int:
    if importlib.util.find_spec("deepspeed") is None:
        print("DeepSpeed is not installed: pip install deepspeed", file=sys.stderr)
        return 2
    import torch.multiprocessing as mp

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        results = os.path.join(folder, "results")
        mp.spawn(train, (os.path.join(folder, "meeting"), results), WORLD)
        with open(results) as file:
            lines = file.read()
    print(lines, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
