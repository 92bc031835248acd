"""Clusters built so that one rule decides: what each job does there is written beside it.

Letters stand for teams and names for jobs; both are replaced by fresh ones, and all times are scaled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

# name, team, time of the submit, nodes, priority, bound in seconds, actual seconds (0: the bound)
Row = tuple[str, str, float, int, int, float, float]
# time, time of the repair, a job on whose first node it happens, or the rack and place of a node
Fault = tuple[float, float, str | tuple[int, int]]


@dataclass(frozen=True)
class Situation:
    """One trace of the group of a check. Racks are given by their sizes."""

    group: str
    label: str
    racks: tuple[int, ...]
    quotas: dict[str, int]
    jobs: Sequence[Row]
    faults: Sequence[Fault] = field(default=())
    names: int = 0  # 1: the jobs' names are in the order of the rows, -1: in the other; 0: in no order


NODES = (
    Situation("nodes", "a job as large as the cluster", (1, 3, 5), {"A": 2, "B": 0}, (
        ("small", "A", 0, 2, 0, 8, 0),
        ("whole", "B", 1, 9, 5, 6, 5),  # waits for all nodes, of racks of different sizes
        ("later", "A", 2, 1, 0, 20, 0),  # is within no quota, and would hold up the whole
        ("last", "A", 30, 3, 0, 4, 0),
    )),
    Situation("nodes", "a job ends as another comes that needs all nodes", (2, 2), {"A": 4}, (
        ("first", "A", 0, 4, 0, 10, 10),
        ("second", "A", 10, 4, 0, 10, 5),  # submitted at the very time, after finished
        ("third", "A", 15, 4, 0, 10, 5),
    )),
)  # fmt: skip

RACKS = (
    Situation("racks", "each job fits one rack", (2, 1, 4), {"A": 7}, (
        ("four", "A", 0, 4, 0, 20, 0),  # not the first four of the list
        ("two", "A", 1, 2, 0, 20, 0),
        ("one", "A", 2, 1, 0, 20, 0),
        ("again", "A", 25, 4, 0, 5, 0),
    )),
    Situation("racks", "the rack is free only after a preemption", (2, 3), {"A": 0, "B": 3}, (
        ("old", "A", 0, 3, 0, 50, 0),  # fills the rack of three
        ("side", "A", 1, 1, 4, 50, 0),
        ("new", "B", 2, 3, 0, 10, 0),  # preempts old, and takes its rack
    )),
    Situation("racks", "no rack is large enough", (2, 2, 2), {"A": 6}, (
        ("wide", "A", 0, 3, 0, 10, 0),
        ("pair", "A", 1, 2, 0, 10, 0),
        ("all", "A", 2, 6, 0, 10, 0),
    )),
)  # fmt: skip

QUOTA = (
    Situation("quota", "a quota counts nodes", (6,), {"A": 3, "B": 3}, (
        ("mine", "A", 0, 2, 0, 100, 0),
        ("lent", "B", 0, 4, 0, 100, 60),  # borrowed, 4 > 3
        ("over", "A", 1, 2, 0, 100, 10),  # 2 + 2 > 3
        ("fits", "A", 2, 1, 0, 100, 10),  # 2 + 1 = 3: preempts
    )),
    Situation("quota", "a job within quota goes before the first in the queue", (4,), {"A": 2, "B": 2}, (
        ("stays", "A", 0, 2, 0, 60, 0),
        ("ends", "B", 0, 2, 0, 10, 0),
        ("first", "A", 1, 2, 9, 20, 0),  # over quota, waits first
        ("due", "B", 2, 2, 0, 20, 0),  # starts when ends has finished
    )),
    Situation("quota", "a job within quota takes its nodes back", (3, 3), {"A": 4, "B": 2}, (
        ("guest", "B", 0, 6, 9, 50, 0),
        ("owner", "A", 3, 4, 0, 20, 0),  # preempts at its submit
        ("more", "A", 4, 1, 0, 5, 0),  # over quota
    )),
    Situation("quota", "a team gets back within quota when its job ends", (6,), {"A": 3, "B": 0}, (
        ("short", "A", 0, 1, 0, 9, 0),
        ("guest", "B", 0, 5, 5, 60, 0),
        ("big", "A", 1, 3, 0, 20, 0),  # 1 + 3 > 3 until short ends, then it preempts
    )),
    Situation("quota", "a team gets back within quota when its job is preempted", (8,), {"A": 4, "B": 4}, (
        ("high", "A", 0, 4, 5, 200, 100),
        ("low", "A", 1, 4, 1, 200, 50),  # borrowed
        ("left", "B", 2, 2, 0, 30, 0),  # preempts low: two nodes stay free
        ("right", "B", 3, 2, 0, 30, 0),
    )),
    Situation("quota", "rules 1 and 2 in turn until nothing changes", (6,), {"A": 2, "B": 2}, (
        ("all", "A", 0, 6, 9, 10, 0),
        ("one", "A", 1, 2, 9, 30, 0),  # starts by rule 1 when all has ended
        ("two", "B", 2, 2, 0, 30, 0),  # so does this, before more
        ("more", "A", 3, 2, 9, 30, 0),
        ("rest", "B", 4, 2, 1, 30, 0),
    )),
)  # fmt: skip

TIE = Situation("preemption", "starts of one time count in the order of the list", (6,), {"A": 0, "B": 3, "C": 2, "U": 0}, (
    ("guest", "A", 0, 6, 0, 200, 50),
    ("u", "U", 1, 2, 1, 200, 50),
    ("b", "B", 5, 3, 1, 200, 50),  # preempts guest; at the same time, but after b, u starts
    ("high", "B", 6, 1, 5, 200, 50),  # now b is borrowed
    ("claim", "C", 7, 1, 0, 20, 0),  # preempts u
), names=1)  # fmt: skip
PREEMPTION = (
    Situation("preemption", "the last taken is enough alone", (3, 3), {"A": 0, "B": 4}, (
        ("tiny", "A", 0, 1, 0, 90, 40),
        ("small", "A", 1, 1, 1, 90, 40),
        ("large", "A", 2, 4, 2, 90, 40),
        ("claim", "B", 3, 4, 0, 20, 0),  # takes tiny, small, then large; spares small, then also tiny
    )),
    Situation("preemption", "spared from the last taken to the first", (7,), {"A": 0, "B": 5}, (
        ("x", "A", 0, 2, 0, 90, 40),
        ("y", "A", 1, 2, 1, 90, 40),  # spared
        ("z", "A", 2, 3, 2, 90, 40),
        ("claim", "B", 3, 5, 0, 20, 0),
    )),
    Situation("preemption", "of one priority, the latest start first", (8,), {"B": 3, "W": 1, "U": 0}, (
        ("filler", "U", 0, 6, 5, 10, 0),
        ("u", "U", 1, 3, 1, 200, 50),  # submitted before w, starts after it
        ("w", "W", 2, 1, 1, 200, 50),
        ("high", "W", 11, 1, 5, 200, 50),  # now w is borrowed
        ("crowd", "U", 12, 3, 5, 200, 50),
        ("claim", "B", 13, 1, 0, 20, 0),  # preempts u
    )),
    TIE, replace(TIE, names=-1),
    Situation("preemption", "an important job pushes an earlier one over the quota", (4,), {"A": 2, "B": 2}, (
        ("low", "A", 0, 2, 0, 90, 60),  # within quota when it starts
        ("high", "A", 1, 2, 5, 90, 60),
        ("claim", "B", 2, 2, 0, 10, 0),  # preempts low, not high
    )),
    Situation("preemption", "what is within quota is safe", (4,), {"A": 2, "B": 2}, (
        ("high", "A", 0, 2, 5, 90, 30),
        ("low", "A", 1, 2, 0, 90, 60),
        ("wide", "B", 2, 3, 9, 10, 0),  # over quota: waits as the first
        ("claim", "B", 3, 2, 0, 10, 0),
    )),
    Situation("preemption", "never enough", (6,), {"A": 2, "B": 4}, (
        ("safe", "A", 0, 2, 0, 90, 30),
        ("own", "B", 0, 1, 0, 90, 30),
        ("odd", "A", 1, 2, 0, 90, 20),  # borrowed
        ("plug", "B", 2, 1, 0, 90, 30),
        ("claim", "B", 3, 4, 9, 10, 0),  # over quota
        ("other", "B", 4, 2, 0, 10, 0),  # preempts odd alone
    )),
    Situation("preemption", "priority alone preempts nobody", (4,), {"A": 0, "B": 1}, (
        ("guest", "A", 0, 4, 0, 20, 0),
        ("boss", "B", 1, 2, 99, 10, 0),  # over quota
        ("claim", "B", 2, 1, 0, 10, 0),  # within
    )),
    Situation("preemption", "free nodes count", (5,), {"A": 0, "B": 3}, (
        ("p", "A", 0, 1, 0, 90, 30),
        ("q", "A", 1, 1, 1, 90, 30),
        ("r", "A", 2, 1, 2, 90, 30),  # two nodes are free
        ("claim", "B", 3, 3, 0, 10, 0),  # preempts p alone
        ("late", "A", 4, 1, 3, 10, 0),
    )),
    Situation("preemption", "a job within quota of a team that borrows is safe", (5,), {"A": 2, "B": 3, "C": 0}, (
        ("safe", "A", 0, 2, 1, 90, 30),
        ("odd", "A", 1, 1, 0, 90, 30),
        ("guest", "C", 2, 2, 3, 90, 30),  # more important than safe, but borrowed
        ("claim", "B", 3, 3, 0, 10, 0),  # odd, guest
    )),
    Situation("preemption", "of two teams, by priority", (8,), {"A": 1, "B": 4, "C": 1}, (
        ("a1", "A", 0, 2, 3, 90, 40),  # borrowed as a whole
        ("c1", "C", 1, 2, 1, 90, 40),
        ("a2", "A", 2, 2, 1, 90, 40),  # later than c1
        ("c2", "C", 3, 2, 4, 90, 40),
        ("claim", "B", 4, 4, 0, 10, 0),  # a2, c1
    )),
)  # fmt: skip

QUEUE = (
    Situation("queue", "priority, then submit", (4,), {"A": 0, "B": 0}, (
        ("now", "A", 0, 4, 0, 10, 0),
        ("low", "A", 1, 4, 0, 10, 0),
        ("mid", "B", 2, 4, 3, 10, 0),
        ("also", "A", 3, 4, 3, 10, 0),
        ("high", "B", 4, 4, 7, 10, 0),
    )),
    Situation("queue", "several start at once", (3, 3), {"A": 0}, (
        ("now", "A", 0, 6, 0, 10, 0),
        ("one", "A", 1, 2, 0, 30, 0),
        ("two", "A", 2, 2, 0, 20, 0),
        ("three", "A", 3, 2, 0, 10, 0),
        ("four", "A", 4, 2, 0, 10, 0),
    )),
    Situation("queue", "a preempted job keeps its place", (4,), {"A": 0, "B": 2}, (
        ("old", "A", 0, 4, 1, 50, 20),
        ("next", "A", 1, 2, 1, 80, 10),  # behind old: would hold it up
        ("claim", "B", 2, 2, 0, 10, 0),  # preempts old
    )),
    Situation("queue", "a preempted job goes before a later one of its priority", (4,), {"A": 0, "B": 2}, (
        ("old", "A", 0, 3, 1, 50, 20),
        ("next", "A", 1, 3, 1, 50, 10),
        ("claim", "B", 2, 2, 0, 10, 0),  # preempts old; then neither of the two fits
    )),
    Situation("queue", "two jobs within quota, nodes for one", (2,), {"A": 0, "B": 1, "C": 1, "D": 0}, (
        ("now", "A", 0, 1, 0, 10, 0),
        ("wall", "B", 0, 1, 9, 40, 0),  # safe, within quota
        ("late", "C", 4, 1, 0, 10, 0),  # preempts now
        ("more", "C", 5, 1, 7, 10, 0),
        ("less", "C", 6, 1, 2, 10, 0),
        ("same", "C", 7, 1, 7, 10, 0),
    )),
    Situation("queue", "rule 1 in queue order across teams", (4,), {"A": 2, "B": 2}, (
        ("wall", "A", 0, 2, 9, 10, 0),
        ("wide", "B", 0, 2, 9, 10, 0),
        ("early", "A", 1, 2, 0, 10, 0),
        ("high", "A", 2, 2, 4, 10, 0),
        ("other", "B", 3, 2, 2, 10, 0),
    )),
)  # fmt: skip

BACKFILL = (
    Situation("backfill", "it must end in time", (6,), {"A": 0}, (
        ("runs", "A", 0, 4, 0, 20, 20),
        ("first", "A", 1, 6, 5, 10, 0),  # at 20
        ("long", "A", 2, 2, 0, 60, 5),  # would hold it up by its bound
        ("short", "A", 3, 2, 0, 17, 5),  # may: ends at 20
        ("also", "A", 4, 1, 0, 17, 5),  # may not: ends at 21
    )),
    Situation("backfill", "nodes that are not needed then", (6,), {"A": 0}, (
        ("runs", "A", 0, 3, 0, 20, 20),
        ("first", "A", 1, 4, 5, 10, 0),  # at 20, when 6 are free
        ("two", "A", 2, 2, 0, 90, 5),  # may
        ("one", "A", 2, 1, 0, 90, 5),  # may, if two does not
    )),
    Situation("backfill", "what runs has run for some time", (6,), {"A": 0}, (
        ("runs", "A", 0, 4, 0, 40, 40),
        ("first", "A", 30, 6, 5, 10, 0),  # at 40
        ("long", "A", 31, 2, 0, 20, 5),  # until 51
        ("tail", "A", 32, 2, 0, 8, 5),  # until 40: may
    )),
    Situation("backfill", "the first needs only some of what runs", (6,), {"A": 0}, (
        ("soon", "A", 0, 2, 0, 10, 10),
        ("far", "A", 0, 2, 0, 90, 30),
        ("first", "A", 1, 4, 5, 10, 0),  # at 10
        ("mid", "A", 2, 2, 0, 40, 5),  # before far ends, after soon
    )),
    Situation("backfill", "jobs end before their bounds", (6,), {"A": 0}, (
        ("runs", "A", 0, 4, 0, 50, 12),
        ("first", "A", 1, 5, 5, 10, 4),
        ("long", "A", 2, 2, 0, 49, 20),  # until 51 by its bound
        ("even", "A", 3, 2, 0, 47, 20),  # until 50: may
        ("next", "A", 14, 1, 0, 30, 20),
    )),
    Situation("backfill", "what was backfilled runs, too", (8,), {"A": 0}, (
        ("runs", "A", 0, 4, 0, 30, 30),
        ("first", "A", 1, 6, 5, 10, 0),  # at 30, when 8 are free: 2 are not needed
        ("b1", "A", 2, 2, 0, 90, 10),  # may
        ("b2", "A", 3, 2, 0, 90, 10),  # may not, if b1 runs
        ("b3", "A", 4, 1, 0, 26, 10),  # may: ends in time
    )),
    Situation("backfill", "several could go before the first, but not together", (4, 4), {"A": 0}, (
        ("r1", "A", 0, 4, 9, 30, 30),
        ("r2", "A", 0, 4, 9, 20, 10),
        ("first", "A", 1, 6, 5, 10, 0),  # at 30, when 8 are free: 2 are not needed
        ("b1", "A", 2, 2, 0, 90, 10),
        ("b2", "A", 3, 2, 0, 90, 10),  # when r2 has finished: b1 or b2
    )),
    Situation("backfill", "a preempted job needs its full time again", (6,), {"A": 0, "B": 1}, (
        ("anew", "A", 0, 3, 0, 60, 50),  # preempted at 3, starts again at 6: until 66
        ("runs", "A", 0, 2, 9, 63, 40),
        ("ends", "A", 0, 1, 9, 6, 6),
        ("claim", "B", 3, 1, 0, 5, 5),
        ("first", "A", 11, 3, 5, 10, 0),  # at 63, with the nodes of runs: none is left
        ("long", "A", 12, 1, 0, 80, 5),  # if anew had only until 60, one would be left
    )),
)  # fmt: skip

FAILURES = (
    Situation("failures", "within quota, but a node is missing", (2, 2), {"A": 1, "B": 3}, (
        ("safe", "A", 0, 1, 9, 40, 30),
        ("odd", "A", 1, 1, 0, 40, 30),
        ("claim", "B", 5, 3, 0, 10, 0),  # one node too few: preempts nobody before the node is repaired
    ), ((2, 20, (0, 0)), (3, 12, (1, 0)))),
    Situation("failures", "the job whose node failed is first in the queue", (4,), {"A": 0, "B": 0}, (
        ("low", "A", 0, 4, 0, 30, 20),
        ("high", "B", 2, 4, 9, 10, 0),
    ), ((5, 10, "low"),)),
    Situation("failures", "the last that failed is the first", (3, 3), {"A": 0}, (
        ("x", "A", 0, 3, 3, 40, 20),
        ("y", "A", 1, 3, 0, 40, 20),
        ("z", "A", 2, 3, 9, 40, 20),
    ), ((5, 60, "x"), (6, 50, "y"))),
    Situation("failures", "the other nodes of the job are free", (4,), {"A": 0, "S": 3}, (
        ("x", "A", 0, 4, 0, 30, 20),
        ("s", "S", 6, 3, 0, 20, 10),  # within quota, on the other three
    ), ((5, 12, "x"),)),
    Situation("failures", "a failed node is used again only when it is repaired", (2, 2), {"A": 4}, (
        ("all", "A", 2, 4, 0, 10, 0),
        ("few", "A", 3, 2, 0, 20, 15),
        ("more", "A", 4, 1, 0, 20, 15),
    ), ((1, 9, (0, 0)),)),
    Situation("failures", "a rack with a failed node", (3, 3), {"A": 6}, (
        ("three", "A", 2, 3, 0, 20, 0),
        ("two", "A", 3, 2, 0, 20, 0),
    ), ((1, 15, (0, 1)),)),
    Situation("failures", "a job begins anew", (4,), {"A": 0}, (
        ("x", "A", 0, 3, 5, 40, 30),  # starts again at 10, until 50 by its bound
        ("first", "A", 11, 4, 4, 10, 0),
        ("long", "A", 12, 1, 0, 39, 5),  # until 51
        ("short", "A", 13, 1, 0, 37, 5),  # until 50: may
    ), ((8, 10, "x"), (8, 10, (0, 0)))),
    Situation("failures", "a job fails twice", (2, 2), {"A": 4}, (
        ("x", "A", 0, 2, 9, 60, 40),
        ("y", "A", 1, 2, 0, 60, 40),
        ("z", "A", 2, 2, 5, 60, 10),
    ), ((5, 7, "x"), (10, 12, "y"), (20, 30, "y"), (21, 32, "x"))),
    Situation("failures", "a job ends as its node fails", (2,), {"A": 2}, (
        ("x", "A", 0, 2, 0, 10, 10),  # finished comes first
        ("y", "A", 3, 2, 0, 10, 5),
    ), ((10, 14, (0, 0)),)),
)  # fmt: skip

ENDS = (
    Situation("ends", "a job that is preempted again and again", (4,), {"A": 0, "B": 4}, (
        ("guest", "A", 0, 2, 0, 30, 25),
        *((f"own{number}", "B", 5.0 + 12 * number, 4, 0, 6, 4) for number in range(12)),
    )),
    Situation("ends", "a job whose node fails again and again", (3,), {"A": 3}, (
        ("x", "A", 0, 3, 0, 30, 25),
    ), tuple((5.0 + 12 * number, 9.0 + 12 * number, "x") for number in range(12))),
)  # fmt: skip

SITUATIONS: tuple[Situation, ...] = (*NODES, *RACKS, *QUOTA, *PREEMPTION, *QUEUE, *BACKFILL, *FAILURES, *ENDS)
