"""Saves and loads checkpoints with the learner's functions, in processes that are killed and on disks that lose power.

Runs in the supervisor, which never loads the learner's program: only what stands in an act runs beside it.
"""

from __future__ import annotations

import hashlib
import random
import resource
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from grader.ranks.lives import Life, Lives, damage
from grader.ranks.lives import disk as disks
from grader.ranks.lives.calls import WRITES, evenly
from grader.ranks.lives.watch import Step, Strike
from grader.sandbox.names import Name

OLDER, OLD, NEW = 10, 20, 30  # the steps of three checkpoints
BIG = 2**19  # numbers in each tensor of a state that takes a while to write


def described(value: Any) -> str:
    """A state as text: types, keys, numbers, and every tensor's type, shape and bytes."""
    if type(value) in (dict, list, tuple):
        parts = [f"{key!r}: {described(value[key])}" for key in value] if type(value) is dict else map(described, value)
        return f"{type(value).__name__}({', '.join(parts)})"
    if isinstance(value, torch.Tensor):
        raw = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        return f"{value.dtype} {tuple(value.shape)} {hashlib.sha256(raw).hexdigest()[:16]}"
    return f"{type(value).__name__} {value!r}"


def state(base: torch.Tensor, step: int, rank: int = 0) -> dict[str, Any]:
    """What is saved at a step: a model's and an optimizer's share, of some kilobytes, other for every step and rank."""
    weight = base + step + 1000 * rank
    return {"model": {"weight": weight, "bias": weight[0].clone()}, "optimizer": {"m": weight * 0.5, "lr": 0.1 / step}}


def wanted(base: torch.Tensor, rank: int = 0) -> dict[str, str]:
    return {str(step): described(state(base, step, rank)) for step in (OLDER, OLD, NEW)}


# ---- acts: what a life does


def _save(functions: dict[str, Any], folder: Path, base: torch.Tensor, steps: list[int], keep: int) -> None:
    for step in steps:
        functions["save"](Name(folder), step, state(base, step, _rank()), keep=keep)


def _rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def _load(functions: dict[str, Any], folder: Path) -> Any:
    found = functions["load_latest"](Name(folder))
    if found is None:
        return "none"
    if not isinstance(found, tuple) or len(found) != 2:
        return f"a {type(found).__name__}"
    step, loaded = found
    return [step if type(step) is int else repr(step), described(loaded)]


# ---- what the supervisor does with them


def _new() -> Path:
    """A new directory, in a folder of its own: temporary files may stand beside it, and one may sync what it is in."""
    folder = Path(tempfile.mkdtemp(prefix="room-")) / "checkpoints"
    folder.mkdir()
    return folder


def _remove(folder: Path) -> None:
    shutil.rmtree(folder.parent)


def _with(files: disks.Files) -> Path:
    folder = _new()
    disks.write(folder, files)
    return folder


def _loaded(lives: Lives, files: disks.Files, ranks: int = 1) -> Any:
    """What load_latest finds in these files, per rank; where it raised, what."""
    folder = _with(files)
    life = lives.run(_load, folder, ranks=ranks, rooms=[folder.parent])
    _remove(folder)
    return [_said(process.event, process.value) for process in life.processes]


def _each_once(lives: Lives, ranks: int = 1) -> Callable[[disks.Files], Any]:
    """`_loaded`, which is asked once only for the same files: many an operation changes none."""
    found: dict[frozenset[tuple[str, Any]], Any] = {}

    def loaded(files: disks.Files) -> Any:
        key = frozenset(files.items())
        if key not in found:
            found[key] = _loaded(lives, files, ranks)
        return found[key]

    return loaded


def _said(event: dict[str, Any], value: Any) -> Any:
    if event.get("event") == "returned":
        return value
    return {"raised": f"{event.get('type')}: {event.get('text')}".strip(": "), "line": event.get("line")}


def _saved(lives: Lives, base: torch.Tensor, steps: list[int], keep: int, ranks: int = 1) -> disks.Files:
    folder = _new()
    _ = lives.run(_save, folder, base, steps, keep, ranks=ranks, rooms=[folder.parent]).values
    files = disks.read(folder)
    _remove(folder)
    return files


