"""The explorer: it sees every interleaving, finds what is wrong by a shortest way, and what it found plays again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from grader.nodes import Node
from grader.nodes.actors import Diverged, Local
from grader.nodes.clients import Ask
from grader.nodes.explorer import Explorer
from grader.nodes.shown import story
from grader.nodes.sim import Member, cluster
from grader.nodes.states import Model, View
from tests.nodes.clusters import Vote

ACTORS = {"Vote": Vote}
ELECTION = Model(
    cluster(3, "Vote", {"forgets": True}),
    {"c1": (Ask("n1", {"type": "elect", "name": "a"}),), "c2": (Ask("n2", {"type": "elect", "name": "b"}),)},
)


def two_elected(view: View) -> str | None:
    names = {answer["name"] for _, _, answer in view.history if answer}
    return f"elected {sorted(names)}" if len(names) > 1 else None


def explorer(model: Model, judge: Any = two_elected) -> Explorer:
    return Explorer(Local(ACTORS), model, judge)


class Collector(Node):
    """Keeps the order in which words came."""

    def on_start(self) -> None:
        self.words: list[str] = []

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        self.words.append(body["word"])
        self.send("c1", {"type": "words", "words": self.words})


def test_every_order_of_deliveries_is_seen() -> None:
    seen = set()

    def look(view: View) -> None:
        seen.update(tuple(answer["words"]) for _, _, answer in view.history if answer)

    asks = {f"c{n}": (Ask("n1", {"type": "say", "word": word}),) for n, word in enumerate("abc", 1)}
    search = Explorer(Local({"Collector": Collector}), Model(cluster(1, "Collector"), asks), look)
    found = search.search()
    assert found.exhausted
    assert not found.problem
    assert {words for words in seen if len(words) == 3} == {(*w,) for w in ("abc", "acb", "bac", "bca", "cab", "cba")}


def test_without_crashes_nobody_is_elected_twice() -> None:
    found = explorer(ELECTION).search()
    assert found.problem is None
    assert found.exhausted


def test_a_crash_shows_that_a_vote_was_not_written_down() -> None:
    found = explorer(replace(ELECTION, crashes=1)).search()
    assert found.problem == "elected ['a', 'b']"
    written = replace(ELECTION, members=cluster(3, "Vote", {"forgets": False}), crashes=1)
    held = explorer(written).search(most=300_000)
    assert held.problem is None
    assert held.exhausted


def test_breadth_first_finds_a_shortest_way() -> None:
    search = explorer(replace(ELECTION, crashes=1))
    found = search.search()
    told = search.told(found.actions)
    assert len(search.minimise(told, bool)) == len(told) == found.depth


def test_diving_finds_it_too_and_what_it_found_is_made_as_small() -> None:
    search = explorer(replace(ELECTION, crashes=1))
    shortest = search.search().depth
    found = search.dive(seed=1, walks=20_000, depth=30)
    assert found.problem
    told = search.minimise(search.told(found.actions), bool)
    assert shortest <= len(told) <= len(found.actions)
    for place in range(len(told)):
        assert not search.replay(told[:place] + told[place + 1 :]).problem, "a step that is not needed is left"


def test_a_kept_schedule_plays_again_in_another_explorer() -> None:
    first = explorer(replace(ELECTION, crashes=1))
    told = first.told(first.search().actions)
    assert explorer(replace(ELECTION, crashes=1)).replay(told).problem == "elected ['a', 'b']"


def test_a_kept_schedule_plays_again_after_changes_that_do_not_matter() -> None:
    class Wordy(Vote):
        def send(self, dst: str, body: dict[str, Any]) -> None:
            super().send(dst, {**body, "more": f"from {self.id}"})

    first = explorer(replace(ELECTION, crashes=1))
    told = first.told(first.search().actions)
    again = Explorer(Local({"Vote": Wordy}), replace(ELECTION, crashes=1), two_elected).replay(told)
    assert again.problem == "elected ['a', 'b']"


def test_a_search_that_ran_out_of_its_budget_says_so() -> None:
    found = explorer(replace(ELECTION, crashes=2)).search(most=500)
    assert not found.exhausted


def test_a_search_can_begin_where_another_ended() -> None:
    search = explorer(replace(ELECTION, crashes=1))
    half = search.search(goal=lambda view: any(answer for _, _, answer in view.history))
    assert half.problem
    assert half.state is not None
    found = search.search(begin=half.state)
    assert found.problem == "elected ['a', 'b']"
    assert half.depth + found.depth >= search.search().depth


class Passer(Node):
    """Hands what clients say on to n1, which collects it."""

    def on_start(self) -> None:
        self.words: list[str] = []

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        if self.id != "n1":
            self.send("n1", body)
            return
        self.words.append(body["word"])
        self.send("c1", {"type": "words", "words": self.words})


@pytest.mark.parametrize(("asked", "doubled"), [("n2", True), ("n1", False)])
def test_duplicates_come_as_often_as_the_model_allows_between_nodes(asked: str, doubled: bool) -> None:
    def most_words(view: View) -> Any:
        words = [answer["words"] for _, _, answer in view.history if answer]
        return words[-1] if words and len(words[-1]) > 2 else None

    asks = {f"c{n}": (Ask(asked, {"type": "say", "word": word}),) for n, word in enumerate("ab", 1)}
    model = Model(cluster(2, "Passer"), asks)
    actors = Local({"Passer": Passer})
    assert Explorer(actors, model, most_words).search().problem is None
    found = Explorer(actors, replace(model, copies=1), most_words).search().problem
    assert sorted(set(found or [])) == (["a", "b"] if doubled else [])


def test_timers_go_off_in_the_order_of_their_clock() -> None:
    class Timers(Node):
        def on_start(self) -> None:
            self.set_timer("late", 2.0)
            self.set_timer("early", 1.0)

        def on_timer(self, name: str) -> None:
            self.send("c1", {"type": name, "now": self.now()})

    heard = set()

    def look(view: View) -> None:
        heard.add(tuple((answer["type"], answer["now"]) for _, _, answer in view.history if answer))

    asks = {"c1": (Ask("n1", {"type": "x"}),)}
    search = Explorer(Local({"Timers": Timers}), Model(cluster(1, "Timers"), asks, timers=2), look)
    assert search.search().exhausted
    assert heard == {(), (("early", 1.0),), (("early", 1.0), ("late", 2.0))}


def test_handlers_that_are_not_deterministic_are_found() -> None:
    class Counter(Node):
        count = 0

        def on_message(self, src: str, body: dict[str, Any]) -> None:
            Counter.count += 1  # shared by all lives
            self.send("n2" if self.id == "n1" else "n1", {"type": "count", "count": Counter.count})

    asks = {"c1": (Ask("n1", {"type": "x"}), Ask("n2", {"type": "x"}))}
    search = Explorer(Local({"Counter": Counter}), Model(cluster(2, "Counter"), asks), lambda view: None)
    with pytest.raises(Diverged):
        search.search(most=2000)


def test_a_counterexample_is_told_as_a_story() -> None:
    search = explorer(replace(ELECTION, crashes=1))
    found = search.search()
    told = story(search, found.actions)
    assert told.unit == "step"
    assert told.lanes == ("n1", "n2", "n3", "c1", "c2")
    assert [event.what for event in told.events if event.what in ("crash", "restart")] == ["crash", "restart"]
    delivered = [sent for sent in told.sent if sent.fate == "delivered" and sent.dst in search.names]
    assert len(delivered) == sum(action[0] == "deliver" for action in found.actions)
    assert all(sent.arrived is not None and sent.arrived > sent.sent for sent in delivered)


def test_a_node_with_other_peers_than_all() -> None:
    members = (Member("n1", "Vote", ("n2", "n3")), Member("n2", "Vote", ("n1",)), Member("n3", "Vote", ("n1",)))
    model = Model(members, {"c1": (Ask("n1", {"type": "elect", "name": "a"}),)})
    found = Explorer(Local(ACTORS), model, lambda view: next((a for *_, a in view.history if a), None)).search()
    assert found.problem == {"type": "elected", "name": "a", "in_reply_to": 1}


class Ticking(Node):
    """n1 has a timer that only sets itself again; n2 says something in the end."""

    def on_start(self) -> None:
        self.said = False
        self.set_timer("tick", 0.5 if self.id == "n1" else 3.0)

    def on_timer(self, name: str) -> None:
        if self.id == "n1":
            self.set_timer("tick", 0.5)
        else:
            self.send("c1", {"type": "said"})

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        pass


@pytest.mark.parametrize(("seconds", "heard"), [(2.9, 0), (3.1, 1)])
def test_nobodys_timer_keeps_others_from_settling(seconds: float, heard: int) -> None:
    explorer = Explorer(Local({"Ticking": Ticking}), Model(cluster(2, "Ticking"), {"c1": ()}), lambda view: None)
    settled = explorer.settle(explorer.begin(), seconds)
    assert len(explorer.view(settled).history) == heard
