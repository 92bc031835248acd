"""Judges replicas by what they answered and how they ended, each in the order in which the harness did things to them."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator

from grader.exercises.serve_checkpoint.answering import problem, short, values
from grader.exercises.serve_replicas.asked import LARGE, RUINS, Plan, Told, asked, came, chart, event, of, right
from grader.lost import Lost, Unable
from grader.ranks.blame import Source
from grader.trace.gantt import Chart
from grader.verdict import Diagnosis, Kind
from grader.worlds.cases import Case
from grader.worlds.ranks import RankBench

_STATUS = re.compile(r"exit status (\d+)")


def installed() -> None:
    """Raises Unable where what nearly every submission imports is not there."""
    for name in ("fastapi", "uvicorn"):
        if importlib.util.find_spec(name) is None:
            raise Unable(f"Not judged: {name} is not installed. Install it: pip install 'rankup[serving]'")


def _told(bench: RankBench, group: str) -> Iterator[tuple[Case, Plan, Told]]:
    installed()
    for case, result in bench.calls(group):
        yield case, case.expected, result.returned[0]


def lost(
    bench: RankBench, case: Case, told: Told, kind: Kind, message: str, expected: str, got: str,
    happened: Told | None = None,
) -> Lost:  # fmt: skip
    """What a check loses, with a picture; `happened` is the event in which the submission's line is."""
    found = (happened or {}).get("line")
    line = found if isinstance(found, int) and found > 0 else None
    text = f"{case.label}: {message}"
    if line is not None:
        text = f"{text.rstrip('.')}{Source(bench.program.file, bench.program.source).quote(line)}."
    picture = chart(case.expected, told, short(message, 105))
    return Lost(Diagnosis(kind, text, None, bench.program.file, line, expected, got), picture)


def ending(told: Told, replica: int) -> tuple[str, Told | None, int | None]:
    """How a replica ended that the harness did not kill: in words, by which event, and with which exit status."""
    found = told["ends"][replica]
    if found is None:
        return "it ran on", None, None
    text = short(found.get("text"))
    if found.get("event") == "returned":
        return "it ended in a way of its own", found, None
    if (status := _STATUS.search(text)) and not found.get("type"):
        return f"it ended with exit status {status[1]}", found, int(status[1])
    if "was killed by" in text and not found.get("type"):
        return f"it was ended by {text.partition('was killed by ')[2].split()[0]}", found, None
    name = f"{short(found.get('type'))}: {text}".strip(": ")
    return (f"serve_replica() raised {name}" if found.get("type") else name), found, None


def _up(bench: RankBench, case: Case, told: Told) -> None:
    """The script was played to its end. Raises Lost where a replica ended early, or never was ready."""
    stopped = told["stopped"]
    if stopped is None:
        return
    rank, who = stopped["replica"], _who(told, stopped["replica"])
    if stopped["why"] == "never ready":
        last = next(each for each in reversed(told["asks"]) if each["stage"] == "until ready")
        tail = "It was let load, and had nothing more to do."
        if rank == 2:
            tail = "It is the successor of replica 0, at the same port. Nothing that a killed replica leaves behind may stop it."
        raise lost(bench, case, told, "timeout",
                   f"{who} was never ready: GET /ready got {came(last)}. {tail} Answer 200 when the model is loaded.",
                   "200", came(last))  # fmt: skip
    if stopped["why"] == "ended":
        how, happened, _ = ending(told, rank)
        tail = "serve_replica() returns only after SIGTERM."
        if rank == 2:
            tail = "It is the successor of replica 0, at the same port. Nothing that a killed replica leaves behind may stop it."
        raise lost(
            bench, case, told, "crash", f"{who} ended before it was ready: {how}. {tail}", "a server", how, happened
        )
    raise lost(bench, case, told, "crash", f"{who} could not be asked: {short(stopped['why'])}", "a server", "none")


def _who(told: Told, rank: int) -> str:
    if len(told["ends"]) == 1:
        return "the replica"
    return "replica 0, started again," if rank == 2 else f"replica {rank}"


def _answer(bench: RankBench, case: Case, told: Told, each: Told, why: str = "") -> None:
    """A prediction is right. Raises Lost where it is not; `why` is what to do, where the situation says it."""
    plan: Plan = case.expected
    if right(plan, each):
        return
    wanted = plan.asks[each["body"]].right
    assert wanted is not None
    if each["status"] == 200:
        found = values(each["said"], wanted.shape)
        what = found if isinstance(found, str) else "these are not the model's predictions"
        hint = why if isinstance(found, str) else problem(found, wanted) or why
        message = f"{asked(each)} got status 200, but {what}. {hint}".strip()
        raise lost(bench, case, told, "wrong_result", message, "the model's predictions", short(each["said"], 80))
    kind: Kind = "crash" if each["error"] or each["status"] == 500 else "wrong_result"
    body = f", with the body {short(each['said'], 120)}" if each["said"].strip() else ""
    kind = "timeout" if each["end"] is None else kind
    message = f"{asked(each)} got {came(each)}{body}. Expected: 200 and the model's predictions. {why}".strip()
    raise lost(bench, case, told, kind, message, "200", came(each))


