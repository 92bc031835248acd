"""Who sends which transactions when, and what befalls nodes and messages meanwhile."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from grader.exercises.common.nodes import bad_messages, names
from grader.exercises.serializable_store.plans import FAST, Drawn, ask, plan, read
from grader.nodes.clients import Ask
from grader.nodes.life import Step
from grader.nodes.network import Network
from grader.nodes.plan import Mishap, Plan, Played
from grader.trace.story import Sent

BACK = 3.0  # seconds: who crashed is up again
SETTLED = 5.5  # seconds: 5, and messages on their way, and slow clocks
LATEST = 7.6  # seconds: by then also the latest message has arrived
LONG = 12.0  # seconds for which an owner is cut off after its first message


def _label(mishaps: Sequence[Mishap]) -> str:
    return "; ".join(
        f"{' and '.join(m.groups[0])} crashes after {m.after} of its sends and writes, and is back at {m.until:.1f} s"
        for m in mishaps if m.after is not None
    )  # fmt: skip


def crash(node: str, effects: int, until: float = BACK) -> Mishap:
    """The node crashes right after it sent or wrote for the so-manieth time after 0.5 s."""
    return Mishap("crash", 0.5, until, ((node,),), effects)


def crash_again(node: str, effects: int) -> Mishap:
    """After `crash`, counted from the same moment on: while it starts again, or soon after."""
    return Mishap("crash", BACK, BACK + 2, ((node,),), effects)


def one(
    rng: random.Random, shape: tuple[int, str], seed: int, mishaps: tuple[Mishap, ...] = (), more: str = ""
) -> Plan:
    """One transaction on keys of two nodes; all is read after `mishaps`; then another one on the same keys, and all is read
    again. `who`: the asked node owns a key ("owner"), or both ("itself"), or none ("other"), or the transaction also
    reads ("reads"), or another node owns both keys ("alone")."""
    count, who = shape
    nodes = names(count)
    drawn = Drawn(rng, nodes, seed)
    x, y = drawn.named("x", nodes[0]), drawn.named("y", nodes[0 if who in ("alone", "itself") else 1])
    asked = nodes[0] if who in ("owner", "itself") else nodes[-1]
    first = [drawn.append(x), drawn.append(y)]
    if who == "reads":
        first = [read(y), drawn.append(x), drawn.append(y), drawn.append(x)]
    back = max([2.0, *(mishap.until for mishap in mishaps)]) if not more else LATEST
    looked = back + SETTLED
    asks = {
        "alice": (ask(asked, *first, at=1.0),),
        "bob": (
            ask(nodes[1], read(x), read(y), at=looked),
            ask(nodes[0], drawn.append(y), read(x), drawn.append(x), at=looked + 2.5),
        ),
    }
    label = "; ".join(filter(None, (_label(mishaps), more))) or "No faults; messages take 2 ms"
    return plan(drawn, asks, looked + 8.5, label, mishaps, healed=LATEST if more else None)


def power_cut(rng: random.Random, seed: int, cut: float, slow: bool) -> Plan:
    """Several transactions, at one moment of which all nodes lose power for a second."""
    nodes = names(3)
    drawn = Drawn(rng, nodes, seed)
    x, y, z = (drawn.named(text, node) for text, node in zip("xyz", nodes, strict=True))
    asks = {
        "alice": (
            ask("n1", drawn.append(x), drawn.append(y), at=1.0),
            ask("n2", read(x), drawn.append(z), at=1.0),
            ask("n3", drawn.append(y), drawn.append(z), at=cut + 1 + SETTLED),
        ),
    }
    label = f"All nodes lose power at {cut:.4f} s, for a second"
    label += "; messages between n1 and n2 take 40 ms, others 1 to 2 ms" if slow else ""
    down = Mishap("crash", cut, cut + 1, (tuple(nodes),))
    return plan(drawn, asks, cut + 1 + 2 * SETTLED + 1, label, (down,))


def blink(rng: random.Random, shape: tuple[str, float], seed: int) -> Plan:
    """A transaction has read one key and is far from the owner of its second; the first key's owner crashes, and is up
    again 2 ms later; then another transaction on both keys comes."""
    what, at = shape
    nodes = names(4)
    drawn = Drawn(rng, nodes, seed)
    x, y = drawn.named("x", "n1"), drawn.named("y", "n2")
    asks = {
        "alice": (ask("n3", read(x), read(y) if what == "reads" else drawn.append(y), at=1.0),),
        "bob": (ask("n4", drawn.append(x), drawn.append(y) if what == "reads" else read(y), at=at + 0.004),),
    }
    label = f"n1 crashes at {at:.3f} s and is back 2 ms later; messages between n2 and n3 take 48 ms, others 1 to 2 ms"
    down = Mishap("crash", at, at + 0.002, (("n1",),))
    return plan(drawn, asks, at + SETTLED + 1, label, (down,))


def soon_again(rng: random.Random, at: float, seed: int) -> Plan:
    """A coordinator crashes while a transaction is under way, is up again 2 ms later, and is asked for another transaction
    of the same owners at once. One owner is far."""
    nodes = names(3)
    drawn = Drawn(rng, nodes, seed)
    x, y, z, w = (drawn.named(text, node) for text, node in (("x", "n1"), ("y", "n2"), ("z", "n1"), ("w", "n2")))
    asks = {
        "alice": (ask("n3", drawn.append(x), drawn.append(y), at=1.0),),
        "bob": (ask("n3", drawn.append(z), drawn.append(w), at=at + 0.003),),
    }
    label = f"n3 crashes at {at:.3f} s and is back 2 ms later; messages between n1 and n3 take 20 ms, others 1 to 2 ms"
    down = Mishap("crash", at, at + 0.002, (("n3",),))
    return plan(drawn, asks, at + SETTLED + 1, label, (down,))


def cut_off(rng: random.Random, shape: tuple[int, bool], seed: int) -> Plan:
    """Right after an owner's first message about a transaction, nobody reaches it for a long time. Maybe another owner is
    down meanwhile, so that the transaction cannot be committed."""
    count, aborted = shape
    nodes = names(count)
    drawn = Drawn(rng, nodes, seed)
    x, y = drawn.named("x", nodes[0]), drawn.named("y", nodes[1])
    asks = {
        "alice": (ask(nodes[-1], drawn.append(x), drawn.append(y), at=1.0),),
        "bob": (ask(nodes[0], read(x), at=5.0), ask(nodes[0], read(x), at=10.5)),
    }
    healed = 1.0 + LONG
    down = (Mishap("crash", 0.5, healed, ((nodes[1],),)),) if aborted else ()
    label = f"{nodes[0]} is cut off from 3 ms after its first message on, until {healed:g} s"
    label += f"; {nodes[1]} is down meanwhile" if aborted else ""
    return plan(drawn, asks, healed + SETTLED, label, down, healed=healed)


def cut_after_vote(played: Played) -> None:
    """What `cut_off` says of the network."""
    sim, alone = played.sim, played.plan.label.partition(" ")[0]
    others = tuple(name for name in sim.names if name != alone)
    healed = played.plan.healed or 0.0
    voted = False

    def look(node: str, step: Step) -> None:
        nonlocal voted
        said = any(effect[0] == "send" and effect[1] in others for effect in step.effects)
        if node == alone and not voted and 1.0 <= sim.time < 2.0 and said:
            voted = True
            sim.at(sim.time + 0.003, lambda: sim.partition((alone,), others))

    def route(sent: Sent) -> list[float] | None:
        """Its vote arrives before the cut, and no answer to it does."""
        if sent.sent < 1.0 or sent.sent >= healed:
            return None
        return [0.0015] if sent.src == alone else [0.02] if sent.dst == alone else None

    sim.on_step.append(look)
    sim.route = route


def unheard(rng: random.Random, seconds: float, seed: int) -> Plan:
    """A transaction of one owner, which gets all messages; but for so long its own do not arrive where it was asked."""
    nodes = names(3)
    drawn = Drawn(rng, nodes, seed)
    x, y = drawn.named("x", nodes[0]), drawn.named("y", nodes[0])
    healed = 1.0 + seconds
    asks = {
        "alice": (ask(nodes[1], drawn.append(x), drawn.append(y), at=1.0),),
        "bob": (ask(nodes[1], read(x), drawn.append(y), at=healed + SETTLED),),
    }
    label = f"messages from {nodes[0]} to {nodes[1]} from 0.9 to {healed:g} s are lost"
    return plan(drawn, asks, healed + 2 * SETTLED, label, healed=healed)


def only_read(rng: random.Random, owner: str, seed: int) -> Plan:
    """A transaction that only reads, after which what its coordinator tells an owner is lost; then one that appends."""
    drawn = Drawn(rng, names(3), seed)
    x, y = drawn.named("x", "n1"), drawn.named("y", "n2")
    later = 3.5 + SETTLED
    asks = {
        "alice": (ask("n3", read(x), read(y), at=1.0),),
        "carol": (ask("n1", drawn.append(x), drawn.append(y), at=later),),
    }
    label = f"messages from n3 to {owner} from 1.0035 to 3.5 s are lost"
    return plan(drawn, asks, later + 2.5, label, healed=3.5)


def _at_random(
    rng: random.Random, drawn: Drawn, keys: Sequence[Any], count: int, every: float, late: float
) -> dict[str, tuple[Ask, ...]]:
    """So many transactions of three clients on one to three of these keys: one in each so many seconds, up to `late`."""
    asks: dict[str, tuple[Ask, ...]] = {}
    for client in ("alice", "bob", "carol"):
        found = []
        for number in range(count):
            some = [rng.choice(keys) for _ in range(rng.randint(1, 3))]
            ops = [drawn.append(key) if rng.random() < 0.6 else read(key) for key in some]
            found.append(ask(rng.choice(drawn.nodes), *ops, at=1 + every * number + rng.uniform(0, late)))
        asks[client] = tuple(found)
    return asks


def bad_network(rng: random.Random, count: int, seed: int) -> Plan:
    """Until 10 s messages are lost, late and doubled, and links are cut; afterwards everything is read."""
    nodes = names(count)
    drawn = Drawn(rng, nodes, seed)
    keys = [drawn.key(rng.choice(nodes)) for _ in range(3)]
    asks = _at_random(rng, drawn, keys, 6, 1.2, 0.4)
    order = rng.sample(nodes, count)
    split = Mishap("partition", 3.0, 5.0, ((order[0],), tuple(order[1:])))
    label = "Up to 10 s messages between nodes are lost (10 %), come twice (15 %), or up to 1 s late"
    return plan(drawn, asks, 20.0 + SETTLED, label, (split,), network=Network(), healed=10.0)


badly = bad_messages(lost=0.1, twice=0.15, quick=0.7)  # as the label of `bad_network` says


def storm(rng: random.Random, count: int, seed: int) -> Plan:
    """Clients that want the same keys, while one node after another crashes."""
    nodes = names(count)
    drawn = Drawn(rng, nodes, seed)
    keys = [drawn.key(rng.choice(nodes)) for _ in range(3)]
    asks = _at_random(rng, drawn, keys, 8, 0.8, 0.2)
    mishaps, at = [], 1.0
    while at < 8.0:
        at += rng.uniform(0.2, 0.7)
        until = at + rng.choice((0.003, 0.05, 0.5))
        mishaps.append(Mishap("crash", at, until, (tuple(rng.sample(nodes, rng.randint(1, count))),)))
        at = until
    label = "Nodes crash one after another, at any time, and are back soon; messages take 1 to 50 ms"
    return plan(drawn, asks, at + 5.0 + SETTLED, label, tuple(mishaps), network=Network())


# ---- while others are absent


def absent(rng: random.Random, shape: tuple[int, int, str], seed: int) -> Plan:
    """So many of the nodes are down, or cut off from the others. Carol's transactions are on keys of the present nodes."""
    count, gone, how = shape
    nodes = ["n9", "n10", "n11", "n2", "n30"][:count]
    drawn = Drawn(rng, nodes, seed)
    away = rng.sample(nodes, gone)
    here = [node for node in nodes if node not in away]
    keys = [drawn.key(rng.choice(here)) for _ in range(3)]
    lost = drawn.key(rng.choice(away))
    asks = {
        "alice": (ask(away[0], *map(drawn.append, keys[:2]), at=1.0),),
        "bob": (ask(here[0], drawn.append(keys[0]), drawn.append(lost), at=7.0),),
        "carol": tuple(
            ask(rng.choice(here), *(drawn.append(key) if rng.random() < 0.6 else read(key) for key in rng.sample(keys, rng.randint(1, 3))),
                at=13.0 + 0.4 * number)
            for number in range(6)
        ),
    }  # fmt: skip
    if how == "down":
        mishap = Mishap("crash", 4.5, 22.0, (tuple(away),))
        label = f"{' and '.join(away)} {'is' if gone == 1 else 'are'} down from 4.5 to 22 s; messages take 1 to 50 ms"
    else:
        mishap = Mishap("partition", 4.5, 22.0, (tuple(away), tuple(here)))
        label = f"{' and '.join(away)} cannot be reached by the others from 4.5 to 22 s; messages take 1 to 50 ms"
    return plan(drawn, asks, 22.0 + SETTLED, label, (mishap,), network=Network())


def come_back(rng: random.Random, count: int, seed: int) -> Plan:
    """An owner and the node that is asked had crashed, and are up for 2 s when the next transaction comes; the owner had
    voted, and the coordinator had not finished. Another node stays down."""
    nodes = names(count)
    drawn = Drawn(rng, nodes, seed)
    x, y = drawn.named("x", nodes[0]), drawn.named("y", nodes[1])
    at = 1.0 + rng.uniform(0.004, 0.012)
    asks = {
        "alice": (ask(nodes[0], drawn.append(x), drawn.append(y), at=1.0),),
        "carol": (
            ask(nodes[1], read(x), drawn.append(y), at=8.1),
            ask(nodes[0], drawn.append(x), read(y), at=8.1),
        ),
    }
    mishaps = (
        Mishap("crash", at, 6.0, ((nodes[0],),)),
        Mishap("crash", 4.0, 6.0, ((nodes[1],),)),
        Mishap("crash", 0.5, 14.0, ((nodes[2],),)),
    )
    label = f"{nodes[0]} is down from {at:.3f} to 6 s, {nodes[1]} from 4 to 6 s, {nodes[2]} from 0.5 to 14 s"
    return plan(drawn, asks, 14.0 + SETTLED, label, mishaps, network=FAST)
