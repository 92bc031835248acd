"""Judges a server by its answers, each against the request that it belongs to."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from grader import says
from grader.exercises.serve_checkpoint.answering import Said, asked, chart, close, problem, reason, short, values
from grader.exercises.serve_checkpoint.checkpoints import Plan
from grader.lost import Lost, Unable
from grader.ranks.blame import Source
from grader.trace.gantt import Chart
from grader.verdict import Diagnosis, Kind
from grader.worlds.cases import Case
from grader.worlds.ranks import RankBench

Told = dict[str, Any]
WORDS = {200: "200", 422: "422 (the input cannot be processed)", 503: "503 (not ready)"}


def _servers(bench: RankBench, group: str) -> Iterator[tuple[Case, Plan, Told]]:
    """What was told of each server of a group. Raises Lost where it did not start, or left a request unanswered."""
    for name in ("fastapi", "uvicorn"):
        if importlib.util.find_spec(name) is None:
            raise Unable(f"Not judged: {name} is not installed. Install it: pip install 'rankup[serving]'")
    for case, result in bench.calls(group):
        told, plan = result.returned[0], case.expected
        if told["again"]:
            message = f"{case.label}: not tried, because two servers before this one never answered"
            raise _trouble(bench, case, told, "timeout", message, _silent(told), "an answer", got="none")
        if not told["up"]:
            raise _not_up(bench, case, told)
        missing = next((at for at, each in enumerate(told["answers"]) if each["status"] is None), None)
        if missing is None and len(told["answers"]) < len(plan.asks):
            missing = len(told["answers"])
        if missing is not None:
            raise _unanswered(bench, case, told, missing)
        yield case, plan, told


def _not_up(bench: RankBench, case: Case, told: Told) -> Lost:
    event = told["event"] or {}
    if told["startup"]:
        event, what = told["startup"], "the server did not start, because the application's startup raised"
    else:
        what = "create_app() raised"
    text = "its process stood still" if told["stuck"] else short(event.get("text"))
    if told["stuck"] or event.get("why") == "stuck":
        message = f"{case.label}: create_app() did not return, so no server started ({text})"
        return _trouble(bench, case, told, "timeout", message, _silent(told), "an application")
    if text.startswith("create_app() returned"):
        return _trouble(bench, case, told, "wrong_result", f"{case.label}: {text}", {}, "a FastAPI application")
    if not event.get("type"):
        return _trouble(bench, case, told, "crash", f"{case.label}: the server did not start ({text})", event)
    also = "Do not raise for a file that cannot be used. Tell the reason at /ready." if case.expected.ruin else ""
    name = f"{short(event['type'])}: {text}".strip(": ")
    return _trouble(bench, case, told, "crash", f"{case.label}: {what} {name}", event, "a server that answers", also)


def _unanswered(bench: RankBench, case: Case, told: Told, at: int) -> Lost:
    event, ask = told["event"] or {}, case.expected.asks[at]
    error = told["answers"][at]["error"] if at < len(told["answers"]) else ""
    text = "its process stood still" if told["stuck"] else short(event.get("text") or error)
    kind: Kind = "timeout" if told["stuck"] or event.get("why") == "stuck" or "imeout" in error else "crash"
    message = f"{case.label}: {asked(ask)} was never answered ({text})"
    return _trouble(bench, case, told, kind, message, _silent(told), "an answer", got="none")


def _silent(told: Told) -> Told:
    """The event that ended a server, with the line at which it was when it did not answer."""
    event = told["event"] or {}
    return event | {"line": event.get("line") or told["line"]}


def _line(event: Told | None) -> int | None:
    """Where in the submission, by what a process of the learner's says."""
    line = (event or {}).get("line")
    return line if isinstance(line, int) and line > 0 else None


def _source(bench: RankBench) -> Source:
    return Source(bench.program.file, bench.program.source)


def _trouble(
    bench: RankBench, case: Case, told: Told, kind: Kind, message: str, event: Told | None = None, expected: str = "",
    more: str = "", got: str = "",
) -> Lost:  # fmt: skip
    line = _line(event)
    message = message if message.endswith("...") else message.rstrip(".")  # "..." is what was cut off
    said = f"{message}{_source(bench).quote(line)}"
    text = f"{said}{'' if said.endswith('...') else '.'} {more.strip()}".strip()
    picture = chart(case.expected, told["answers"])
    picture.title = short(message, 105)
    return Lost(Diagnosis(kind, text, None, bench.program.file, line, expected or None, got or None), picture)


