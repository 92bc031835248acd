"""Schedules that broke a submission's nodes: kept as files, and read again to be played against another version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from grader.classroom.running import write_whole
from grader.nodes.plan import MISHAPS, Plan
from grader.registry import find
from grader.submission import BadRequest
from grader.verdict import Verdict


def keep(verdict: Verdict, folder: Path) -> list[Path]:
    """Write the schedule of every check that was lost by one, as FOLDER/EXERCISE-CHECK.json. Returns the files."""
    written = []
    for check in verdict.checks:
        if check.schedule is not None:
            path = folder / f"{verdict.exercise}-{check.name}.json"
            told = {"exercise": verdict.exercise, **check.schedule}
            if check.diagnosis is not None:
                told |= {"kind": check.diagnosis.kind, "message": check.diagnosis.message}
            write_whole(path, json.dumps(told, indent=1) + "\n")
            written.append(path)
    return written


def read(path: Path, exercise: str) -> dict[str, Any]:
    """A schedule that was kept for `exercise`. Raises BadRequest for any other file."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadRequest(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise BadRequest(f"{path}: is not a schedule (not JSON)") from None
    if not isinstance(told, dict) or not isinstance(told.get("check"), str) or not ({"plan", "actions"} & told.keys()):
        raise BadRequest(f"{path}: is not a schedule that `rankup grade --keep` wrote")
    if told.get("exercise") != exercise:
        raise BadRequest(f"{path}: is a schedule for {told.get('exercise')}, not for {exercise}")
    try:
        fits = isinstance(told.get("search"), int) and isinstance(told.get("seed"), int)
        fits &= all(_is_action(one) for one in told.get("actions", []))
        fits &= "plan" not in told or _can_be_played(Plan.from_json(told["plan"]), find(exercise).function_names)
    except (KeyError, TypeError, ValueError, AttributeError):
        fits = False
    if not fits:
        raise BadRequest(f"{path}: is not a schedule that `rankup grade --keep` wrote, or the file was changed")
    return told


def _is_action(told: Any) -> bool:
    match told:
        case {"do": "deliver", "src": str(), "dst": str(), "body": dict()}:
            return True
        case {"do": "timer" | "crash", "node": str()} | {"do": "ask", "client": str()}:
            return True
    return False


def _can_be_played(plan: Plan, kinds: tuple[str, ...]) -> bool:
    """Whether there are such nodes and mishaps; whom a plan names may be found out while it is played."""
    known = all(member.kind in kinds for member in plan.members)
    return known and all(mishap.what in MISHAPS and mishap.groups for mishap in plan.mishaps)
