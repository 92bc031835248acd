"""Six functions of a cost model: a link's fit, messages, all-reduces, two laws of speed-up, and the best world size.

Nothing here is timed: every expected value is a formula's (see `_costs`), or was measured on the simulator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, fields, replace
from typing import Any

import numpy as np

from grader.exercise import Check, Draw, Exercise
from grader.exercises.common import plain
from grader.exercises.cost_model import costs
from grader.exercises.cost_model.costs import Job
from grader.lost import Lost
from grader.ranks.program import Function
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench, Ranks

EXACT = 1e-9  # relative: what float64 arithmetic may lose on the way
EXACT_FIT = 1e-7
MORE_THAN_FLOAT32 = 1e-4
AS_MEASURED = 0.01
STANDARD_ERRORS = 4.0  # from the truth, for a fit of noisy points; least squares itself is within LEAST_SQUARES of them
LEAST_SQUARES = 1.5
BELOW, FALLING = "a line that begins below zero", "a line that falls"
OUTLIER = "eight measurements, one of them far off"


@dataclass(frozen=True)
class Right:
    """The number a call must return: `key` names its formula, `given` are that formula's arguments."""

    key: str
    given: tuple[float, ...]
    value: float
    tolerance: float = EXACT


@dataclass(frozen=True)
class Line:
    """The link that a fit must find, each number within its tolerance, and the noise of the measurements."""

    alpha: float
    beta: float
    within: tuple[float, float]
    noise: float = 0.0


# ---- the cases


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check; all of them are called in one world of one rank."""
    usual = ("largest first", "shuffled", "with an empty message", "each size three times", "two points")
    for label in (*usual, BELOW, FALLING):
        yield _fit(draw, label)
    for number in range(10):
        yield _noisy_fit(draw, number)
    yield _outlier(draw)
    for number in range(6):
        alpha, beta, size = _link(draw.generator(f"send {number}"))
        yield _case("send", "send_time", (size, alpha, beta), "send")
    yield _case("send", "send_time", (0, alpha, beta), "send")
    for n in (8, 4, 16, 3, 5, 6, 7, 12, 2, 64, 100, 1024):
        for algorithm in costs.ALGORITHMS:
            if algorithm != "tree" or n & (n - 1) == 0:
                alpha, beta, size = _link(draw.generator(f"{algorithm} {n}"))
                yield _case("all_reduce", "all_reduce_time", (algorithm, size, n, alpha, beta), algorithm)
    yield from _measured()
    for n in (8, 3, 64, 1000, 10**6, 1):
        p = int(draw.generator(f"laws {n}").integers(500, 999)) / 1000
        for fraction in (p, 0.5) if n == 64 else (p,):
            for law in ("amdahl", "gustafson"):
                yield _case("laws", law, (fraction, n), law)
    for fraction in (0.0, 1.0):
        for law in ("amdahl", "gustafson"):
            yield _case("laws", law, (fraction, 32), law)
    yield from _jobs(draw)


def _case(group: str, function: str, arguments: tuple[Any, ...], key: str, value: float | None = None) -> Case:
    """One call whose result is a formula's, or `value` where that was measured."""
    given = arguments[1:] if key in costs.ALGORITHMS else arguments
    right = Right(key, given, costs.FORMULAS[key][0](*given))
    if value is not None:
        right = Right(key, given, value, AS_MEASURED)
    return Case(group, plain.call(function, arguments), (arguments,), function, expected=right)


def _three_digits(value: float) -> float:
    return float(f"{value:.3g}")


def _link(generator: np.random.Generator) -> tuple[float, float, int]:
    """A link's alpha and beta, and a size whose latency and transfer are of one order; odd, so that few N divide it."""
    alpha = _three_digits(2e-6 * 250 ** generator.random())
    half = 2000 * 1000 ** generator.random()  # bytes that take as long as the latency
    size = int(half * 2 ** generator.uniform(-1, 5))
    return alpha, _three_digits(alpha / half), size | 1


