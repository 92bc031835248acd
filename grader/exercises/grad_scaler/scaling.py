"""The cases of grad_scaler, and what must come of them: torch.amp.GradScaler's rules, with one decision for all ranks.

Dynamic loss scaling is that of Micikevicius et al. 2018 (Mixed precision training, section 3.2): halve the scale and
skip the step where a gradient is not finite, double it after so many steps in which all were.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from grader.exercise import Draw
from grader.ranks.program import Strided
from grader.worlds.cases import Case

Array = np.ndarray[Any, Any]
Poison = tuple[
    tuple[tuple[int, str], ...], ...
]  # for every step, where the scaled gradient is what; "none" is none at all


@dataclass(frozen=True)
class Settings:
    """A LossScaler's arguments."""

    init_scale: float = 2.0**16
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    growth_interval: int = 2000

    def options(self) -> dict[str, Any]:
        """Those that are not the defaults, by name."""
        default = Settings()
        return {name: value for name, value in vars(self).items() if value != getattr(default, name)}


@dataclass(frozen=True, eq=False)
class Work:
    """What every rank trains on: its start [n], its gradients [steps, n] and how they are poisoned."""

    settings: Settings
    starts: Sequence[Array]
    gradients: Sequence[Array]
    poison: Sequence[Poison]
    how: tuple[str, ...]
    rate: float = 0.25
    momentum: float = 0.5

    @property
    def ranks(self) -> int:
        return len(self.starts)

    @property
    def steps(self) -> int:
        return len(self.how)


@dataclass
class Right:
    """What must come of it: scales has one more than there are steps; `bad` are the ranks with a bad gradient."""

    scales: list[float] = field(default_factory=list)
    stepped: list[bool] = field(default_factory=list)
    bad: list[list[int]] = field(default_factory=list)
    parameters: list[list[Array]] = field(default_factory=list)  # [step][rank]


def right(work: Work) -> Right:
    """All ranks skip a step where the scaled gradient of one of them is not finite."""
    found = Right([work.settings.init_scale])
    scale, good = np.float32(work.settings.init_scale), 0
    parameters = [start.astype(np.float64) for start in work.starts]
    momenta: list[Array | None] = [None] * work.ranks
    for step in range(work.steps):
        bad = [rank for rank in range(work.ranks) if not np.isfinite(scaled(work, rank, step, scale)).all()]
        found.bad.append(bad)
        found.stepped.append(not bad)
        if not bad:
            for rank in range(work.ranks):
                gradient = work.gradients[rank][step].astype(np.float64)
                if work.how[step] == "clip":
                    gradient = gradient * min(1.0, 1.0 / (float(np.linalg.norm(gradient)) + 1e-6))
                if work.how[step] == "value":
                    gradient = np.clip(gradient, -1, 1)
                before = momenta[rank]
                now = gradient if before is None else work.momentum * before + gradient
                momenta[rank] = now
                parameters[rank] = parameters[rank] - work.rate * now
            good += 1
            if good == work.settings.growth_interval:
                scale, good = np.float32(scale * work.settings.growth_factor), 0
        else:
            scale, good = np.float32(scale * work.settings.backoff_factor), 0
        found.scales.append(float(scale))
        found.parameters.append(list(parameters))
    return found


def scaled(work: Work, rank: int, step: int, scale: float | np.floating[Any]) -> Array:
    """The gradient that a rank's backward leaves."""
    with np.errstate(over="ignore"):
        gradient: Array = work.gradients[rank][step].astype(np.float32) * np.float32(scale)
    for place, what in work.poison[rank][step]:
        gradient[place] = 0 if what == "none" else float(what)
    return gradient


# ---- what others do to the scale


def _other_scales(
    work: Work,
    right: Right,
    after_a_skip: str,
    growth: bool = True,
    at_zero: int = 0,
    backoff: bool = True,
    starts_over: bool = True,
) -> list[float]:
    """The scales where a skip does something else to the counter of good steps: "reset", "keep" or "count"."""
    settings = work.settings
    scale, good, found = settings.init_scale, at_zero, [settings.init_scale]
    for stepped in right.stepped:
        if not stepped:
            scale *= settings.backoff_factor if backoff else 1.0
            good = {"reset": at_zero, "keep": good, "count": good + 1}[after_a_skip]
        else:
            good += 1
        if growth and good >= settings.growth_interval:
            scale, good = scale * settings.growth_factor, 0 if starts_over else good
        found.append(scale)
    return found


def right_with(work: Work, growth_factor: float, backoff_factor: float) -> list[float]:
    """The scales with other factors than those that are given."""
    settings = replace(work.settings, growth_factor=growth_factor, backoff_factor=backoff_factor)
    return right(replace(work, settings=settings)).scales


