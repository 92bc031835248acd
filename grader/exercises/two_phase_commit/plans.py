"""Who begins which transaction when, and what befalls nodes: plans of runs.

Times: nothing is asked of a key that another transaction wrote, until all must be decided and unlocked.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from grader.exercises.common.nodes import bad_messages, names, skewed
from grader.exercises.two_phase_commit.history import COORDINATOR, DECIDED
from grader.nodes.clients import Ask
from grader.nodes.life import Step
from grader.nodes.network import Network
from grader.nodes.plan import Mishap, Plan, Played
from grader.nodes.sim import Member
from grader.trace.story import Sent

VALUES: tuple[Any, ...] = (  # none is null
    0, "", False, [], {}, "a", 7, 1.5, True, [None], {"k": [1, "v"]}, "committed", -3
)  # fmt: skip
GIVEN_UP = 4.0  # seconds: a begin at 1 s is answered by then
CUT = 22.0  # seconds for which a participant is cut off


def members(rng: random.Random, participants: Sequence[str]) -> tuple[Member, ...]:
    """A coordinator and its participants, with clocks of their own."""
    first = Member(COORDINATOR, "Coordinator", tuple(participants))
    return skewed((first, *(Member(name, "Participant") for name in participants)), rng, -100)


def begin(txn: Any, writes: Mapping[str, Mapping[str, Any]], at: float) -> Ask:
    return Ask(COORDINATOR, {"type": "begin", "txn": txn, "writes": {n: dict(w) for n, w in writes.items()}}, at=at)


def read(node: str, key: str, at: float) -> Ask:
    return Ask(node, {"type": "read", "key": key}, at=at)


def reads(nodes: Sequence[str], keys: Sequence[str], at: float) -> tuple[Ask, ...]:
    """Every key of every node, one after another."""
    return tuple(read(node, key, at) for node in nodes for key in keys)


def named(rng: random.Random, *texts: str) -> list[Any]:
    """Names of transactions: strings, and integers."""
    return [rng.randrange(10**4, 10**6) if rng.random() < 0.5 else f"{text}-{rng.randrange(10**4)}" for text in texts]


# ---- without faults


def works(rng: random.Random, count: int, seed: int) -> Plan:
    """Two clients, whose transactions share no key, and all that they wrote is read. Their last ones are called 7 and "7"."""
    nodes = names(count)
    asks: dict[str, tuple[Ask, ...]] = {}
    for client, keys in (("alice", ("x", "y")), ("bob", ("z", "a long key / 1"))):
        values = {key: iter(rng.sample(VALUES, len(VALUES))) for key in keys}
        found = []
        called = [*named(rng, "book", "pay"), 7 if client == "alice" else "7"]
        for number, name in enumerate(called):
            some = rng.sample(nodes, rng.randint(1, count)) if number else list(nodes)[: 1 + (client == "alice")]
            entries = {key: next(values[key]) for key in keys[: rng.randint(1, 2)]}
            found.append(begin(name, dict.fromkeys(some, entries), 0.5 + 8 * number + rng.random()))
        asks[client] = tuple(found)
    looks = tuple(look for at in (7.6, 15.6, 24.0) for look in reads(nodes, ("x", "z"), at))
    asks["carol"] = (*looks, *reads(nodes, ("y", "a long key / 1", "never written"), 24.5))
    return Plan(members(rng, nodes), asks, seed=seed, until=32.0, label="No faults; messages take 1 to 50 ms.")


FAST = Network(0.001, 0.005)


def meet(rng: random.Random, seed: int, restarts: bool) -> Plan:
    """While one transaction waits for a participant that is 49 ms away, others want its key, and other keys. With
    `restarts` the participant whose key they want crashes after its vote, and is back before it is asked again."""
    near, slow, third, fourth = rng.sample(names(4), 4)
    one, two, three, four = named(rng, "first", "second", "third", "fourth")
    also = {"y": "first"} if rng.random() < 0.5 else {}
    asks = {
        "alice": (begin(one, {near: {"x": "first", **also}, slow: {"x": "first"}}, 1.0),),
        "bob": (
            begin(two, {near: {"x": "second", "v": "second"}, third: {"w": "second"}}, 1.03),
            begin(four, {near: {"x": "fourth"}, third: {"w": "fourth"}}, 9.0),
        ),
        "carol": (begin(three, {near: {"z": "third"}, fourth: {"x": "third"}}, 1.035),),
        "dave": (
            read(near, "x", 1.05),
            *reads((near, third, slow), ("x", "w"), 8.0),
            *reads((near, third), ("x",), 16.0),
        ),
    }
    down = (Mishap("crash", 1.015, 1.02, ((near,),)),) if restarts else ()
    label = f"Messages to and from {slow} take 49 ms, others 1 to 5 ms"
    label += f"; {near} crashes at 1.015 s, and is back at 1.02 s." if restarts else "; no faults."
    return Plan(members(rng, names(4)), asks, down, FAST, seed, until=19.0, label=label)


def refused(rng: random.Random, seed: int) -> Plan:
    """While one transaction waits for a participant that is 49 ms away, another that wants its key is refused and is
    over, at both of its participants; then others want the same key, and the keys of the refused one."""
    near, slow, third, fourth = rng.sample(names(4), 4)
    one, two, three, four = named(rng, "first", "second", "third", "fourth")
    asks = {
        "alice": (begin(one, {near: {"x": "first"}, slow: {"x": "first"}}, 1.0),),
        "bob": (begin(two, {near: {"x": "second", "v": "second"}, third: {"w": "second"}}, 1.012),),
        "carol": (
            begin(three, {near: {"x": "third"}, fourth: {"x": "third"}}, 1.033),
            begin(four, {near: {"v": "fourth"}, third: {"w": "fourth"}}, 9.0),
        ),
        "dave": (*reads((near, fourth, slow), ("x",), 8.0), *reads((near, third), ("v", "w"), 16.0)),
    }
    label = f"Messages to and from {slow} take 49 ms, others 1 to 5 ms; no faults."
    return Plan(members(rng, names(4)), asks, (), FAST, seed, until=19.0, label=label)


def outvoted(rng: random.Random, seed: int) -> Plan:
    """Two of three participants have long voted yes, when the third, which another transaction waits for, votes no. What
    the two have is read meanwhile."""
    near, slow, third, fourth = rng.sample(names(4), 4)
    one, two = named(rng, "first", "second")
    asks = {
        "alice": (begin(one, {near: {"x": "first"}, slow: {"x": "first"}}, 1.0),),
        "bob": (
            begin(two, {slow: {"x": "second", "v": "second"}, third: {"x": "second"}, fourth: {"x": "second"}}, 1.02),
        ),
        "carol": (*reads((third, fourth), ("x",), 1.06), *reads((near, slow, third, fourth), ("x", "v"), 8.0)),
    }
    label = f"Messages to and from {slow} take 49 ms, others 1 to 5 ms; no faults."
    return Plan(members(rng, names(4)), asks, (), FAST, seed, until=11.0, label=label)


def no_then_yes(rng: random.Random, seed: int) -> Plan:
    """One participant votes no at once, and another one yes soon after, before the first has confirmed anything."""
    near, slow, third = rng.sample(names(3), 3)
    one, two = named(rng, "first", "second")
    asks = {
        "alice": (begin(one, {near: {"x": "first"}, slow: {"x": "first"}}, 1.0),),
        "bob": (begin(two, {near: {"x": "second", "v": "second"}, third: {"x": "second"}}, 1.02),),
        "carol": reads((near, slow, third), ("x", "v"), 8.0),
    }
    label = f"Messages to and from {slow} take 49 ms, those from {third} to {COORDINATOR} 15 ms, and those from {near} to {COORDINATOR} 49 ms after its second vote; no faults."
    return Plan(members(rng, names(3)), asks, (), FAST, seed, until=11.0, label=label)


def yes_after_no(played: Played) -> None:
    """What the label of `no_then_yes` says of messages."""
    slow, third, near = (played.plan.label.split("from ")[place].partition(" ")[0] for place in (1, 2, 3))
    voted = False

    def route(sent: Sent) -> list[float] | None:
        nonlocal voted
        if slow in (sent.src, sent.dst):
            return [0.049]
        if (sent.src, sent.dst) == (third, COORDINATOR):
            return [0.015]
        if (sent.src, sent.dst) == (near, COORDINATOR) and sent.sent > 1.02:
            voted, before = True, voted
            return [0.049 if before else 0.002]
        return None

    played.sim.route = route


def refused_and_crashed(rng: random.Random, seed: int, mishaps: tuple[Mishap, ...] = (), freed: bool = False) -> Plan:
    """One transaction is refused, because another one that takes longer holds its key. The coordinator may crash after
    any of its sends and writes meanwhile; when it is back, the key is free. With `freed` the other one is decided and
    over when the no arrives, so that after the crash nobody would say no."""
    near, slow, third = names(3)
    one, two = named(rng, "first", "second")
    held = slow if freed else near
    asks = {
        "alice": (begin(one, {node: {"x": "first"} for node in dict.fromkeys((held, slow))}, 1.0),),
        "bob": (begin(two, {held: {"x": "second"}, third: {"x": "second"}}, 1.075 if freed else 1.012),),
        "carol": reads((near, slow, third), ("x",), 3.0 + DECIDED + 1),
    }
    label = "; ".join(
        filter(None, (f"Messages to and from {slow} take 49 ms, others 1 to 5 ms", crashes_label(mishaps)))
    )
    return Plan(members(rng, names(3)), asks, mishaps, FAST, seed, until=3.0 + 2 * DECIDED, label=label)


def given_up(rng: random.Random, seed: int, mishaps: tuple[Mishap, ...] = (), count: int = 2) -> Plan:
    """A participant is down, so that the coordinator gives up. It may crash after any of its sends and writes; when it is
    back, the participant is there."""
    nodes = names(count)
    [one] = named(rng, "first")
    asks = {
        "alice": (begin(one, {node: {"x": "first"} for node in nodes}, 1.0),),
        "carol": reads(nodes, ("x",), GIVEN_UP + DECIDED + 1),
    }
    label = "; ".join(filter(None, (f"{nodes[-1]} is down until {GIVEN_UP:g} s", crashes_label(mishaps))))
    down = Mishap("crash", 0.9, GIVEN_UP, ((nodes[-1],),))
    return Plan(members(rng, nodes), asks, (down, *mishaps), FAST, seed, until=GIVEN_UP + 2 * DECIDED, label=label)


def slowly(played: Played) -> None:
    """What the labels of plans say of messages to and from one node."""
    label = played.plan.label
    slow = label.partition("from ")[2].partition(" ")[0]
    if slow.startswith("n"):
        played.sim.route = lambda sent: [0.049] if slow in (sent.src, sent.dst) else None


def crowd(rng: random.Random, count: int, seed: int) -> Plan:
    """Three clients that want the same few keys at once, again and again."""
    nodes = names(count)
    asks: dict[str, tuple[Ask, ...]] = {}
    for client in ("alice", "bob", "carol"):
        found = []
        for number in range(3):
            some = rng.sample(nodes, rng.randint(max(1, count - 1), count))
            keys = rng.sample(("x", "y"), rng.randint(1, 2))
            writes = {node: dict.fromkeys(keys, f"{client} {number}") for node in some}
            found.append(begin(f"{client}-{number}", writes, 1 + 8 * number + rng.uniform(0, 0.06)))
        asks[client] = tuple(found)
    asks["dave"] = tuple(look for number in range(3) for look in reads(nodes, ("x", "y"), 7.5 + 8 * number))
    return Plan(members(rng, nodes), asks, seed=seed, until=26.0, label="No faults; messages take 1 to 50 ms.")


# ---- crashes


def crashing(rng: random.Random, count: int, seed: int, mishaps: tuple[Mishap, ...] = ()) -> Plan:
    """One transaction, in which nodes crash; all are back at 3 s; another on the same keys must then be committed."""
    nodes = names(count)
    one, two = named(rng, "first", "second")
    back = max([mishap.until for mishap in mishaps], default=3.0)
    late = back + DECIDED + 2
    asks = {
        "alice": (begin(one, {node: {"x": "first"} for node in nodes}, 1.0),),
        "bob": (begin(two, {node: {"x": "second"} for node in nodes}, late),),
        "carol": (*reads(nodes, ("x",), back + DECIDED + 0.2), *reads(nodes, ("x",), late + DECIDED + 2.5)),
    }
    until = late + DECIDED + 5
    return Plan(members(rng, nodes), asks, mishaps, seed=seed, until=until, label=crashes_label(mishaps))


def crashes_label(mishaps: Sequence[Mishap]) -> str:
    return "; ".join(
        f"{' and '.join(m.groups[0])} crashes after {m.after} of its sends and writes, and is back at {m.until:.1f} s"
        for m in mishaps if m.after is not None
    )  # fmt: skip


def crash(node: str, effects: int, until: float = 3.0) -> Mishap:
    """The node crashes right after it sent or wrote for the so-manieth time after 0.5 s."""
    return Mishap("crash", 0.5, until, ((node,),), effects)


def crash_again(node: str, effects: int) -> Mishap:
    """After `crash`, counted from the same moment on: while it starts again, or soon after."""
    return Mishap("crash", 3.0, 5.0, ((node,),), effects)


def power_cut(rng: random.Random, count: int, seed: int, cuts: Sequence[float], slow: bool = False) -> Plan:
    """Three transactions; all nodes lose power at once, at these times, for a second; and once more before the end. With
    `slow` the last one is 49 ms away: it is asked when the others have answered, and told when they have confirmed."""
    nodes = names(count)
    one, two, three = named(rng, "first", "second", "third")
    back = max(cuts) + 1
    late = back + DECIDED + 0.5
    again = late + DECIDED + 2
    asks = {
        "alice": (
            begin(one, {node: {"x": "first", "z": "first"} for node in nodes}, 1.0),
            begin(two, {node: {"y": "second"} for node in nodes[:-1]}, late),
        ),
        "bob": (begin(three, {node: {"x": "third"} for node in nodes[1:]}, late),),
        "carol": reads(nodes, ("x", "y", "z"), again + 1 + DECIDED),
    }
    everyone = ((COORDINATOR, *nodes),)
    mishaps = tuple(Mishap("crash", cut, cut + 1, everyone) for cut in (*cuts, again))
    until = again + DECIDED + 5
    label = f"All nodes lose power at {', '.join(f'{m.at:.2f}' for m in mishaps)} s, for a second."
    if not slow:
        return Plan(members(rng, nodes), asks, mishaps, seed=seed, until=until, label=label)
    label = f"Messages to and from {nodes[-1]} take 49 ms, others 1 to 5 ms. {label}"
    return Plan(members(rng, nodes), asks, mishaps, FAST, seed, until=until, label=label)


# ---- cut off after the vote


def cut_off(rng: random.Random, shape: tuple[int, bool], seed: int) -> Plan:
    """So many participants. Right after its yes one reaches nobody for more than 20 s; maybe another one is down
    meanwhile, and cannot vote. Its key is read all the time; afterwards it has to follow, and another transaction comes
    through."""
    count, aborted = shape
    nodes = names(count)
    alone, other = rng.sample(nodes, 2)
    zero, one, two = named(rng, "zeroth", "first", "second")
    healed = 8.0 + CUT
    asks = {
        "alice": (
            begin(zero, {node: {"x": "old"} for node in nodes}, 0.5),
            begin(one, {node: {"x": "first"} for node in nodes}, 8.0),
            begin(two, {node: {"x": "second"} for node in nodes}, healed + DECIDED + 2),
        ),
        "bob": (
            *(read(alone, "x", 8 + at) for at in (0.5, 2.0, 5.0, 11.0, 16.0, CUT - 1)),
            *reads(nodes, ("x",), healed + DECIDED + 0.5),
            *reads(nodes, ("x",), healed + 2 * DECIDED + 3),
        ),
    }
    down = (Mishap("crash", 7.9, healed, ((other,),)),) if aborted else ()
    label = f"{alone} is cut off right after its first message to {COORDINATOR} about the second transaction"
    label += f"; {other} is down." if aborted else "."
    until = healed + 2 * DECIDED + 6
    return Plan(members(rng, nodes), asks, down, seed=seed, healed=healed, until=until, label=label)


def cut_after_vote(played: Played) -> None:
    """What `cut_off` says of the network."""
    sim, alone = played.sim, played.plan.label.partition(" ")[0]
    others = tuple(name for name in sim.names if name != alone)
    voted = False

    def look(node: str, step: Step) -> None:
        nonlocal voted
        told = any(effect[:2] == ["send", COORDINATOR] for effect in step.effects)
        if node == alone and not voted and 8 < sim.time < 9 and told:
            voted = True
            sim.at(sim.time + 0.003, lambda: sim.partition((alone,), others))

    def route(sent: Sent) -> list[float] | None:
        """Its vote arrives before the cut, and no answer to it does."""
        if sim.time < 8 or sim.time >= (played.plan.healed or 0):
            return None
        return [0.0015] if sent.src == alone else [0.02] if sent.dst == alone else None

    sim.on_step.append(look)
    sim.route = route


# ---- a bad network


def bad_network(rng: random.Random, count: int, seed: int) -> Plan:
    """Until 12 s messages are lost, late and doubled; afterwards every key can be written."""
    nodes = names(count)
    asks: dict[str, tuple[Ask, ...]] = {}
    for client in ("alice", "bob"):
        found = []
        for number in range(4):
            some = rng.sample(nodes, rng.randint(1, count))
            keys = rng.sample(("x", "y"), rng.randint(1, 2))
            writes = {node: dict.fromkeys(keys, f"{client} {number}") for node in some}
            found.append(begin(f"{client}-{number}", writes, 0.5 + 2.2 * number + rng.random()))
        asks[client] = tuple(found)
    healed = 12.0
    late = healed + DECIDED + 2
    asks["carol"] = (begin("last", {node: {"x": "last", "y": "last"} for node in nodes}, late),)
    asks["dave"] = (
        *(read(rng.choice(nodes), "x", at) for at in range(1, 12)),
        *reads(nodes, ("x", "y"), healed + DECIDED + 0.2),
        *reads(nodes, ("x", "y"), late + DECIDED + 1),
    )
    label = "Up to 12 s messages between nodes are lost (20 %), come twice (10 %), or up to 1 s late."
    return Plan(members(rng, nodes), asks, seed=seed, healed=healed, until=late + DECIDED + 4, label=label)


badly = bad_messages(lost=0.2, twice=0.1, quick=0.6)  # as the label of `bad_network` says


def yes_again(rng: random.Random, seed: int) -> Plan:
    """What one participant tells the coordinator comes three times; meanwhile another one votes no, or is down."""
    near, slow, third = rng.sample(names(3), 3)
    zero, one, two = named(rng, "zeroth", "first", "second")
    asks = {
        "alice": (begin(zero, {slow: {"x": "zeroth"}, third: {"x": "zeroth"}}, 1.0),),
        "bob": (begin(one, {near: {"x": "first"}, slow: {"x": "first"}}, 1.02),),
        "carol": (begin(two, {near: {"y": "second"}, third: {"y": "second"}}, 9.0),),
        "dave": (*reads((near, slow, third), ("x",), 8.0), *reads((near, third), ("y",), 11.0 + DECIDED + 1)),
    }
    down = (Mishap("crash", 8.9, 11.0, ((third,),)),)
    label = f"Messages to and from {slow} take 49 ms, those from {near} to {COORDINATOR} come three times; {third} is down from 8.9 to 11 s."
    return Plan(members(rng, names(3)), asks, down, FAST, seed, until=22.0, label=label)


def three_times(played: Played) -> None:
    """What the label of `yes_again` says of messages."""
    slow, near = (played.plan.label.split("from ")[place].partition(" ")[0] for place in (1, 2))

    def route(sent: Sent) -> list[float] | None:
        if (sent.src, sent.dst) == (near, COORDINATOR):
            return [0.002, 0.003, 0.004]
        return [0.049] if slow in (sent.src, sent.dst) else None

    played.sim.route = route


def asked_twice(rng: random.Random, seed: int) -> Plan:
    """All that the coordinator tells one participant comes twice, before the other one has voted."""
    near, slow = rng.sample(names(2), 2)
    [one] = named(rng, "first")
    asks = {
        "alice": (begin(one, {near: {"x": "first"}, slow: {"x": "first"}}, 1.0),),
        "carol": reads((near, slow), ("x",), 8.0),
    }
    label = f"Messages to and from {slow} take 49 ms, those from {COORDINATOR} to {near} come twice."
    return Plan(members(rng, names(2)), asks, (), FAST, seed, until=11.0, label=label)


def twice(played: Played) -> None:
    """What the label of `asked_twice` says of messages."""
    slow, near = (played.plan.label.split(word)[1].partition(" ")[0] for word in ("to and from ", f"{COORDINATOR} to "))

    def route(sent: Sent) -> list[float] | None:
        if (sent.src, sent.dst) == (COORDINATOR, near):
            return [0.002, 0.005]
        return [0.049] if slow in (sent.src, sent.dst) else None

    played.sim.route = route


def unheard(rng: random.Random, seed: int) -> Plan:
    """Nothing reaches one of three participants, so that the coordinator has to give up. What the others have is read
    before it does."""
    nodes = names(3)
    [one] = named(rng, "first")
    asks = {
        "alice": (begin(one, {node: {"x": "first"} for node in nodes}, 1.0),),
        "carol": (*reads(nodes[:2], ("x",), 1.2), *reads(nodes, ("x",), GIVEN_UP + DECIDED + 1)),
    }
    label = f"Until {GIVEN_UP:g} s nothing that is sent to {nodes[-1]} arrives."
    until = GIVEN_UP + 2 * DECIDED
    return Plan(members(rng, nodes), asks, (), FAST, seed, healed=GIVEN_UP, until=until, label=label)


def votes_too_late(rng: random.Random, seed: int) -> Plan:
    """All votes, and all that participants confirm, come two seconds late."""
    nodes = names(2)
    [one] = named(rng, "first")
    healed = GIVEN_UP + 2.5
    asks = {
        "alice": (begin(one, {node: {"x": "first"} for node in nodes}, 1.0),),
        "carol": reads(nodes, ("x",), healed + DECIDED + 1),
    }
    label = f"Until {GIVEN_UP:g} s what participants tell {COORDINATOR} takes 2 s."
    return Plan(members(rng, nodes), asks, (), FAST, seed, healed=healed, until=healed + 2 * DECIDED, label=label)


def until_given_up(played: Played) -> None:
    """What the labels of `unheard` and `votes_too_late` say of messages."""
    late, deaf = played.plan.label.endswith("takes 2 s."), played.plan.members[-1].name

    def route(sent: Sent) -> list[float] | None:
        if sent.sent >= GIVEN_UP:
            return None
        if late:
            return [2.0 + len(sent.src) / 1e4] if sent.dst == COORDINATOR else None
        return [] if sent.dst == deaf else None

    played.sim.route = route


def late_copies(rng: random.Random, count: int, seed: int, restarts: bool) -> Plan:
    """Copies of what is said for one transaction come when the next on its key is over. With `restarts`, participants have
    nothing left then but their disks."""
    nodes = names(count)
    one, two, three = named(rng, "first", "second", "third")
    writes = {name: {node: {"x": name} for node in nodes} for name in ("first", "second", "third")}
    asks = {
        "alice": (begin(one, writes["first"], 1.0), begin(two, writes["second"], 1.0 + DECIDED + 1)),
        "bob": (begin(three, writes["third"], 24.0),),
        "carol": (*reads(nodes, ("x",), 13.5), *reads(nodes, ("x",), 23.0), *reads(nodes, ("x",), 31.0)),
    }
    label = "Copies of half the messages that are sent by 2 s arrive 13 to 14 s late."
    down = tuple(Mishap("crash", 13.0, 13.2, ((node,),)) for node in nodes if restarts)
    label += " All participants crash and restart before." * restarts
    return Plan(members(rng, nodes), asks, down, seed=seed, healed=16.5, until=33.0, label=label)


def with_late_copies(played: Played) -> None:
    """What `late_copies` says of messages."""
    rng = random.Random(f"late {played.plan.seed}")

    def route(sent: Sent) -> list[float] | None:
        if sent.sent > 2.0 or rng.random() < 0.5:
            return None
        return [rng.uniform(0.001, 0.05), rng.uniform(13.0, 14.0)]

    played.sim.route = route
