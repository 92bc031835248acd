"""Scripts for plain classes whose objects are merged: what is done to which object, and what each must answer.

A script is built beside models that do the same: what a model answers is what is expected. The harness `replicas`
carries it out on the learner's class.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

from grader.lost import Lost
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench

IN_BOX = Path(__file__).with_name("replicas_in_box.py")
MOST_STEPS_TOLD = 14


class Model(Protocol):
    """What the learner's objects are compared with: updates by name, and these."""

    def merge(self, other: Self) -> None: ...

    def copy(self) -> Self: ...


@dataclass(frozen=True)
class Ask:
    """One answer that is expected: as a model says it, or as another answer of the same script (`same_as`).

    `steps` is how many steps come before it, `words` is the call, and `why` what a wrong answer means, if known.
    """

    steps: int
    words: str
    expected: Any = None
    same_as: int | None = None
    why: str = ""
    law: str = ""


@dataclass
class Script:
    """Steps for the harness, and what each question must be answered."""

    kind: str
    make: Callable[[], Any]
    steps: list[list[Any]] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    models: dict[str, Any] = field(default_factory=dict)

    def new(self, *names: str) -> Self:
        for name in names:
            self.steps.append(["new", name])
            self.models[name] = self.make()
        return self

    def do(self, name: str, method: str, *args: Any, **kwargs: Any) -> Self:
        """Call an update."""
        self.steps.append(["do", name, method, list(args), kwargs])
        getattr(self.models[name], method)(*args, **kwargs)
        return self

    def merge(self, name: str, other: str) -> Self:
        self.steps.append(["merge", name, other])
        self.models[name].merge(self.models[other])
        return self

    def copy(self, name: str, other: str) -> Self:
        """`name` becomes what `other` is, by way of JSON."""
        self.steps.append(["copy", name, other])
        self.models[name] = self.models[other].copy()
        return self

    def play(self, moves: str) -> Self:
        """Small steps in short: "a+1" (a counts, ticks, or adds x at n1), "a+1:5" (counts 5), "a-" (removes x), "a-1"
        (counts down), "a<b" (a merges b)."""
        for name, what, rest in ((move[0], move[1], move[2:]) for move in moves.split()):
            node, _, amount = rest.partition(":")
            if what == "<":
                self.merge(name, rest)
            elif what == "-" and not rest:
                self.do(name, "remove", "x")
            elif self.kind == "ORSet":
                self.do(name, "add", "x", f"n{node}")
            else:
                method = "tick" if self.kind == "VectorClock" else "increment" if what == "+" else "decrement"
                self.do(name, method, f"n{node}", *([int(amount)] if amount else []))
        return self

    def value(self, name: str, why: str = "") -> Self:
        """Ask for the value, which must be the model's."""
        self.asks.append(Ask(len(self.steps), f"{name}.value()", self.models[name].value(), why=why))
        self.steps.append(["value", name])
        return self

    def note(self, name: str) -> Self:
        """Ask for the value, to hold later ones against it: whatever it is."""
        self.asks.append(Ask(len(self.steps), f"{name}.value()", None, len(self.asks)))
        self.steps.append(["value", name])
        return self

    def same(self, name: str, law: str, earlier: int) -> Self:
        """Ask for the value, which must be the one of the `earlier`-th question."""
        words = f"{name}.value()"
        self.asks.append(Ask(len(self.steps), words, self.models[name].value(), earlier, law=law))
        self.steps.append(["value", name])
        return self

    def compare(self, name: str, other: str, why: str = "") -> Self:
        words = f"{name}.compare({other})"
        expected = self.models[name].compare(self.models[other])
        self.asks.append(Ask(len(self.steps), words, expected, why=why))
        self.steps.append(["compare", name, other])
        return self


def case(group: str, label: str, scripts: Sequence[Script]) -> Case:
    """All scripts of one class as one call, also as a learner would write them: for a step that raises."""
    written = [[_line(script.kind, step) for step in script.steps] for script in scripts]
    arguments = (([script.steps for script in scripts], written),)
    return Case(group, label, arguments, scripts[0].kind, expected=scripts, by="run")


# ---- what came back


@dataclass(frozen=True)
class Wrong:
    """The first wrong answer of a script."""

    script: Script
    ask: Ask
    got: Any
    expected: Any


def judge(group: str) -> Callable[[RankBench], Outcome]:
    """A check that every answer of a group is as it must be, or else tells the shortest script in which one is not."""

    def check(bench: RankBench) -> Outcome:
        for case_, result in bench.calls(group):
            scripts: Sequence[Script] = case_.expected
            returned = result.returned[0]
            told = returned.get("answers") if isinstance(returned, dict) else None
            told = told if isinstance(told, list) and len(told) == len(scripts) else [[]] * len(scripts)
            wrong = [found for script, answers in zip(scripts, told, strict=True) for found in _wrong(script, answers)]
            if wrong:
                raise _lost(bench, case_, min(wrong, key=lambda found: found.ask.steps))
        return bench.picture(group)

    return check


