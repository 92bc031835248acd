"""Submissions that try to win points or to do harm: none gets more than it earned, none leaves or changes anything.

What is asserted is the same for all; what each does, and what it may get, it says itself (see `corpus`). Seconds and
endings are kept in build/attacks.json.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
import readable
from _pytest.mark import ParameterSet
from conftest import Arena
from corpus import FAMILIES, HERE, Attack, attacks, read
from often import every_other_day
from watch import REPOSITORY, Guard, Hung, Watch

from grader.authoring import verdicts, wrong
from grader.grading import grade
from grader.registry import find
from grader.submission import BadRequest
from grader.verdict import Verdict

SEED = 20
# One of a family is tried by `make test`, every second day; of the others CI tries the day's share, `make soak` all.
OF_EACH_FAMILY = 1
HANG_SECONDS = 60.0  # far more than any limit of ours: only against a grader that would wait for ever
SLOW_SECONDS = 240.0  # the same, where each call that breaks everything has a JVM started
KEPT = REPOSITORY / "build" / "attacks.json"
ATTACKS = attacks()
# graded after an attack, for little: the first simulates ranks and makes real ones, the second only simulates
AFTER_HARM, AFTER_FRAUD = "grad_scaler", "parallel_plan"


def keep(attack: Attack, verdict: Verdict | None, seconds: float, problems: list[str]) -> None:
    """One more row of the table of all attacks; several test processes may write it."""
    row = {
        "family": attack.family,
        "tries": attack.tries,
        "earned": attack.earned,
        "points": None if verdict is None else verdict.points,
        "max_points": find(attack.exercise).max_points,
        "seconds": round(seconds, 2),
        "kinds": dict(Counter(check.diagnosis.kind for check in verdict.checks if check.diagnosis)) if verdict else {},
        "problems": problems,
    }
    KEPT.parent.mkdir(exist_ok=True)
    with KEPT.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        rows = json.loads(file.read() or "{}")
        rows[attack.name] = row
        file.truncate(0)
        file.write(json.dumps(rows, indent=1))


def told(verdict: Verdict) -> str:
    lines = [f"{verdict.points:g} of {verdict.max_points:g} points"]
    lines += [
        f"  {check.name:16} {check.status:7} {check.diagnosis.kind if check.diagnosis else ''} "
        f"{check.diagnosis.message[:300] if check.diagnosis else ''}"
        for check in verdict.checks
    ]
    return "\n".join(lines)


def judge(attack: Attack, verdict: Verdict) -> list[str]:
    """What is wrong with the verdict on an attack."""
    found = []
    if verdict.points > attack.earned:
        found.append(f"it won: {verdict.points:g} points, and it earned {attack.earned:g}")
    if attack.paid and verdict.points < attack.earned:
        found.append(f"it got {verdict.points:g} points, and it earned {attack.earned:g}")
    kinds = {check.diagnosis.kind for check in verdict.checks if check.diagnosis}
    if attack.ends is not None and not kinds <= attack.ends:
        found.append(f"points were lost for {', '.join(sorted(kinds - attack.ends))}")
    if any(check.status == "error" for check in verdict.checks):
        found.append("the grader says that it failed itself")
    return found + readable.problems(verdict)


def tried() -> Iterator[ParameterSet]:
    """Every attack. Bombs and all but the first of a family are heavy on their day, and for the soak on others; the
    first is heavy every second day."""
    seen: Counter[str] = Counter()
    today = int(os.environ["RANKUP_SHARE"])  # see conftest
    for each in ATTACKS:
        seen[each.family] += 1
        dear = each.heavy or each.family == "bombs" or seen[each.family] > OF_EACH_FAMILY
        other_day = every_other_day(each.family)
        daily = not dear or verdicts.share(each.name, verdicts.SHARES) == today
        mark = pytest.mark.heavy if daily else pytest.mark.soak
        yield pytest.param(each, id=each.name, marks=[mark] * (dear or other_day))


@pytest.mark.parametrize("attack", list(tried()))
def test_an_attack_wins_nothing_and_harms_nobody(attack: Attack, arena: Arena, tmp_path: Path) -> None:
    exercise, engines = find(attack.exercise), arena.engines
    seconds = SLOW_SECONDS if exercise.cost != "second" else HANG_SECONDS
    guard, verdict, problems = Guard(seconds, arena.close), None, []
    with Watch(tmp_path) as watch:
        try:
            with guard:
                verdict = grade(exercise, attack.submission(watch.words), engines, SEED)
        except (Exception, Hung) as error:
            problems.append(f"grading it raised {type(error).__name__}: {error}"[:300])
        if guard.rang:
            problems.append(f"grading it would have hung: it was broken off after {seconds:g} s")
        text = verdict.report_json() if verdict else ""
        problems += (judge(attack, verdict) if verdict else []) + watch.problems(text)
    problems += after(arena, AFTER_HARM if attack.tries == "harm" else AFTER_FRAUD)
    keep(attack, verdict, guard.seconds, problems)
    if problems:
        arena.close()  # the next one gets fresh engines
    assert not problems, f"{attack.told}\n- " + "\n- ".join(problems) + (f"\n{told(verdict)}" if verdict else "")


def after(arena: Arena, name: str) -> list[str]:
    """What is wrong with the verdict on a right submission that comes after an attack, on the same engines."""
    try:
        with Guard(HANG_SECONDS, arena.close):
            verdict = grade(find(name), verdicts.handed_in(name, wrong.REFERENCE), arena.engines, SEED)
    except (Exception, Hung) as error:
        return [f"grading the next submission raised {type(error).__name__}: {error}"[:300]]
    return [] if verdict.passed else [f"the next submission, which is right, got\n{told(verdict)}"]


def test_there_are_attacks_of_every_family() -> None:
    families = Counter(attack.family for attack in ATTACKS)
    assert set(families) == set(FAMILIES)
    assert len(ATTACKS) >= 70
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)


def test_every_snippet_is_used() -> None:
    used = {name for attack in ATTACKS for name in attack.uses}
    assert used - {wrong.REFERENCE} == {path.stem for path in (HERE / "snippets").glob("*.py")}


GOOD = "## x: Says yes.\nfamily: bombs; tries: harm; earned: 0; ends: timeout, crash\n```python\ndef f(:\n```\n"


def test_an_attack_is_read_also_where_it_is_no_python() -> None:
    (attack,) = read(GOOD, "ring_all_reduce")
    assert (attack.told, attack.earned, attack.ends, attack.paid) == ("Says yes.", 0, {"timeout", "crash"}, False)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("tries: harm; ", "", "'tries: ...' is missing"),
        ("bombs", "bomb", "no such family"),
        ("timeout", "time_out", "no kind of diagnosis"),
        ("tries:", "trys:", "'trys: harm' is not one of"),
        ("```python", "```", "write one block, from ```python or ```diff to ```"),
        ("```python", "```diff", "a part of its diff changes nothing"),
    ],
)
def test_an_attack_that_does_not_say_what_it_is_is_refused(old: str, new: str, why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        read(GOOD.replace(old, new), "ring_all_reduce")


def test_the_reports_on_all_attacks_are_looked_through() -> None:
    """A picture that is no XML would not be shown; that `readable` sees it is shown here."""
    with pytest.raises(ElementTree.ParseError):
        ElementTree.fromstring("<svg>\x00</svg>")
