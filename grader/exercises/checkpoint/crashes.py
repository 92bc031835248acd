"""Judges checkpoints: what could be loaded after a kill, a power cut or damage, against what had been saved."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from grader import tally
from grader.exercises.checkpoint import synced
from grader.exercises.common import checks
from grader.ranks.program import CallResult
from grader.verdict import Kind
from grader.worlds.cases import Case
from grader.worlds.ranks import RankBench

Told = dict[str, Any]  # what the supervisor of a case tells
OLD, NEW = 20, 30
LOAD = "load_latest()"
VALUE = re.compile(
    r" ?(?P<key>'[^']+'): (?P<type>[\w.]+)(?: (?P<shape>\([\d, ]*\)) (?P<bytes>[0-9a-f]{16}))?"
)  # of a described state


def _told(bench: RankBench, group: str) -> Iterator[tuple[Case, Told]]:
    for case, result in bench.calls(group):
        yield case, result.returned[0]


def _wrong(found: Any, allowed: dict[int, str]) -> tuple[Kind, str] | None:
    """What is wrong with what was loaded, where one of these steps with its state should be: a kind and words."""
    steps = " or ".join(str(step) for step in allowed)
    if isinstance(found, dict):
        return "not_durable", f"{LOAD} did not find step {steps} but raised {found['raised'].splitlines()[0]}"
    if found == "none":
        return "not_durable", f"{LOAD} found nothing instead of step {steps}"
    if isinstance(found, str):
        return "wrong_result", f"{LOAD} returned {found} instead of (step, state)"
    step, text = found
    if step not in allowed:
        return "not_durable", f"{LOAD} returned step {step} instead of {steps}"
    if text != allowed[step]:
        return "wrong_result", f"{LOAD} returned step {step}, but not its saved state: {_first(text, allowed[step])}"
    return None


def _first(got: str, expected: str) -> str:
    """The first place where two described states differ."""
    at = next((i for i, (a, b) in enumerate(zip(got, expected, strict=False)) if a != b), min(len(got), len(expected)))
    start = max(-1, expected.rfind(", '", 0, at), expected.rfind("('", 0, at)) + 1
    one, other = (VALUE.match(text, start) for text in (got, expected))
    if one and other and one["key"] == other["key"]:
        if one["type"] != other["type"]:
            return f"{one['key']} has the type {one['type']} instead of {other['type']}"
        if one["shape"] and one["shape"] == other["shape"] and one["bytes"] != other["bytes"]:
            return f"the tensor {one['key']} has other values than it had when it was saved"
    return f"{_short(got[start:].lstrip())} instead of {_short(expected[start:].lstrip())}"


def _kinds(text: str) -> str:
    """A described state without what training changes, tensors and whole numbers: the types and shapes."""
    return re.sub(r"\b[0-9a-f]{16}\b|(?:, )?\bint -?\d+", "", text)


def _short(text: str) -> str:
    return text if len(text) <= 70 else text[:67] + "..."


def _allowed(told: Told, *steps: int) -> dict[int, str]:
    return {step: told["wanted"][str(step)] for step in steps}


def _before(calls: list[str], number: int) -> str:
    """Before which of its operations a save was ended, and what it had done last, in words."""
    calls = [call.replace("at2 ", " ", 1).replace("at ", " ", 1) for call in calls]
    done = ", ".join(calls[max(0, number - 3) : number]) or "nothing"
    cut = "..., " if number > 3 else ""
    return f"before file operation {number + 1} of {len(calls)} ({calls[number]}, after {cut}{done})"


def _require_files(bench: RankBench, case: Case, tried: bool) -> None:
    """The check is lost where save() left it nothing to try."""
    if not tried:
        message = "save() wrote nothing into the directory that it was given. Put every checkpoint there."
        raise bench.lost(case, "not_durable", message, None, "every checkpoint is in the directory, and nowhere else")


@checks.judged(_told, "kill")
def kill(bench: RankBench, case: Case, told: Told) -> None:
    """Whatever the moment, the new checkpoint is there, or the one before."""
    _require_files(bench, case, bool(told["calls"]))
    for point in told["after"]:
        done = point["number"] == len(told["calls"])
        wrong = _wrong(point["found"], _allowed(told, NEW) if done else _allowed(told, OLD, NEW))
        if wrong:
            when = "save() had returned" if done else f"a kill {_before(told['calls'], point['number'])}"
            todo = " Delete the old checkpoint only when the new one is complete. Skip incomplete ones when loading."
            what = f"After {when}, {wrong[1]}.{todo if wrong[0] == 'not_durable' and not done else ''}"
            raise bench.lost(case, wrong[0], what, None, "the last complete checkpoint", "")


@checks.judged(_told, "power")
def power(bench: RankBench, case: Case, told: Told) -> None:
    """What is synced outlasts a power cut: the newest once save() has returned, at any moment some complete one."""
    if "cut" in told:
        _power_of_ranks(bench, case, told)
        return
    _require_files(bench, case, bool(told["calls"]))
    for point in told["after"]:
        done = point["number"] == len(told["calls"])
        wrong = _wrong(point["found"], _allowed(told, NEW) if done else _allowed(told, OLD, NEW))
        if not wrong:
            continue
        syncs = [call for call in told["calls"] if call.split()[0] in ("fsync", "fdatasync", "sync", "syncfs")]
        why = "" if syncs else " save() called no fsync."
        if wrong[0] == "not_durable":
            done_before = [tuple(call.split(" ", 1)) for call in told["calls"][: point["number"]] if " " in call]
            why += f" {synced.too_early(done_before) or 'Call fsync on every file before you rename it.'}"
        when = "that came after save() had returned" if done else _before(told["calls"], point["number"])
        raise bench.lost(case, wrong[0], f"After a power cut {when}, {wrong[1]}.{why}", None, "fsync, then rename")


def _power_of_ranks(bench: RankBench, case: Case, told: Told) -> None:
    """Raise Lost where ranks that had saved load less after a power cut than without one."""
    if _of_one_step(told["found"], told["wanted"], NEW):
        return  # another check's
    wrong = _of_one_step(told["cut"], told["wanted"], NEW)
    if wrong:
        n = len(told["wanted"])
        message = (
            f"After a power cut that came after save() had returned on all {n} ranks, {wrong[1]}. Every rank must call fsync "
            "on its shard before the marker is written, and the marker must be synced, too."
        )
        raise bench.lost(case, "not_durable", message, None, "fsync, then rename, on every rank")


@checks.judged(_told, "damage")
def damage(bench: RankBench, case: Case, told: Told) -> None:
    """Damage is noticed, and the checkpoint before is used."""
    _require_files(bench, case, bool(told["tried"]))
    wrong = _wrong(told["whole"], _allowed(told, NEW))
    if wrong:
        raise bench.lost(case, wrong[0], f"With undamaged files, {wrong[1]}.")
    if told["empty"] != "none":
        raised = isinstance(told["empty"], dict)
        what = f"raised {told['empty']['raised']}" if raised else f"returned {told['empty']}"
        what = f"In an empty directory {LOAD} {what}. Return None there."
        raise bench.lost(case, "wrong_result", what, None, "None")
    for tried in told["tried"]:
        wrong = _wrong(tried["found"], _allowed(told, OLD, NEW))
        if wrong:
            found, why = tried["found"], "Check every file against a digest"
            if isinstance(found, list) and wrong[0] == "not_durable" and found[1] in told["wanted"].values():
                why = "The state is a saved one, and only the step is wrong. The digest must cover the step, too. Check it"
            what = (
                f"With {tried['file']} damaged ({tried['how']}), {wrong[1]}. {why}, and load the checkpoint before "
                "instead of a damaged one."
            )
            raise bench.lost(case, wrong[0], what, None, "the damage is noticed, and step 20 is used")


@checks.judged(_told, "rotation")
def rotation(bench: RankBench, case: Case, told: Told) -> None:
    """The newest `keep` are there, newest first, and no more."""
    _rotated(bench, case, told)


def _rotated(bench: RankBench, case: Case, told: Told, who: str = "") -> None:
    """Raise Lost where other checkpoints are kept than the newest `keep`. `who` saved them, if not save()."""
    steps = [int(step) for step in told["wanted"]]
    keep = len(told["found"])
    for back, found in enumerate(told["found"]):
        step = steps[-1 - back]
        wrong = _wrong(found, {step: told["wanted"][str(step)]})
        if wrong:
            spoilt = f" and damaging the newest {'one' if back == 1 else back}" if back else ""
            saved = ", ".join(map(str, steps))
            todo = ""
            if wrong[0] == "not_durable" and not isinstance(found, dict):
                todo = f" Keep the last {keep} in the order of saving, whatever their steps are."
            elif back and isinstance(found, dict):
                todo = " Load the checkpoint before instead of a damaged one."
            what = f"After saving steps {saved} in this order with {who}keep={keep}{spoilt}, {wrong[1]}.{todo}"
            raise bench.lost(case, wrong[0], what, None, f"step {step}: the newest is the one saved last")
    tally.note("bytes on disk", told["size"], (keep + 0.9) * told["one"], "bytes", where=f"keep={keep}",
               reference=len(steps) * told["one"], of="keeping all")  # fmt: skip
    if told["size"] > (keep + 0.9) * told["one"]:
        times = told["size"] / told["one"]
        what = (
            f"With {who}keep={keep}, the directory holds {times:.1f} times the bytes of one checkpoint after {len(steps)} "
            f"saves. Delete all but the last {keep}."
        )
        raise bench.lost(case, "too_much_memory", what, None, f"{keep} checkpoints", f"{times:.1f}")


@checks.judged(_told, "state")
def state(bench: RankBench, case: Case, told: list[Told]) -> None:
    """Everything comes back as it was."""
    for each, what in zip(told, ("a state of all kinds", "None as the state"), strict=True):
        wrong = _wrong(each["found"], {each["step"]: each["wanted"]})
        if wrong:
            todo = "Return every type, shape and value as it was saved."
            message = f"After saving {what} at step {each['step']}, {wrong[1]}. {todo}"
            raise bench.lost(case, wrong[0], message)


@checks.judged(_told, "resume")
def resume(bench: RankBench, case: Case, told: Told) -> None:
    """The resumed run draws what the undisturbed one drew, and ends at the same parameters."""
    whole = told["undisturbed"]
    for which, what in (("saving", "A training that calls save() at step 3"), ("resumed", "The resumed training")):
        run = told[which]
        if run["noise"] != whole["noise"]:
            who = "Python's or NumPy's random generator"
        elif run["rand"] != whole["rand"]:
            who = "torch's random generator"
        elif not (run["weights"].view() == whole["weights"].view()).all():
            far = abs(run["weights"].view() - whole["weights"].view()).max()
            message = (
                f"{what} ends with other parameters than the undisturbed one, up to {far:.2g} apart. Save and load "
                "the whole state bit for bit."
            )
            raise bench.lost(case, "wrong_result", message, None, "equal, bit for bit")
        else:
            continue
        todo = (
            "Save the generator's whole state and restore it."
            if which == "resumed"
            else "save() must leave it as it was."
        )
        message = f"{what} drew other numbers from {who} than the undisturbed one. {todo}"
        raise bench.lost(case, "wrong_result", message, None, "the generators' states are part of a checkpoint")


@checks.judged(_told, "async")
def behind(bench: RankBench, case: Case, told: Told) -> None:
    """The background writes, one checkpoint at a time, and what it writes is the state at the call of save(); it keeps as
    many as it is told to."""
    if "size" in told:
        _rotated(bench, case, told, "an AsyncCheckpointer and ")
        return
    if told["by_main"] > told["bytes"] / 2:
        share = told["by_main"] / told["bytes"]
        message = (
            f"The thread that trains wrote {share:.0%} of a checkpoint's bytes itself, so training waits for the "
            "disk. Write in another thread or process."
        )
        raise bench.lost(case, "no_overlap", message, None, "a thread or process in the background writes")
    if told["there"] > told["bytes"] / 2:
        message = (
            "When the first save() returned, its checkpoint was in the directory already, so training waits for the disk. "
            "Return from save() while the background still writes, and wait for that in wait() or the next save()."
        )
        raise bench.lost(case, "no_overlap", message, None, "save() returns before the checkpoint is written")
    found, steps = told["found"], 20 if case.label == "two at once" else 10
    same_kinds = isinstance(found, list) and _kinds(found[1]) == _kinds(told["wanted"])
    if same_kinds and found[0] == steps and found[1] != told["wanted"]:
        differs = _first(found[1], told["wanted"])
        within = re.match(r"('[^']+'): (list|tuple|dict)\(", differs)
        what = f"the {within[2]} {within[1]} holds other values" if within else differs
        message = (
            f"The checkpoint is not the state at the call of save(): {what}. Training changed the state right after save() "
            "had returned. Copy everything, also tensors inside lists, tuples and dicts, before save() returns. Only write later."
        )
        raise bench.lost(case, "race", message, None, "the state when save() was called", differs)
    drawn, again = told["draws"]
    if told["at_once"] > 1:
        message = (
            f"{told['at_once']} checkpoints were written at the same time. Begin save() by waiting for the checkpoint "
            "that is still being written."
        )
        raise bench.lost(case, "race", message, None, "one in flight")
    wrong = _wrong(found, {steps: told["wanted"]})
    if wrong:
        todo = "Return every type, shape and value as it was when save() was called."
        raise bench.lost(case, wrong[0], f"After wait(), {wrong[1]}. {todo}")
    if drawn != again:
        message = (
            "After loading, the random generators do not repeat the numbers that they drew right after save(). Take "
            "their states before save() returns, and restore them in load_latest()."
        )
        raise bench.lost(case, "race", message, None, "the generators as they were when save() was called")


@checks.judged(RankBench.calls, "errors")
def errors(bench: RankBench, case: Case, result: CallResult) -> None:
    """What fails in the background is raised by wait() or by the next save()."""
    if not result.returned[0] and case.label == "too large":
        message = (
            "The checkpoint of step 20 could not be written, because it was larger than any file was allowed to be. Then "
            "save() was called for step 30, and then wait(), but no call raised. Keep an error of the background, and raise "
            "it in the next save() or wait(), even if the next checkpoint can be written."
        )
        raise bench.lost(case, "not_durable", message, None, "save() for step 30 or wait() raises the error of step 20")
    if not result.returned[0]:
        message = (
            "The directory was replaced by a file, so nothing could be saved, but neither save() nor wait() raised. "
            "Raise errors of the background in wait() or in the next save()."
        )
        raise bench.lost(case, "not_durable", message, None, "wait() raises what went wrong in the background")


def _of_one_step(found: list[Any], wanted: list[dict[str, str]], *steps: int) -> tuple[Kind, str] | None:
    """What is wrong with what the ranks loaded, where all of them should have their shard of one of these steps."""
    for rank, (each, own) in enumerate(zip(found, wanted, strict=True)):
        wrong = _wrong(each, {step: own[str(step)] for step in steps})
        if wrong:
            other = next(
                (r for r, theirs in enumerate(wanted) if each in [[step, theirs[str(step)]] for step in steps]), None
            )
            whose = f" (the loaded state is rank {other}'s shard)" if other is not None else ""
            return "wrong_result" if whose else "not_atomic", f"on rank {rank} {wrong[1]}{whose}"
    if len({each[0] for each in found}) > 1:
        each_rank = (f"{step} on rank {rank}" for rank, (step, _) in enumerate(found))
        return "not_atomic", f"the ranks loaded different steps ({', '.join(each_rank)})"
    return None


@checks.judged(_told, "ranks")
def ranks(bench: RankBench, case: Case, told: Told) -> None:
    """All ranks have their shards of one step, whoever was killed and when."""
    _require_files(bench, case, any(told["calls"]))
    for point in told["after"]:
        rank = point["rank"]
        wrong = _of_one_step(point["found"], told["wanted"], *((NEW,) if rank < 0 else (OLD, NEW)))
        if wrong:
            n = len(told["wanted"])
            when = f"After {n} ranks had saved"
            if rank >= 0:
                when = f"After rank {rank} of {n} was killed {_before(told['calls'][rank], point['number'])}"
            what = f"{when}, {wrong[1]}. All ranks must load their own shards of one step that is complete."
            raise bench.lost(case, wrong[0], what, None, "every shard, and then one marker")
        if point["returned"] and point["found"][0][0] != NEW:
            who = point["returned"][0]
            message = (
                f"save() returned on rank {who}, although rank {rank} was killed "
                f"{_before(told['calls'][rank], point['number'])} and all ranks load step {OLD}. Step {NEW} was never "
                "completed. Return on every rank only when the marker is there."
            )
            raise bench.lost(case, "not_durable", message, who, "nobody returns before the marker is there")
    for tried in told["damaged"]:
        wrong = _of_one_step(tried["found"], told["wanted"], OLD, NEW)
        if wrong:
            message = (
                f"With {tried['file']} damaged (a flipped bit), {wrong[1]}. If one rank's shard is damaged, load the "
                "checkpoint before on all ranks."
            )
            raise bench.lost(case, wrong[0], message, None, "a checkpoint counts only if every rank's shard is whole")

    for rank, (_, again) in enumerate(told["draws"]):
        whose = next((r for r, (theirs, _) in enumerate(told["draws"]) if again == theirs and r != rank), None)
        if whose is not None:
            message = (
                f"After loading, the random generators of rank {rank} drew the numbers that those of rank {whose} drew right "
                f"after save(). Save each rank's generators with its own shard, and restore these."
            )
            raise bench.lost(case, "wrong_result", message, rank, "each rank's own generators")


@checks.judged(_told, "published")
def published(bench: RankBench, case: Case, told: Told) -> None:
    """wait() tells of all ranks' shards."""
    wrong = _of_one_step(told["found"], told["wanted"], NEW)
    if wrong:
        todo = "In the background, too, write every rank's shard, and then one marker for all ranks. Return from wait() only after that."
        raise bench.lost(case, wrong[0], f"After wait() on two ranks, {wrong[1]}. {todo}")
    for cut in told["cuts"]:
        wrong = _of_one_step(cut["after"], told["wanted"], OLD, NEW)
        if wrong:
            when = f"After rank {cut['rank']} was killed while it saved" if cut["killed"] else "After wait()"
            what = f"{when}, {wrong[1]}. All ranks must load their own shards of one step that is complete."
            raise bench.lost(case, wrong[0], what)
        if cut["killed"] and cut["returned"] and cut["after"][0][0] != NEW:
            who = cut["returned"][0]
            message = (
                f"wait() returned on rank {who}, although rank {cut['rank']} was killed while it saved and all ranks "
                f"load step {OLD}. Step {NEW} was never published. Return from wait() only when it is. If the background "
                "raised an exception of any type, raise it in wait()."
            )
            raise bench.lost(case, "not_atomic", message, who, "wait() returns when all ranks' shards are published")