def scale_habit(work: Work, right: Right, got: Sequence[float]) -> str:
    """The mistake that gives just these scales, in a sentence; empty for none that is known."""
    ways = (
        (_other_scales(work, right, "reset", growth=False), "The scale never grows. Multiply it by growth_factor "
         "after growth_interval steps without a skip."),
        (_other_scales(work, right, "keep"), "Set the count of good steps back to 0 after a skip: growth_interval "
         "good steps in a row are needed."),
        (_other_scales(work, right, "count"), "Skipped steps count as good steps. Count only steps that are made."),
        (_other_scales(work, right, "reset", backoff=False), "Multiply the scale by backoff_factor after a skip."),
        (_other_scales(work, right, "reset", starts_over=False), "The scale grew at the next good step again. Set the "
         "count of good steps back to 0 after the scale has grown."),
        (_other_scales(work, right, "reset", at_zero=1), "The scale grows one step too early."),
        (_other_scales(work, right, "reset", at_zero=-1), "The scale grows one step too late."),
        (right_with(work, 2.0, 0.5), "The scale doubles and halves. Use growth_factor and backoff_factor instead."),
        ([work.settings.init_scale] * len(got), "The scale never changes. Change it in update()."),
    )  # fmt: skip
    return next((said for scales, said in ways if np.allclose(scales, got, rtol=1e-5)), "")


SIZE = 6
BESIDE = 2.0  # the scale of another scaler that is asked in turn with the learner's
STEADY = Settings(2.0**10, growth_interval=1000)  # a scale that does not grow


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check."""
    for settings in (Settings(), Settings(2.0**7, 4.0, 0.25, 3), Settings(1.0)):
        yield _alone(draw, "skips", settings, 12, 5)
    for settings in (
        Settings(2.0**12, growth_interval=3),
        Settings(2.0**9, 4.0, 0.125, 2),
        Settings(1000.0, 1.5, 0.75, 4),
        Settings(2.0**8, growth_interval=1),
        Settings(2.0, growth_interval=4),  # it falls below 1
    ):
        yield _alone(draw, "scales", settings, 24, 6)
    yield _calibrates(draw)
    for ranks in (2, 3, 4):
        for how in ("step", "unscale"):
            yield _one_at_a_time(draw, ranks, how)
    yield _one_at_a_time(draw, 2, "step", "gloo")
    yield _none_at_all(draw)
    for ranks in (1, 2):
        for how in ("unscale", "clip"):
            yield _clipped(draw, ranks, how)
    yield _hidden(draw)
    yield _beside(draw)
    for ranks in (1, 2):
        yield _twice(draw, ranks)


def _drawn(generator: np.random.Generator, ranks: int, steps: int) -> tuple[list[Array], list[Array]]:
    """Every rank's start, and gradients of numbers that no scale of two rounds."""
    starts = [generator.integers(-64, 64, SIZE).astype(np.float32) / 8 for _ in range(ranks)]
    gradients = [generator.integers(1, 64, (steps, SIZE)).astype(np.float32) / 16 for _ in range(ranks)]
    return starts, [gradient * generator.choice([-1, 1], gradient.shape).astype(np.float32) for gradient in gradients]


def _case(group: str, label: str, work: Work, engine: str = "sim") -> Case:
    arguments = tuple(
        (work.settings.options(), Strided.of(start), Strided.of(gradients),
         [[list(one) for one in step] for step in poison], list(work.how), [work.rate, work.momentum], BESIDE)
        for start, gradients, poison in zip(work.starts, work.gradients, work.poison, strict=True)
    )  # fmt: skip
    return Case(group, label, arguments, "LossScaler", engine, expected=(work, right(work)), by="train")


def _label(settings: Settings) -> str:
    return f"LossScaler({', '.join(f'{name}={value:g}' for name, value in settings.options().items())})"


def _alone(draw: Draw, group: str, settings: Settings, steps: int, bad: int) -> Case:
    """One rank, some of whose gradients have an inf, a -inf or a NaN somewhere."""
    generator = draw.generator(f"{group} {settings}")
    starts, gradients = _drawn(generator, 1, steps)
    poisoned = set(generator.choice(np.arange(1, steps), bad, replace=False).tolist())
    kinds = ["inf", "nan", "-inf"]
    poison: Poison = tuple(
        ((int(generator.integers(SIZE)), kinds[sum(other < step for other in poisoned) % 3]),)
        if step in poisoned
        else ()
        for step in range(steps)
    )
    work = Work(settings, starts, gradients, (poison,), ("step",) * steps)
    return _case(group, f"{_label(settings)} and bad gradients in steps {', '.join(map(str, sorted(poisoned)))}", work)


