"""What becomes of messages in a run, as its label says it."""

from __future__ import annotations

import re

from grader.nodes.plan import Played
from grader.trace.story import Sent

LINK = re.compile(r"between (\w+) and (\w+) take (\d+) ms")
EVERY = re.compile(r"between nodes take (\d+) ms")
NUMBERED = re.compile(r"message (\d+) between nodes (is lost|comes 3 s late|comes again 3 s later|comes twice)")
FROM_TO = re.compile(r"from (\w+) to (\w+) from ([\d.]+) to ([\d.]+) s (are lost|come 4 s late|come again 4 s later)")
SINCE, UNTIL = 0.9, 3.0  # seconds, between which messages are counted


def as_told(played: Played) -> None:
    """Let messages between nodes fare as the run's label says."""
    label, sim = played.plan.label, played.sim
    links = {frozenset(link.groups()[:2]): int(link[3]) / 1000 for link in LINK.finditer(label)}
    every = EVERY.search(label)
    fates = {int(one[1]): one[2] for one in NUMBERED.finditer(label)}
    spans = [(one[1], one[2], float(one[3]), float(one[4]), one[5]) for one in FROM_TO.finditer(label)]
    count = 0

    def route(sent: Sent) -> list[float] | None:
        nonlocal count
        counted = SINCE <= sent.sent < UNTIL
        count += counted
        fate = fates.get(count, "") if counted else ""
        fate = fate or next((f for a, b, t, u, f in spans if (sent.src, sent.dst) == (a, b) and t <= sent.sent < u), "")
        delay = links.get(frozenset((sent.src, sent.dst)), int(every[1]) / 1000 if every else 0.002)
        match fate.partition(" ")[2]:
            case "lost":
                return []
            case "3 s late":
                return [3.0 + delay]
            case "4 s late":
                return [4.0 + delay]
            case "again 3 s later":
                return [delay, 3.0 + delay]
            case "again 4 s later":
                return [delay, 4.0 + delay]
            case "twice":
                return [delay, delay + 0.0005]
        return [delay] if links or every or fates or spans else None

    sim.route = route
