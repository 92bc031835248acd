"""Random small programs for ranks, from a seed: written to finish (see `writer`), and half of them then broken.

`broken` says what was done to one that may not finish.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from fuzz.breaker import Breaker
from fuzz.writer import Writer, render
from grader.ranks.network import ROUNDS, Network
from grader.ranks.program import Program


@dataclass(frozen=True)
class Fuzzed:
    """A program and how to run it. `broken` names what was done to it; empty: it finishes, unless faults befall it."""

    seed: int
    source: str
    ranks: int
    calls: int
    network: Network
    faults: tuple[str, ...]
    broken: tuple[str, ...]

    @property
    def program(self) -> Program:
        return Program.of(self.source, "learner.py", "f", ())

    def __str__(self) -> str:
        numbered = "\n".join(f"{i:3} {line}" for i, line in enumerate(self.source.splitlines(), 1))
        how = f"{self.ranks} ranks, {self.calls} calls, {self.network}, faults {self.faults}, broken by {self.broken}"
        return f"seed {self.seed}: {how}\n{numbered}"


def _network(draw: random.Random) -> Network:
    eager = draw.choice((-1, -1, 0, 8, 64))
    alpha, beta = draw.choice((0.0, 1.0, 1.0, 1e-6)), draw.choice((0.0, 0.25, 1e-9))
    if draw.random() < 0.3:
        return Network(alpha, beta, eager, draw.randint(1, 3), 10 * alpha, 2 * beta)
    return Network(alpha, beta, eager)


def _faults(draw: random.Random, ranks: int) -> tuple[str, ...]:
    def one() -> str:
        a, b = draw.sample(range(ranks), 2)
        op, time = draw.randint(1, 6), draw.choice((0, 0.5, 1, 2, 3, 7.5))
        silent, once = draw.choice(("", "", ",silent")), draw.choice(("", f"@op={draw.randint(1, 2)}"))
        cut = draw.randint(1, ranks - 1)
        sides = "|".join(",".join(map(str, side)) for side in (range(cut), range(cut, ranks)))
        return draw.choice(
            (
                f"kill:{a}@op={op}{silent}", f"kill:{a}@t={time}{silent}", f"slow:{a}x{draw.choice((0.5, 2, 10))}",
                f"slow:{a}-{b}x3", f"delay:{a}-{b}={draw.choice((0, 0.5, 4))}{once}", f"drop:{a}-{b}{once}",
                f"partition:{sides}@t={time:.0f}..{time + 5}", f"partition:{sides}@t={time:.0f}", f"partition:{a}|{b}",
            )
        )  # fmt: skip

    return tuple(one() for _ in range(draw.choice((1, 1, 2, 3))))


def generate(seed: int, plain: bool = False) -> Fuzzed:
    """The program of a seed. A `plain` one is for comparing engines: no faults, a network of rounds, and broken only in
    ways whose end does not depend on chance on real processes."""
    draw = random.Random(f"fuzz {seed} {plain}")
    ranks = draw.choice((2, 2, 3, 3, 4)) if plain else draw.randint(1, 6)
    writer = Writer(draw, ranks, plain)
    writer.write()
    broken = []
    if draw.random() < 0.5:
        breaker = Breaker(writer, plain)
        broken = [done for _ in range(1 if plain else draw.choice((1, 1, 1, 2, 3))) if (done := breaker.break_one())]
    source = render(writer, branches=draw.random() < 0.4)
    if plain:
        return Fuzzed(seed, source, ranks, 1, ROUNDS, (), tuple(broken))
    faults = _faults(draw, ranks) if ranks > 1 and draw.random() < 0.3 else ()
    network = ROUNDS if draw.random() < 0.3 else _network(draw)
    return Fuzzed(seed, source, ranks, draw.choice((1, 1, 1, 2)), network, faults, tuple(broken))
