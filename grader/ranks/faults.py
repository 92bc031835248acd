"""Faults that befall simulated ranks and links. Plain data, without torch.

kill:2@op=5          rank 2 is gone when it begins its 5th operation (counted from 1)
kill:2@compute=3     ... halfway through its 3rd compute() that has a name
kill:2@t=10ms        ... at that virtual time; `,silent`: its peers see nothing instead of a closed connection
slow:2x4             everything that rank 2 computes and sends takes 4 times as long
slow:0-1x10          so does every message from rank 0 to rank 1
delay:0-1=5ms@op=3   the 3rd message from rank 0 to rank 1 comes 5 ms late; every one without `@op`
drop:0-1@op=3        the 3rd message from rank 0 to rank 1 is lost; every one without `@op`
partition:0,1|2,3@t=1ms..5ms    no message passes between the sides in that time; for ever without an end
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from grader.ranks.network import BadNetwork, seconds

KINDS = ("kill", "slow", "delay", "drop", "partition")


@dataclass(frozen=True)
class Fault:
    """One fault. `rank` is the rank, or a link's source where `peer` >= 0.

    `op` is the operation or message it befalls, and `compute` the named compute() that a kill does, counted from 1
    (0: not by count); `since` and `until` are virtual seconds; `seconds` is a delay, `factor` a slow-down. `sides` are
    a partition's.
    """

    kind: str
    rank: int = -1
    peer: int = -1
    op: int = 0
    since: float = 0.0
    until: float = math.inf
    seconds: float = 0.0
    factor: float = 1.0
    silent: bool = False
    sides: tuple[tuple[int, ...], ...] = ()
    compute: int = 0

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "until": None if self.until == math.inf else self.until}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Fault:
        sides = tuple(tuple(side) for side in data["sides"])
        return cls(**{**data, "until": math.inf if data["until"] is None else data["until"], "sides": sides})

    def told(self) -> str:
        """What happened, for people: "rank 2 was killed at its operation 5"."""
        if self.kind == "kill":
            when = f"at its operation {self.op}" if self.op else f"at {self.since:g} s"
            return f"rank {self.rank} was killed " + (f"in its compute() {self.compute}" if self.compute else when)
        if self.kind == "partition":
            sides = " from ".join(f"rank{'s' * (len(side) > 1)} {', '.join(map(str, side))}" for side in self.sides)
            until = " on" if self.until == math.inf else f" to {self.until:g} s"
            return f"a partition separated {sides} from {self.since:g} s{until}"
        what = f"rank {self.rank}" if self.peer < 0 else f"the link from rank {self.rank} to rank {self.peer}"
        if self.kind == "slow":
            return f"{what} was {self.factor:g} times as slow"
        message = f"message {self.op}" if self.op else "every message"
        lost = "was lost" if self.kind == "drop" else f"came {self.seconds:g} s late"
        return f"{message} from rank {self.rank} to rank {self.peer} {lost}"


def kills(faults: Sequence[Fault]) -> dict[int, Fault]:
    """By rank, the fault that kills it: of several by time the first to come, or else the first that is named."""
    found: dict[int, Fault] = {}
    for fault in sorted(faults, key=lambda fault: fault.since):
        if fault.kind == "kill":
            found.setdefault(fault.rank, fault)
    return found


_PATTERNS = {
    "kill": r"(?P<rank>\d+)@(?:op=(?P<op>\d+)|compute=(?P<compute>\d+)|t=(?P<since>[^,]+))(?P<silent>,silent)?",
    "slow": r"(?P<rank>\d+)(?:-(?P<peer>\d+))?x(?P<factor>[0-9.]+)",
    "delay": r"(?P<rank>\d+)-(?P<peer>\d+)=(?P<seconds>[^@]+)(?:@op=(?P<op>\d+))?",
    "drop": r"(?P<rank>\d+)-(?P<peer>\d+)(?:@op=(?P<op>\d+))?",
    "partition": r"(?P<left>\d+(?:,\d+)*)\|(?P<right>\d+(?:,\d+)*)(?:@t=(?P<since>.+?)(?:\.\.(?P<until>.+))?)?",
}
_EXAMPLES = {
    "kill": "kill:2@op=5, kill:2@compute=3 or kill:2@t=10ms",
    "slow": "slow:2x4 or slow:0-1x10",
    "delay": "delay:0-1=5ms or delay:0-1=5ms@op=3",
    "drop": "drop:0-1 or drop:0-1@op=3",
    "partition": "partition:0,1|2,3@t=1ms..5ms",
}


def parse(text: str, ranks: int) -> Fault:
    """A fault in a world of `ranks`, as the module's head describes them. Raises BadNetwork with a sentence."""
    kind, _, rest = text.partition(":")
    if kind not in KINDS:
        raise BadNetwork(f"no fault is called {kind!r}; write for example {', '.join(_EXAMPLES.values())}")
    found = re.fullmatch(_PATTERNS[kind], rest)
    if found is None:
        raise BadNetwork(f"{text!r} is not a fault; write {_EXAMPLES[kind]}")
    told = {key: value for key, value in found.groupdict().items() if value is not None}
    fault = Fault(
        kind,
        rank=int(told.get("rank", -1)),
        peer=int(told.get("peer", -1)),
        op=int(told.get("op", 0)),
        compute=int(told.get("compute", 0)),
        since=seconds(told["since"]) if "since" in told else 0.0,
        until=seconds(told["until"]) if "until" in told else math.inf,
        seconds=seconds(told["seconds"]) if "seconds" in told else 0.0,
        factor=_factor(told.get("factor", "1")),
        silent="silent" in told,
        sides=tuple(tuple(int(rank) for rank in told[side].split(",")) for side in ("left", "right") if side in told),
    )
    mentioned = [fault.rank, fault.peer, *(rank for side in fault.sides for rank in side)]
    wrong = next((rank for rank in mentioned if rank >= ranks), None)
    if wrong is not None:
        raise BadNetwork(f"{text!r} names rank {wrong}, but the world has ranks 0 to {ranks - 1}")
    if set(fault.sides[0] if fault.sides else ()) & set(fault.sides[1] if fault.sides else ()):
        raise BadNetwork(f"{text!r} has the same rank on both sides")
    return fault


def _factor(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise BadNetwork(f"{text!r} is not a slowdown such as 4 or 1.5")
    return value