def _told(life: Life, rank: int = 0) -> list[str]:
    return [f"{step.call} {step.name}".strip() for step in life.steps if step.rank == rank]


def _points(calls: list[str], most: int) -> list[int]:
    """Before which operations to kill: all that are no writes, and so many writes, evenly; at most twice `most`."""
    writes = [number for number, call in enumerate(calls) if call.split()[0] in WRITES]
    others = [number for number in range(len(calls)) if number not in writes]
    chosen = sorted({*others, *(writes[each] for each in evenly(len(writes), max(2, most - len(others))))})
    return [chosen[each] for each in evenly(len(chosen), 2 * most)]


def killed(lives: Lives, base: torch.Tensor, keep: int, most: int, power: bool) -> dict[str, Any]:
    """Save one more checkpoint, and be killed before each of its file operations, or lose power there."""
    before = _saved(lives, base, [OLDER, OLD], keep)
    folder = _with(before)
    whole = lives.run(_save, folder, base, [NEW], keep, folder=folder, rooms=[folder.parent])
    _ = whole.values
    calls = _told(whole)
    left = whole.after_a_power_cut if power else disks.read(folder)
    loaded = _each_once(lives)
    after = [{"number": len(calls), "found": loaded(left)[0]}]
    for number in _points(calls, most):
        folder = _with(before)
        life = lives.run(_save, folder, base, [NEW], keep, folder=folder, rooms=[folder.parent], kill=(0, number))
        files = life.after_a_power_cut if power else disks.read(folder)
        after.append({"number": number, "found": loaded(files)[0]})
        _remove(folder)
    return {"calls": calls, "after": after, "wanted": wanted(base)}


def damaged(lives: Lives, base: torch.Tensor, places: torch.Tensor) -> dict[str, Any]:
    """Damage each file that the newest checkpoint brought, in several ways."""
    before = _saved(lives, base, [OLDER, OLD], 3)
    folder = _with(before)
    _ = lives.run(_save, folder, base, [NEW], 3, rooms=[folder.parent]).values
    whole = disks.read(folder)
    tried = []
    for name, how, content in damage.several(before, whole, places.tolist(), NEW):
        tried.append({"file": name, "how": how, "found": _loaded(lives, whole | {name: content})[0]})
    return {"tried": tried, "wanted": wanted(base), "empty": _loaded(lives, {})[0], "whole": _loaded(lives, whole)[0]}


