"""What a wrong sum over nodes is, as a stage of the algorithm that is missing, done twice or done with another part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from grader import says
from grader.exercises.common import causes, sums
from grader.exercises.common.causes import Array, Cause, Parts, finished, places, ranks_in
from grader.exercises.common.held import END, Held, Message
from grader.ranks.program import CallResult, Strided
from grader.verdict import Diagnosis
from grader.worlds.cases import Case
from grader.worlds.ranks import RankBench

Judge = Callable[[RankBench, Case, CallResult], Diagnosis | None]


def ranks_per_node(case: Case) -> int:
    k: int = case.arguments[0][1]
    return k


def degenerate(case: Case) -> bool:
    """One rank a node, or one node: there a mistake with nodes does not show for what it is."""
    return ranks_per_node(case) in (1, case.ranks)


def quick(bench: RankBench, case: Case, result: CallResult) -> Diagnosis | None:
    """Whether the sum is right; not why it is wrong."""
    return sums.judge(case, result, bench.program.file)


def judge(bench: RankBench, case: Case, result: CallResult) -> Diagnosis | None:
    """As sums.judge, and where it is a stage that is missing or done twice, says which."""
    look, file = sums.seen(bench, case, result), bench.program.file
    if degenerate(case):
        return sums.judge(case, result, file, look)
    explain = sums.too_early(bench, case, partial(_cause, ranks_per_node(case)))
    return sums.judge(case, result, file, look, explain, partial(_known, case, result))


def _known(case: Case, result: CallResult, rank: int) -> str | None:
    """What the values on `rank` are, if the sum by a factor, or over one rank of each node."""
    output = result.arguments[rank][0]
    assert isinstance(output, Strided)
    inputs = np.stack([tensor.view() for tensor in case.tensors])
    total, k, values = inputs.sum(0), ranks_per_node(case), output.view()
    bad = values != total
    which = f"{bad.sum()} of {bad.size} elements hold" if bad.sum() < bad.size else "they hold"
    if np.array_equal(values[bad], inputs[rank % k :: k].sum(0)[bad]):
        whose = says.names(range(rank % k, case.ranks, k))
        return f"{which} the sum of {whose} alone, one a node: what the others on these nodes have was left out"
    nodes = case.ranks // k
    for times, each in ((k, "rank of a node" + ", or for each node" * (k == nodes)), (nodes, "node")):
        if np.array_equal(values[bad], (times * total)[bad]):
            return f"{which} {times} times the sum: it was added up once for each {each}"
    alike = "nodes, and of ranks of a node"
    for parts, of_what in ((k, alike if k == nodes else "ranks of a node"), (nodes, "nodes")):
        if np.allclose(values[bad] * float(parts), total[bad], rtol=1e-6, atol=parts):
            return (
                f"{which} the sum divided by {parts}, the number of {of_what}. An all-reduce with sum does not average"
            )
    return None


# ---- by what messages carried


def _cause(k: int, held: Held, parts: Parts, rank: int, element: int) -> Cause | None:
    """Why that element is wrong on that rank, on nodes of `k` ranks."""
    shards = Parts.of(held, k, "shard")
    view = _View(held, shards if shards.bounds else parts, k)
    counts, found = held.after[rank, element], None
    if places(counts) == [element] and counts.max() == 1 and all(m.holds is not None for m in held.messages):
        found = view.no_exchange() or view.too_early() or view.not_gathered()
    return found or causes.cause(held, view.parts, rank, element)


@dataclass(frozen=True)
class _View:
    """What was held, on nodes of `k` ranks."""

    held: Held
    parts: Parts
    k: int

    def crosses(self, message: Message) -> bool:
        return message.sender // self.k != message.receiver // self.k

    def node(self, rank: int) -> range:
        first = rank // self.k * self.k
        return range(first, first + self.k)

    def no_exchange(self) -> Cause | None:
        """Nothing goes between nodes."""
        if any(map(self.crosses, self.held.messages)):
            return None
        return Cause("No message goes from one node to another: the exchange between nodes is missing")

    def too_early(self) -> Cause | None:
        """A part that went to another node before it was the sum over its own."""
        for message in self.held.messages:
            rank, counts = message.sender, _all(message)
            has, what, quote = ranks_in(counts), self.parts.exact(places(counts)), self.held.source.quote
            if self.crosses(message) and has and set(has) < set(self.node(rank)):
                text = (
                    f"Rank {rank} sends {what} to rank {message.receiver} on another node{quote(message.sent_line)}, "
                    f"before its own node has summed that part: only {says.names(has)} count{'s' * (len(has) == 1)} in it"
                )
                return Cause(text + self._summed(rank, message, counts), message.sent_line)
        return None

    def _summed(self, rank: int, before: Message, sent: Array) -> str:
        """The part that the node has summed on `rank` by then, if it is another than what was sent."""
        for message in self.held.got(rank, before.left):
            counts = _all(message)
            if {*ranks_in(counts), rank} == set(self.node(rank)) and not set(places(counts)) & set(places(sent)):
                return f". The part that is summed over the node on rank {rank} is {self.parts.exact(places(counts))}"
        return ""

    def not_gathered(self) -> Cause | None:
        """Finished parts that are passed on between no nodes, or inside none."""
        held = self.held
        if not all(any(map(finished, held.after[rank])) for rank in range(held.ranks)):
            return None
        passed = [m for m in held.messages if m.holds is not None and any(map(finished, m.holds))]
        if not any(map(self.crosses, passed)):
            return self._not_between()
        if all(map(self.crosses, passed)) and not any(map(self._inside_at_last, range(held.ranks))):
            return Cause(
                "As on every other rank, only its own shard is finished: no message inside a node carries finished "
                "values, so the all-gather inside the node is missing"
            )
        return None

    def _inside_at_last(self, rank: int) -> bool:
        """Whether it sends something inside its node after all that it gets from other nodes."""
        last = max((message.came for message in self.held.got(rank) if self.crosses(message)), default=END)
        return any(not self.crosses(message) for message in self.held.sent(rank, last))

    def _not_between(self) -> Cause:
        """No message carries a finished value to another node."""
        held, quote = self.held, self.held.source.quote
        for rank in range(held.ranks):
            crossing = [message for message in held.got(rank) if self.crosses(message)]
            later = [m for m in held.sent(rank, crossing[-1].came if crossing else END) if self.crosses(m)]
            for message in later:
                what = self.parts.exact(places(_all(message)))
                text = (
                    f"No finished value goes to another node. The last that rank {rank} sends there is {what}, which "
                    f"counts {says.names(ranks_in(_all(message)))} only{quote(message.sent_line)}"
                )
                return Cause(text, message.sent_line)
        return Cause("No message carries a finished value to another node: the all-gather between nodes is missing")


def _all(message: Message) -> Array:
    """What counts in any element of a message: [rank, position]."""
    assert message.holds is not None
    return np.asarray(message.holds.max(0, initial=0))
