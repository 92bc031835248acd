"""Judges save: what is in the file after a kill of rank 0, or a power cut, before any of its file operations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from grader import says
from grader.exercise import Draw
from grader.ranks.program import Strided
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench

NAME = "model.pt"
OLD, NEW, NEXT = 1, 2, 3  # what is saved: a model after so many steps
RENAMES = ("rename", "renameat", "renameat2")
OPENS = ("open", "openat", "openat2", "creat")
RAISED = "raised: "  # as the harness tells it
SYNCS = ("fsync", "fdatasync", "syncfs", "sync")
INSTEAD = {  # of a whole state: as the harness tells it, and in words
    "not a whole file: ": "a file that torch.load cannot read with weights_only=True ({})",
    "no dict: ": "{} in place of a dict",
    "other keys: ": "a dict with these keys: {}",
}
ENTRIES = re.compile(r"'([^']+)': ")  # the names in a state's text
MOST = 4  # kills beside those at the telling operations


def cases(draw: Draw) -> Iterator[Case]:
    """One case is a series of saves."""
    base = Strided.of(draw.generator("base").uniform(-2, 2, (4, 3)).astype(np.float32))
    for ranks, old in ((1, 0), (2, OLD), (3, OLD)):
        label = f"{says.counted(ranks, 'rank')} and {'an older file' if old else 'no older file'}"
        given = (base, ranks, old, NEW, MOST if ranks == 2 else 0)
        yield Case("save", label, (given,), by="saved")


def save(bench: RankBench) -> Outcome:
    """Rank 0 alone writes, the file is whole at every moment, and nobody returns before it is safe."""
    for case, result in bench.calls("save"):
        told = result.returned[0]
        known = {**told["wanted"]}
        _written_by_rank_0(bench, case, told)
        _content(bench, case, told, known)
        for point in told["points"]:
            _whole(bench, case, told, known, point)
        if known.get(told["after"]) != NEW:
            text = f"With {case.label}: after a power cut that came when save() had returned, {NAME} holds {_held(told['after'], known)}. Call fsync on the new file before you rename it."
            raise bench.lost(case, "not_durable", text, 0, "the new state", _held(told["after"], known))
        _renamed_and_synced(bench, case, told)
        _once_more(bench, case, told, known)
        _here(bench, case, told, known)
        for point in told["points"]:
            _waited(bench, case, told, point)
    return bench.picture("save", 2)


def _written_by_rank_0(bench: RankBench, case: Case, told: dict[str, Any]) -> None:
    if told["others"]:
        rank, call, name = told["others"][0]
        text = (
            f"With {case.label}: rank {rank} called {_plain(call)} on {name or 'the folder'}. Rank 0 alone writes. Let the "
            "other ranks only wait for it."
        )
        raise bench.lost(case, "wrong_result", text, rank, "rank 0 alone writes", f"rank {rank}: {call} {name}")


def _content(bench: RankBench, case: Case, told: dict[str, Any], known: dict[str, int]) -> None:
    if known.get(told["file"]) == NEW:
        return
    held = _held(told["file"], known)
    text = (
        f'With {case.label}: after save() {NAME} holds {held}. Write torch.save of {{"model": model.state_dict(), '
        '"optimizer": optimizer.state_dict()}, and nothing else, and rename that file to this name.'
    )
    raise bench.lost(case, "wrong_result", text, 0, "the state of model and optimizer", held)


def _held(text: str, known: dict[str, int]) -> str:
    version = known.get(text)
    if version is not None:
        return {NEXT: "the second save's state", NEW: "the new state", 0: "nothing"}.get(version, "the old state")
    for told, words in INSTEAD.items():
        if text.startswith(told):
            return words.format(text[len(told) :])
    new = next((state for state, version in known.items() if version == NEW), "")
    lacks = [name for name in ENTRIES.findall(new) if f"{name!r}: " not in text]
    if lacks:
        return f"a state without {says.listed([repr(name) for name in lacks])}"
    return "other values than the model and the optimizer have"


def _plain(call: str) -> str:
    """A system call as people call it: openat is open, renameat2 is rename."""
    return call.removesuffix("2").removesuffix("at") if call in (*RENAMES, "openat", "openat2") else call


def _when(told: dict[str, Any], number: int) -> str:
    """Before which of rank 0's operations, in words."""
    calls = [f"{_plain(call)} {name or 'the folder'}".strip() for call, name in told["calls"]]
    done = says.listed(calls[max(0, number - 2) : number]) or "nothing"
    return f"before file operation {number + 1} of {len(calls)} of rank 0 ({calls[number]}; done before it: {'..., ' if number > 2 else ''}{done})"