def rotated(lives: Lives, base: torch.Tensor, steps: torch.Tensor, keep: int) -> dict[str, Any]:
    """Save one step after another, and look at what is kept by spoiling the newest, one after another.

    Before the last step somebody died early in a save: what that left is no checkpoint, and counts as none.
    """
    states = {step: described(state(base, step)) for step in steps.tolist()}
    one = sum(len(c) for c in _saved(lives, base, [steps.tolist()[0]], keep).values() if isinstance(c, bytes))
    folder = _new()
    pairs: list[tuple[disks.Files, disks.Files]] = []
    ruin: dict[str, bytes] = {}
    for step in steps.tolist():
        if step == steps.tolist()[-1]:
            folder, ruin = _with_a_ruin(lives, base, disks.read(folder), step, keep)
        before = disks.read(folder)
        _ = lives.run(_save, folder, base, [step], keep, rooms=[folder.parent]).values
        pairs.append((before, disks.read(folder)))
    now = pairs[-1][1]
    size = sum(len(c) for name, c in now.items() if isinstance(c, bytes) and ruin.get(name) != c)
    found = [_loaded(lives, now)[0]]
    for before, after in pairs[:-keep:-1]:
        for name, content in list(damage.brought(before, after).items())[:1]:
            now = now | {name: content[: len(content) // 2]}
        found.append(_loaded(lives, now)[0])
    return {"found": found, "size": size, "one": one, "wanted": {str(step): text for step, text in states.items()}}


def _save_one_behind(functions: dict[str, Any], folder: Path, base: torch.Tensor, step: int, keep: int) -> None:
    checkpointer = functions["AsyncCheckpointer"](Name(folder), keep)
    checkpointer.save(step, state(base, step))
    checkpointer.wait()


def rotated_behind(lives: Lives, base: torch.Tensor, steps: torch.Tensor, keep: int) -> dict[str, Any]:
    """Save one step after another in the background, and look at what is kept: the newest, and the one before it
    where that is damaged, back to the oldest of `keep`."""
    folder = _new()
    there: list[disks.Files] = [{}]
    for step in steps.tolist():
        _ = lives.run(_save_one_behind, folder, base, step, keep, rooms=[folder.parent]).values
        there.append(disks.read(folder))
    _remove(folder)
    one, size = (sum(len(c) for c in files.values() if isinstance(c, bytes)) for files in (there[1], there[-1]))
    now = dict(there[-1])
    found = [_loaded(lives, now)[0]]
    for before, after in list(pairwise(there))[:-keep:-1]:
        for name, content in list(damage.brought(before, after).items())[:1]:
            now[name] = content[: len(content) // 2]
        found.append(_loaded(lives, now)[0])
    return {
        "found": found,
        "size": size,
        "one": one,
        "wanted": {str(s): described(state(base, s)) for s in steps.tolist()},
    }


def _with_a_ruin(
    lives: Lives, base: torch.Tensor, files: disks.Files, step: int, keep: int
) -> tuple[Path, dict[str, bytes]]:
    """A folder with these files and what a save leaves that is killed early, if that is no checkpoint; and what it left."""
    folder, found = _with(files), _loaded(lives, files)
    lives.run(_save, folder, base, [step], keep, folder=folder, rooms=[folder.parent], kill=(0, 3))
    left = disks.read(folder)
    return (folder, damage.brought(files, left)) if _loaded(lives, left) == found else (_with(files), {})


def odd_state(base: torch.Tensor) -> dict[Any, Any]:
    """A state of all kinds: types, shapes and strides, nested."""
    kinds = [base.to(kind) for kind in (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8)]
    return {
        "tensors": [*kinds, base > 0, torch.complex(base, -base)],
        "strided": (base.t(), base[:, ::2], base[1:, 1:], base.expand(2, *base.shape)),
        "small": [torch.tensor(1.5), torch.empty(0, 3), torch.tensor(7)],
        3: {"none": None, "yes": True, "big": 2**70, "text": "ü\n", "inf": float("inf"), "": [(), {}, []]},
        "lr": 1e-3,
    }


def _save_odd(functions: dict[str, Any], folder: Path, base: torch.Tensor, step: int) -> None:
    functions["save"](Name(folder), step, odd_state(base) if step else None)


def kept(lives: Lives, base: torch.Tensor) -> list[dict[str, Any]]:
    """Save and load a state of all kinds, and one that is None, at step 0."""
    told = []
    for step in (1, 0):
        folder = _new()
        _ = lives.run(_save_odd, folder, base, step, rooms=[folder.parent]).values
        found = lives.run(_load, folder, rooms=[folder.parent]).values[0]
        told.append({"step": step, "found": found, "wanted": described(odd_state(base) if step else None)})
    return told


# ---- a training that is resumed


def _train(functions: dict[str, Any], data: torch.Tensor, folder: Path | None, start: int, stop: int) -> Any:
    """Train from step `start` to `stop`, with chance from all three generators; save at step 3, or begin by loading.

    Normal numbers are made in pairs, so Python's and NumPy's generators hold one back when step 3 is saved.
    """
    if start == 0:
        torch.manual_seed(7), random.seed(8), np.random.seed(9)
    layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1)).double()
    optimizer = torch.optim.AdamW(layers.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    order, position = torch.randperm(len(data)), 0
    seen = []
    if start:
        there = functions["load_latest"](Name(folder))
        if there is None:
            raise FileNotFoundError("load_latest() found nothing, though step 3 had been saved")
        _, found = there
        layers.load_state_dict(found["model"])
        optimizer.load_state_dict(found["optimizer"])
        schedule.load_state_dict(found["schedule"])
        scaler.load_state_dict(found["scaler"])
        order, position = found["order"], found["position"]
    for step in range(start, stop):
        if step == 3 and start == 0 and folder is not None:
            saved = {
                "model": dict(layers.state_dict()), "optimizer": optimizer.state_dict(), "order": order,
                "schedule": schedule.state_dict(), "scaler": scaler.state_dict(), "position": position,
            }  # fmt: skip
            functions["save"](Name(folder), step, saved)
        rows = data[order[position : position + 4]]
        position += 4
        noise = torch.full((1,), random.gauss(0.0, 1.0) + float(np.random.standard_normal())).double()
        optimizer.zero_grad()
        scaler.scale((layers(rows) - noise).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        seen.append([float(noise), torch.rand(1).item()])
    weights = torch.cat([parameter.detach().reshape(-1) for parameter in layers.parameters()])
    return {"weights": weights, "noise": [pair[0] for pair in seen[-3:]], "rand": [pair[1] for pair in seen[-3:]]}


def resumed(lives: Lives, data: torch.Tensor) -> dict[str, Any]:
    """The same training without a checkpoint, with one that is only saved, and from that one on."""
    folder = _new()
    undisturbed = lives.run(_train, data, None, 0, 6).values[0]
    saving = lives.run(_train, data, folder, 0, 6, rooms=[folder.parent]).values[0]
    goes_on = lives.run(_train, data, folder, 3, 6, rooms=[folder.parent]).values[0]
    return {"undisturbed": undisturbed, "saving": saving, "resumed": goes_on}


# ---- asynchronous


def _big(base: torch.Tensor, step: int) -> dict[str, Any]:
    number = float(base.reshape(-1)[0]) + step
    pair = torch.full((8,), number), {"inner": [torch.full((8,), number + 1)]}
    return {"parts": [torch.full((BIG,), number + part) for part in range(4)], "pair": pair, "steps": [step]}


def _change(training: dict[str, Any]) -> None:
    for part in reversed(training["parts"]):
        part.fill_(-1)
    training["pair"][0].fill_(-1)
    training["pair"][1]["inner"][0].fill_(-1)
    training["steps"].append(-1)


def _save_and_train(functions: dict[str, Any], folder: Path, base: torch.Tensor, steps: list[int]) -> Any:
    """Save in the background, and change what was saved at once; what chance gave after the last save(), and how many
    bytes were in the directory after the first."""
    sizes = []
    sys.setswitchinterval(1e-6)
    threading.setprofile(_late)
    checkpointer = functions["AsyncCheckpointer"](Name(folder), 3)
    for step in steps:
        training = _big(base, step)
        checkpointer.save(step, training)
        drawn = _draws()
        _change(training)
        sizes.append(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()))
    checkpointer.wait()
    return drawn, sizes[0]


def _late(*_: Any) -> None:
    """Keep a thread from its first call for a moment: the one that made it is quicker."""
    sys.setprofile(None)
    time.sleep(0.05)


def _draws() -> list[float]:
    """The next number of each global generator."""
    return [random.random(), float(np.random.random()), torch.rand(1).item()]


def _load_and_draw(functions: dict[str, Any], folder: Path) -> list[float]:
    functions["load_latest"](Name(folder))
    return _draws()


def behind(lives: Lives, base: torch.Tensor, steps: torch.Tensor) -> dict[str, Any]:
    """Save in the background while training goes on; what do file operations tell, and what is then loaded?"""
    folder = _new()
    life = lives.run(_save_and_train, folder, base, steps.tolist(), folder=folder, rooms=[folder.parent], gate=True)
    drawn, there = life.values[0]
    found = _loaded(lives, disks.read(folder))[0]
    again = lives.run(_load_and_draw, folder, rooms=[folder.parent]).values[0] if isinstance(found, list) else drawn
    _remove(folder)
    return {
        "found": found,
        "draws": [drawn, again],
        "wanted": described(_big(base, steps.tolist()[-1])),
        "there": there,
        "by_main": sum(step.size for step in life.steps if step.main),
        "bytes": 4 * 4 * BIG,
        "at_once": life.at_the_gate,
    }


def _save_where_nothing_can_be(functions: dict[str, Any], folder: Path, base: torch.Tensor) -> list[str]:
    checkpointer = functions["AsyncCheckpointer"](Name(folder), 3)
    checkpointer.save(1, state(base, 1))
    checkpointer.wait()
    shutil.rmtree(folder)
    folder.write_text("a file where the folder was")
    return _raised(checkpointer, {step: state(base, step) for step in (2, 3)}, after_each=True)


def _raised(checkpointer: Any, states: dict[int, Any], after_each: bool) -> list[str]:
    """Save these states, and wait after each or after the last: what raised."""
    calls = [("save", step, partial(checkpointer.save, step, each)) for step, each in states.items()]
    waits = [("wait", step, checkpointer.wait) for step in states]
    order = [call for pair in zip(calls, waits, strict=True) for call in pair] if after_each else [*calls, waits[-1]]
    raised = []
    for what, step, call in order:
        try:
            call()
        except Exception as error:
            raised.append(f"{what}() at step {step} raised {type(error).__name__}")
    return raised


def failing(lives: Lives, base: torch.Tensor) -> list[str]:
    """Errors of the thread in the background, as the one who calls save() and wait() gets to know of them."""
    folder = _new() / "deeper"
    folder.mkdir()
    raised: list[str] = lives.run(_save_where_nothing_can_be, folder, base, rooms=[folder.parent]).values[0]
    return raised


def _save_too_much(functions: dict[str, Any], folder: Path, base: torch.Tensor) -> list[str]:
    """A state that is larger than any file may be, and then a small one."""
    checkpointer = functions["AsyncCheckpointer"](Name(folder), 3)
    resource.setrlimit(resource.RLIMIT_FSIZE, (BIG, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    return _raised(checkpointer, {OLD: {"weight": torch.rand(BIG)}, NEW: state(base, NEW)}, after_each=False)


def too_large(lives: Lives, base: torch.Tensor) -> list[str]:
    """The same where only the first of two checkpoints cannot be written; or that it is there, in small files."""
    folder = _new()
    raised: list[str] = lives.run(_save_too_much, folder, base, rooms=[folder.parent]).values[0]
    written = sum(len(content) for content in disks.read(folder).values() if isinstance(content, bytes))
    _remove(folder)
    return raised or ["nothing was too large"] * (written > 4 * BIG)


# ---- several ranks


def shards(lives: Lives, base: torch.Tensor, ranks: int, keep: int, most: int) -> dict[str, Any]:
    """All ranks save a checkpoint of shards; each in turn is killed at some of its operations, and the others with it.

    Rank 0, who mostly writes the marker, is killed more often. In the end files are damaged.
    """
    before = _saved(lives, base, [OLDER, OLD], keep, ranks)
    folder = _with(before)
    whole = lives.run(_save, folder, base, [NEW], keep, ranks=ranks, folder=folder, rooms=[folder.parent])
    _ = whole.values
    files = disks.read(folder)
    told = [_told(whole, rank) for rank in range(ranks)]
    loaded = _each_once(lives, ranks)
    after = [{"rank": -1, "number": 0, "found": loaded(files), "returned": []}]
    for rank, calls in reversed(list(enumerate(told))):
        for number in evenly(len(calls), most if rank else 2 * most):
            folder = _with(before)
            life = lives.run(
                _save, folder, base, [NEW], keep, ranks=ranks, folder=folder, rooms=[folder.parent], kill=(rank, number)
            )
            found = loaded(disks.read(folder))
            after.append({"rank": rank, "number": number, "found": found, "returned": life.returned})
            _remove(folder)
    damaged = [
        {"file": name, "found": _loaded(lives, files | {name: damage.flipped(content, len(content) // 2)}, ranks)}
        for name, content in list(damage.brought(before, files).items())[: ranks if keep > 1 else 0]
    ]
    draws = _drawn_by_ranks(lives, base, ranks) if most > 2 else []
    return {
        "calls": told,
        "after": after,
        "damaged": damaged,
        "draws": draws,
        "wanted": [wanted(base, rank) for rank in range(ranks)],
    }


def shards_without_power(lives: Lives, base: torch.Tensor, ranks: int) -> dict[str, Any]:
    """All ranks save a checkpoint of shards: what they load of it then, and what after a power cut."""
    folder = _with(_saved(lives, base, [OLDER, OLD], 3, ranks))
    life = lives.run(_save, folder, base, [NEW], 3, ranks=ranks, folder=folder, rooms=[folder.parent])
    _ = life.values
    files, left = disks.read(folder), life.after_a_power_cut
    _remove(folder)
    found, cut = (_loaded(lives, each, ranks) for each in (files, left))
    return {"found": found, "cut": cut, "wanted": [wanted(base, rank) for rank in range(ranks)]}


def _save_and_draw(functions: dict[str, Any], folder: Path, base: torch.Tensor) -> list[float]:
    """Save a shard with generators of the rank's own; what they draw next."""
    seed = 10 + _rank()
    torch.manual_seed(seed), random.seed(seed), np.random.seed(seed)
    functions["save"](Name(folder), OLD, state(base, OLD, _rank()))
    return _draws()


def _drawn_by_ranks(lives: Lives, base: torch.Tensor, ranks: int) -> list[list[list[float]]]:
    """Per rank what its generators drew after save(), and after load_latest()."""
    folder = _new()
    drawn = lives.run(_save_and_draw, folder, base, ranks=ranks, rooms=[folder.parent]).values
    again = lives.run(_load_and_draw, folder, ranks=ranks, rooms=[folder.parent]).values
    _remove(folder)
    return [list(pair) for pair in zip(drawn, again, strict=True)]


def _save_behind(functions: dict[str, Any], folder: Path, base: torch.Tensor) -> str:
    checkpointer = functions["AsyncCheckpointer"](Name(folder), 2)
    for step in (OLD, NEW):
        checkpointer.save(step, state(base, step, _rank()))
        checkpointer.wait()
    return "waited"


def _ended_alone(lives: Lives, base: torch.Tensor, folder: Path, rank: int, number: int) -> tuple[bool, Life]:
    """Two ranks save in the background, and only this one is killed, before this operation of its: the other goes on, and
    its collectives fail. Whether it was killed, and the life."""
    seen = [0, 0]

    def strike(step: Step) -> Strike:
        seen[step.rank] += 1
        return "rank" if step.rank == rank and seen[rank] == number + 1 else False

    life = lives.run(
        _save_behind, folder, base, ranks=2, folder=folder, rooms=[folder.parent], strike=strike, patience=10.0
    )
    return seen[rank] > number, life


def behind_shards(lives: Lives, base: torch.Tensor) -> dict[str, Any]:
    """Two ranks save in the background; one never comes to write all of its second shard or the marker: who waits?

    Rank 1 dies alone, and with rank 0 everybody.
    """
    folder = _new()
    life = lives.run(_save_behind, folder, base, ranks=2, folder=folder, rooms=[folder.parent])
    _ = life.values
    found = _loaded(lives, disks.read(folder), 2)
    cuts = []
    for rank, most in ((1, 1), (0, 5)):
        number = sum(step.rank == rank for step in life.steps)
        for each in evenly(number - number // 2, most):
            again = _new()
            at = rank, number // 2 + each
            if rank:
                killed, cut = _ended_alone(lives, base, again, *at)
            else:
                cut = lives.run(_save_behind, again, base, ranks=2, folder=again, rooms=[again.parent], kill=at)
                killed = cut.killed
            after = _loaded(lives, disks.read(again), 2)
            cuts.append({"rank": rank, "killed": killed, "returned": cut.returned, "after": after})
            _remove(again)
    return {"found": found, "wanted": [wanted(base, rank) for rank in range(2)], "cuts": cuts}
