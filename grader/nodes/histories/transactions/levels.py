"""Levels of isolation, and the anomalies that each forbids.

After Adya, "Weak Consistency: A Generalized Theory and Optimistic Implementations for Distributed Transactions" (1999),
and Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations" (2020):

- read-uncommitted (PL-1): no G0. Writes of two transactions are not interleaved.
- read-committed (PL-2): also no G1: G1a (aborted reads), G1b (intermediate reads), G1c (circular information flow).
- snapshot-isolation (PL-SI, by its graph: Cerone and Gotsman 2018): also no cycle but those with two rw one after the
  other, so no G-single and no G-nonadjacent; and no lost update. Write skew is allowed.
- repeatable-read (PL-2.99): also no G2-item, that is, no cycle with rw edges of items. Predicates may show phantoms, of
  which these histories have none, so that it forbids here what serializable does. (The word means less in some
  databases: what MySQL calls so allows lost updates, and PostgreSQL's is snapshot isolation.)
- serializable (PL-3): no cycle of ww, wr and rw at all (Bernstein, Hadzilacos and Goodman 1987).
- strong-session-snapshot-isolation, strong-session-serializable: also no such cycle with the order of sessions
  (Daudjee and Salem 2004, 2006).
- strong-snapshot-isolation, strict-serializable (Papadimitriou 1979; Herlihy and Wing 1990): also no such cycle with
  the order of real time.

On all levels every read is of what somebody wrote ("unwritten"), and a transaction sees its own writes ("internal"; for
Adya that is part of what a history is). No version is there twice ("duplicate-elements"), and the appends of one
transaction to one key are there in its order ("torn-append"). Two reads that are no beginnings of one another
("incompatible-order") hold a version that was taken back, and versions in a circle ("cyclic-versions") have no order in
which they were committed: hence read committed forbids both.
"""

from __future__ import annotations

from dataclasses import dataclass

_G1 = ("G1a", "G1b", "G1c", "incompatible-order", "cyclic-versions")
_ALWAYS = ("G0", "internal", "unwritten", "duplicate-elements", "torn-append")
_SNAPSHOT = (*_ALWAYS, *_G1, "lost-update", "G-single", "G-nonadjacent")
_SERIALIZABLE = (*_SNAPSHOT, "G2-item")
_CYCLES = ("G0", "G1c", "G-single", "G-nonadjacent", "G2-item")
PROCESS, REALTIME = "-process", "-realtime"


@dataclass(frozen=True)
class Level:
    """A level: the kinds of anomalies it forbids, and the orders that its cycles may go along."""

    name: str
    forbids: frozenset[str]
    sessions: bool = False
    real_time: bool = False


def _level(name: str, forbids: tuple[str, ...], *suffixes: str) -> Level:
    more = {kind + suffix for kind in forbids if kind in _CYCLES for suffix in suffixes}
    return Level(name, frozenset(forbids) | more, bool(suffixes), REALTIME in suffixes)


LEVELS = {
    level.name: level
    for level in (
        _level("read-uncommitted", _ALWAYS),
        _level("read-committed", (*_ALWAYS, *_G1)),
        _level("snapshot-isolation", _SNAPSHOT),
        _level("repeatable-read", _SERIALIZABLE),
        _level("serializable", _SERIALIZABLE),
        _level("strong-session-snapshot-isolation", _SNAPSHOT, PROCESS),
        _level("strong-session-serializable", _SERIALIZABLE, PROCESS),
        _level("strong-snapshot-isolation", _SNAPSHOT, PROCESS, REALTIME),
        _level("strict-serializable", _SERIALIZABLE, PROCESS, REALTIME),
    )
}


def level(name: str) -> Level:
    """The level of this name. Raises ValueError for one that there is not."""
    if name not in LEVELS:
        raise ValueError(f"no isolation level is called {name!r}; there are {', '.join(LEVELS)}")
    return LEVELS[name]