def _answer(
    bench: RankBench, case: Case, told: Told, at: int, kind: Kind = "wrong_result", hint: str = ""
) -> Said | None:
    """The answer to the request of that number. Raises Lost where its status is another than it must be, or what is
    in it."""
    ask, answer = case.expected.asks[at], told["answers"][at]
    wanted, status = ask.status, answer["status"]
    if ask.patient:
        return None
    if status not in (wanted, ask.also):
        raised = answer["raised"] or {}
        body = f", with the body {short(answer['body'], 160)}" if answer["body"].strip() and not raised else ""
        name = f", because it raised {short(raised['type'])}: {short(raised['text'])}" if raised else ""
        place = _source(bench).quote(_line(raised))
        message = f"{case.label}: {asked(ask)} got status {status} instead of {WORDS[wanted]}{name}{place}{body}"
        kind = "crash" if raised or status == 500 else kind
        if status == 503 and not hint and _without_model(case, told, at):
            hint = "This checkpoint is whole, and its keys have no prefix."
        trouble = _trouble(bench, case, told, kind, message, None, f"{wanted}", hint, f"{status}")
        trouble.diagnosis = replace(trouble.diagnosis, line=_line(raised))
        raise trouble
    if ask.right is None:
        return None
    found = values(answer["body"], ask.right.shape)
    if isinstance(found, str):
        message = f"{case.label}: {asked(ask)} got status 200, but {found}"
        expected = '{"predictions": [[...], ...]}, a list for each row'
        raise _trouble(bench, case, told, kind, message, None, expected, hint, short(answer["body"], 80))
    return found


def _without_model(case: Case, told: Told, at: int) -> bool:
    """Whether the server had predicted nothing before that request, although its checkpoint is whole and plain."""
    before = zip(case.expected.asks[:at], told["answers"], strict=False)
    predicted = any(ask.right is not None and answer["status"] == 200 for ask, answer in before)
    return not predicted and not case.expected.ruin and case.group != "prefix"


def _right(bench: RankBench, case: Case, told: Told, hint: str = "") -> None:
    """All answers are right. Raises Lost for the first that is not."""
    for at, ask in enumerate(case.expected.asks):
        found = _answer(bench, case, told, at, hint=hint)
        if found is None or ask.right is None or close(found, ask.right):
            continue
        raise _wrong(bench, case, told, at, found, hint or problem(found, ask.right))


def _alone_right(bench: RankBench) -> bool:
    """Whether one request after another is answered right, with a plain checkpoint and with lifespan events."""
    try:
        for case, _, told in _servers(bench, "answers"):
            _right(bench, case, told)
    except Lost:
        return False
    return True


def _right_as_elsewhere(bench: RankBench, case: Case, told: Told, hint: str) -> None:
    """`_right`, with a hint at what is special here, if the server is right where it is not."""
    try:
        _right(bench, case, told)
    except Lost:
        if hint and _alone_right(bench):
            _right(bench, case, told, hint)
        raise


def _wrong(
    bench: RankBench, case: Case, told: Told, at: int, found: Said, hint: str, kind: Kind = "wrong_result"
) -> Lost:
    ask = case.expected.asks[at]
    assert ask.right is not None
    rows = [row for row in range(len(found)) if not close(found[row : row + 1], ask.right[row : row + 1])]
    row = rows[0]
    which = (
        " for its row" if len(found) == 1 else f" for row {row}" if len(rows) < len(found) else " for any of its rows"
    )
    message = f"{case.label}: {asked(ask)} got predictions that are not the model's{which}"
    expected, got = (f"[{', '.join(f'{one:.5g}' for one in each[row][:4])}]" for each in (ask.right, found))
    return _trouble(bench, case, told, kind, message, None, expected, hint, got)


def _picture(bench: RankBench, group: str) -> Chart:
    """The picture of the first server of a group."""
    case, result = next(iter(bench.calls(group)))
    return chart(case.expected, result.returned[0]["answers"])


# ---- the checks


def answers(bench: RankBench) -> Chart:
    for case, _, told in _servers(bench, "answers"):
        _right(bench, case, told)
    return _picture(bench, "answers")


def evaluation(bench: RankBench) -> Chart:
    """Equal requests have equal answers, whatever other rows come with them; and they are the model's."""
    for case, plan, told in _servers(bench, "eval"):
        said: dict[str, Said] = {}
        hint = ""
        for at, ask in enumerate(plan.asks):
            if told["answers"][at]["raised"] or told["answers"][at]["status"] != 200:
                if "more than 1 value per channel" in str((told["answers"][at]["raised"] or {}).get("text")):
                    hint = "BatchNorm takes the mean of the batch only in training mode. Call eval() on the model."
                break
            found = _answer(bench, case, told, at)
            if found is None:
                continue
            if ask.body in said and not close(found, said[ask.body]):
                hint = "The same request got two answers. Dropout does that in training mode. Call eval() on the model."
            said[ask.body] = found
        _right(bench, case, told, hint)
    return _picture(bench, "eval")


def prefix(bench: RankBench) -> Chart:
    for case, _, told in _servers(bench, "prefix"):
        hint = "DDP wraps the model. Take the prefix off each key, and let load_state_dict be strict."
        if any(each["raised"] or each["status"] == 500 for each in told["answers"]):
            hint = ""
        _right_as_elsewhere(bench, case, told, hint)
    return _picture(bench, "prefix")