def _fit(draw: Draw, label: str) -> Case:
    generator = draw.generator(f"fit {label}")
    alpha, beta, _ = _link(generator)
    powers = sorted(generator.choice(np.arange(-3, 6.5, 0.5), 2 if label == "two points" else 6, replace=False))
    sizes = [int(alpha / beta * 2**power) for power in reversed(powers)]
    if label == "with an empty message":
        sizes.append(0)
    if label == "each size three times":
        sizes = sizes * 3
    if label != "largest first":
        generator.shuffle(sizes)
    if label == BELOW:  # as noise may have it
        alpha, sizes = -alpha, [size + int(2 * alpha / beta) for size in sizes]
    if label == FALLING:  # the same; no message takes less than no time
        alpha, beta = alpha + _three_digits(2 * max(sizes) * beta), -beta
    seconds = [alpha + size * beta for size in sizes]
    return _exact("fit", label, sizes, seconds, alpha, beta)


def _outlier(draw: Draw) -> Case:
    """Points of a line, one size more often than others, but for one, which took three times as long: the weight that a
    fit gives to each decides."""
    generator = draw.generator("outlier")
    alpha, beta, _ = _link(generator)
    sizes = [int(alpha / beta * part) for part in (0.5, 1, 2, 3, 5, 5, 5, 8)]
    generator.shuffle(sizes)
    off = sorted(sizes)[int(generator.integers(1, 4))]
    seconds = [(alpha + size * beta) * (3 if size == off else 1) for size in sizes]
    mean, second = sum(sizes) / len(sizes), sum(seconds) / len(seconds)
    slope = sum((x - mean) * (y - second) for x, y in zip(sizes, seconds, strict=True))
    slope /= sum((x - mean) ** 2 for x in sizes)
    return _exact("noisy_fit", OUTLIER, sizes, seconds, second - slope * mean, slope, MORE_THAN_FLOAT32)


def _exact(
    group: str, label: str, sizes: list[int], seconds: list[float], alpha: float, beta: float, loss: float = EXACT_FIT
) -> Case:
    """A fit with one right answer; what floats may lose is in proportion to the longest time."""
    within = loss * max(abs(alpha), max(seconds) / 100), loss * abs(beta)
    line = Line(alpha, beta, within)
    return Case(group, label, ((sizes, seconds),), "fit_alpha_beta", expected=line)


def _noisy_fit(draw: Draw, number: int) -> Case:
    """Forty measurements of each of eight sizes.

    Standard errors are those of the least-squares line under this very noise. The noise is drawn again until that line
    is well within the tolerance, so that nobody loses points by bad luck.
    """
    generator = draw.generator(f"noisy fit {number}")
    alpha, beta, _ = _link(generator)
    noise = 0.01 * float(generator.integers(2, 5))
    factors = np.array([1 / 8, 1 / 4, 1 / 2, 1, 3 / 2, 2, 3, 4])
    sizes = np.repeat((alpha / beta * factors).astype(np.int64), 40)
    generator.shuffle(sizes)
    exact = alpha + sizes * beta
    slope = (sizes - sizes.mean()) / np.sum((sizes - sizes.mean()) ** 2)
    weights = np.stack([1 / len(sizes) - sizes.mean() * slope, slope])  # the fit is a weighted sum of the seconds
    errors = np.sqrt(np.sum((weights * noise * exact) ** 2, axis=1))
    while True:
        seconds = exact * (1 + noise * generator.standard_normal(len(sizes)))
        if np.all(np.abs(weights @ seconds - (alpha, beta)) < LEAST_SQUARES * errors):
            break
    line = Line(alpha, beta, (STANDARD_ERRORS * float(errors[0]), STANDARD_ERRORS * float(errors[1])), noise)
    label = f"{len(sizes)} measurements with {noise:.0%} noise"
    return Case("noisy_fit", label, ((sizes.tolist(), seconds.tolist()),), "fit_alpha_beta", expected=line)


def _measured() -> Iterator[Case]:
    for (network, algorithm), rows in costs.MEASURED.items():
        for n, row in zip((*costs.MEASURED_RANKS, 1), (*rows, (0.0,) * 3), strict=True):
            for size, microseconds in zip(costs.MEASURED_SIZES, row, strict=True):
                arguments = (algorithm, size, n, network.alpha, network.beta)
                yield _case("measured", "all_reduce_time", arguments, algorithm, microseconds * 1e-6)


