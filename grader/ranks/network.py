"""Network models for simulated ranks: what a message or a collective costs. Plain data, without torch.

Messages: alpha-beta links (Hockney 1994) with one port a rank (Bar-Noy and Kipnis 1992): a message of S bytes holds
its sender's outgoing and its receiver's incoming port for alpha + S x beta seconds. With nodes, a message that leaves
its node also holds an outgoing uplink of that node and an incoming one of the other: those of the two ranks. A node has
one uplink, which all its ranks share, or several, up to one for each rank.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

SIZES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
COUNTS = ("eager_bytes", "ranks_per_node", "uplinks_per_node")
SECONDS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


class BadNetwork(ValueError):  # noqa: N818 - says what is bad
    """A description of a network that does not describe one, as a sentence."""


@dataclass(frozen=True)
class Network:
    """Links through one switch, or nodes with fast links inside and uplinks between them.

    `alpha` (seconds a message) and `beta` (seconds a byte) are a link's. With `ranks_per_node` > 0, ranks are put on
    nodes in order, and `uplink_alpha` and `uplink_beta` hold between nodes, for each of a node's `uplinks_per_node`
    NICs; neighboring ranks share one if there are fewer NICs than ranks. A message of up to `eager_bytes` does not wait
    for its receive; larger ones are rendezvous, as all are on gloo (-1).
    """

    alpha: float = 1.0
    beta: float = 0.0
    eager_bytes: int = -1
    ranks_per_node: int = 0
    uplink_alpha: float = 0.0
    uplink_beta: float = 0.0
    uplinks_per_node: int = 1

    def __post_init__(self) -> None:
        if not all(0 <= value < math.inf for value in (self.alpha, self.beta, self.uplink_alpha, self.uplink_beta)):
            raise BadNetwork("a network's alpha and beta must be finite seconds that are not negative")
        if self.ranks_per_node < 0:
            raise BadNetwork("a network's number of ranks per node must not be negative")
        if not 1 <= self.uplinks_per_node <= max(self.ranks_per_node, 1):
            raise BadNetwork("a node must have at least 1 uplink, and at most one for each of its ranks")

    def node(self, rank: int) -> int:
        """The node of a rank; every rank is its own where there are no nodes."""
        return rank // self.ranks_per_node if self.ranks_per_node else rank

    def crosses(self, source: int, target: int) -> bool:
        """Whether a message between two ranks leaves a node."""
        return bool(self.ranks_per_node) and self.node(source) != self.node(target)

    def uplink(self, rank: int) -> int:
        """The number of the uplink that a rank's messages to and from other nodes take, counted over all nodes."""
        node, local = divmod(rank, self.ranks_per_node)
        return node * self.uplinks_per_node + local * self.uplinks_per_node // self.ranks_per_node

    def link(self, source: int, target: int) -> tuple[float, float]:
        """alpha and beta from rank `source` to rank `target`."""
        return (self.uplink_alpha, self.uplink_beta) if self.crosses(source, target) else (self.alpha, self.beta)

    def cost(self, source: int, target: int, size: int) -> float:
        """Seconds that a message of `size` bytes takes from rank `source` to rank `target`."""
        alpha, beta = self.link(source, target)
        return alpha + size * beta

    def collective_cost(self, name: str, size: int, ranks: Sequence[int]) -> float:
        """Seconds that a collective takes among `ranks`, from when the last of them has joined.

        `size` is one rank's part in bytes (of what it sends: the whole of its input). Flat algorithms over the group's
        slowest link in rank order (Thakur, Rabenseifner, Gropp 2005; Chan et al. 2007): rings for all-reduce,
        all-gather and reduce-scatter, binomial trees for broadcast and reduce, dissemination for barrier, N-1 direct
        messages for gather, scatter and all-to-all. As in NCCL, rings between nodes run side by side, one over each NIC
        that the group has in every one of its nodes, and each moves its part of the bytes.
        """
        n = len(ranks)
        if n == 1:
            return 0.0
        links = [self.link(a, b) for a, b in zip(ranks, [*ranks[1:], ranks[0]], strict=True)]
        alpha, beta = max(a for a, _ in links), max(b for _, b in links)
        ring_beta = max(min(self.beta, beta), beta / self._rings(ranks)) if self.ranks_per_node else beta
        depth = (n - 1).bit_length()
        if name.startswith("all_reduce"):
            return 2 * (n - 1) * (alpha + size / n * ring_beta)
        if name.startswith("reduce_scatter"):
            return (n - 1) * (alpha + size / n * ring_beta)
        if name in ("broadcast", "reduce"):
            return depth * (alpha + size * beta)
        if name in ("barrier", "monitored_barrier"):
            return depth * alpha
        if name.startswith("all_to_all"):
            return (n - 1) * (alpha + size / n * beta)
        if name == "new_group":
            return 0.0
        if name.startswith("all_gather"):
            return (n - 1) * (alpha + size * ring_beta)  # `size` is one rank's part here, and in gather and scatter
        return (n - 1) * (alpha + size * beta)

    def _rings(self, ranks: Sequence[int]) -> int:
        """How many NICs a group has in each of its nodes, at least."""
        uplinks = Counter(self.node(rank) for rank in {self.uplink(rank): rank for rank in ranks}.values())
        return min(uplinks.values())

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Network:
        return cls(**data)


