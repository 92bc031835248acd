"""find_anomaly: which anomalies of isolation a history of transactions on lists shows, each with a witness.

Nothing here is timed but by CPU seconds: what a history says is exact (see `readings`), histories are built for one rule
each (`situations`) or what clients of a store of known isolation saw (`nodes.histories.transactions.stores`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from grader import says
from grader.exercise import Check, Exercise
from grader.exercises.common.plain import BROKEN_OFF
from grader.exercises.find_anomaly import judging, words
from grader.exercises.find_anomaly.histories import IN_WORDS, History, cases
from grader.exercises.find_anomaly.judging import Answer, NoAnswer
from grader.exercises.find_anomaly.readings import CLASSES
from grader.lost import Lost
from grader.ranks.program import Function, Limits
from grader.trace.dependencies import Dependencies
from grader.verdict import Diagnosis
from grader.worlds.cases import Case
from grader.worlds.ranks import RankBench, Ranks

CPU_SECONDS = 20.0
LIMITS = Limits(cpu_seconds=CPU_SECONDS, load_cpu_seconds=10, idle_seconds=30, silent_seconds=240, wall_seconds=240)
BUILT = ("aborted", "intermediate", "order", "edges", "unknown", "writes", "single", "item")
LARGE = "large"
GROUPS = (*BUILT, "stores", LARGE)


# ---- answers


def _answers(bench: RankBench, group: str) -> tuple[list[Answer], Lost | None]:
    """What was answered about the histories of a group, up to the first call without an answer; and that loss."""
    kept: dict[Case, Answer] = bench.__dict__.setdefault("kept_answers", {})
    found: list[Answer] = []
    try:
        for case, result in bench.calls(group):
            if case not in kept:
                try:
                    kept[case] = judging.answer(case.expected, result.returned[0])
                except NoAnswer as error:
                    raise _no_answer(bench, case, str(error)) from None
            found.append(kept[case])
    except Lost as loss:
        return found, _with_its_history(loss)
    return found, None


def _no_answer(bench: RankBench, case: Case, text: str) -> Lost:
    history: History = case.expected
    said = f"{_of(history)}: {text}{words.history(history.reading)}"
    return bench.lost(case, "wrong_result", said, None, "a list of (class, indices)", "something else")


def _with_its_history(loss: Lost) -> Lost:
    """A call that did not return: which it was."""
    if loss.picture is None or loss.picture.result or loss.diagnosis.kind not in BROKEN_OFF:
        return loss
    history: History = loss.picture.case.expected
    advice = ""
    if loss.diagnosis.kind == "timeout":
        advice = (
            f" A call may take {CPU_SECONDS:g} s of CPU time, or less if an earlier call took longer. Every cycle lies within "
            "one strongly connected component: find the components first, in linear time, and search only in them."
        )
    text = f"{loss.diagnosis.message}{advice}{words.history(history.reading)}"
    return Lost(replace(loss.diagnosis, message=text), loss.picture)


def _of(history: History) -> str:
    drawn = history.group == LARGE or history.label in IN_WORDS.values()
    label = history.label if drawn else f'"{history.label}"'
    many = len(history.transactions)
    return (
        f"A history of {label}"
        if history.group == LARGE
        else f"The history of {label} ({many} transactions)"
        if drawn
        else f"The history {label} ({many} transactions)"
    )


def _raise_lost(
    bench: RankBench, given: Answer, text: str, expected: str, got: str, picture: Dependencies | None
) -> None:
    if picture is not None:
        picture.outcome = next(
            bench.outcome(case) for case, each in bench.__dict__["kept_answers"].items() if each is given
        )
    found = Diagnosis("wrong_result", text, None, bench.program.file, None, expected, got)
    raise Lost(found, picture if picture is not None and picture.cards else None)


# ---- the checks


def _classes(group: str) -> Callable[[RankBench], Dependencies | None]:
    """Of every history of a group the classes that it has are named, and no others."""

    def judge(bench: RankBench) -> Dependencies | None:
        answers, lost = _answers(bench, group)
        for given in answers:
            if given.missing or given.false:
                _raise_wrong_classes(bench, given)
        if lost:
            raise lost
        return _drawn(bench, answers)

    return judge


def _raise_wrong_classes(bench: RankBench, given: Answer) -> None:
    """Raise Lost for a class that was missed, or, where none was, for one that is not there."""
    reading = given.reading
    why = ""
    if given.history.group != LARGE:
        others = [each for group in BUILT for each in _answers(bench, group)[0]]
        why = judging.explained(given, others)
    text = f"{_of(given.history)}: "
    if given.missing:
        name = given.missing[0]
        if name in words.CYCLES:
            shown = words.told(reading, name, reading.cyclic[name])
        else:
            shown = words.sentence(words.dirty(reading, name)[1])
        text += f"you did not report {says.listed(given.missing, 'or')}. This is {name}: {shown}"
        picture: Dependencies | None = judging.shown(reading, name)
        assert picture is not None
        picture.subtitle = f"{given.history.label}: {name}, which you did not report"
    else:
        name = given.false[0]
        text += f"you reported {name} with the witness {_witness(given.claims[name])}, but the history has no {name}. "
        text += _why_not(given, name)
        picture = judging.picture(given, name) if name in words.CYCLES else None
    expected, got = _named(reading.classes), _named(given.claims)
    _raise_lost(bench, given, f"{text}{why}{words.history(reading)}", expected, got, picture)


def _why_not(given: Answer, name: str) -> str:
    flaw = judging.flaw(given.reading, name, given.claims[name]) if name in words.CYCLES else ""
    if name == "G1a":
        flaw = "No ok read holds a value that a failed transaction appended."
    if name == "G1b":
        flaw = (
            "No ok read ends with a value that another ok or info transaction appended before its last one to that key."
        )
    return flaw


def _witness(indices: object) -> str:
    text = str(indices)
    return text if len(text) <= 80 else f"{text[:76]}...]"


def _named(classes: object) -> str:
    names = [name for name in CLASSES if name in classes]  # type: ignore[operator]
    return says.listed(names) or "no anomaly"


def _drawn(bench: RankBench, answers: list[Answer]) -> Dependencies | None:
    """A witness that a solution found, the longest of those that can be read."""
    claims = [(given, name) for given in answers for name in given.claims if name in given.reading.classes]
    if not claims:
        return None
    given, name = max(claims, key=lambda claim: min(len(claim[0].claims[claim[1]]), 6))
    picture = judging.picture(given, name)
    picture.subtitle = f"{given.history.label}: your witness of {name}"
    return picture


def _witnesses(bench: RankBench) -> Dependencies | None:
    """Every witness of a class that is there is one, in all histories; and each class was found somewhere."""
    all_answers = [given for group in GROUPS for given in _answers(bench, group)[0]]
    for given in all_answers:
        for name, why in given.wrong_witnesses():
            text = (
                f"{_of(given.history)}: your witness of {name} is {_witness(given.claims[name])}. {why}"
                f"{words.history(given.reading)}"
            )
            _raise_lost(bench, given, text, f"a witness of {name}", _witness(given.claims[name]),
                        judging.picture(given, name))  # fmt: skip
    found = {name for given in all_answers for name in given.claims if name in given.reading.classes}
    never = [name for name in CLASSES if name not in found]
    if never:
        lost = next((lost for group in GROUPS if (lost := _answers(bench, group)[1])), None)
        if lost and not found:
            raise lost
        text = f"Not judged, because you never reported {says.listed(never, 'or')} where a history has it. See the checks above."
        raise Lost(Diagnosis("wrong_result", text, None, bench.program.file, None, "witnesses of all classes", "none"))
    return _drawn(bench, all_answers)


EXERCISE = Exercise(
    name="find_anomaly",
    chapter="15",
    title="Find the anomalies in a history of transactions",
    minutes=90,
    difficulty=3,
    cost="seconds",
    world=Ranks((Function("find_anomaly", ("history",)),), cases, limits=LIMITS),
    checks=(
        Check("aborted", "G1a: reads of what failed transactions appended", 2, _classes("aborted")),
        Check("intermediate", "G1b: reads of what was not the last append", 2, _classes("intermediate")),
        Check("order", "The version order of each key, and keys that have none", 3, _classes("order")),
        Check("edges", "Edges from every read: of nothing, of own appends, a second one", 4, _classes("edges")),
        Check("unknown", "Transactions of unknown outcome that happened, and that did not", 3, _classes("unknown")),
        Check("writes", "G0 and G1c, in cycles of 2 to 12 transactions", 3, _classes("writes")),
        Check("single", "G-single, in cycles of 2 to 12 transactions", 3, _classes("single")),
        Check("item", "G2-item, where no cycle has fewer rw edges", 3, _classes("item")),
        Check("witnesses", "Every witness is one", 4, _witnesses),
        Check("stores", "Stores from no isolation to serializable", 3, _classes("stores")),
        Check(LARGE, "5,000 transactions within 20 s of CPU time", 3, _classes(LARGE)),
    ),
)
