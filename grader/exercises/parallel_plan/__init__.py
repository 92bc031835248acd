"""plan: how to split a model over a cluster, under the course's cost model.

Nothing here is timed: a plan's memory and step time are a formula's (see `costs`), and the best plan is found by
computing both for every legal one. What the search itself may take is CPU time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from grader import says, tally
from grader.exercise import Check, Exercise
from grader.exercises.common.plain import BROKEN_OFF, in_words
from grader.exercises.parallel_plan import costs as costs
from grader.exercises.parallel_plan.costs import Plans
from grader.exercises.parallel_plan.jobs import GB, ROUNDING, Job, cases
from grader.lost import Lost
from grader.planning import Plan
from grader.ranks.program import Function, Limits
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench, Ranks

FIELDS = tuple(field.name for field in fields(Plan))
SLOWER = 1.05  # than the best plan
CPU_SECONDS = 2.0
COMPARE = "Compare your own numbers with these."  # where no cause is sure
TRIES = "Check whether your search tries others, and what they cost by your formulas."

PARTS = {
    "compute": "computing",
    "tensor": "tensor parallelism's collectives",
    "pipeline": "sending activations from stage to stage",
    "zero": "ZeRO's messages in every micro-batch",
    "bubble": "the pipeline's bubble",
    "gradients": "the exchange of gradients and parameters at the end",
}


# ---- what came back


@dataclass(frozen=True)
class Answer:
    """A legal plan, and the case that it is for."""

    case: Case
    plan: Plan

    @property
    def job(self) -> Job:
        job: Job = self.case.expected
        return job

    @property
    def plans(self) -> Plans:
        return Plans.one(self.plan)

    @property
    def bytes(self) -> float:
        return float(self.job.memory(self.plans).all[0])

    @property
    def fits(self) -> bool:
        return self.bytes <= self.job.cluster.memory * (1 + ROUNDING)

    @property
    def seconds(self) -> float:
        return float(self.job.seconds(self.plans).all[0])


def _answers(bench: RankBench, group: str) -> tuple[list[Answer], Lost | None]:
    """The plans for the pairs of `group`, up to the first call that returned no legal one; and that loss."""
    found: list[Answer] = []
    try:
        for case, result in bench.calls(group):
            plan = _plan(bench, case, result.returned[0])
            broken = costs.illegal(case.expected.model, case.expected.cluster, plan)
            if broken:
                said = f"{_text(plan)} is not legal. {broken}."
                raise _lost(bench, case, "wrong_result", said, "a legal plan", _text(plan))
            found.append(Answer(case, plan))
    except Lost as loss:
        return found, _with_its_call(loss)
    return found, None


def _plan(bench: RankBench, case: Case, returned: Any) -> Plan:
    """The plan that a call returned. Raises Lost where its fields are missing or are not what they should be."""
    found = returned["fields"]
    missing = [name for name in FIELDS if name not in found]
    wanted = f"a Plan({', '.join(FIELDS)})"
    if missing:
        advice = "Is a `return` missing?" if returned["kind"] == "None" else f"It has no {says.listed(missing)}."
        if returned["kind"] == "None" and case.group != "legal":
            advice += _one_fits(case.expected)
        said = f"`plan` returned {returned['kind']} instead of {wanted}. {advice}"
        raise _lost(bench, case, "wrong_result", said, wanted, returned["kind"])
    values: dict[str, Any] = {}
    for name, value in found.items():
        whole = isinstance(value, (int, float)) and value == value // 1
        if not whole or (name == "recompute" and value not in (0, 1)):
            kind = "True or False" if name == "recompute" else "a whole number"
            said = f"`plan` returned a plan whose {name} is {in_words(value)} instead of {kind}."
            raise _lost(bench, case, "wrong_result", said, kind, in_words(value))
        values[name] = int(value)
    return Plan(**{**values, "recompute": bool(values["recompute"])})


def _one_fits(job: Job) -> str:
    return f" Every model and cluster here has a plan that fits. Here the best one is `{_text(job.best()[0])}`."


def _text(plan: Plan) -> str:
    return ", ".join(f"{name}={getattr(plan, name)}" for name in FIELDS)


def _lost(bench: RankBench, case: Case, kind: Any, said: str, expected: str, got: str, plans: str = "") -> Lost:
    job: Job = case.expected
    message = f"{job.label[0].upper()}{job.label[1:]}: {said} The call was `{job.call}`{plans}."
    return bench.lost(case, kind, message, None, expected, got)


def _with_its_call(loss: Lost) -> Lost:
    """A call that did not return: which it was."""
    if loss.picture is None or loss.picture.result or loss.diagnosis.kind not in BROKEN_OFF:
        return loss
    job: Job = loss.picture.case.expected
    advice = ""
    if loss.diagnosis.kind == "timeout":
        plans = len(costs.legal(job.model, job.cluster).dp)
        advice = (
            f" A call may take {CPU_SECONDS:g} s, or less if an earlier call took longer. Only {plans} plans are "
            "legal: try divisors only, and skip early what cannot become a legal plan."
        )
    if loss.diagnosis.kind == "crash" and "empty" in loss.diagnosis.message:
        advice = _one_fits(job)
    message = f"{loss.diagnosis.message}{advice} The call was `{job.call}`."
    return Lost(replace(loss.diagnosis, message=message), loss.picture)


# ---- the checks


def _judged(group: str, *judges: Callable[[RankBench, list[Answer]], None]) -> Callable[[RankBench], Outcome]:
    """All plans of a group are legal, and no judge raises Lost for them."""

    def judge(bench: RankBench) -> Outcome:
        answers, lost = _answers(bench, group)
        for one in judges:
            one(bench, answers)
        if lost:
            raise lost
        return bench.picture(group)

    return judge


def _fast(group: str) -> Callable[[RankBench], Outcome]:
    return _judged(group, _raise_too_large, _raise_too_slow)


def _raise_too_large(bench: RankBench, answers: list[Answer]) -> None:
    """Raise Lost at the first plan that needs more memory than there is."""
    wrong = [answer for answer in answers if not answer.fits]
    if not wrong:
        return
    answer, (least, _) = wrong[0], wrong[0].job.best()
    need = answer.job.memory(answer.plans)
    there = answer.job.cluster.memory / GB
    said = (
        f"{_text(answer.plan)} needs {answer.bytes / GB:.4g} GB on a device of the first stage, but a device has "
        f"{there:.4g} GB. Parameters, gradients and Adam's states take {need.states[0] / GB:.4g} GB, and activations "
        f"take {need.activations[0] / GB:.4g} GB. {_why(bench, wrong) or COMPARE}"
    )
    texts = f"at most {there:.4g} GB, such as {_text(least)}", f"{answer.bytes / GB:.4g} GB"
    raise _lost(bench, answer.case, "too_much_memory", said, *texts)


def _raise_too_slow(bench: RankBench, answers: list[Answer]) -> None:
    """Raise Lost at the first plan that takes over 5 % more time than the best one."""
    for answer in answers:
        _, least = answer.job.best()
        tally.note("time of a step", answer.seconds, SLOWER * least, "s", where=answer.case.label, reference=least,
                   of="the best plan")  # fmt: skip
    wrong = [answer for answer in answers if answer.seconds > SLOWER * answer.job.best()[1] * (1 + ROUNDING)]
    if not wrong:
        return
    answer, (best, seconds) = wrong[0], wrong[0].job.best()
    mine, other = answer.job.seconds(answer.plans), answer.job.seconds(Plans.one(best))
    texts, why = (f"{SLOWER * seconds:.4g} s", f"{answer.seconds:.4g} s"), _why(bench, wrong) or _count(answer)
    if why and not why.endswith((COMPARE, TRIES)):  # the cause is known: no numbers that may lead away from it
        said = f"your plan takes {answer.seconds:.4g} s a step, and the best plan takes {seconds:.4g} s. At most {SLOWER - 1:.0%} more is allowed. {why}"
        plans = f", which returned `{_text(answer.plan)}`, instead of `{_text(best)}`"
        raise _lost(bench, answer.case, "too_slow", said, *texts, plans)
    name = max(PARTS, key=lambda part: getattr(mine, part)[0] - getattr(other, part)[0])
    said = (
        f"{_text(answer.plan)} takes {answer.seconds:.4g} s a step, {_more(answer.seconds / seconds)} the best plan. "
        f"The best plan takes {seconds:.4g} s: {_text(best)}. At most {SLOWER - 1:.0%} more is allowed. The two "
        f"plans differ most in {PARTS[name]}: {getattr(mine, name)[0]:.3g} s instead of {getattr(other, name)[0]:.3g} s. "
        f"{why or 'Check your cost of that part, and that your search tries the best plan.'}"
    )
    raise _lost(bench, answer.case, "too_slow", said, *texts)


def _more(times: float) -> str:
    return f"{times - 1:.1%} more than" if times < 2 else f"{times:.3g} times as long as"


def _why(bench: RankBench, wrong: list[Answer]) -> str:
    """The mistake that explains all wrong plans of a group, and of all groups' plans most; in a sentence or two."""
    groups = [check.name for check in EXERCISE.checks if check.name != "legal"]
    answers = [answer for group in groups for answer in _answers(bench, group)[0]]
    if all(_size_for_number(answer) for answer in answers):
        return "The plan is the best if micro_batches is the size of a micro-batch. Return their number instead."
    found = [mistake for mistake in (*costs.FORGOTTEN, *costs.NARROW) if _explains(mistake, wrong)]
    counts = {mistake: sum(_explains(mistake, [answer]) for answer in answers) for mistake in found}
    most = max(counts.values(), default=0)
    likely = [mistake for mistake in found if counts[mistake] == most]
    forgotten = [mistake for mistake in likely if mistake in costs.FORGOTTEN]
    if forgotten:
        words = " or ".join(costs.FORGOTTEN[mistake][0] for mistake in forgotten[:3])
        said = f"This plan is the best for a cost model that forgets {words}."
        if most < len(answers):  # the others cannot come from that model
            return (
                f"{said} Your other plans are not all the best for it, so this is not the cause, or not the only one. "
                f"{COMPARE}"
            )
        return f"{said} {costs.FORGOTTEN[forgotten[0]][1]}"
    narrow = [mistake for mistake in found if mistake in costs.NARROW]
    whole = [mistake for mistake in narrow if counts[mistake] == len(answers)]
    narrow = whole if len(whole) == 1 else narrow
    if not narrow or (len(narrow) == 1 and counts[narrow[0]] == len(answers)):
        return "".join(costs.NARROW[mistake] for mistake in narrow)
    several = [costs.NARROW[mistake].partition(".")[0].removeprefix("This is ") for mistake in narrow]
    return f"This is {says.listed(several)}. {TRIES}"


