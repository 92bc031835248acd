"""search(space, trainable, num_samples, max_t): hyperparameters by ASHA and Optuna.

Li et al. 2020, "A system for massively parallel hyperparameter tuning", algorithm 2; Akiba et al. 2019, "Optuna". Every
trial asks here for its loss before it reports it, so that losses are decided, and iterations counted, in this process.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader import says, tally
from grader.exercise import Check, Exercise
from grader.jobs.rays.bench import RayBench, once_more
from grader.jobs.rays.lease import Said
from grader.lost import Lost
from grader.trace.gantt import Bar, Became, Chart
from grader.verdict import Diagnosis, Kind
from grader.worlds.ray import Ray

SAMPLES, MAX_T = 30, 27
OTHER = 31, 30  # num_samples and max_t of the search with trials that crash
MOST_SHARE = 0.45  # of num_samples x max_t
MOST_ATTEMPTS = 10  # of a trial that crashes each time
SEARCH_SECONDS = 200.0
AT_A_TIME = 4
ASHAS = ((1, 2), (2, 2), (3, 3), (2, 4), (3, 4), (4, 3), (4, 2), (4, 4))  # grace and reduction that are not unusual
LUCKY_SHARE = 0.36
LEVEL = 10  # the iteration from which on a trial's loss stays the same
SPACE: dict[str, list[Any]] = {
    "learning_rate": ["loguniform", [1e-4, 1e-1]], "weight_decay": ["loguniform", [1e-6, 1e-2]],
    "momentum": ["uniform", [0.0, 1.0]], "dropout": ["uniform", [0.0, 0.5]], "smoothing": ["uniform", [0.0, 0.2]],
    "layers": ["randint", [1, 9]],
}  # fmt: skip
IMPORTED = ("ray.tune", "ray.tune.schedulers", "ray.tune.search.optuna", "optuna", "pandas", "pyarrow", "pyarrow.fs")


def place(config: dict[str, Any]) -> tuple[float, ...]:
    """Where a configuration is in SPACE, from 0 to 1 each. Raises LookupError, TypeError or ValueError for none."""
    found = []
    for name, (kind, (low, high)) in SPACE.items():
        value = float(config[name])
        if kind == "loguniform":
            value, low, high = math.log(value), math.log(low), math.log(high)
        found.append((value - low) / (high - low))
    return tuple(found)


def _taken(heights: Sequence[float], grace: int, factor: int, rng: random.Random) -> int:
    """The iterations that ASHA takes of trials of these heights, begun in this order, some of them at a time.

    As Tune has it: at each of its rungs a trial goes on that is among the best 1/factor of those that were there before.
    """
    rungs = [(grace * factor**k, list[float]()) for k in range(10) if grace * factor**k < MAX_T]
    waiting, running, taken = deque(enumerate(heights)), list[tuple[int, float]](), 0
    at = [0] * len(heights)
    while waiting or running:
        while waiting and len(running) < AT_A_TIME:
            running.append(waiting.popleft())
        number, height = one = rng.choice(running)
        at[number] += 1
        taken += 1
        seen = next((seen for rung, seen in rungs if rung == at[number]), [])
        ahead = sum(other < height for other in seen)
        if (seen and ahead >= len(seen) / factor) or at[number] == MAX_T:
            running.remove(one)
        if any(rung == at[number] for rung, _ in rungs):
            seen.append(height)
    return taken


@dataclass(frozen=True)
class Hill:
    """A loss that a trial has after so many iterations. How good it is shows from the second iteration on.

    From iteration LEVEL on it stays the same, as of one that has converged: no reason to stop the best trial.

    Most of it is decided by the trial's number, as if by luck. In an unlucky order, where each trial is better than
    those before, nobody can stop many: of orders that are drawn, one is taken in which ASHA needs few iterations,
    whatever comes first of what runs at the same time.
    """

    top: tuple[float, ...]
    luck: tuple[float, ...]

    @classmethod
    def drawn(cls, rng: random.Random) -> Hill:
        top, luck = tuple(rng.uniform(0.2, 0.8) for _ in SPACE), [number / SAMPLES for number in range(SAMPLES)]
        while True:
            rng.shuffle(luck)
            if all(_taken(luck, *asha, rng) <= LUCKY_SHARE * SAMPLES * MAX_T for asha in ASHAS for _ in range(32)):
                return cls(top, tuple(luck))

    def height(self, number: int, at: tuple[float, ...]) -> float:
        """From 0, the best, to a little above 1."""
        return 0.05 * math.dist(at, self.top) + 0.9 * self.luck[number % SAMPLES] + number // SAMPLES

    def loss(self, number: int, config: dict[str, Any], iteration: int) -> float:
        height = self.height(number, place(config))
        return 6.0 - height if iteration == 1 else height + 4.0 / (1 + min(iteration, LEVEL))


@dataclass
class Trial:
    config: dict[str, Any]
    iterations: int = 0
    loss: float = math.inf  # the last one
    broken: bool = False
    attempts: int = 1


@dataclass
class Search:
    """One call of search(): its trials, and what it returned."""

    bench: RayBench
    hill: Hill
    samples: int = SAMPLES
    max_t: int = MAX_T
    broken: tuple[int, ...] = ()  # trials, by number, whose second iteration raises
    trials: list[Trial] = field(default_factory=list)
    told: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        broken = f"; trials {' and '.join(map(str, self.broken))} raise" if self.broken else ""
        return f"{self.samples} samples, max_t={self.max_t}{broken}"

    def run(self) -> Search:
        """Raises Lost."""
        try:
            self.told = self.bench.call(
                "search", "find", SPACE, self.samples, self.max_t, seconds=SEARCH_SECONDS, said=self._said
            )
        except Lost as trouble:
            trouble.picture = self.chart()
            raise
        return self

    def _said(self, said: Said) -> None:
        if said.what["what"] == "trial":
            self.bench.driver.answer(said, self._begun(said.what["config"]))
            return
        trial = self.trials[said.what["trial"]]
        trial.iterations += 1
        trial.broken = said.what["trial"] in self.broken and trial.iterations > 1
        trial.loss = self.hill.loss(said.what["trial"], trial.config, trial.iterations)
        self.bench.driver.answer(said, {"loss": trial.loss, "broken": trial.broken})

    def _begun(self, config: dict[str, Any]) -> int:
        """The number of the trial with that configuration, which may have crashed before."""
        place(config)
        for number, trial in enumerate(self.trials):
            if trial.broken and trial.config == config:
                trial.attempts += 1
                if trial.attempts > MOST_ATTEMPTS:
                    text = f"Trial {number} was begun {trial.attempts} times, and crashed each time. Do not begin it again."
                    raise self.lost("lost_or_duplicated", text, f"{self.samples} trials", f"one {trial.attempts} times")
                return number
        self.trials.append(Trial(config))
        return len(self.trials) - 1

    @property
    def iterations(self) -> int:
        return sum(trial.iterations for trial in self.trials if not trial.broken)

    def chart(self) -> Chart:
        """A lane for each trial, its iterations in place of seconds."""
        chart = Chart(tuple(f"trial {number}" for number in range(len(self.trials))) or ("no trial",))
        chart.subtitle = f"{self.label}; iterations from left to right"
        for number, trial in enumerate(self.trials):
            loss = "" if trial.broken else f"loss {trial.loss:.2f}"
            became: Became = "failed" if trial.broken else "done"
            chart.bars.append(Bar(f"trial {number}", 0.0, float(trial.iterations), loss, became))
        chart.end = float(max((trial.iterations for trial in self.trials), default=1))
        return chart

    def lost(self, kind: Kind, text: str, expected: str = "", got: str = "", line: int | None = None) -> Lost:
        found: Diagnosis = self.bench.found(kind, f"{self.label}. {text}", expected, got, line)
        return Lost(found, self.chart())

    def whole(self) -> Search:
        """Raises Lost where it is not one grid of all samples."""
        if self.told["type"] != "ResultGrid":
            text = f"search returned a {self.told['type']}. Return what Tuner.fit() returns."
            raise self.lost("wrong_result", text, "a ResultGrid", str(self.told["type"]))
        if self.told["results"] != self.samples or len(self.trials) < self.samples:
            text = f"{len(self.trials)} trials were begun, and the grid has {self.told['results']} results."
            text += f" Try num_samples = {self.samples} configurations, and return the grid of all."
            raise self.lost("wrong_result", text, f"{self.samples} trials", str(self.told["results"]))
        return self

    def ended(self) -> Search:
        """Raises Lost where a trial went beyond max_t."""
        past = [
            number for number, trial in enumerate(self.trials) if trial.iterations > self.max_t + 1
        ]  # one is under way
        longest = max((trial.iterations for trial in self.trials), default=0)
        if past:
            text = (
                f"{says.counted(len(past), 'trial')} ran past max_t, for example trial {past[0]}, for {longest} iterations "
                "at most. Give max_t to the scheduler, too."
            )
        elif self.told["longest"] > self.max_t:
            longest = self.told["longest"]
            text = (
                f"A result of the grid is of iteration {longest}, but max_t is {self.max_t}. Stop every trial at max_t."
            )
        else:
            return self
        raise self.lost("too_slow", text, f"<= {self.max_t} iterations of each", str(longest))

    def best(self) -> Search:
        """Raises Lost where the trial that was ahead of all others at every iteration but the first was stopped."""
        number, best = min(enumerate(self.trials), key=lambda each: self.hill.height(each[0], place(each[1].config)))
        longest = max(trial.iterations for trial in self.trials)
        if longest < self.max_t:
            text = (
                f"No trial made more than {says.counted(longest, 'iteration')}, but max_t is {self.max_t}. {self._level(longest)}"
                "Let the best trials run until max_t."
            )
            raise self.lost("wrong_result", text, f"{self.max_t} iterations", str(longest))
        if best.iterations < self.max_t:
            text = (
                f"Trial {number} was the best of all at each iteration but the first. It was stopped after "
                f"{best.iterations} of {self.max_t} iterations, with a loss of {best.loss:.3f}. {self._level(best.iterations)}"
                "Have Optuna and ASHA take the smaller loss for the better one, and stop nothing before its time."
            )
            raise self.lost("wrong_result", text, f"{self.max_t} iterations", str(best.iterations))
        return self

    def _level(self, iterations: int) -> str:
        """What to know of a trial that was stopped when its loss no longer fell, and not by the one iteration."""
        if not LEVEL < iterations < self.max_t - 1:
            return ""
        return (
            f"From iteration {LEVEL} on, each trial's loss stays the same. That is no reason to stop the best trial. "
        )


def _searched(bench: RayBench) -> Search:
    """The search without a broken trial: made once for several checks."""
    kept: dict[str, Search] = bench.kept
    if "search" not in kept:
        hill = Hill.drawn(bench.rng("search"))
        kept["search"] = Search(bench, hill)
        try:
            kept["search"].run()
        except Lost as trouble:
            if trouble.broke:
                del kept["search"]
            raise
    search = kept["search"]
    if not search.told:
        raise search.lost("crash", "The search did not finish.")
    return search.whole()


def _finds(bench: RayBench) -> Chart:
    return _searched(bench).best().chart()


def _stops(bench: RayBench) -> Chart:
    search = _searched(bench)
    most = int(MOST_SHARE * SAMPLES * MAX_T)
    tally.note("iterations of all trials", search.iterations, most, "iterations", where=search.label,
               reference=SAMPLES * MAX_T, of="no early stopping")  # fmt: skip
    search.ended()
    if search.iterations > most:
        none = all(trial.iterations >= MAX_T for trial in search.trials)
        then = f"{'No trial was stopped before max_t. ' if none else ''}Have ASHA stop bad trials earlier."
        text = (
            f"All trials together took {search.iterations} iterations. That is {search.iterations / SAMPLES / MAX_T:.0%} "
            f"of num_samples x max_t, and at most {MOST_SHARE:.0%} is allowed. {then}"
        )
        raise search.lost("too_slow", text, f"<= {most} iterations", str(search.iterations))
    return search.chart()


def _grace(bench: RayBench) -> Chart:
    search = _searched(bench)
    early = [number for number, trial in enumerate(search.trials) if trial.iterations < 2]
    if early:
        text = (
            f"{says.counted(len(early), 'trial')} ended before a second iteration, for example trial {early[0]}. The "
            "first loss says nothing here. Give every trial a grace period of several iterations."
        )
        raise search.lost("wrong_result", text, ">= 2 iterations each", f"{len(early)} trials with 1")
    return search.chart()


def _optuna(bench: RayBench) -> Chart:
    search = _searched(bench)
    if search.told["asked"] < SAMPLES:
        text = f"Optuna was asked for {search.told['asked']} of {SAMPLES} configurations. Give Tune an OptunaSearch."
        raise search.lost("wrong_result", text, f"{SAMPLES} suggestions", str(search.told["asked"]))
    metric, mode = search.told["looks"]
    if (metric, mode) != ("loss", "min"):
        text = (
            f"Optuna took a {'larger' if mode == 'max' else 'smaller'} {metric} for the better one, so it suggests "
            "configurations for that. Give metric='loss' and mode='min' once, in the TuneConfig."
        )
        raise search.lost("wrong_result", text, "metric='loss', mode='min'", f"metric={metric!r}, mode={mode!r}")
    return search.chart()


def _survives(bench: RayBench) -> Chart:
    rng = bench.rng("survives")
    broken = (rng.randrange(2, 6), rng.randrange(8, 16))
    search = Search(bench, Hill.drawn(rng), *OTHER, broken)
    try:
        search.run()
    except Lost as trouble:
        if trouble.diagnosis.kind != "crash" or not any(trial.broken for trial in search.trials):
            raise
        text = (
            f"{trouble.diagnosis.message} Trials crash here on purpose. Go on, and return the grid with their errors."
        )
        raise search.lost("crash", text, "the search goes on", "an error", trouble.diagnosis.line) from None
    search.whole()
    longest = max(trial.iterations for trial in search.trials)
    if longest in (MAX_T, MAX_T + 1):  # of the other search; who stops all too early loses the points for that
        text = (
            f"No trial ran for more than {longest} iterations, but here max_t is {search.max_t}. Let the best trials run to "
            "the max_t that search gets."
        )
        raise search.lost("wrong_result", text, f"{search.max_t} iterations", str(longest))
    whole = len(search.told["losses"])
    if whole < search.samples - len(broken):
        text = (
            f"The grid has {whole} results without an error, but only {len(broken)} of {search.samples} trials crash. Run all "
            "the others to their end."
        )
        raise search.lost("lost_or_duplicated", text, str(search.samples - len(broken)), str(whole))
    crashed, errors = sum(trial.broken for trial in search.trials), search.told["errors"]
    if errors < crashed:
        text = (
            f"The trainable raised an exception in {says.counted(crashed, 'trial')}, but the grid has "
            f"{says.counted(errors, 'result')} with an error. The result of a trial that crashes must be an error. Let "
            "Tune see the exception, and return the grid as it is."
        )
        raise search.lost("wrong_result", text, says.counted(crashed, "error"), str(errors))
    return search.chart()


IN_BOX = Path(__file__).with_name("in_box.py")

EXERCISE = Exercise(
    name="tune_asha",
    chapter="13",
    title="Early stopping with ASHA and Optuna",
    minutes=35,
    difficulty=2,
    cost="tens of seconds",
    world=Ray(("search",), in_box=IN_BOX, imported=IMPORTED),
    checks=(
        Check("finds", "Trains the best of all configurations to the end", 4, once_more(_finds)),
        Check("stops", "Takes at most 45 % of the iterations of the whole grid", 4, once_more(_stops)),
        Check("grace", "Stops no trial whose first loss says nothing yet", 2, once_more(_grace)),
        Check("optuna", "Optuna suggests every configuration", 2, once_more(_optuna)),
        Check("survives", "Two trials crash, and the others go on", 3, once_more(_survives)),
    ),
)
