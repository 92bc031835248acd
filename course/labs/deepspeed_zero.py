"""ZeRO stages 0 to 3 of DeepSpeed on two CPU ranks: the losses, the bytes of state that a rank holds, what it sends.

    python deepspeed_zero.py [--json]

needs DeepSpeed and PyTorch (`make labs LABS=deepspeed` sets up an environment), no GPU, no compiler and no launcher: it
starts its two ranks itself. Each stage trains once in float32 and once in bf16 with a float32 master copy. A unit is
what an all-gather of all parameters sends; an all-reduce of all gradients is two. Rajbhandari et al. 2020, *ZeRO:
memory optimizations toward training trillion parameter models*. About half a minute.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import sys
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

from servers import MissingError, Seen, Servers, main

MISSING = "DeepSpeed is not installed: make labs LABS=deepspeed sets up an environment for it"
PATIENCE = 280  # seconds, on a machine that is busy with other things
WORLD, WIDTH, LAYERS, STEPS = 2, 128, 4, 4
MICRO, ACCUMULATION = 4, 2
PRECISIONS, STAGES = ("fp32", "bf16"), (0, 1, 2, 3)


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


def train(rank: int, folder: Path) -> None:
    """One rank: every stage in turn, from the same weights on the same batches."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(WORLD), DS_ACCELERATOR="cpu")
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    sent = counted(dist)
    dist.init_process_group("gloo", f"file://{folder}/meeting", timedelta(seconds=PATIENCE), WORLD, rank)
    import deepspeed  # type: ignore[import-not-found,unused-ignore]

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # its C++ would be built for minutes
    deepspeed.init_distributed("gloo")
    for precision, stage in itertools.product(PRECISIONS, STAGES):
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
            line |= {"units": round(units, 2), "ran": engine.zero_optimization_stage()}
            line["on"] = deepspeed.accelerator.get_accelerator().device_name()
            with (folder / "results").open("a") as file:
                file.write(json.dumps(line) + "\n")
    dist.barrier()
    sys.stderr.flush()
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


def lab(servers: Servers, seen: Seen) -> None:
    """Raises MissingError."""
    if importlib.util.find_spec("deepspeed") is None:
        raise MissingError(MISSING)
    here = [sys.executable, str(Path(__file__).resolve()), "rank"]
    os.environ["HOME"] = str(servers.folder)  # DeepSpeed and Triton keep files at home
    ranks = [servers.start(f"rank-{rank}", [*here, str(rank)]) for rank in range(WORLD)]
    for rank in ranks:
        if rank.process.wait(PATIENCE):
            raise RuntimeError(f"{rank.log.stem} ended with {rank.process.returncode}")
    lines = [json.loads(line) for line in (servers.folder / "results").read_text().splitlines()]
    seen.head = ("", *(f"loss {step}" for step in range(STEPS)), "parameters", "optimizer state", "units a step")
    for one in lines:
        sizes = [f"{one['bytes'][kind]:,} B" for kind in ("parameters", "state")]
        losses = [f"{loss:.6f}" for loss in one["losses"]]
        seen.row(f"{one['precision']}, stage {one['ran']}", *losses, *sizes, f"{one['units']:g}")
        name = f"{one['precision']}_{one['stage']}"
        seen.figures.update({f"{name}_{kind}": one["bytes"][kind] for kind in ("parameters", "state")})
        seen.figures.update({f"{name}_units": one["units"], f"{name}_loss": one["losses"][-1]})
    apart = [
        max(abs(a - b) for a, b in zip(one["losses"], lines[0]["losses"], strict=True))
        for one in lines if one["precision"] == "fp32"
    ]  # fmt: skip
    ran = [one["ran"] for one in lines if one["precision"] == "bf16"]
    seen.figures.update(stages=", ".join(map(str, ran)), on=lines[0]["on"], fp32_apart=max(apart))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["rank", rank]:
            train(int(rank), Path.cwd())
        case arguments:
            sys.exit(main(lab, arguments))