def _jobs(draw: Draw) -> Iterator[Case]:
    """For each wrong way to choose n a job for which it chooses wrongly; two where several n are equally fast,
    one with a batch that leaves two samples to one of 2000 ranks, two whose steps take microseconds or less, and one with
    fewer samples than a batch has."""
    chosen = []
    for number, (choice, _) in enumerate(costs.CHOICES):
        generator = draw.generator(f"job {number}")
        job = _job(generator)
        while not _clear(job) or choice(job) == job.best():
            job = _job(generator)
        chosen.append(job)
    generator = draw.generator("ties")
    batch = int(generator.integers(20, 60))
    per_sample = _three_digits(generator.uniform(1e-3, 5e-3))
    for most in (batch + 10, batch - 1):  # all with one sample a rank, and all with two, are equally fast
        chosen.append(Job(1000, per_sample, 10**6, 0.0, 0.0, most, batch))
    chosen.append(Job(10**6, per_sample, 10**6, 0.0, 0.0, 2100, 2001))
    chosen.append(_fast_job(draw.generator("microseconds"), 1e-4, costs.ROUNDED[0]))
    chosen.append(_fast_job(draw.generator("nanoseconds"), 1e-5, costs.CLOSE[0]))
    chosen.append(_small_job(draw.generator("few samples")))
    for job in chosen:
        label = plain.call("best_world_size", astuple(job), [field.name for field in fields(job)])
        yield Case("best_world_size", label, (astuple(job),), "best_world_size", expected=job)


def _job(generator: np.random.Generator) -> Job:
    """A job whose best n may be anything from 1 to max_n."""
    batch = int(generator.integers(6, 120))
    per_sample = _three_digits(1e-4 * 50 ** generator.random())
    alpha = batch * per_sample / (2 * generator.uniform(2, 40) ** 2)
    size = int(10 ** generator.uniform(4, 8))
    beta = batch * per_sample * generator.uniform(0.01, 0.6) / size
    samples = batch * int(generator.integers(10, 1000)) + 1
    return Job(
        samples, per_sample, size, _three_digits(alpha), _three_digits(beta), int(generator.integers(4, 65)), batch
    )


def _fast_job(generator: np.random.Generator, scale: float, choice: Callable[[Job], int]) -> Job:
    """A job whose times are so much shorter that `choice` is wrong, because for it several steps are equally long."""
    while True:
        job = _job(generator)
        per_sample, alpha, beta = (
            _three_digits(scale * time) for time in (job.seconds_per_sample, job.alpha, job.beta)
        )
        job = replace(job, seconds_per_sample=per_sample, alpha=alpha, beta=beta)
        if _clear(job) and choice(job) != job.best():
            return job


def _small_job(generator: np.random.Generator) -> Job:
    """A job with fewer samples than a batch has; another n would be best for a batch of so few."""
    while True:
        job = _job(generator)
        job = replace(job, samples=int(generator.integers(1, job.batch)))
        if _clear(job) and costs.CUT[0](job) != job.best():
            return job


def _clear(job: Job) -> bool:
    """Whether one n is the best whatever the order in which floats are added."""
    first, second = sorted(job.step(n) for n in range(1, job.max_n + 1))[:2]
    return second > first * (1 + 1e-6)


# ---- the checks


def _formula(group: str) -> Callable[[RankBench], Outcome]:
    def judge(bench: RankBench) -> Outcome:
        results, lost = plain.results(bench, group, plain.number, "one number")
        wrong = [(case, got) for case, got in results if not _close(got, case.expected)]
        if wrong:
            raise _wrong_number(bench, wrong)
        if lost:
            raise lost
        return bench.picture(group)

    return judge


def _close(got: float, right: Right) -> bool:
    return math.isclose(got, right.value, rel_tol=right.tolerance, abs_tol=1e-15)


