"""Judges processes on one study: by the trials in its database, each against the calls of the objective."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator
from typing import Any

from grader import says, tally
from grader.lost import Lost, Unable
from grader.trace.gantt import Bar, Chart
from grader.verdict import Diagnosis, Kind
from grader.worlds.cases import Case
from grader.worlds.ranks import RankBench

Told = dict[str, Any]
DONE = "COMPLETE"
OPEN = ("RUNNING", "WAITING")


def _studies(bench: RankBench, group: str) -> Iterator[tuple[Case, list[Told]]]:
    """What was told of each study of a group, a search for each call of worker(). Raises Lost where it cannot be
    judged, or where a process ended badly."""
    if importlib.util.find_spec("optuna") is None:
        raise Unable("Not judged: Optuna is not installed. Install it: pip install 'rankup[jobs]'")
    for case, result in bench.calls(group):
        searches = result.returned[0]
        for told in searches:
            if case.group == "slow":
                _taken_for_dead(bench, case, told)
            _ended(bench, case, told)
            _sound(bench, case, told)
        _made_up(bench, case, searches)
        yield case, searches


def _ended(bench: RankBench, case: Case, told: Told) -> None:
    """Raise Lost where a process that was not killed ended otherwise than by returning."""
    if told["problem"]:
        message = f"{_sentence(case)}: the study's database cannot be read any more ({_plain(told['problem'])})."
        raise _trouble(bench, told, "wrong_result", message)
    killed = {call["rank"] for call in told["asked"] if call["became"] == "killed"}
    for rank, event in enumerate(told["ended"]):
        if event.get("event") == "returned" or rank in killed:
            continue
        where = f"{_sentence(case)}: process {rank} of {told['ranks']}"
        line = event.get("line") if isinstance(event.get("line"), int) else None
        if event.get("why") == "stuck":
            rest = ", ".join(f"{count} {state}" for state, count in sorted(_states(told).items()))
            message = (
                f"{where} never returned from worker() ({_plain(event['text'])}). The study has {rest or 'no trials'}."
            )
            victim = _victim(told)
            if victim and _state(told, victim["number"]) == "RUNNING":
                message += (
                    f" Process {victim['rank']} was killed in trial {victim['number']}, and this trial is still RUNNING. Use a "
                    "heartbeat_interval and a grace_period of at most 5 s together, and have stale trials failed while you wait."
                )
            raise _trouble(bench, told, "deadlock", message, rank, line, "worker() returns when no trial is left open")
        what = f"{_plain(event.get('type'))}: {_plain(event.get('text'))}".strip(": ")
        raise _trouble(bench, told, "crash", f"{where} did not return from worker(). {what}", rank, line)


def _sound(bench: RankBench, case: Case, told: Told) -> None:
    """Raise Lost where what the database holds is not what the objective was asked and gave."""
    where = _sentence(case)
    if told["unreadable"]:
        message = f"{where}: the study's database cannot be read ({_plain(told['unreadable'])})."
        raise _trouble(bench, told, "wrong_result", message)
    if not told["trials"]:
        names = ", ".join(repr(_plain(name)) for name in told["studies"][:3]) or "none"
        message = f"{where}: there are no trials in the study that study_name names. Studies in the storage: {names}. Use the study_name and the storage_url that worker() gets."
        raise _trouble(bench, told, "wrong_result", message, expected="study_name, in storage_url", got=names)
    numbers = Counter(trial["number"] for trial in told["trials"])
    twice = [number for number, count in numbers.items() if count > 1]
    if twice:
        message = f"{where}: {numbers[twice[0]]} trials have the number {twice[0]}. Let Optuna number them."
        raise _trouble(bench, told, "lost_or_duplicated", message, expected="each number once")


def _made_up(bench: RankBench, case: Case, searches: list[Told]) -> None:
    """Raise Lost where a trial is complete with another value than the objective's."""
    given = {call["number"]: call for told in searches for call in told["asked"] if call["became"] == "done"}
    for trial in searches[-1]["trials"]:
        call = given.get(trial["number"])
        if trial["state"] != DONE or (
            call is not None and all(trial[name] == call[name] for name in ("x", "size", "value"))
        ):
            continue
        name = next((name for name in ("value", "x", "size") if call and trial[name] != call[name]), "value")
        gave = "gave" if name == "value" else "was called with"
        right = f"objective() {gave} {call[name]}" if call else "objective() gave it no value"
        message = f"{_sentence(case)}: trial {trial['number']} is complete with {name} = {trial[name]}, but {right}. The grader puts its own objective() into your module. Look the name up at each call."
        raise _trouble(
            bench, searches[-1], "wrong_result", message, expected="the objective's value", got=str(trial["value"])
        )