ROUNDS = Network(alpha=1.0, beta=0.0)  # in which virtual time counts communication rounds

# Bandwidths are one direction's. Latencies are what an application sees for a small message, not the wire's.
PRESETS: dict[str, tuple[Network, str]] = {
    "rounds": (ROUNDS, "every message takes one second, whatever its size: virtual time counts communication rounds"),
    "ethernet-1g": (
        Network(alpha=50e-6, beta=8e-9),
        "gigabit Ethernet: 1 Gb/s = 125 MB/s each way (IEEE 802.3ab); about 50 us a message through the kernel's TCP",
    ),
    "infiniband-100g": (
        Network(alpha=1.5e-6, beta=8e-11),
        "100 Gb/s InfiniBand EDR: 12.5 GB/s each way (InfiniBand Trade Association roadmap); MPI latency 1-2 us",
    ),
    "nvlink": (
        Network(alpha=2e-6, beta=1 / 450e9),
        "an NVLink 4 domain: 900 GB/s of a GPU in both directions, 450 GB/s each way (NVIDIA H100 data sheet)",
    ),
    "8xh100": (
        Network(2e-6, 1 / 450e9, ranks_per_node=8, uplink_alpha=4e-6, uplink_beta=1 / 50e9, uplinks_per_node=8),
        "nodes of 8 H100 on NVLink 4, 450 GB/s each way, and a 400 Gb/s NIC of its own for each rank, 50 GB/s each way "
        "(NVIDIA DGX H100 data sheet); 2 us and 4 us a message (NCCL, graph/tuning.cc: rings with LL128, 1.9 and 4.0)",
    ),
    "nvl72": (
        Network(2e-6, 1 / 900e9, ranks_per_node=72, uplink_alpha=4e-6, uplink_beta=1 / 50e9, uplinks_per_node=72),
        "GB200 NVL72: 72 GPUs in one NVLink 5 domain, 900 GB/s each way (NVIDIA, NVLink: 1.8 TB/s in both directions), "
        "and a 400 Gb/s NIC for each rank between racks; latencies as 8xh100",
    ),
}


def parse(text: str) -> Network:
    """A preset's name, `key=value` pairs, or a name and pairs: "ethernet-1g", "alpha=10us,beta=1ns,ranks_per_node=4".

    Seconds take ns, us, ms or s; `eager_bytes` takes K, M or G. Raises BadNetwork with a sentence.
    """
    name, _, rest = text.partition(":") if ":" in text else ("", "", text) if "=" in text else (text, "", "")
    if name and name not in PRESETS:
        raise BadNetwork(f"no network is called {name!r}; write {', '.join(PRESETS)} or alpha=...,beta=...")
    network = PRESETS[name][0] if name else Network(beta=0.0)
    known = {field.name for field in fields(Network)}
    changed: dict[str, Any] = {}
    for pair in filter(None, rest.split(",")):
        key, equals, value = pair.partition("=")
        if key not in known or not equals:
            raise BadNetwork(f"{pair!r} is not one of {', '.join(f'{name}=...' for name in sorted(known))}")
        changed[key] = count(value) if key in COUNTS else _of_a_link(value)
    return replace(network, **changed)


def seconds(text: str) -> float:
    """ "10us" -> 1e-05. Raises BadNetwork."""
    number = re.fullmatch(r"([0-9.]+(?:e[+-]?[0-9]+)?)(|s|ms|us|ns)", text.strip())
    try:
        return float(number[1]) * SECONDS[number[2]] if number else _bad(text, "a time such as 10us or 0.5s")
    except ValueError:
        return _bad(text, "a time such as 10us or 0.5s")


def _of_a_link(text: str) -> float:
    """As `seconds`, but only 0 goes without a unit: nobody means a link that takes ten seconds a message."""
    found = seconds(text)
    return _bad(text, f"a time: say {text}s, {text}ms or {text}us") if found and text.strip()[-1] != "s" else found


def count(text: str) -> int:
    """ "64K" -> 65536. Raises BadNetwork."""
    number = re.fullmatch(r"([0-9]+)([kmg]?)", text.strip().lower())
    return int(number[1]) * SIZES[number[2]] if number else int(_bad(text, "a whole number such as 4 or 64K"))


def _bad(text: str, wanted: str) -> float:
    raise BadNetwork(f"{text!r} is not {wanted}")