def _wrong_number(bench: RankBench, wrong: list[tuple[Case, float]]) -> Lost:
    """What to say about the first of the wrong numbers, and the mistake that explains all that are wrong alike."""
    case, got = wrong[0]
    right: Right = case.expected
    alike = [(other.expected, value) for other, value in wrong if other.expected.key == right.key]
    why = next((why for mistake, why in costs.mistakes(right.key) if _explains(mistake, alike)), "")
    got_text, right_text = plain.apart(got, right.value)
    source = f"{costs.FORMULAS[right.key][1]} = {right_text}"
    if case.group == "measured":
        size, n, *_ = right.given
        source = f"{n} simulated ranks took {right_text} s{'' if size else ' with empty messages'}"
        if n == 1:
            source, why = "one rank sends nothing and takes 0 s", ""
    message = f"`{case.label}` returned {got_text}, but {source}. {why}".strip()
    return bench.lost(case, "wrong_result", message, None, right_text, got_text)


def _explains(mistake: Callable[..., float], wrong: list[tuple[Right, float]]) -> bool:
    try:
        return all(math.isclose(got, mistake(*right.given), rel_tol=EXACT) for right, got in wrong)
    except (ArithmeticError, ValueError):
        return False


def _fits(group: str) -> Callable[[RankBench], Outcome]:
    def judge(bench: RankBench) -> Outcome:
        results, lost = plain.results(bench, group, plain.pair, "two numbers, (alpha, beta)")
        for case, got in results:
            line: Line = case.expected
            pairs = zip(got, (line.alpha, line.beta), line.within, strict=True)
            if not all(abs(found - right) <= within for found, right, within in pairs):
                raise _wrong_fit(bench, case, got)
        if lost:
            raise lost
        return bench.picture(group)

    return judge


def _wrong_fit(bench: RankBench, case: Case, got: tuple[float, float]) -> Lost:
    line: Line = case.expected
    alpha, beta = plain.apart(got[0], line.alpha), plain.apart(got[1], line.beta)
    found, right = (f"alpha = {a}, beta = {b}" for a, b in zip(alpha, beta, strict=True))
    whose, on = ("best line", "that line") if case.label in (BELOW, FALLING, OUTLIER) else ("link", "the link's line")
    said = (
        f"`{plain.call(case.function, case.arguments[0])}` ({case.label}) returned {found}, but the {whose} has {right}"
    )
    if case.label == OUTLIER:
        said += ". One measurement took three times as long as the line through the others says"
    elif line.noise:
        within = f"alpha +- {line.within[0]:.2g} and beta +- {line.within[1]:.2g}"
        said += f". An error of {within} is allowed, and least squares over all points stays well within that"
    else:
        said += f". Every point lies on {on}"
    return bench.lost(case, "wrong_result", f"{said}. {_fit_habit(case, got)}", None, right, found)


def _fit_habit(case: Case, got: tuple[float, float]) -> str:
    """The mistake that gives such a fit, in a sentence."""
    line: Line = case.expected
    _, seconds = case.arguments[0]
    alpha, beta = (g / r for g, r in zip(got, (line.alpha, line.beta), strict=True))
    near = 1e-6 if not line.noise else 0.05
    if abs(got[0] / line.beta - 1) < near and abs(got[1] / line.alpha - 1) < near:
        return "Slope and intercept are exchanged. alpha is the intercept, in seconds: return it first."
    if got[0] == 0 and abs(beta - 1) < near and line.alpha < 0:
        return "The slope is right, but alpha is cut off at 0. Return the intercept of the best line as it is."
    if got[1] == 0 and line.beta < 0:
        return "Your beta is cut off at 0. Return the slope of the best line as it is, also where it is negative."
    if got[0] == 0 and abs(beta - 1) < near:
        return "The slope is right, but alpha is 0. Return the intercept of the line as it is, and do not round."
    if got[0] == 0:
        return "Your line goes through the origin. Fit an intercept, too: the intercept is the latency."
    if math.isclose(got[0], min(seconds)) and abs(alpha - 1) >= near:
        return "Your alpha is the shortest measured time. Subtract the transfer time of that message."
    if abs(alpha + 1) < near and abs(beta - 1) < near:
        return "alpha has the wrong sign. Compute mean(seconds) - beta mean(sizes)."
    if abs(alpha - 1) < near and abs(beta * 8 - 1) < near:
        return "Your beta is in seconds per bit. Return seconds per byte."
    if abs(alpha - 1) < near and abs(got[1] * line.beta - 1) < near:
        return "Your beta is a bandwidth. Return its reciprocal, in seconds per byte."
    if abs(got[1] * line.beta - 1) < near:
        return "Your beta is in bytes per second, the slope of sizes over seconds. Fit seconds over sizes."
    if not line.noise and max(abs(alpha - 1), abs(beta - 1)) < 1e-3:
        return "Your result is nearly right. Compute in float64, not in float32, and do not round."
    if abs(beta - 1) < near and got[0] == round(got[0], 6):
        return "Your alpha is a whole number of microseconds. Do not round."
    if case.label == OUTLIER:
        return "Least squares gives every point the same weight, also this one, and each of those that share a size."
    if line.noise:
        return "Use every point with the same weight, also where a size was measured several times."
    return "Minimize the sum of (alpha + beta size - seconds)^2 over all points. The sizes may come in any order."