def _whole(bench: RankBench, case: Case, told: dict[str, Any], known: dict[str, int], point: dict[str, Any]) -> None:
    allowed = (NEW, OLD if "an older" in case.label else 0)
    for what, how, todo in (
        ("file", "a kill", f"Write to another name in the same folder, and rename that to {NAME} when it is complete"),
        ("power", "a power cut", "Call fsync on the new file before you rename it"),
    ):
        if known.get(point[what]) in allowed:
            continue
        held = _held(point[what], known)
        text = f"With {case.label}: after {how} {_when(told, point['number'])}, {NAME} holds {held}. {todo}."
        raise bench.lost(case, "not_durable", text, 0, "the old file or the new one", held)


def _renamed_and_synced(bench: RankBench, case: Case, told: dict[str, Any]) -> None:
    calls = told["calls"]
    renamed = _last_rename(calls)
    if renamed < 0:
        text = f"With {case.label}: rank 0 never renamed a file to {NAME}. A rename replaces the old file in one step."
        raise bench.lost(case, "not_durable", text, 0, f"rename to {NAME}", "no rename")
    if not any(call in OPENS for call, _ in calls[:renamed]):
        text = (
            f"With {case.label}: rank 0 renamed a file to {NAME} that it had not written in the same folder. A rename works "
            "inside one file system only, and shutil.move copies where it does not work. Write the new file next to "
            f"{NAME}."
        )
        raise bench.lost(case, "not_durable", text, 0, "a new file in the same folder", "a file from another folder")
    if _synced(calls) < 0:
        text = (
            f"With {case.label}: after the rename, rank 0 did not call fsync on the folder. The new name is an entry of "
            "the folder, and may be lost in a power cut until the folder is synced. Open the folder, and fsync it."
        )
        raise bench.lost(case, "not_durable", text, 0, "fsync of the folder after the rename", "none")


def _once_more(bench: RankBench, case: Case, told: dict[str, Any], known: dict[str, int]) -> None:
    """A save in the folder in which a save was killed: what that has left there must not be in the way."""
    for number, said in told["again"]:
        if known.get(said) == NEXT:
            continue
        before = f"one save was killed {_when(told, number)}, and another save, with other values, followed in the same folder"
        how = (
            f"The second save raised {said[len(RAISED) :]}"
            if said.startswith(RAISED)
            else f"After it, {NAME} holds {'the values of the killed save' if known.get(said) == NEW else _held(said, known)}"
        )
        text = (
            f"With {case.label}: {before}. {how}. The killed save may leave its new file behind. Begin with an empty file, "
            'as open(name, "wb") does, or take another name each time.'
        )
        raise bench.lost(case, "not_durable", text, 0, "the new state", how)


def _here(bench: RankBench, case: Case, told: dict[str, Any], known: dict[str, int]) -> None:
    """A save whose path is a name alone."""
    said = told["here"]
    if not said or known.get(said) == NEW:
        return
    how = f"save raised {said[len(RAISED) :]}" if said.startswith(RAISED) else f"the file holds {_held(said, known)}"
    text = (
        f'With {case.label}, and the path "{NAME}" of a file in the current folder: {how}. os.path.dirname() of such a path '
        'is "". The folder is then ".".'
    )
    raise bench.lost(case, "crash" if said.startswith(RAISED) else "wrong_result", text, 0, "the new state", how)


def _last_rename(calls: list[list[str]]) -> int:
    return max((at for at, (call, name) in enumerate(calls) if call in RENAMES and name == NAME), default=-1)


def _synced(calls: list[list[str]]) -> int:
    """The place of the folder's sync after the rename, -1 if there is none."""
    after = range(_last_rename(calls) + 1, len(calls))
    return next((at for at in after if calls[at][0] in SYNCS and calls[at][1] == ""), -1)


def _waited(bench: RankBench, case: Case, told: dict[str, Any], point: dict[str, Any]) -> None:
    early = [rank for rank in point["returned"] if rank]
    if early and point["number"] <= _synced(told["calls"]):
        named = point["number"] > _last_rename(told["calls"])
        danger = "A power cut may still take the new file's name" if named else f"The new file is not at {NAME} yet"
        text = (
            f"With {case.label}: save() had returned on rank {early[0]} {_when(told, point['number'])}. {danger}. Let every "
            "rank wait for rank 0, for example in a barrier after the last fsync."
        )
        raise bench.lost(
            case, "not_durable", text, early[0], "nobody returns before the file is safe", f"rank {early[0]} returned"
        )