def _explains(mistake: str, answers: list[Answer]) -> bool:
    return all(answer.job.explained(answer.plan, mistake) for answer in answers)


def _count(answer: Answer) -> str:
    """That a plan splits the devices as the best one does, and is the fastest of those with no more micro-batches than
    it has, or with no fewer; in two sentences."""
    plan, (best, _) = answer.plan, answer.job.best()
    plans = costs.legal(answer.job.model, answer.job.cluster)
    kept = (plans.dp == best.dp) & (plans.tp == best.tp) & (plans.pp == best.pp)
    fewer = plan.micro_batches < best.micro_batches
    kept &= plans.micro_batches <= plan.micro_batches if fewer else plans.micro_batches >= plan.micro_batches
    split = (plan.dp, plan.tp, plan.pp) == (best.dp, best.tp, best.pp) and plan.micro_batches != best.micro_batches
    if not split or answer.seconds > answer.job.times(plans)[kept].min() * (1 + ROUNDING):
        return ""
    count = f"at {'most' if fewer else 'least'} {says.counted(plan.micro_batches, 'micro-batch', 'micro-batches')}"
    return f"This is the fastest plan with dp={plan.dp}, tp={plan.tp}, pp={plan.pp} and {count}. {TRIES}"


def _size_for_number(answer: Answer) -> bool:
    """Whether a plan is the best one but for the size of micro-batches in place of their number."""
    plan, model = answer.plan, answer.job.model
    meant = replace(plan, micro_batches=model.batch // (plan.dp * plan.micro_batches))
    return bool(answer.job.times(Plans.one(meant))[0] <= answer.job.best()[1] * (1 + ROUNDING))


EXERCISE = Exercise(
    name="parallel_plan",
    chapter="08",
    title="Plan the training run: data, tensor and pipeline parallel",
    minutes=60,
    difficulty=2,
    world=Ranks((Function("plan", ("model", "cluster")),), cases, limits=Limits(cpu_seconds=CPU_SECONDS)),
    checks=(
        Check("legal", "Plans that the model and the cluster allow", 2, _judged("legal")),
        Check("fits", "Plans that fit into memory", 4, _judged("fits", _raise_too_large)),
        Check("small", "Models that need little: within 5 % of the best step time", 3, _fast("small")),
        Check("pipeline", "Slow networks and deep models: within 5 % of the best step time", 4, _fast("pipeline")),
        Check("nodes", "Groups within nodes and across: within 5 % of the best step time", 4, _fast("nodes")),
        Check("huge", "1 T parameters on 16,384 devices: within 5 %, found in 2 s", 3, _fast("huge")),
    ),
)