def _kind(each: Told) -> Kind:
    return "timeout" if each["end"] is None else "wrong_result"


# ---- the checks


def live(bench: RankBench) -> Chart:
    """/health says 200 while the checkpoint is held in torch.load, and while a request is held in the model."""
    drawn: Chart | None = None
    for case, plan, told in _told(bench, "live"):
        ways = {
            "loading": "while torch.load was reading the checkpoint. A kubelet would kill this process before it is ready.",
            "computing": "while a request was in the model. A kubelet would kill this process because one request takes "
            "long.",
        }
        for stage, words in ways.items():
            for each in of(told, stage):
                if each["status"] == 200 or (stage == "loading" and event(told, "at load") is None):
                    continue
                message = f"GET /health got {came(each)} {words} {_alive(each)}"
                raise lost(bench, case, told, _kind(each), message, "200", came(each))
        _up(bench, case, told)
        for each in of(told, "held"):
            _held(bench, case, told, each)
            _answer(bench, case, told, each)
        drawn = chart(plan, told)
    assert drawn is not None
    return drawn


def _alive(each: Told) -> str:
    """What to do about a /health that did not say 200."""
    if each["error"] == "refused":
        return "Listen at 127.0.0.1, port, first, and load in another thread."
    if each["end"] is None:
        return "/health must wait for nothing: no lock, and no event loop that loads or computes."
    return "Say 200 as long as the process answers at all, whatever became of the model."


def _held(bench: RankBench, case: Case, told: Told, each: Told) -> None:
    """A request was in the model when it was said to be. Raises Lost where it was answered before."""
    then = event(told, "held", each["replica"])
    if then is not None and each["end"] is not None and each["end"] < then and each["status"] is not None:
        message = (
            f"{asked(each)} got {came(each)} while every call of a torch.nn.Module was held. "
            "Compute each answer by calling the model, network(sizes)."
        )
        raise lost(bench, case, told, "wrong_result", message, "an answer of the model", came(each))


def ready(bench: RankBench) -> Chart:
    """Not 200 while the checkpoint is read or the weights are filled in; then 200, and the first prediction is right."""
    last: tuple[Plan, Told] | None = None
    for case, plan, told in _told(bench, "ready"):
        if plan.script == "unusable":
            _unusable(bench, case, told)
            continue
        last = plan, told
        loaded = event(told, "at load") is not None
        when = {
            "loading": "while torch.load was still reading the checkpoint"
            if loaded else "although torch.load had not been called",
            "filling": "while load_state_dict had yet to fill the model in",
        }  # fmt: skip
        for stage, words in when.items():
            for each in of(told, stage, "/ready"):
                if each["status"] == 200:
                    message = (
                        f"GET /ready got status 200 {words}. From then on a balancer sends requests, and nobody can "
                        "answer them. Say 503 until the model is complete."
                    )
                    raise lost(bench, case, told, "wrong_result", message, "503", "200")
                if each["end"] is None:
                    message = f"GET /ready got no answer {words}. Say 503 at once."
                    raise lost(bench, case, told, "timeout", message, "503", "no answer")
        for each in (*of(told, "loading", "/predict"), *of(told, "filling", "/predict")):
            if each["status"] != 503 and each["error"] != "refused":
                message = f"{asked(each)} got {came(each)} {when[each['stage']]}. Say 503 at once: a balancer then asks another replica."
                raise lost(bench, case, told, _kind(each), message, "503", came(each))
        _up(bench, case, told)
        for each in (*of(told, "first"), *of(told, "second")):
            _answer(bench, case, told, each, "/ready had said 200 before this request was sent.")
    assert last is not None
    return chart(*last)


def _unusable(bench: RankBench, case: Case, told: Told) -> None:
    what, remedy = RUINS[case.expected.ruin]
    for each in of(told, "unusable", "/ready"):
        if each["status"] == 200:
            message = f"GET /ready got status 200, and {what}.{remedy} Say 503, and why."
            raise lost(bench, case, told, "wrong_result", message, "503", "200")
    how, happened, _ = ending(told, 0)
    if happened is not None:
        message = f"{how}. A new process would read the same file, so stay alive, and say 503 at /ready."
        raise lost(bench, case, told, "crash", message, "a live replica that is not ready", how, happened)
    for each in of(told, "unusable"):
        wanted = 200 if each["path"] == "/health" else 503
        if each["status"] != wanted:
            message = f"{asked(each)} got {came(each)} instead of {wanted}. The process lives, and {what}.{remedy}"
            raise lost(bench, case, told, _kind(each), message, str(wanted), came(each))


