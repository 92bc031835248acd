"""Runs of rollout_sync that did not come to their end: what had happened until then, in words and as lanes."""

from __future__ import annotations

from dataclasses import replace

from grader.exercises.rollout_sync.policy import Plan
from grader.lost import Lost
from grader.trace.events import Span, Trace
from grader.trace.gantt import Bar, Became, Chart
from grader.worlds.cases import Case

NANOSECONDS = 1e9
ASKED = "As you asked, "
STUCK = ("deadlock", "left_early")
WORDS: dict[Became, str] = {
    "done": "a step, or a sample that a step uses (5 v2: prompt 5, version 2)",
    "again": "a sample that no step uses", "died": "killed inside generate", "failed": "", "still": "outside generate",
}  # fmt: skip


def lane_names(plan: Plan) -> tuple[str, ...]:
    """The lane of each rank."""
    return tuple(f"trainer {rank}" if rank < plan.trainers else f"gen. {rank}" for rank in range(plan.ranks))


def told(loss: Lost, case: Case, trace: Trace) -> Lost:
    """The same loss, with what the trace of the run shows: where it stands still, or after a death."""
    plan: Plan = case.expected.plan
    message, found = loss.diagnosis.message, loss.diagnosis
    died = message.startswith(ASKED)
    if not died and found.kind not in STUCK:
        return loss
    if died:  # the label says who was killed, and when
        message = message.partition(". ")[2]
        message = message[:1].lower() + message[1:]
    message = f"With {case.label}: {message} {_facts(plan, trace)}"
    if died and f"rank {plan.killed} is gone" in message:
        message += (
            " Catch this PeerGone error, give the unfinished prompts of the dead generator to another one, and go on."
        )
    elif died and "Nothing will end this wait." in message and _steps(trace) < plan.steps and not _ready(plan, trace):
        message += (
            f" When rank {plan.killed} dies, hand all its unfinished prompts to another generator at once, also those "
            "that it had not begun."
        )
        if " returned. " in message:
            message += " Stop a generator only when the last step has all its samples."
    return Lost(replace(found, message=message), _chart(case, plan, trace))


def _facts(plan: Plan, trace: Trace) -> str:
    steps = _steps(trace)
    facts = [f"Until then, trainer 0 made {steps} of {plan.steps} steps."]
    begun, ended = _spans(trace, "g"), _ended(trace)
    killed = {span.rank: span.since for span in trace.spans if span.what == "killed"}
    for span in begun:
        prompt = _prompt(span)
        if span.until > killed.get(span.rank, span.until) and prompt not in ended:
            facts.append(
                f"Rank {span.rank} died inside generate of prompt {prompt}, and no other generator finished this prompt."
            )
    if _ready(plan, trace):
        facts.append(
            f"With max_staleness 0, step 0 uses prompts 0 to {plan.batch - 1}. generate had ended for all of them, so step 0 could "
            f"begin. Send every sample to trainer 0, and wait for no more than these {plan.batch}."
        )
    never = [prompt for prompt in range(plan.prompts) if prompt not in {_prompt(span) for span in begun}]
    if never:
        some = ", ".join(map(str, never[:6])) + (", ..." if len(never) > 6 else "")
        facts.append(
            f"Of the {plan.prompts} prompts, {len(never)} {'was' if len(never) == 1 else 'were'} never given to generate: {some}."
        )
    elif steps < plan.steps:
        twice = len({_prompt(span) for span in begun}) < len(begun)
        facts.append(
            f"All {plan.prompts} prompts were given to generate{'' if twice else ', and none of them a second time'}."
        )
    return " ".join(facts)


def _ready(plan: Plan, trace: Trace) -> bool:
    """Whether all samples of step 0 were made and it did not begin, where it is known which they are: without staleness."""
    return plan.max_staleness == 0 and _steps(trace) == 0 and set(range(plan.batch)) <= _ended(trace)


def _ended(trace: Trace) -> set[int]:
    """The prompts for which generate ended, on a rank that lived on until then."""
    killed = {span.rank: span.since for span in trace.spans if span.what == "killed"}
    return {_prompt(span) for span in _spans(trace, "g") if span.until <= killed.get(span.rank, span.until)}


def _steps(trace: Trace) -> int:
    """Steps that trainer 0 made."""
    return sum(span.rank == 0 for span in _spans(trace, "s"))


def _spans(trace: Trace, letter: str) -> list[Span]:
    """Calls of generate ("g") or optimizer_step ("s"), in order."""
    found = [s for s in trace.spans if s.what == "compute" and s.name[:1] == letter and s.name[1:].isdecimal()]
    return sorted(found, key=lambda span: span.since)


def _prompt(span: Span) -> int:
    return int(span.name[1:])


def _chart(case: Case, plan: Plan, trace: Trace) -> Chart:
    """Lanes without versions, which nobody knows of a run that did not end."""
    names = lane_names(plan)
    killed = {span.rank: span.since / NANOSECONDS for span in trace.spans if span.what == "killed"}
    words: dict[Became, str] = {**WORDS, "done": "a step, or a generate (5: of prompt 5)"}
    drawn = Chart(names, subtitle=f"{case.label}: the run until it stood still", words=words)
    for letter in ("s", "g"):
        for span in _spans(trace, letter):
            since, until = span.since / NANOSECONDS, span.until / NANOSECONDS
            gone = killed.get(span.rank, until)
            number = _prompt(span)
            text = f"{number}\u2192{number + 1}" if letter == "s" else str(number)
            drawn.bars.append(Bar(names[span.rank], since, min(until, gone), text, "died" if until > gone else "done"))
    drawn.gone = {names[rank]: at for rank, at in killed.items()}
    drawn.end = max([0.1, *killed.values(), *(bar.end for bar in drawn.bars)])
    return drawn
