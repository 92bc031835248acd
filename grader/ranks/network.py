"""Network models for simulated ranks: what a message costs between two ranks. Plain data, without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Network:
    """Alpha-beta links through one switch, one port a rank (Hockney 1994; Bar-Noy and Kipnis 1992).

    A message of S bytes holds its sender's outgoing and its receiver's incoming port for `alpha` + S x `beta` seconds.
    Messages of up to `eager_bytes` are sent without waiting for their receive; larger ones are rendezvous.
    """

    alpha: float = 1.0
    beta: float = 0.0
    eager_bytes: int = -1

    def __post_init__(self) -> None:
        if not (self.alpha >= 0 and self.beta >= 0):
            raise ValueError("a network's alpha and beta are not negative")

    def cost(self, source: int, target: int, size: int) -> float:
        """Seconds that a message of `size` bytes takes from rank `source` to rank `target`."""
        return self.alpha + size * self.beta

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Network:
        return cls(**data)


ROUNDS = Network(alpha=1.0, beta=0.0)  # in which virtual time counts communication rounds
