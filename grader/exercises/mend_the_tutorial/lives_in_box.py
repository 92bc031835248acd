"""Saves with the learner's function in processes that are killed. Runs in the supervisor, which never loads it."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from grader.ranks.lives import Life, Lives
from grader.ranks.lives import disk as disks
from grader.ranks.lives.calls import SYNCS, evenly
from grader.sandbox.names import Name

NAME = "model.pt"


def described(value: Any) -> str:
    """A state as text, whatever the order of its keys: numbers, and every tensor's shape and bytes."""
    if isinstance(value, dict):
        return "{" + ", ".join(sorted(f"{key!r}: {described(each)}" for key, each in value.items())) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(described, value)) + "]"
    if isinstance(value, torch.Tensor):
        raw = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        return f"{value.dtype} {tuple(value.shape)} {hashlib.sha256(raw).hexdigest()[:16]}"
    return repr(value)


def _made(base: torch.Tensor, version: int) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """A model and an optimizer that has made `version` steps with momentum."""
    model = torch.nn.Sequential(torch.nn.Linear(base.shape[1], base.shape[0]), torch.nn.BatchNorm1d(base.shape[0]))
    with torch.no_grad():
        model[0].weight.copy_(base + version)
        model[0].bias.fill_(version)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for step in range(version):
        optimizer.zero_grad()
        (model(base + step) * base[:, :1].sum()).square().sum().backward()
        optimizer.step()
    return model, optimizer


def wanted(base: torch.Tensor, version: int) -> str:
    model, optimizer = _made(base, version)
    return described({"model": model.state_dict(), "optimizer": optimizer.state_dict()})


# ---- acts: what a life does


def _save(functions: dict[str, Any], folder: Path, base: torch.Tensor, version: int) -> None:
    model, optimizer = _made(base, version)
    functions["save"](model, optimizer, Name(folder / NAME))


def _save_here(functions: dict[str, Any], folder: Path, base: torch.Tensor, version: int) -> None:
    """The same with a path that is a name alone, of a file in the current folder."""
    os.chdir(folder)
    functions["save"](*_made(base, version), Name(NAME))


def _load(functions: dict[str, Any], folder: Path) -> str:
    """What the file holds, in words, or why it cannot be read."""
    path = folder / NAME
    if not path.is_file():
        return "nothing"
    try:
        state = torch.load(path, weights_only=True)
    except Exception as error:
        text = str(error).strip().splitlines()
        return f"not a whole file: {type(error).__name__}{': ' + text[0][:80] if text else ''}"
    if not isinstance(state, dict):
        return f"no dict: a {type(state).__name__}"
    if state.keys() != {"model", "optimizer"}:
        return f"other keys: {', '.join(sorted(map(repr, state)))[:200] or 'none'}"
    return described(state)


# ---- what the supervisor does with them


def _new(files: disks.Files) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="room-")) / "checkpoints"
    disks.write(folder, files)
    return folder


class _Read:
    """Files, read once each in a life of their own."""

    def __init__(self, lives: Lives) -> None:
        self._lives, self._known = lives, dict[bytes | str | None, str]()

    def __call__(self, files: disks.Files) -> str:
        content = files.get(NAME)
        if content not in self._known:
            folder = _new({NAME: content} if isinstance(content, bytes) else {})
            self._known[content] = str(self._lives.run(_load, folder, rooms=[folder.parent]).values[0])
            shutil.rmtree(folder.parent)
        return self._known[content]


def saved(lives: Lives, base: torch.Tensor, ranks: int, old: int, new: int, most: int) -> dict[str, Any]:
    """A save over an older file (`old` is 0: over nothing), whole and with a kill of rank 0 before some of its file
    operations, of which there are about `most`."""
    read, before = _Read(lives), disks.Files()
    if old:
        folder = _new({})
        _ = lives.run(_save, folder, base, old, ranks=ranks, rooms=[folder.parent]).values
        before = {NAME: disks.read(folder).get(NAME)} if NAME in disks.read(folder) else {}
    folder = _new(before)
    whole = lives.run(_save, folder, base, new, ranks=ranks, folder=folder, rooms=[folder.parent])
    _ = whole.values
    calls = [[step.call, step.name] for step in whole.steps if step.rank == 0]
    told: dict[str, Any] = {
        "calls": calls,
        "others": [[step.rank, step.call, step.name] for step in whole.steps if step.rank],
        "file": read(disks.read(folder)),
        "after": read(whole.after_a_power_cut),
        "points": [],
        "again": [],
        "here": _again(lives, read, _new({}), base, new, _save_here) if ranks == 1 else "",
        "wanted": {"nothing": 0, wanted(base, old): old, wanted(base, new): new, wanted(base, new + 1): new + 1},
    }
    for number in _points(calls, most):
        folder = _new(before)
        life = lives.run(_save, folder, base, new, ranks=ranks, folder=folder, rooms=[folder.parent], kill=(0, number))
        told["points"].append(_point(number, life, read(disks.read(folder)), read(life.after_a_power_cut)))
        if number == _before_the_rename(calls) and ranks > 1:
            told["again"].append([number, _again(lives, read, folder, base, new + 1)])
        shutil.rmtree(folder.parent)
    return told


def _again(
    lives: Lives, read: _Read, folder: Path, base: torch.Tensor, version: int, act: Callable[..., None] = _save
) -> str:
    """What the file holds after one more save in this folder, or what that save raised."""
    event = lives.run(act, folder, base, version, folder=folder, rooms=[folder.parent]).processes[0].event
    if event.get("event") != "returned":
        return f"raised: {str(event.get('text'))[:80]}"
    return read(disks.read(folder))


def _before_the_rename(calls: list[list[str]]) -> int:
    """The place of the first operation on the file's own name, before which all of the new file is written."""
    return next((at for at, (_, name) in enumerate(calls) if name == NAME), -1)


def _point(number: int, life: Life, file: str, power: str) -> dict[str, Any]:
    return {"number": number, "file": file, "power": power, "returned": life.returned}


def _points(calls: list[list[str]], most: int) -> list[int]:
    """Before which operations rank 0 is killed: some, the first after the file has its name, and each sync."""
    telling = {at for at, (call, name) in enumerate(calls) if call in SYNCS or name == NAME}
    after = {at + 1 for at in telling if at + 1 < len(calls)}
    return sorted({*evenly(len(calls), most), *sorted(telling | after)[-8:]})
