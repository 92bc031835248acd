"""What a grading says: Diagnosis, Measured, CheckResult, Verdict, and their JSON.

Plain data that every other part may use; imports nothing of the package.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

Status = Literal["pass", "fail", "error", "skipped"]

Kind = Literal[
    "wrong_result",
    "deadlock",
    "crash",
    "timeout",
    "out_of_memory",
    "too_many_bytes",
    "too_few_bytes",
    "too_many_messages",
    "too_many_rounds",
    "too_slow",
    "too_much_memory",
    "no_overlap",
    "mismatched_collective",
    "forbidden_call",
    "race",
    "left_early",
    "not_linearizable",
    "not_available",
    "not_converged",
    "not_atomic",
    "not_durable",
    "lost_or_duplicated",
    "nondeterministic",
    "syntax_error",
    "missing_function",
    "sandbox_violation",
    "unsupported_engine",
]

KINDS: frozenset[str] = frozenset(get_args(Kind))


@dataclass(frozen=True)
class Diagnosis:
    """Why points were lost: one sentence, and where.

    `rank` is the rank it is about (None when it is about all of them), `file` and `line` a place in the learner's
    own source (for a notebook: the line within its solution cell), `expected` and `got` short texts.
    """

    kind: Kind
    message: str
    rank: int | None = None
    file: str | None = None
    line: int | None = None
    expected: str | None = None
    got: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind of diagnosis: {self.kind!r}")


@dataclass(frozen=True)
class Measured:
    """A number of the run that a check judged, beside its bound: at most that much, or `at_least`.

    `unit` is "s" for virtual seconds, "bytes", "%" or a plural ("messages"). `where` says of which run it is, and
    `reference` is what something else measures there, which `of` names: "the flat ring".
    """

    what: str
    yours: float
    bound: float
    unit: str = ""
    where: str = ""
    at_least: bool = False
    reference: float | None = None
    of: str = ""


class _Drawn:
    """A picture, or a function that draws it, which is called when somebody looks: most pictures nobody looks at."""

    def __get__(self, result: Any, kind: type) -> Any:
        if result is None:
            return self
        found = result.__dict__["diagram"]
        if callable(found):
            found = result.__dict__["diagram"] = found()
        return found

    def __set__(self, result: Any, found: Any) -> None:
        result.__dict__["diagram"] = None if found is self else found


@dataclass(frozen=True)
class CheckResult:
    """One check's points, and where they were lost, why.

    `diagram` is the picture (SVG text) of the run that decided; given as a function, it is drawn once somebody looks.
    `output` is what the ranks printed in it; both are for people and stay out of the JSON. `schedule` is the run that
    was wrong, to be kept as a file and played again. `measured` are the numbers of a check that passed.
    """

    name: str
    title: str
    points: float
    max_points: float
    status: Status
    diagnosis: Diagnosis | None = None
    diagram: str | None = field(default=_Drawn(), repr=False)  # type: ignore[assignment]
    output: str = field(default="", repr=False)
    schedule: dict[str, Any] | None = field(default=None, repr=False)
    measured: tuple[Measured, ...] = ()

    def __post_init__(self) -> None:
        if self.status == "pass" and self.diagnosis is not None:
            raise ValueError(f"check {self.name} passed and yet has a diagnosis")
        if self.status != "pass" and self.points:
            raise ValueError(f"check {self.name} gives points although its status is {self.status}")

    def to_json(self) -> dict[str, Any]:
        """The check as an object of `rankup grade --json`."""
        return {
            "name": self.name,
            "points": self.points,
            "max_points": self.max_points,
            "status": self.status,
            "diagnosis": asdict(self.diagnosis) if self.diagnosis else None,
            "measured": [asdict(each) for each in self.measured],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], more: Mapping[str, Any]) -> CheckResult:
        """The inverse of `to_json`, with what stays out of it."""
        found = Diagnosis(**data["diagnosis"]) if data["diagnosis"] else None
        measured = tuple(Measured(**each) for each in data.get("measured", ()))
        return cls(**{**data, "diagnosis": found, "measured": measured}, **more)


@dataclass(frozen=True)
class Verdict:
    """The outcome of grading one submission with one seed."""

    exercise: str
    checks: tuple[CheckResult, ...]
    seed: int
    seconds: float
    engines: tuple[str, ...]

    @property
    def points(self) -> float:
        return sum(check.points for check in self.checks)

    @property
    def max_points(self) -> float:
        return sum(check.max_points for check in self.checks)

    @property
    def passed(self) -> bool:
        return bool(self.checks) and all(check.status == "pass" for check in self.checks)

    @property
    def first_failure(self) -> CheckResult | None:
        """The check to read first: the earliest that did not pass."""
        return next((check for check in self.checks if check.status != "pass"), None)

    def check(self, name: str) -> CheckResult:
        """The result of the check `name`; KeyError if there is none."""
        for check in self.checks:
            if check.name == name:
                return check
        raise KeyError(name)

    def to_json(self) -> dict[str, Any]:
        """The object that `rankup grade --json` prints."""
        return {
            "exercise": self.exercise,
            "points": self.points,
            "max_points": self.max_points,
            "passed": self.passed,
            "seed": self.seed,
            "seconds": round(self.seconds, 3),
            "engines": list(self.engines),
            "checks": [check.to_json() for check in self.checks],
        }

    def report_json(self) -> str:
        """The whole verdict with diagrams and output, for another process of ours (see `from_report`)."""
        extra = [
            {"title": c.title, "diagram": c.diagram, "output": c.output, "schedule": c.schedule} for c in self.checks
        ]
        return json.dumps({"verdict": self.to_json(), "extra": extra})

    @classmethod
    def from_report(cls, text: str) -> Verdict:
        """The inverse of `report_json`. Raises KeyError, TypeError or ValueError on anything else."""
        data = json.loads(text)
        return cls.from_json(data["verdict"], data["extra"])

    @classmethod
    def from_json(cls, data: Mapping[str, Any], extra: list[dict[str, Any]] | None = None) -> Verdict:
        """A Verdict from what `to_json` gave; titles default to the checks' names."""
        extras = extra or [{"title": check["name"]} for check in data["checks"]]
        pairs = zip(data["checks"], extras, strict=True)
        checks = tuple(CheckResult.from_json(check, more) for check, more in pairs)
        return cls(data["exercise"], checks, data["seed"], data["seconds"], tuple(data["engines"]))
