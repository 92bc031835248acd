"""How requests and answers are told: in words, and as a picture with a row for each request."""

from __future__ import annotations

from typing import Any

from grader.exercises.serve_checkpoint.answering import close, values
from grader.exercises.serve_checkpoint.checkpoints import Ask, Plan
from grader.trace.gantt import Bar, Became, Chart

MOST_ROWS = 20
WORDS: dict[Became, str] = {
    "done": "from the request to a right answer", "failed": "from the request to a wrong answer",
    "still": "asked until the model is loaded", "died": "never answered",
}  # fmt: skip


def short(text: Any, most: int = 300) -> str:
    """What a learner's process said, as something that can be shown."""
    words = " ".join(str(text).split())
    words = words if len(words) <= most else words[: most - 3] + "..."
    return "".join(sign if sign.isprintable() else "?" for sign in words)


def asked(ask: Ask) -> str:
    """ "POST /predict with 2 rows"."""
    return ask.what if ask.method == "GET" else f"{ask.method} {ask.path} with {ask.what}"


def chart(plan: Plan, answers: list[dict[str, Any]]) -> Chart:
    """When each request was sent, and when and how it was answered; in milliseconds."""
    rows = [(number, ask, answers[number]) for number, ask in enumerate(plan.asks) if number < len(answers)]
    wrong = next((at for at, (_, ask, answer) in enumerate(rows) if _became(ask, answer) in ("failed", "died")), 0)
    rows = rows[max(0, wrong - MOST_ROWS + 3) :][:MOST_ROWS]
    begin = min((1000 * answer["begin"] for _, _, answer in rows), default=0.0)
    found = Chart((), unit=" ms", words=WORDS, lines=False)
    for number, ask, answer in rows:
        lane = f"{number}: {asked(ask).replace('POST /predict with ', '')}"
        found.lanes = (*found.lanes, lane)
        became = _became(ask, answer)
        start, end = 1000 * answer["begin"] - begin, 1000 * answer.get("end", answer["begin"]) - begin
        found.bars.append(
            Bar(lane, start, end, f"{answer['status'] or 'no answer'}  {short(answer['body'], 90)}", became)
        )
        found.end = max(found.end, end)
    together = [len(group) for group in plan.groups if len(group) > 1]
    found.end = max(found.end, 1.0)
    found.subtitle = "Each row is a request; without a method it is POST /predict."
    if len(rows) < len(plan.asks):
        found.subtitle += f" {len(rows)} of {len(plan.asks)} are shown."
    if together:
        found.subtitle += f" {' and '.join(map(str, together))} of them were sent at the same time."
    return found


def _became(ask: Ask, answer: dict[str, Any]) -> Became:
    if answer["status"] is None:
        return "died"
    if ask.patient:
        return "still"
    if answer["status"] != ask.status:
        return "failed"
    if ask.right is None:
        return "done"
    said = values(answer["body"], ask.right.shape)
    return "done" if not isinstance(said, str) and close(said, ask.right) else "failed"