def _complete(told: Told) -> int:
    return _states(told)[DONE]


def _states(told: Told) -> Counter[str]:
    return Counter(_plain(trial["state"]) for trial in told["trials"])


def _state(told: Told, number: int) -> str:
    return _plain(next((trial["state"] for trial in told["trials"] if trial["number"] == number), "gone"))


def _too_few(bench: RankBench, case: Case, told: Told, why: str) -> None:
    """Raise Lost where trials are missing."""
    count, total = _complete(told), told["total"]
    if count < total:
        message = f"{_sentence(case)}: {_number(count)} complete instead of {total}. {why}"
        expected = f"{total} complete"
        raise _trouble(bench, told, "lost_or_duplicated", message.strip(), expected=expected, got=str(count))


def _left_open(bench: RankBench, case: Case, told: Told, why: str) -> None:
    """Raise Lost where a trial is neither complete nor given up when all have returned."""
    for trial in told["trials"]:
        if trial["state"] in OPEN:
            message = f"{_sentence(case)}: all processes returned, but trial {trial['number']} was still {trial['state']}. {why}"
            raise _trouble(
                bench, told, "lost_or_duplicated", message, expected="none RUNNING or WAITING", got=trial["state"]
            )


# ---- the checks


def shared(bench: RankBench) -> Chart:
    """All processes are in trials of one study, which is minimized, at the same time."""
    for case, searches in _studies(bench, "together"):
        told = searches[-1]
        if told["direction"] != ["MINIMIZE"]:
            got = _plain(", ".join(map(str, told["direction"]))) or "no direction"
            message = f"{_sentence(case)}: the study in the database has the direction {got}. Create it with direction='minimize', which is the default."
            raise _trouble(bench, told, "wrong_result", message, expected="MINIMIZE", got=got)
        tally.note("processes in trials at the same time", told["at_once"], told["ranks"], "processes",
                   where=case.label, at_least=True)  # fmt: skip
        if told["at_once"] < told["ranks"]:
            message = f"{_sentence(case)}: never more than {told['at_once']} of {told['ranks']} processes were in objective() at the same time. If you hold a lock, release it before the trial runs."
            expected = f"{told['ranks']} at the same time"
            raise _trouble(bench, told, "too_slow", message, expected=expected, got=str(told["at_once"]))
    return _chart(told)


def exact(bench: RankBench) -> Chart:
    """As many trials are complete as were asked for, no more and no less, and none is left open."""
    drawn = None
    for group in ("together", "few"):
        for case, searches in _studies(bench, group):
            told = searches[-1]
            count, total = _complete(told), told["total"]
            if count > total:
                message = f"{_sentence(case)}: {_number(count)} complete, but trials_total is {total}. Count the trials of all processes, also the running ones, and make counting and claiming one atomic step."
                raise _trouble(bench, told, "lost_or_duplicated", message, expected=str(total), got=str(count))
            _too_few(bench, case, told, "")
            _left_open(bench, case, told, "End every trial that you take.")
            drawn = drawn or told
    assert drawn is not None
    return _chart(drawn)


