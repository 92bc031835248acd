"""The clusters of one grading: nodes of one submission, simulated and explored, from which checks judge."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from grader import tally
from grader.lost import Lost, Unable
from grader.nodes.actors import Turn
from grader.nodes.boxed import Code
from grader.nodes.boxes import Boxes, World
from grader.nodes.explorer import Explorer, Found
from grader.nodes.life import Step
from grader.nodes.locals import Locals
from grader.nodes.plan import MOST_TRIES, Plan, Played, Prepare, minimise, play
from grader.nodes.shown import story
from grader.nodes.states import Action, Model, Property
from grader.sandbox.warm import Warm
from grader.submission import Source, Submission
from grader.trace.story import Story
from grader.verdict import Diagnosis, Kind, Measured

MOST_EVENTS = 10_000  # that are simulated to make one plan smaller
MOST_STATES = 60_000  # of one search
ABREAST = 32  # plans of a check that are carried out side by side: one request to the box serves all of them
PROCESSES = 3  # in which a run is made again
AGAIN = 4  # beside the first run of each check, one of so many is made again
SHOWN_STEPS = 12  # of a random walk, for a picture where nothing is wrong
# what takes too long to be shown again and again
NOT_SMALLER = ("timeout", "out_of_memory", "sandbox_violation", "nondeterministic")

T = TypeVar("T")
Judge = Callable[[Played], Diagnosis | None]
Observe = Callable[[Locals, int], Any]


@dataclass(frozen=True)
class Explored:
    """A search that found nothing wrong: how many states it saw, whether those are all, and a way through them."""

    states: int
    exhausted: bool
    story: Story


class NodeBench:
    """Runs a submission's nodes in a box, which is made when it is first needed, and anew where it broke.

    Delays, faults and requests are drawn from `schedules`, the same in every grading: of runs at random one may show
    what another does not, and the same text must get the same points. Texts may be drawn from `seed`.
    `replayed` is a schedule that was kept (see `Lost`), to be played in place of the search that found it.
    """

    def __init__(
        self, warm: Warm, submission: Submission, classes: tuple[str, ...], watched: tuple[str, ...], seed: int,
        schedules: int,
    ) -> None:  # fmt: skip
        self._seed, self._schedules, self.file = seed, schedules, submission.name
        self.source = Source(submission.name, submission.source)
        self._boxes = Boxes(warm, Code(submission.source, submission.name, classes), watched)
        self.replayed: dict[str, Any] | None = None
        self._begin("")

    def _begin(self, check: str) -> None:
        self._check, self._searches = check, 0
        self._broke = False  # whether a run ended the nodes' process: it is not shown again and again, with less

    def of(self, check: str) -> NodeBench:
        """The bench of one check, with worlds of its own in the same boxes."""
        other = copy.copy(self)
        other._begin(check)
        return other

    def together(self, works: Sequence[Callable[[], T]]) -> Generator[T, None, None]:
        """Do the works of several checks side by side. Returns their results in order."""
        return self._boxes.together(works)

    def side_by_side(self, *searches: Callable[[], T]) -> list[T]:
        """Do several searches of one check side by side: what each returns. Raises what the first raises that does."""

        def noted(search: Callable[[], T]) -> tuple[T, dict[str, Measured]]:
            with tally.collected() as found:
                return search(), found

        returned = []
        for one, found in self._boxes.together([partial(noted, search) for search in searches], waiting=True):
            tally.note_again(found)
            returned.append(one)
        return returned

    def rng(self, label: str) -> random.Random:
        """Random numbers for one purpose, the same in every grading."""
        return random.Random(f"{self._schedules} {label}")

    def fresh(self, label: str) -> random.Random:
        """Random numbers for what no verdict depends on, such as texts: the same for the same seed of the grading."""
        return random.Random(f"{self._seed} {label}")

    def seeds(self, label: str, count: int) -> list[int]:
        """Seeds of so many runs, the same in every grading."""
        rng = self.rng(label)
        return [rng.randrange(2**31) for _ in range(count)]

    def hopeless(self) -> Diagnosis | None:
        """Why not one node can be made; None if some can, or the exercise has none."""
        return self._boxes.hopeless()

    def found(self, kind: Kind, message: str, line: int | None = None, expected: str = "", got: str = "") -> Diagnosis:
        """What a judge returns where something is wrong."""
        return Diagnosis(kind, message, None, self.file, line, expected or None, got or None)

    # ---- simulations

    def play(
        self, plan: Plan, prepare: Prepare = lambda _: None, lived: list[tuple[Turn, Step]] | None = None
    ) -> Played:
        """Carry out one plan, the nodes in a box. `lived` gets all their turns, and what they did. Raises Lost."""
        world = World(self._boxes)
        world.lived = lived
        try:
            return play(plan, world, self.file, prepare)
        finally:
            world.forget()

    def hold(
        self, plans: Iterable[Plan], judge: Judge, prepare: Prepare = lambda _: None, tries: int = MOST_TRIES
    ) -> Story:
        """Carry out every plan, and judge it. Raises Lost for the first that is wrong, made as small as `tries`
        runs can make it; otherwise returns the first one's story. Some plans are carried out side by side: what
        `prepare` keeps for `judge`, it keeps in the run's `notes`."""
        self._searches += 1
        search, again_rng = self._searches, self.rng(f"again {self._check} {self._searches}")
        if self.replayed is not None:
            if not self._is_replayed(search, "plan"):
                return Story(())
            plans = [Plan.from_json(self.replayed["plan"])]
        first: Story | None = None
        label = ""  # of the first plan, whose run is drawn where none is wrong
        for some in _batches(plans, ABREAST):
            # the first run of a check is made again in several processes, and some of the others
            again = [
                not again_rng.randrange(AGAIN) or (search == 1 and first is None and not n) for n in range(len(some))
            ]
            works = [partial(self._judged, *one, judge, prepare) for one in zip(some, again, strict=True)]
            for plan, (wrong, told, noted) in zip(some, self.together(works), strict=True):
                tally.note_again(noted)
                if wrong is not None:
                    self._boxes.wait_for_those_before()
                    raise self._smallest(search, plan, wrong, told, judge, prepare, tries)
                label = label if first else plan.label
                first = first or told
        assert first is not None, "a check without a run"
        first.subtitle = first.subtitle or label
        return first

    def _judged(
        self, plan: Plan, again: bool, judge: Judge, prepare: Prepare
    ) -> tuple[Diagnosis | None, Story | None, dict[str, Measured]]:
        """What is wrong, the run's story, and what was measured: which run ends first is no matter of its order."""
        lived: list[tuple[Turn, Step]] | None = [] if again else None
        with tally.collected() as noted:
            try:
                played = self.play(plan, prepare, lived)
                wrong = judge(played)
            except Lost as lost:
                self._broke = self._broke or lost.broke
                return lost.diagnosis, lost.picture, noted
            if wrong is None and lived is not None and not self._lives_again(lived):
                wrong = self._differs(plan, prepare, lived)
        played.notes = None  # they may know the run, and it would stay until garbage is collected
        return wrong, played.sim.story, noted

    def _lives_again(self, lived: Sequence[tuple[Turn, Step]]) -> bool:
        """Whether nodes do the same where they are in several processes, in which they can share nothing but messages.
        They are given the same inputs, which takes far less than the run: nobody has to carry out what they do. Raises
        Lost."""
        world = World(self._boxes, range(1, 1 + PROCESSES))
        try:
            return world.lives_again(lived)
        finally:
            world.forget()

    def _differs(self, plan: Plan, prepare: Prepare, lived: Sequence[tuple[Turn, Step]]) -> Diagnosis:
        """What is wrong where nodes in several processes did something else on the inputs of a run than together in
        one. Raises Lost."""
        again: list[tuple[Turn, Step]] = []
        self.play(plan, prepare, again)
        if [(turn.node, repr(step)) for turn, step in lived] == [(turn.node, repr(step)) for turn, step in again]:
            return self.found(
                "sandbox_violation",
                "The same run gave another result when the nodes were in different processes, so the nodes share "
                "something. Let nodes tell each other things only by send().",
            )
        return self.found(
            "nondeterministic",
            "The same run, repeated with the same seed, gave another result. Handlers may depend only on what the node "
            "was given. Use self.random and self.now() instead of time, uuid, random or id().",
        )

    def _smallest(
        self, search: int, plan: Plan, wrong: Diagnosis, told: Story | None, judge: Judge, prepare: Prepare, tries: int
    ) -> Lost:
        """What is wrong with the smallest plan that is wrong in the same way."""
        whole, best, left = plan, (wrong, told), MOST_EVENTS

        def fails(candidate: Plan) -> bool:
            nonlocal best, left
            if left <= 0:
                return False
            again, seen, _ = self._judged(candidate, False, judge, prepare)
            left -= 1 if seen is None else len(seen.sent) + len(seen.events)
            if again is None or again.kind != wrong.kind or (seen and seen.title) != (told and told.title):
                return False
            best = again, seen
            return True

        if wrong.kind not in NOT_SMALLER and not self._broke and self.replayed is None:  # that is played as it was kept
            plan = minimise(plan, fails, tries)
        diagnosis, shown = best
        if shown is not None:
            # The label is of the whole plan: what it names may be left out of the smaller one.
            less = "" if plan == whole else "reduced to what still goes wrong"
            shown.subtitle = "; ".join(filter(None, (shown.subtitle or plan.label, less)))
        return Lost(diagnosis, shown, {**self._where(search), "plan": plan.to_json()})

    # ---- searches

    def explore(
        self, model: Model, judge: Property, observe: Observe | None = None, most: int = MOST_STATES,
        dives: tuple[int, int] = (0, 0), begin: Sequence[Property] = (), settled: Property | None = None,
    ) -> Explored:  # fmt: skip
        """Search a model: breadth first up to `most` states, then at random (`dives`: so many walks of so many steps).

        `judge` returns a Diagnosis for a state that is wrong, `settled` for what becomes of one without faults. With
        `begin` the search starts where the last of these goals was reached, each searched for from the one before.
        Raises Lost with a minimised schedule.
        """
        explorer = Explorer(World(self._boxes), model, judge, observe, self.file, settled)
        self._searches += 1
        search = self._searches
        if self.replayed is None:
            found = self._searched(explorer, most, dives, begin, self.rng("dive"))
        elif self._is_replayed(search, "actions"):
            found = self._played_again(explorer, self.replayed["actions"])
        else:
            return Explored(0, False, Story(()))
        if not found.problem:
            shown = story(explorer, explorer.dive(self.rng("shown").randrange(2**31), 1, SHOWN_STEPS).actions)
            shown.title = model.label
            return Explored(found.states, found.exhausted, shown)
        self._boxes.wait_for_those_before()
        kind = found.problem.kind
        told = explorer.minimise(explorer.told(found.actions), lambda again: bool(again.kind == kind))
        found = explorer.replay(told)
        if not found.problem:
            raise Lost(
                self.found(
                    "nondeterministic",
                    "A schedule that went wrong did not go wrong when it was played again. Nodes share something, or "
                    "handlers depend on more than what the node was given. Keep all state in attributes of self.",
                )
            )
        shown = story(explorer, found.actions)
        shown.title = model.label
        raise Lost(found.problem, shown, {**self._where(search), "actions": explorer.told(found.actions)})

    @staticmethod
    def _played_again(explorer: Explorer, kept: Sequence[dict[str, Any]]) -> Found:
        """A kept schedule, as far as it is possible with this submission. Raises Unable where most of it is not."""
        found = explorer.replay(kept)
        if not found.problem and 2 * len(found.actions) < len(kept):
            raise Unable(
                f"Not judged, because only {len(found.actions)} of the {len(kept)} steps of the schedule are possible "
                "with this submission. Grade it as a whole."
            )
        return found

    def _searched(
        self, explorer: Explorer, most: int, dives: tuple[int, int], begin: Sequence[Property], rng: random.Random
    ) -> Found:
        before: list[Action] = []
        state = None
        for goal in begin:
            reached = explorer.search(most, begin=state, goal=goal)
            if reached.state is None:
                raise Lost(self.found("wrong_result", "The nodes never reach the state where this check begins."))
            before, state = before + reached.actions, reached.state
        found = explorer.search(most, begin=state)
        if not found.problem and dives[0]:
            deep = explorer.dive(rng.randrange(2**31), *dives, begin=state)
            deep.states, deep.exhausted = found.states + deep.states, found.exhausted
            deep.actions = deep.actions if deep.problem else []
            found = deep
        found.actions = before + found.actions
        return found

    # ---- schedules that are kept

    def _where(self, search: int) -> dict[str, Any]:
        """Which search of which check it is, for a schedule that is kept."""
        return {"check": self._check, "search": search, "seed": self._seed}

    def _is_replayed(self, search: int, what: str) -> bool:
        """Whether the kept schedule belongs to this search; others are left out then."""
        assert self.replayed is not None
        return self.replayed.get("search") == search and what in self.replayed

    # ---- the box

    def output(self) -> str:
        """What the nodes printed, for people."""
        return self._boxes.output()

    def close(self) -> None:
        """End the boxes."""
        self._boxes.close()


def _batches(plans: Iterable[Plan], size: int) -> Iterator[list[Plan]]:
    """So many at a time. Where drawing one raises Lost, those before it come first."""
    left = iter(plans)
    while True:
        some: list[Plan] = []
        try:
            for plan in islice(left, size):
                some.append(plan)
        except Lost:
            if some:
                yield some
            raise
        if not some:
            return
        yield some