def killed(bench: RankBench) -> Chart:
    """Every request has its right answer, those of the killed replica from the other one; and a successor takes over."""
    drawn: Chart | None = None
    for case, plan, told in _told(bench, "killed"):
        if told["stopped"] is None or told["stopped"]["replica"] == 2:
            for stage, why in (
                ("before", ""), ("held", ""),
                ("retried", "Replica 0 was killed while it had this request, so the balancer sent it again, to replica 1. "
                 "A replica's answer must depend on nothing except the request."),
                ("alone", "Replica 0 was killed before this request was sent, and replica 1 was ready."),
            ):  # fmt: skip
                for each in of(told, stage):
                    if each["replica"] == 0 and stage == "held":
                        _held(bench, case, told, each)
                        if each["error"] and each["status"] is None:
                            continue
                    _answer(bench, case, told, each, why)
        _up(bench, case, told)
        for each in of(told, "after"):
            _answer(
                bench,
                case,
                told,
                each,
                "Replica 0 had been started again, and both replicas had said that they are ready.",
            )
        drawn = chart(plan, told)
    assert drawn is not None
    return drawn


def drain(bench: RankBench) -> Chart:
    """After SIGTERM: 503 at /ready, 503 for what is new, answers for what is in flight, and exit status 0."""
    first: Chart | None = None
    for case, plan, told in _told(bench, "drain"):
        _up(bench, case, told)
        for each in of(told, "before"):
            _answer(bench, case, told, each)
        for each in of(told, "held"):
            _held(bench, case, told, each)
        how, happened, status = ending(told, 0)
        for each in of(told, "draining", "/ready"):
            if each["status"] != 503:
                _not_draining(bench, case, told, each)
        for each in of(told, "draining", "/health"):
            if each["status"] != 200 and each["end"] is not None:  # one that waits for requests is judged in `live`
                message = (
                    f"GET /health got {came(each)} after SIGTERM, while requests were in the model. A kubelet would take "
                    "the process for dead. Say 200 at /health until the process ends, and 503 at /ready."
                )
                raise lost(bench, case, told, _kind(each), message, "200", came(each))
        for each in of(told, "late"):
            if each["status"] != 503:
                message = (
                    f"{asked(each)} was sent after SIGTERM and got {came(each)} instead of 503. A replica that takes new "
                    "requests while it ends is never done. Refuse them with 503: a balancer asks another replica."
                )
                raise lost(bench, case, told, _kind(each), message, "503", came(each))
        for each in of(told, "held"):
            _finished(bench, case, told, each)
        if event(told, "gone") is None:
            left = "Its last request was answered" if plan and of(told, "held") else "It had no request in flight"
            if event(told, "hung up") is not None:
                left += ": one was answered, and the client of another had hung up before its answer came. Such a request is over, too"
            if case.label.endswith("loads"):
                left = "Its model was still being loaded, and it had no request in flight"
            message = f"the process did not end after SIGTERM. {left}. Return from serve_replica() then; no thread may keep it alive."
            raise lost(bench, case, told, "timeout", message, "exit status 0", "it ran on")
        if status != 0:
            hint = "Return from serve_replica(), or raise SystemExit(0)."
            if "SIGTERM" in how:
                hint = (
                    "SIGTERM's default ends a process, and uvicorn's own handler raises SIGTERM again when it is "
                    "done. Handle SIGTERM yourself, and return from serve_replica()."
                )
                if case.label.endswith("loads"):
                    hint += " Here the checkpoint was still being loaded: have your handler set before that begins."
            raise lost(bench, case, told, "crash", f"after SIGTERM, {how} instead of exit status 0. {hint}",
                       "exit status 0", how, happened)  # fmt: skip
        first = first or chart(plan, told)
    assert first is not None
    return first


def _finished(bench: RankBench, case: Case, told: Told, each: Told) -> None:
    """A request that was in flight at SIGTERM has its answer, also where its client is slow."""
    if each["body"] == LARGE and _cut_off(case.expected, each):
        if event(told, "cut") is None:
            return  # the process waited for the client; how it lost the last bytes depends on the clock
        message = (
            f"{asked(each)} was in flight when SIGTERM came, and its client reads slowly. The process ended before the whole "
            "answer was sent. A request is in flight until its answer is written, not only until it is computed."
        )
        raise lost(bench, case, told, "crash", message, "the whole answer", "a part of it, or nothing")
    _answer(bench, case, told, each, "It was in flight when SIGTERM came. Finish what is in flight before you end.")


def _cut_off(plan: Plan, each: Told) -> bool:
    wanted = plan.asks[each["body"]].right
    assert wanted is not None
    return bool(each["error"]) or (each["status"] == 200 and isinstance(values(each["said"], wanted.shape), str))


def _not_draining(bench: RankBench, case: Case, told: Told, each: Told) -> None:
    """Raises Lost: what /ready said after SIGTERM, while requests were in the model."""
    many = len(of(told, "held"))
    since = f"GET /ready got {came(each)} after SIGTERM, while {many} requests were in the model. "
    if each["status"] == 200:
        hint = "Say 503 from SIGTERM on, so that balancers send no more requests."
    elif each["error"]:
        hint = (
            "Go on listening until the last request is answered: say 503 at /ready from SIGTERM on, and stop the server "
            "only then. uvicorn's own handler stops listening at once."
        )
    else:
        hint = (
            "Go on accepting connections until the last request is answered. What answers /ready must not wait for "
            "requests: let neither a handler of SIGTERM nor the model keep the event loop."
        )
    raise lost(bench, case, told, _kind(each), since + hint, "503", came(each))
