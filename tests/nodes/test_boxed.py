"""Nodes in a box: they do what they do here, share nothing, and whatever they break costs them alone."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest
from often import often

from grader.lost import Lost
from grader.nodes.actors import Local
from grader.nodes.bench import NodeBench
from grader.nodes.boxed import Boxed, Code
from grader.nodes.boxes import Boxes, World, world
from grader.nodes.clients import Ask, Client
from grader.nodes.plan import Plan, play
from grader.nodes.sim import Simulation, cluster
from grader.nodes.states import Model
from grader.ranks.engines import Engines
from grader.sandbox import client
from grader.sandbox.warm import Box
from grader.submission import Submission
from tests.nodes import clusters
from tests.nodes.clusters import Gossip

HEAD = "from grader.nodes import Node\n"


def boxed(engines: Engines, source: str, name: str = "S") -> AbstractContextManager[World]:
    return world(engines.warm, Code(source, "mine.py", (name,)))


def body(handler: str, before: str = "") -> str:
    """A class S with that one handler."""
    return f"{HEAD}{before}\nclass S(Node):\n{handler}"


def echoed(actors: World, nodes: int = 2, times: int = 2) -> list[object]:
    """What each node answers to some requests, one after another."""
    sim = Simulation(actors, cluster(nodes, "S"), 1)
    clients = [Client(sim, f"c{n}", [Ask(f"n{n}", {"type": "x"})] * times) for n in range(1, nodes + 1)]
    sim.run(20)
    return [asked.answer["value"] if asked.answer else None for client in clients for asked in client.done]


def test_a_box_does_what_is_done_here(engines: Engines) -> None:
    plan = Plan(cluster(5, "Gossip"), {"c1": (Ask("n1", {"type": "add", "element": 1}),)}, until=5)
    here = play(plan, Local({"Gossip": Gossip})).sim.story
    with boxed(engines, inspect.getsource(clusters), "Gossip") as actors:
        there = play(plan, actors).sim.story
    assert [(s.src, s.dst, s.body, s.sent) for s in here.sent] == [(s.src, s.dst, s.body, s.sent) for s in there.sent]
    assert len(here.sent) > 100


COUNTERS = {
    "a module's list": body("    def on_message(self, src, body):\n        L.append(1)\n"
                            "        self.reply(body, {'type': 'x', 'value': len(L)})", "L = []"),
    "a global": body("    def on_message(self, src, body):\n        global n\n        n += 1\n"
                     "        self.reply(body, {'type': 'x', 'value': n})", "n = 0"),
    "a class attribute": body("    n = 0\n    def on_message(self, src, body):\n        S.n += 1\n"
                              "        self.reply(body, {'type': 'x', 'value': S.n})"),
    "a default argument": body("    def on_message(self, src, body, had=[]):\n        had.append(1)\n"
                               "        self.reply(body, {'type': 'x', 'value': len(had)})"),
}  # fmt: skip


@pytest.mark.parametrize("source", COUNTERS.values(), ids=COUNTERS.keys())
def test_what_a_module_holds_is_each_nodes_own_and_gone_after_a_crash(engines: Engines, source: str) -> None:
    with boxed(engines, source) as actors:
        assert echoed(actors) == [1, 2, 1, 2]
        sim = Simulation(actors, cluster(2, "S"), 1)
        client = Client(sim, "c1", [Ask("n1", {"type": "x"}, 1.0)] * 2)
        sim.at(1.5, lambda: sim.crash("n1"))
        sim.at(1.6, lambda: sim.restart("n1"))
        sim.run(20)
        assert [asked.answer and asked.answer["value"] for asked in client.done] == [1, 1]


BROKEN = {
    "no Python": ("x = (", "syntax_error", "line 1"),
    "empty": ("", "missing_function", "no class S"),
    "no node": ("class S: pass", "missing_function", "not a subclass of Node"),
    "an __init__": (body("    def __init__(self): pass"), "missing_function", "__init__"),
    "ends when loaded": ("import os\nos._exit(3)", "crash", "exit status 3"),
    "raises when loaded": ("1 / 0", "crash", "ZeroDivisionError"),
}


@pytest.mark.parametrize(("source", "kind", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_a_program_of_which_no_node_can_be_made(engines: Engines, source: str, kind: str, words: str) -> None:
    with contextlib.closing(Boxes(engines.warm, Code(source, "mine.py", ("S",)), ())) as boxes:
        found = boxes.hopeless()
    assert found is not None
    assert found.kind == kind
    assert words in found.message


FALLS = {
    "never returns": ("        while True: pass", "timeout", "line 5"),
    "ends its process": ("        import os; os._exit(7)", "crash", "exit status 7"),
    "kills itself": ("        import os; os.kill(os.getpid(), 9)", "crash", "SIGKILL"),
    "raises": ("        {}['x']", "crash", "n1 raised KeyError"),
    "SystemExit": ("        raise SystemExit", "crash", ""),
    "sends what is no JSON": ("        self.send('n2', {'a': {1}})", "crash", "must be JSON"),
    "sends without end": ("        while True: self.send('n2', {})", "crash", "more than"),
    "takes all memory": (
        "        self.x = [bytearray(2**20) for _ in range(1500)]",
        "out_of_memory or crash or timeout",
        "",
    ),
    "prints without end": (
        "        print('x' * 2**21)\n        self.send('n1', {})",
        "sandbox_violation",
        "printed more",
    ),
    "writes rubbish": ("        import os; os.write(3, b'x' * 100)", "sandbox_violation", ""),
    "forges an answer": (
        "        import os, json; t = json.dumps({'event': 'steps', 'steps': [[[], None, {}]]}).encode()\n"
        "        os.write(3, b'J' + (len(t) + 4).to_bytes(4, 'little') + len(t).to_bytes(4, 'little') + t)",
        "sandbox_violation or none",
        "",
    ),
}


@pytest.mark.parametrize(("handler", "kind", "words"), often(FALLS, *(FALLS.keys() - {"never returns"})))
def test_a_handler_that_breaks_things(engines: Engines, handler: str, kind: str, words: str) -> None:
    source = body(f"    def on_message(self, src, body):\n{handler}\n        self.x = 1")
    with boxed(engines, source) as actors:
        sim = Simulation(actors, cluster(2, "S"), 1, file="mine.py")
        Client(sim, "c1", [Ask("n1", {"type": "x"})] * 3)
        try:
            sim.run(20)
            sim.run(21)
            actors.forget()
            found, message = "none", ""
        except Lost as trouble:
            found, message = trouble.diagnosis.kind, trouble.diagnosis.message
    assert found in kind.split(" or "), message
    assert words in message


@pytest.fixture
def bench(engines: Engines) -> Iterator[NodeBench]:
    source = body(
        "    def on_message(self, src, body):\n        import time\n"
        "        self.reply(body, {'type': 'x', 'value': time.time_ns()})"
    )
    bench = NodeBench(engines.warm, Submission(source, "mine.py"), ("S",), (), 1, 1)
    yield bench
    bench.close()


def test_a_clock_of_the_machine_is_found(bench: NodeBench) -> None:
    model = Model(cluster(2, "S"), {"c1": (Ask("n1", {"type": "x"}),) * 9, "c2": (Ask("n1", {"type": "x"}),) * 9})
    with pytest.raises(Lost) as caught:
        bench.explore(model, lambda view: None, most=500)
    assert caught.value.diagnosis.kind == "nondeterministic"
    assert "n1" in caught.value.diagnosis.message


def test_a_violation_is_kept_and_plays_again(engines: Engines) -> None:
    source = body("    def on_message(self, src, body):\n        self.reply(body, {'type': 'x', 'value': 1})")
    bench = NodeBench(engines.warm, Submission(source, "mine.py"), ("S",), (), 1, 1)
    model = Model(cluster(1, "S"), {"c1": (Ask("n1", {"type": "x"}),) * 3})

    def judge(view: object) -> object:
        return bench.found("wrong_result", "three") if len(view.history) == 6 else None  # type: ignore[attr-defined]

    with pytest.raises(Lost) as caught:
        bench.of("a").explore(model, judge)
    assert caught.value.schedule is not None
    assert len(caught.value.schedule["actions"]) == 6
    bench.replayed = caught.value.schedule
    again = bench.of("a")
    with pytest.raises(Lost, match="three"):
        again.explore(model, judge)
    assert again.explore(model, judge).states == 0, "another search than the one that was kept is left out"
    bench.close()


SHARING = {
    "deterministic": ("", None),
    "a module of Python's": ("        import sys; n = sys.__dict__.setdefault('rankup', []); n.append(1)\n"
                             "        value = len(n)", "sandbox_violation or nondeterministic"),
    "random": ("        import random; value = random.random()", "nondeterministic"),
}  # fmt: skip


@pytest.mark.parametrize(("more", "kind"), SHARING.values(), ids=SHARING.keys())
def test_a_run_must_come_out_the_same_in_several_processes(engines: Engines, more: str, kind: str | None) -> None:
    source = body(
        f"    def on_message(self, src, body):\n        value = 1\n{more}\n"
        "        self.reply(body, {'type': 'x', 'value': value})"
    )
    bench = NodeBench(engines.warm, Submission(source, "mine.py"), ("S",), (), 1, 1)
    asks = {f"c{n}": (Ask(f"n{n}", {"type": "x"}),) * 2 for n in (1, 2, 3)}
    with contextlib.closing(bench):
        try:
            bench.hold([Plan(cluster(3, "S"), asks)], lambda played: None)
            found = None
        except Lost as violation:
            found = violation.diagnosis.kind
    assert found == kind if kind is None else found in kind.split(" or ")


def test_a_box_that_nobody_gets_is_ended(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Box] = []

    def no_answer(self: client.Client, *_: object) -> None:
        made.append(self.box)
        raise InterruptedError

    monkeypatch.setattr(client.Client, "wait", no_answer)
    with pytest.raises(InterruptedError):
        Boxed(engines.warm, Code(HEAD, "mine.py", ("S",)))
    assert [box.frames for box in made] == [[]]