def _beside(draw: Draw) -> Case:
    """Another scaler's unscale_ stands between this one's and its step, and finds an inf where this one finds none."""
    starts, gradients = _drawn(draw.generator("beside"), 1, 6)
    poison: Poison = ((), (), (), ((2, "inf"),), (), ())
    work = Work(STEADY, starts, gradients, (poison,), ("beside",) * 6)
    return _case("unscale", "1 rank, and another LossScaler that is asked between unscale_ and step", work)


def _calibrates(draw: Draw) -> Case:
    """Gradients near 2**112 with a scale of 2**20: it must find its way down, and tries again and again."""
    generator = draw.generator("calibrates")
    settings = Settings(2.0**20, growth_interval=4)
    gradients = [(generator.uniform(1.2, 1.8, (20, SIZE)) * 2.0**112).astype(np.float32)]
    work = Work(settings, _drawn(generator, 1, 20)[0], gradients, (((),) * 20,), ("step",) * 20, momentum=0.0)
    return _case("scales", f"{_label(settings)} and gradients near 2**112, which float32 overflows", work)


def _one_at_a_time(draw: Draw, ranks: int, how: str, engine: str = "sim") -> Case:
    """Every rank has a bad gradient once on its own, and once all of them have; at the end the last rank once more.

    Who calls a collective only where it finds something is then left waiting in one.
    """
    generator = draw.generator(f"one {ranks} {how} {engine}")
    steps = 2 * ranks + 6
    starts, gradients = _drawn(generator, ranks, steps)
    chosen = [int(step) for step in generator.choice(np.arange(1, steps - 2), ranks + 1, replace=False)]
    who = {step: [rank] for rank, step in enumerate(chosen[:-1])} | {chosen[-1]: list(range(ranks))}
    chosen.append(steps - 2)
    who[steps - 2] = [ranks - 1]
    what = {step: ("nan", "inf")[number % 2] for number, step in enumerate(chosen)}
    poison = [
        tuple(
            ((int(generator.integers(SIZE)), what[step]),) if rank in who.get(step, ()) else () for step in range(steps)
        )
        for rank in range(ranks)
    ]
    work = Work(STEADY, starts, gradients, poison, (how,) * steps)
    label = f"{ranks} ranks{', unscale_ before step' if how == 'unscale' else ''}"
    return _case("one_rank", f"{label}, in real processes" if engine != "sim" else label, work, engine)


def _none_at_all(draw: Draw) -> Case:
    """Rank 1 has no gradient in two steps, in the second of which rank 0 has an inf."""
    starts, gradients = _drawn(draw.generator("none at all"), 2, 5)
    none = (0, "none")
    poison: list[Poison] = [((), (), ((0, "inf"),), (), ()), ((), (none,), (none,), (), ())]
    work = Work(STEADY, starts, gradients, poison, ("step",) * 5)
    return _case("one_rank", "2 ranks, no gradients on rank 1 in steps 1 and 2", work)


def _hidden(draw: Draw) -> Case:
    """Infs that clip_grad_value_ turns into finite numbers between unscale_ and step."""
    starts, gradients = _drawn(draw.generator("hidden"), 1, 5)
    poison: Poison = ((), ((1, "inf"),), (), ((SIZE - 1, "-inf"),), ())
    work = Work(STEADY, starts, gradients, (poison,), ("value",) * 5)
    return _case("unscale", "1 rank, clip_grad_value_ between unscale_ and step", work)


def _clipped(draw: Draw, ranks: int, how: str) -> Case:
    """Gradients that are looked at, and clipped, between unscale_ and step."""
    generator = draw.generator(f"clipped {ranks} {how}")
    starts, gradients = _drawn(generator, ranks, 6)
    work = Work(STEADY, starts, gradients, (((),) * 6,) * ranks, (how,) * 6)
    between = "clip_grad_norm_" if how == "clip" else "nothing"
    return _case("unscale", f"{ranks} rank{'s' if ranks > 1 else ''}, {between} between unscale_ and step", work)


def _twice(draw: Draw, ranks: int) -> Case:
    generator = draw.generator(f"twice {ranks}")
    starts, gradients = _drawn(generator, ranks, 4)
    bad = int(generator.integers(0, 3))
    poison: Poison = tuple(((0, "inf"),) if step == bad else () for step in range(4))
    arguments = tuple(
        (Strided.of(starts[rank]), Strided.of(gradients[rank]), [[list(one) for one in step] for step in poison])
        for rank in range(ranks)
    )
    work = Work(Settings(), starts, gradients, (poison,) * ranks, ("unscale",) * 4)
    label = f"{ranks} rank{'s' if ranks > 1 else ''}, unscale_ called twice"
    return Case("raises", label, arguments, "LossScaler", expected=(work, right(work)), by="twice")