def pruned(bench: RankBench) -> Chart:
    """Trials that were pruned are not among those that were asked for."""
    for case, searches in _studies(bench, "pruned"):
        told = searches[-1]
        count = sum(call["became"] == "pruned" for call in told["asked"])
        _too_few(bench, case, told, f"objective() pruned {count}. They do not count, so run others in their place.")
    return _chart(told)


def late(bench: RankBench) -> Chart:
    """A study that has trials goes on; one that is complete does not."""
    for case, searches in _studies(bench, "late"):
        first, second, third = searches
        _too_few(bench, case, first, "The only process must run them all.")
        _too_few(bench, case, second, f"The call before had completed {_complete(first)} of them. Run the rest.")
        if third["asked"]:
            message = f"{_sentence(case)}: all {third['total']} trials were complete when worker() was called again, but it called objective() {says.counted(len(third['asked']), 'more time')}. Count before the first trial, too."
            raise _trouble(
                bench, third, "lost_or_duplicated", message, expected="no trial", got=str(len(third["asked"]))
            )
    return _chart(second)


def _victim(told: Told) -> Told | None:
    """The call of the objective in which a process was killed."""
    return next((call for call in told["asked"] if call["became"] == "killed"), None)


def _killed(bench: RankBench, group: str) -> Iterator[tuple[Case, Told, Told]]:
    """Each study with the call in which a process was killed. Raises Lost where there was none."""
    for case, searches in _studies(bench, group):
        told = searches[-1]
        victim = _victim(told)
        if victim is None and _complete(told) > told["total"]:
            message = f"{_sentence(case)}: {_number(_complete(told))} complete, but trials_total is {told['total']}. The test kills a process in a certain trial, which did not come. Complete exactly trials_total."
            raise _trouble(bench, told, "lost_or_duplicated", message, expected=str(told["total"]))
        if victim is None:
            message = f"{_sentence(case)}: objective() was called {len(told['asked'])} times, and no process could be killed in it. Call it for each trial, in the process that took the trial."
            raise _trouble(bench, told, "wrong_result", message)
        yield case, told, victim


def killed(bench: RankBench) -> Chart:
    """The others find out that a process is gone, and say so in the study."""
    for case, told, victim in _killed(bench, "killed"):
        number = victim["number"]
        if told["unnoticed"]:
            message = f"{_sentence(case)}: process {victim['rank']} was killed in trial {number}. Its last heartbeat was 5 s ago, the other process had nothing else to do, and the trial was still RUNNING. Use a heartbeat_interval and a grace_period of at most 5 s together. Without a grace_period, Optuna waits for twice the heartbeat_interval."
            raise _trouble(bench, told, "not_durable", message, victim["rank"], expected="FAIL", got="RUNNING")
        state = _state(told, number)
        if state != "FAIL":
            message = f"{_sentence(case)}: process {victim['rank']} was killed in trial {number}. When the other process had returned, the trial was {state} instead of FAIL. Use a heartbeat_interval and a grace_period of at most 5 s together, and have stale trials failed before you return."
            raise _trouble(bench, told, "not_durable", message, victim["rank"], expected="FAIL", got=state)
        _too_few(bench, case, told, f"Trial {number} failed and does not count. Run another one.")
        _left_open(bench, case, told, "Run every trial that was queued again, and end every trial that you take.")
    return _chart(told)


def retried(bench: RankBench) -> Chart:
    """A later trial has the killed one's parameters, and is complete; also where the retry is killed, too."""
    drawn = None
    for group in ("killed", "again"):
        for case, told, victim in _killed(bench, group):
            if not any(trial["state"] == DONE for trial in _same(victim, told["trials"])):
                raise _not_retried(bench, case, told, victim)
            drawn = drawn or told
    assert drawn is not None
    return _chart(drawn)


def _same(victim: Told, those: list[Told]) -> list[Told]:
    """Those trials, or calls, that came after `victim` with its parameters."""
    later = (each for each in those if each["number"] > victim["number"])
    return [each for each in later if all(each[name] == victim[name] for name in ("x", "size"))]