def _best(bench: RankBench) -> Outcome:
    """The n with the least step time, by trying all."""
    results, lost = plain.results(bench, "best_world_size", plain.number, "one number n")
    for case, got in results:
        best = case.expected.best()
        if got != best:
            ways = (*costs.CHOICES, costs.INDEX, costs.ROUNDED, costs.CLOSE, costs.CUT)
            why = next((why for way, why in ways if all(way(other.expected) == n for other, n in results)), "")
            said = f"`{case.label}` returned {got:g}, but the best n is {best}. {_against(case.expected, got)} {why}"
            raise bench.lost(case, "wrong_result", said.strip(), None, f"{best}", f"{got:g}")
    if lost:
        raise lost
    return bench.picture("best_world_size")


def _against(job: Job, got: float) -> str:
    """Why `got` is not the best n of a job."""
    best = job.best()
    if not (1 <= got <= job.max_n and got == int(got)):
        return f"Return a whole number from 1 to {job.max_n}."
    unit = (1e9, "ns") if job.step(best) < 1e-6 else (1e3, "ms")
    if job.step(int(got)) == job.step(best):
        return f"With both a step takes {_times(job, best, *unit)}. Return the smallest of equally fast n."
    times = _times(job, int(got), *unit), _times(job, best, *unit)
    return f"A step takes {times[0]} with n = {got:g}, and {times[1]} with n = {best}."


def _times(job: Job, n: int, per_second: float, unit: str) -> str:
    step, compute, ring = (seconds * per_second for seconds in (job.step(n), job.compute(n), job.ring(n)))
    return f"{step:.6g} {unit} ({compute:.4g} compute + {ring:.4g} ring)"


EXERCISE = Exercise(
    name="cost_model",
    chapter="01",
    title="What will it cost? A model of communication",
    minutes=45,
    difficulty=2,
    world=Ranks(
        (
            Function("fit_alpha_beta", ("sizes", "seconds")),
            Function("send_time", ("bytes", "alpha", "beta")),
            Function("all_reduce_time", ("algorithm", "bytes", "n", "alpha", "beta")),
            Function("amdahl", ("parallel_fraction", "n")),
            Function("gustafson", ("parallel_fraction", "n")),
            Function(
                "best_world_size",
                ("samples", "seconds_per_sample", "grad_bytes", "alpha", "beta", "max_n", "batch"),
            ),
        ),
        cases,
    ),
    checks=(
        Check("fit", "Latency and time per byte from exact measurements", 2, _fits("fit")),
        Check("noisy_fit", "The same from measurements with a few per cent of noise", 2, _fits("noisy_fit")),
        Check("send", "The time of one message", 1, _formula("send")),
        Check("all_reduce", "Naive, ring and tree by their formulas, on 2 to 1024 ranks", 3, _formula("all_reduce")),
        Check("measured", "The same as all-reduces on 1 to 16 simulated ranks took", 2, _formula("measured")),
        Check("laws", "Amdahl's and Gustafson's laws, and their limits", 2, _formula("laws")),
        Check("best_world_size", "The number of ranks with the shortest step", 4, _best),
    ),
)