def _wrong(script: Script, answers: Any) -> Iterator[Wrong]:
    """The first answer that is wrong, if there is one."""
    said: list[Any] = []
    for number, ask in enumerate(script.asks):
        got = answers[number] if isinstance(answers, list) and number < len(answers) else None
        said.append(got)
        expected = said[ask.same_as] if ask.same_as is not None else told(ask.expected)
        if normal(got) != normal(expected):
            yield Wrong(script, ask, got, expected)
            return


def told(value: Any) -> Any:
    """A model's answer as the harness tells one."""
    if isinstance(value, (set, frozenset)):
        return {"elements": [{"is": element} for element in value]}
    if isinstance(value, list):
        return {"elements": [told(element) for element in value]}
    if isinstance(value, dict):
        return {"dict": [[told(key), told(element)] for key, element in value.items()]}
    return {"is": value}


def normal(answer: Any) -> str:
    """Equal texts for equal answers: elements in any order, 2.0 for 2, but True is not 1, nor "1"."""
    match answer:
        case {"is": bool(value)}:
            return repr(value)
        case {"is": int(value) | float(value)}:
            return repr(float(value)) if abs(value) < 2**53 else repr(value)
        case {"is": value}:
            return repr(value)
        case {"elements": list(parts)}:
            return f"[{', '.join(sorted(map(normal, parts)))}]"
        case {"dict": list(pairs)}:
            return f"{{{', '.join(sorted(f'{normal(key)}: {normal(value)}' for key, value in pairs))}}}"
    return f"? {json.dumps(answer, default=str)}"


def in_words(answer: Any) -> str:
    """An answer for people."""
    match answer:
        case {"is": value}:
            return json.dumps(value) if isinstance(value, str) else repr(value)[:80]
        case {"elements": list(parts)}:
            return f"[{', '.join(sorted(map(in_words, parts)))}]"[:120]
        case {"dict": list(pairs)}:
            return f"{{{', '.join(f'{in_words(key)}: {in_words(value)}' for key, value in pairs)}}}"[:120]
        case {"other": name}:
            return f"a value of type {str(name)[:60]}"
    return "nothing"


def _lost(bench: RankBench, case_: Case, wrong: Wrong) -> Lost:
    ask, code = wrong.ask, program(wrong.script, wrong.ask.steps)
    if isinstance(wrong.got, dict) and "not_json" in wrong.got:
        text = (
            f"After `{code}`: to_json() returned a value that JSON cannot hold ({str(wrong.got['not_json'])[:120]}). "
            "Return only dicts with string keys, lists, strings, numbers, booleans and None."
        )
        return bench.lost(case_, "wrong_result", text, None, "JSON values", str(wrong.got["not_json"])[:80])
    got, expected = in_words(wrong.got), in_words(wrong.expected)
    if ask.law:
        earlier = wrong.script.asks[ask.same_as or 0].words
        differ = f"was {expected}, but is now" if earlier == ask.words else f"is {expected}, but {ask.words} is"
        text = f"After `{code}`: {earlier} {differ} {got}. {ask.law}"
    else:
        text = f"After `{code}`: {ask.words} is {got} instead of {expected}. {ask.why or _typed(wrong)}"
    return bench.lost(case_, "wrong_result", text.strip(), None, expected, got)


def _typed(wrong: Wrong) -> str:
    """What is known of an answer from itself."""
    if wrong.got == {"is": None} and wrong.expected != {"is": None}:
        return "A method without a `return` statement returns None."
    if in_words(wrong.got).replace('"', "") == in_words(wrong.expected).replace('"', ""):
        return "The type differs. Keys of a JSON object become strings, so keep elements that are numbers in lists."
    return ""


def program(script: Script, steps: int) -> str:
    """The first steps as a learner would write them, with no more than matters to the object asked."""
    lines = [_line(script.kind, step) for step in script.steps[:steps] if step[0] not in ("value", "compare")]
    if len(lines) > MOST_STEPS_TOLD:
        lines = [f"({len(lines) - MOST_STEPS_TOLD} earlier steps)", *lines[-MOST_STEPS_TOLD:]]
    return "; ".join(lines)


def _line(kind: str, step: list[Any]) -> str:
    what, name, *rest = step
    match what:
        case "new":
            return f"{name} = {kind}()"
        case "do":
            method, args, kwargs = rest
            parts = [json.dumps(arg) if isinstance(arg, str) else repr(arg) for arg in args]
            parts += [f"{key}={value!r}" for key, value in kwargs.items()]
            return f"{name}.{method}({', '.join(parts)})"
        case "merge" | "compare":
            return f"{name}.{what}({rest[0]})"
        case "value":
            return f"{name}.value()"
    return f"{name} = {kind}.from_json(json.loads(json.dumps({rest[0]}.to_json())))"