def _not_retried(bench: RankBench, case: Case, told: Told, victim: Told) -> Lost:
    number, parameters = victim["number"], f"(x = {victim['x']:.3g}, size = {victim['size']})"
    message = f"{_sentence(case)}: process {victim['rank']} was killed in trial {number} {parameters}"
    retry = next((call for call in _same(victim, told["asked"]) if call["became"] == "killed"), None)
    if retry is None:
        message += ", and no later trial completed these parameters. Queue them again, for example with RetryHeartbeatStaleTrialCallback."
    else:
        message += f". Process {retry['rank']} tried the same parameters again in trial {retry['number']}, and was killed, too. No later trial completed them. Queue them after each death, without a limit. With RetryHeartbeatStaleTrialCallback, leave max_retry at None."
    expected = "a trial with its parameters"
    return _trouble(bench, told, "lost_or_duplicated", message, victim["rank"], expected=expected)


def last(bench: RankBench) -> Chart:
    """Also the trial that was the last is made up for, when it was lost."""
    for case, told, victim in _killed(bench, "last"):
        why = f"Process {victim['rank']} was killed in trial {victim['number']}, when no other trial was running. A process with nothing left to start must wait until no trial is open, and run what was lost."
        _too_few(bench, case, told, why)
    return _chart(told)


def slow(bench: RankBench) -> Chart:
    """A trial of a process that lives comes to its own end."""
    for case, searches in _studies(bench, "slow"):
        told = searches[-1]
        _too_few(bench, case, told, "")
    return _chart(told)


def _taken_for_dead(bench: RankBench, case: Case, told: Told) -> None:
    """Raise Lost where a trial failed whose process lived."""
    ranks = {call["number"]: call["rank"] for call in told["asked"]}
    for trial in told["trials"]:
        if trial["state"] == "FAIL" and trial["number"] in ranks:
            rank, number = ranks[trial["number"]], trial["number"]
            message = f"{_sentence(case)}: trial {number} was marked as FAIL, although process {rank}, which ran it, was not killed. Fail a trial only if its heartbeat has stopped, never because it is old or because another process runs it."
            raise _trouble(bench, told, "lost_or_duplicated", message, rank, expected=DONE, got="FAIL")


# ---- words and pictures


def _sentence(case: Case) -> str:
    return case.label[0].upper() + case.label[1:]


def _number(count: int) -> str:
    return f"{count} trial{'s are' if count != 1 else ' is'}"


def _plain(text: Any) -> str:
    """What a learner's process said, as something that can be shown: at most 300 characters."""
    short = " ".join(str(text).split())[:300]
    return "".join(sign if sign.isprintable() else "?" for sign in short)


def _trouble(
    bench: RankBench, told: Told, kind: Kind, message: str, rank: int | None = None, line: int | None = None,
    expected: str = "", got: str = "",
) -> Lost:  # fmt: skip
    found = Lost(Diagnosis(kind, message, rank, bench.program.file, line, expected or None, got or None))
    found.picture = _chart(told)
    return found


def _chart(told: Told) -> Chart:
    """Which process was in which trial, and what became of it."""
    lanes = tuple(f"process {rank}" for rank in range(told["ranks"]))
    chart = Chart(lanes, end=max(told["end"], 0.1))
    states = ", ".join(f"{count} {state}" for state, count in sorted(_states(told).items()))
    chart.subtitle = f"trials_total = {told['total']}; in the study at the end: {states or 'nothing'}"
    for call in told["asked"]:
        became: Any = {"done": "done", "killed": "died", "held": "still"}.get(call["became"], "failed")
        end = call["end"] if call["end"] is not None else told["end"]
        chart.bars.append(Bar(lanes[call["rank"]], call["begin"], end, f"trial {call['number']}", became))
        if call["became"] == "killed":
            chart.gone[lanes[call["rank"]]] = end
    return chart
