"""The ports and uplinks that messages hold while they move (see `grader.ranks.network`), and what keeps them back."""

from __future__ import annotations

import math
import operator

from grader.ranks.network import Network
from grader.ranks.sim.mishaps import Mishaps
from grader.ranks.sim.operations import Op

_by_posting = operator.attrgetter("posted", "rank", "number")


class Links:
    """Which messages move. Ports are numbered: 2r is rank r's outgoing, 2r + 1 its incoming one; then the uplinks'."""

    def __init__(self, ranks: int, network: Network, mishaps: Mishaps | None) -> None:
        self.network, self.mishaps = network, mishaps
        self._uplinks_from = 2 * ranks  # the number of the first outgoing uplink
        self._plain = not network.ranks_per_node and mishaps is None
        self._busy: set[int] = set()
        self._waiting: list[Op] = []
        self.look_again = math.inf  # when a partition that keeps a message waiting is over

    def clear(self) -> None:
        self._busy.clear()
        self._waiting.clear()

    def __bool__(self) -> bool:
        """Whether a message is ready to go and does not move yet."""
        return bool(self._waiting)

    def queue(self, send: Op) -> None:
        """A message is ready to go."""
        self._waiting.append(send)

    def start(self, now: float) -> list[tuple[float, Op]]:
        """Let every message move whose ports are free, the first posted first. Returns when each will be over."""
        busy, moving, later = self._busy, [], []
        alpha, beta, plain = self.network.alpha, self.network.beta, self._plain
        self.look_again = math.inf
        self._waiting.sort(key=_by_posting)
        for send in self._waiting:
            out, into = 2 * send.rank, 2 * send.peer + 1
            if out in busy or into in busy:
                later.append(send)
                continue
            cost = alpha + send.size * beta if plain else self._cost(send, now)
            if cost is None:
                later.append(send)
                continue
            busy.add(out)
            busy.add(into)
            send.start = now
            if send.partner is not None:
                send.partner.start = now
            moving.append((now + cost, send))
        self._waiting = later
        return moving

    def _cost(self, send: Op, now: float) -> float | None:
        """Seconds that a message takes from now on, with its uplinks then held; None if it cannot go yet."""
        uplinks = self._uplinks(send)
        if not self._busy.isdisjoint(uplinks):
            return None
        cost = self.network.cost(send.rank, send.peer, send.size)
        if self.mishaps is not None:
            until = self.mishaps.cut_until((send.rank, send.peer), now)
            if until > now:
                self.look_again = min(self.look_again, until)
                return None
            cost *= self.mishaps.slowness(send.rank, send.peer)
        self._busy.update(uplinks)
        return cost

    def free(self, send: Op) -> None:
        """A message has arrived."""
        self._busy.discard(2 * send.rank)
        self._busy.discard(2 * send.peer + 1)
        if not self._plain:
            self._busy.difference_update(self._uplinks(send))

    def _uplinks(self, send: Op) -> tuple[int, ...]:
        """The uplinks that a message holds."""
        if not self.network.crosses(send.rank, send.peer):
            return ()
        uplink = self.network.uplink
        return self._uplinks_from + 2 * uplink(send.rank), self._uplinks_from + 2 * uplink(send.peer) + 1