def once(bench: RankBench) -> Chart:
    """After the first prediction nothing is loaded any more; nor after the first answer that there is no model."""
    names = {"opens": "the checkpoint's file was opened", "loads": "torch.load ran", "states": "load_state_dict ran"}
    servers = list(_servers(bench, "once"))
    for case, _, told in servers:
        _right(bench, case, told)
    with contextlib.suppress(Lost):  # what a broken checkpoint's server must answer is another check's matter
        servers += _servers(bench, "once broken")
    for case, plan, told in servers:
        before, after = told["counts"][1], told["counts"][-1]
        later = sum(len(group) for group in plan.groups[2:])
        for name, words in names.items():
            times = int(after[name]) - int(before[name])
            if times > 0:
                message = (
                    f"{case.label}: {words} {says.counted(times, 'time')} while {later} requests came after the first"
                )
                hint = "Load the model once, when the application is made, and keep it."
                if plan.ruin:
                    hint = (
                        "Try to load the model once, when the application is made. Where that fails, keep the reason."
                    )
                raise _trouble(bench, case, told, "too_slow", message, None, "0 times", hint, f"{times} times")
    return _picture(bench, "once")


def concurrent(bench: RankBench) -> Chart:
    for case, plan, told in _servers(bench, "concurrent"):
        first = len(plan.groups[0]) + len(plan.groups[1])
        for at, ask in enumerate(plan.asks):
            together = at >= first and ask.status == 200
            kind: Kind = "race" if together and _alone_right(bench) else "wrong_result"
            hint = _whose(plan, at, told["answers"][at]) if at >= first else ""
            found = _answer(bench, case, told, at, kind, hint)
            if found is not None and ask.right is not None and not close(found, ask.right):
                alone = "A request on its own was answered right. Keep apart what belongs to each request."
                other = alone if kind == "race" else problem(found, ask.right)
                raise _wrong(bench, case, told, at, found, hint or other, kind)
    return _picture(bench, "concurrent")


def _whose(plan: Plan, at: int, answer: Told) -> str:
    """Whose answer it is, if it is that of another request."""
    for number, ask in enumerate(plan.asks):
        if number == at or ask.right is None or answer["status"] != 200:
            continue
        found = values(answer["body"], ask.right.shape)
        if not isinstance(found, str) and close(found, ask.right):
            return (
                f"This is request {at}, and it got the predictions for request {number} ({ask.what}). Give each request "
                "the predictions for its own rows."
            )
    return ""


def bad_input(bench: RankBench) -> Chart:
    hint = ""
    for case, plan, told in _servers(bench, "bad_input"):
        for at, ask in enumerate(plan.asks):
            raised = str((told["answers"][at]["raised"] or {}).get("text"))
            if told["answers"][at]["status"] == 500 and "JSON compliant" in raised:
                hint = "JSON has no NaN. Refuse it with 422, and leave it out of the error answer, too."
                if at:
                    _ = _answer(bench, case, told, at, hint=hint)
            bad = [each.what for each in plan.asks[:at] if each.status == 422]
            came = f"It came after {len(bad)} bad requests, the last with {bad[-1]}." if bad else ""
            after = came if ask.status == 200 else ""
            found = _answer(bench, case, told, at, hint=after)
            if found is not None and ask.right is not None and not close(found, ask.right):
                raise _wrong(bench, case, told, at, found, after or problem(found, ask.right))
    return _picture(bench, "bad_input")


def ready(bench: RankBench) -> Chart:
    """The status at every question, and a reason where it is 503."""
    last: tuple[Plan, Told] | None = None
    for case, plan, told in _servers(bench, "ready"):
        _right(bench, case, told)
        for at, ask in enumerate(plan.asks):
            if ask.status == 503 and ask.path == "/ready" and not reason(told["answers"][at]["body"]):
                got = short(told["answers"][at]["body"], 80) or "an empty answer"
                message = f"{case.label}: {asked(ask)} got status 503, but the answer does not say why. Give the reason"
                raise _trouble(bench, case, told, "wrong_result", message, None, "a reason, in words", "", got)
        if plan.ruin == "cut":
            last = plan, told
    assert last is not None
    return chart(last[0], last[1]["answers"])


def safe(bench: RankBench) -> Chart:
    for case, _, told in _servers(bench, "safe"):
        if told["ran"]:
            message = (
                f"{case.label}: loading it ran the code. A checkpoint is a pickle, and a pickle may call any function"
            )
            hint = "Use torch.load(..., weights_only=True), which loads only tensors and plain values."
            raise _trouble(
                bench, case, told, "wrong_result", message, None, "no code runs", hint, "os.mkdir was called"
            )
        _right(bench, case, told)
    return _picture(bench, "safe")


def no_lifespan(bench: RankBench) -> Chart:
    for case, _, told in _servers(bench, "no_lifespan"):
        hint = "Not every server sends lifespan events, nor does a test client outside of `with`. Load without them."
        _right_as_elsewhere(bench, case, told, hint)
    return _picture(bench, "no_lifespan")
