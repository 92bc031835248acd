"""The simulator: what befalls nodes is what was planned, and the same seed gives the same run."""

from __future__ import annotations

import contextlib
import gc
import random
import weakref

import pytest

from grader.lost import Lost
from grader.nodes import Node
from grader.nodes.actors import Local
from grader.nodes.clients import Ask, Client
from grader.nodes.network import Network, bridge, one_way, split
from grader.nodes.plan import Mishap, Plan, Played, minimise, play, random_mishaps
from grader.nodes.sim import Member, Simulation, cluster, messages_between
from tests.nodes.clusters import Echo, Gossip

ACTORS = {"Echo": Echo, "Gossip": Gossip}


def world(size: int = 3, kind: str = "Echo", **more: object) -> Simulation:
    return Simulation(Local(ACTORS), cluster(size, kind), 1, **more)  # type: ignore[arg-type]


def ask(sim: Simulation, node: str = "n1", times: int = 1, after: float = 0.1) -> Client:
    return Client(sim, "c1", [Ask(node, {"type": "echo"}, after)] * times)


def done(plan: Plan) -> tuple[object, ...]:
    """All that happens in a run of it."""
    story = play(plan, Local(ACTORS)).sim.story
    return story.sent, story.events, story.faults


def test_a_message_takes_1_to_50_ms() -> None:
    sim = world()
    client = ask(sim, times=50)
    sim.run(60)
    there_and_back = [asked.seconds for asked in client.done]
    assert all(seconds is not None and 0.002 <= seconds <= 0.1 for seconds in there_and_back)
    assert len(set(there_and_back)) == 50


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    plans = [Plan(cluster(5, "Gossip"), {"c1": (Ask("n1", {"type": "add", "element": 1}),)}, seed=n) for n in (7, 7, 8)]
    first, again, other = (done(plan) for plan in plans)
    assert first == again != other


def test_only_the_disk_outlasts_a_crash_and_what_comes_meanwhile_is_lost() -> None:
    sim = world()
    client = ask(sim, times=3, after=1.0)
    sim.at(0.5, lambda: sim.crash("n1"))
    sim.at(3.0, lambda: sim.restart("n1"))
    sim.run(30)
    lost, *rest = client.done
    assert lost.answer is None
    assert [asked.answer for asked in rest] == [
        {"type": "echo_ok", "had": 1, "lives": 2, "in_reply_to": 2},
        {"type": "echo_ok", "had": 2, "lives": 2, "in_reply_to": 3},
    ]
    assert [sent.fate for sent in sim.story.sent if sent.dst == "n1"] == ["lost", "delivered", "delivered"]
    assert [fault.what for fault in sim.finished().faults] == ["down"]


@pytest.mark.parametrize(("after", "answered", "lives"), [(1, False, 0), (2, True, 1)])
def test_a_crash_may_come_after_any_send_or_write(after: int, answered: bool, lives: int) -> None:
    """The first effect of an Echo is a write when it starts, the second its first answer."""
    sim = Simulation(Local(ACTORS), cluster(1, "Echo"), 1)
    sim.crash_after("n1", after)
    client = ask(sim)
    sim.run(10)
    assert (client.done[0].answer is not None) == answered
    assert sim.places["n1"].disk == {"lives": "1"}
    assert not sim.up()


def test_a_crash_that_has_not_come_by_the_restart_does_not_come_any_more() -> None:
    sim = Simulation(Local(ACTORS), cluster(1, "Echo"), 1)
    sim.crash_after("n1", 3)  # of which two are done by 1 s
    client = ask(sim, times=3, after=1.0)
    sim.at(1.5, lambda: sim.restart("n1"))
    sim.run(20)
    assert all(asked.answer for asked in client.done)
    assert sim.up() == ["n1"]


def test_a_paused_node_does_later_what_it_would_have_done() -> None:
    sim = world()
    client = ask(sim)
    sim.at(0.05, lambda: sim.pause("n1"))
    sim.at(2.0, lambda: sim.resume("n1"))
    sim.run(10)
    assert client.done[0].answer is not None
    assert client.done[0].answered is not None
    assert client.done[0].answered > 2.0


NAMES = ("n1", "n2", "n3", "n4", "n5")


@pytest.mark.parametrize(
    ("links", "cut", "open_"),
    [
        (split([["n1"], ["n2", "n3"]]), [("n1", "n2"), ("n2", "n1")], [("n2", "n3"), ("n1", "n4")]),
        (one_way(["n1"], ["n2"]), [("n1", "n2")], [("n2", "n1")]),
        (bridge(NAMES), [("n1", "n4"), ("n5", "n2")], [("n1", "n3"), ("n3", "n5"), ("n4", "n5")]),
    ],
    ids=["partition", "one way", "bridge"],
)
def test_links_that_are_cut(
    links: frozenset[tuple[str, str]], cut: list[tuple[str, str]], open_: list[tuple[str, str]]
) -> None:
    assert links.issuperset(cut)
    assert not links.intersection(open_)


def test_nothing_crosses_a_partition_and_all_is_well_after_it() -> None:
    plan = Plan(
        cluster(4, "Gossip"),
        {"c1": (Ask("n1", {"type": "add", "element": 1}, 0.3),)},
        (Mishap("partition", 0.2, 5.0, (("n1", "n2"), ("n3", "n4"))),),
        until=20,
    )
    played = play(plan, Local(ACTORS))
    crossing = [s for s in messages_between(played.sim.story, NAMES) if (s.src < "n3") != (s.dst < "n3")]
    assert all(s.fate == "cut" for s in crossing if 0.2 < s.sent < 5.0)
    sim = played.sim
    readers = [Client(sim, f"r{n}", [Ask(f"n{n}", {"type": "read"})], begin=sim.time) for n in (1, 2, 3, 4)]
    sim.run(21)
    assert [reader.done[0].answer["value"] for reader in readers if reader.done[0].answer] == [[1]] * 4


def test_drops_and_duplicates_come_as_often_as_they_are_asked_for() -> None:
    sim = world(5, "Gossip", network=Network(drop=0.2, duplicate=0.3))
    sim.run(40)
    sent = messages_between(sim.story, NAMES)
    first = [s for s in sent if not s.copy]
    assert 0.15 < sum(s.fate == "dropped" for s in first) / len(first) < 0.25
    assert 0.18 < sum(s.copy for s in sent) / len(first) < 0.30  # of the eight tenths that are not dropped


def test_clocks_have_an_offset_and_a_rate() -> None:
    class Clock(Node):
        def on_start(self) -> None:
            self.set_timer("tick", 10.0)

        def on_timer(self, name: str) -> None:
            self.send("c1", {"type": "tick", "now": self.now()})

    heard: dict[str, tuple[float, float]] = {}
    members = (Member("n1", "Clock", offset=100.0, rate=1.01), Member("n2", "Clock", offset=-5.0, rate=0.99))
    sim = Simulation(Local({"Clock": Clock}), members)
    sim.client("c1", lambda message: heard.__setitem__(message.src, (message.sent, message.body["now"])))
    sim.run(20)
    assert heard["n1"] == (pytest.approx(10 / 1.01), pytest.approx(110))
    assert heard["n2"] == (pytest.approx(10 / 0.99), pytest.approx(5))


def test_an_exception_in_a_handler_is_a_crash_with_its_line() -> None:
    class Broken(Node):
        def on_message(self, src: str, body: dict[str, object]) -> None:
            raise KeyError("key")

    sim = Simulation(Local({"Broken": Broken}), cluster(1, "Broken"), file="mine.py")
    ask(sim)
    with pytest.raises(Lost, match=r"n1 raised KeyError.*on_message of .*echo.* from c1") as caught:
        sim.run(5)
    assert caught.value.diagnosis.kind == "crash"
    assert caught.value.picture is not None


def test_nodes_that_never_stop_sending_end_the_run() -> None:
    class Storm(Node):
        def on_start(self) -> None:
            for _ in range(1000):
                self.send(self.peers[0], {"type": "x"})

        def on_message(self, src: str, body: dict[str, object]) -> None:
            self.send(src, body)

    sim = Simulation(Local({"Storm": Storm}), cluster(2, "Storm"))
    sim.most_events = 5_000
    with pytest.raises(Lost, match="cause others forever"):
        sim.run(1e6)


def test_a_plan_is_the_same_after_it_was_kept() -> None:
    rng = random.Random(3)
    kinds = ("partition", "one-way", "bridge", "crash", "pause")
    plan = Plan(
        cluster(5, "Gossip", {"a": 1}), {"c1": (Ask("n1", {"type": "add", "element": 2}, 0.5),)},
        random_mishaps(rng, NAMES, kinds, 0, 20), Network(drop=0.1), 5, 0.1, 21.0,
    )  # fmt: skip
    assert {mishap.what for mishap in plan.mishaps} == set(kinds)
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert done(again) == done(plan)


def test_a_plan_is_made_smaller_until_every_thing_in_it_matters() -> None:
    asks = {client: tuple(Ask("n1", {"type": "echo", "n": n}) for n in range(6)) for client in ("c1", "c2", "c3")}
    mishaps = tuple(Mishap("crash", at, at + 0.5, ((f"n{1 + at % 3}",),)) for at in range(1, 9))
    plan = Plan(cluster(3, "Echo"), asks, mishaps, Network(drop=0.5))

    def fails(candidate: Plan) -> bool:
        bodies = [ask.body["n"] for asks in candidate.asks.values() for ask in asks]
        return 3 in bodies and any(mishap.groups == (("n2",),) for mishap in candidate.mishaps)

    small = minimise(plan, fails)
    assert [ask.body["n"] for asks in small.asks.values() for ask in asks] == [3]
    assert len(small.mishaps) == 1
    assert small.mishaps[0].groups == (("n2",),)
    assert small.network == Network()


@pytest.mark.parametrize("ends", [True, False], ids=["it ends", "somebody gives it up"])
def test_a_run_is_let_go_without_the_garbage_collector(ends: bool) -> None:
    runs: list[weakref.ref[Simulation]] = []

    def prepare(played: Played) -> None:
        runs.append(weakref.ref(played.sim))
        played.notes = [played]  # as a scene does that knows its run
        played.sim.on_step.append(lambda node, step: played.sim.heal())
        played.sim.at(2, lambda: None if ends else played.sim.clients["nobody"](None))  # type: ignore[arg-type]

    plan = Plan(cluster(2, "Echo"), {"c1": (Ask("n1", {"type": "echo"}),)}, until=9)
    gc.disable()
    try:
        with contextlib.nullcontext() if ends else pytest.raises(KeyError):
            play(plan, Local(ACTORS), prepare=prepare).notes = None
        assert runs[0]() is None, "the run is kept by what it knows: see Simulation.let_go"
    finally:
        gc.enable()
