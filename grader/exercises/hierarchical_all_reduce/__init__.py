"""hierarchical_all_reduce(tensor, ranks_per_node): in place, sum over ranks, few bytes between nodes.

A node is one rank of an all-reduce over nodes, so its budget is that of Patarasuk and Yuan 2009, section 3. The
decomposition in stages that keeps it is that of Cho, Finkler, Kung and Hunter 2019 (BlueConnect).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from grader import says, tally
from grader.exercise import Check, Draw, Exercise
from grader.exercises.common import checks, sums
from grader.exercises.hierarchical_all_reduce import stages
from grader.exercises.hierarchical_all_reduce.stages import degenerate, ranks_per_node
from grader.lost import Lost
from grader.ranks.network import Network
from grader.ranks.program import CallResult, Function
from grader.trace.events import SEND, Operation, Trace
from grader.verdict import Diagnosis
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench, Ranks

WORLDS = (*range(1, 10), 12)
SMALL_WORLDS = range(1, 7)  # in which every shape is tried
TIMED = ((2, 4), (3, 8))  # nodes and ranks per node
TIMED_BYTES = 3 * 2**20
GIVEN = Network(alpha=1e-6, beta=1e-11, uplink_alpha=5e-6, uplink_beta=1e-10)  # 100 GB/s inside, 10 GB/s between nodes
EVENLY = 0.9  # of the busiest rank's time: then all are about as busy
FASTER = 1 - 1e-6  # of the flat ring's time: less than it by more than rounding


def flat_ring(size: int, ranks: int) -> float:
    """Virtual seconds of the flat ring over more than one node: in each of its steps one chunk leaves every node."""
    return 2 * (ranks - 1) * (GIVEN.uplink_alpha + size / ranks * GIVEN.uplink_beta)


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check. One group a check that judges values; `crossing` serves the two that count."""
    for n in WORLDS:
        for k in (k for k in range(1, n + 1) if n % k == 0):
            yield _on_nodes(sums.contiguous(draw, "sum", n, (3 * n,), "float64"), k)
            yield _on_nodes(sums.contiguous(draw, "crossing", n, (64 * n,), "int64"), k)
            # from short to long: a buffer kept from an earlier call must not be long enough by luck
            for length in sorted({0, 1, n - 1, 2 * n + 1}) if n in SMALL_WORLDS else (2 * n + 1,):
                yield _on_nodes(sums.contiguous(draw, "any_length", n, (length,), "int64"), k)
            yield _on_nodes(sums.every_third(draw, "any_layout", n, 2 * n, "int64"), k)
            if n in SMALL_WORLDS:
                yield _on_nodes(sums.contiguous(draw, "any_layout", n, (3, n), "int64"), k)
                yield _on_nodes(sums.transposed(draw, "any_layout", n, (2, 2 * n), "int64"), k)
                yield _on_nodes(sums.inside(draw, "any_layout", n, 2 * n, "int64"), k)
                if n == 4:
                    yield _on_nodes(sums.columns(draw, "any_layout", n, (3, n), "int64"), k)
                    yield _on_nodes(sums.transposed_on_rank_1(draw, "any_layout", n, (2, 2 * n), "int64"), k)
                for shape in ((n - 1,), (64 * n + 1,), (2, 64 * n)):
                    yield _on_nodes(sums.contiguous(draw, "odd_crossing", n, shape, "int64"), k)
    for nodes, k in TIMED:
        timed = sums.contiguous(draw, "speed", nodes * k, (TIMED_BYTES // 8,), "int64")
        yield replace(_on_nodes(timed, k), network=replace(GIVEN, ranks_per_node=k))
    yield replace(_on_nodes(sums.contiguous(draw, "large", 4, (2**19,), "float64"), 2), engine="gloo")


def _on_nodes(case: Case, k: int) -> Case:
    """The same case with `k` ranks a node."""
    ranks, _, what = case.label.partition(", ")
    given = tuple((*given, k) for given in case.arguments)
    return replace(case, label=f"{ranks}, {k} a node, {what}", arguments=given, telling=k not in (1, case.ranks))


def _size(case: Case) -> int:
    """Bytes of the tensor."""
    return case.tensors[0].numel * case.tensors[0].storage.itemsize


def _values(bench: RankBench, group: str) -> Iterator[tuple[Case, CallResult]]:
    """The calls of `group`, all found right, and by messages. Raises Lost if one is not: a budget that a wrong sum
    keeps is worth nothing. Of several wrong sums the first with real nodes is told."""
    counted = "the sum" if group in ("crossing", "speed") else ""
    right, wrong = [], []
    try:
        for case, result in bench.calls(group):
            found = checks.blamed(_found(bench, case, result), result, counted)
            if found:
                wrong.append((case, result))
                if not (degenerate(case) and found.kind == "wrong_result"):
                    break
            else:
                _enough_bytes(bench, case, result)
            right.append((case, result))
    except Lost:
        if not wrong:
            raise
    if wrong:
        case, result = min(wrong, key=lambda each: degenerate(each[0]))
        found = checks.blamed(_found(bench, case, result, stages.judge), result, counted)
        assert found is not None
        raise Lost(found, bench.outcome(case))
    yield from right


def _found(bench: RankBench, case: Case, result: CallResult, judge: stages.Judge = stages.quick) -> Diagnosis | None:
    """What is wrong with one call that finished."""
    return checks.forbidden(result) or judge(bench, case, result)


def _leaving(trace: Trace, rank: int, k: int) -> list[Operation]:
    """The messages of `rank` to other nodes."""
    return [op for op in trace.operations(rank) if op.kind == SEND and op.peer // k != rank // k]


def _bytes_leaving(case: Case, result: CallResult) -> list[int]:
    """Bytes that the ranks of each node sent to other nodes."""
    k = ranks_per_node(case)
    each = [sum(op.size for op in _leaving(result.trace, rank, k)) for rank in range(case.ranks)]
    return [sum(each[first : first + k]) for first in range(0, case.ranks, k)]


def _allowed(case: Case) -> int:
    """Bytes that may leave a node."""
    k = ranks_per_node(case)
    nodes = case.ranks // k
    return 2 * (nodes - 1) * _size(case) // nodes + 2 * (nodes - 1) * k * case.tensors[0].storage.itemsize


def _crossing(bench: RankBench) -> Outcome:
    """Bytes that leave each node: at most 2(M-1)/M of the tensor, and what lengths that do not divide may cost."""
    for case, result in sorted(_counted(bench), key=lambda counted: degenerate(counted[0])):
        k, allowed, leaving = ranks_per_node(case), _allowed(case), _bytes_leaving(case, result)
        nodes, size = case.ranks // k, _size(case)
        worst = max(range(nodes), key=lambda node: leaving[node])
        if leaving[worst] > allowed:
            enough, ranks = 2 * (nodes - 1) * size // nodes, says.names(range(worst * k, (worst + 1) * k))
            what = (
                f"With {case.label}: the sum is right, but node {worst} ({ranks}) sent {leaving[worst]:,} bytes to other "
                f"nodes; with M = {nodes} nodes, 2(M-1)/M x {size:,} = {enough:,} are enough and {allowed - enough:,} more "
                f"are free. {_habit(case, result, size)}"
            )
            texts = f"at most {allowed:,} bytes", f"{leaving[worst]:,} bytes"
            raise bench.lost(case, "too_many_bytes", what, worst * k, *texts)
        if case.group == "crossing" and not degenerate(case):
            tally.note("bytes that leave a node", leaving[worst], allowed, "bytes", where=case.label)
    return bench.picture("crossing")


def _counted(bench: RankBench) -> Iterator[tuple[Case, CallResult]]:
    """The calls whose bytes are counted."""
    yield from _values(bench, "crossing")
    yield from sums.odd(bench, "odd_crossing")


def _habit(case: Case, result: CallResult, size: int) -> str:
    """What the messages between nodes look like, where they are too many bytes, and what to do."""
    k, n, trace = ranks_per_node(case), case.ranks, result.trace
    out = [_leaving(trace, rank, k) for rank in range(n)]
    to = [{op.peer for op in trace.operations(rank) if op.kind == SEND} for rank in range(n)]
    if k > 1 and all(peers == {(rank + 1) % n} for rank, peers in enumerate(to)):
        return "That is a flat ring: a chunk leaves every node in every step. Sum up inside the nodes first."
    ends = [{op.rank, op.peer} for sent in out for op in sent]
    for name, places in (("rank", ends), ("node", [{rank // k for rank in pair} for pair in ends])):
        hub = set.intersection(*places)
        if len(hub) == 1:
            return f"All messages between nodes begin or end on {name} {min(hub)}: its uplink is the bottleneck."
    nodes = n // k
    if k > 1 and all(sum(op.size for op in sent) * nodes >= 2 * (nodes - 1) * size for sent in out if sent):
        return (
            f"Every rank that sends to other nodes sends at least {2 * (nodes - 1) * size // nodes:,} bytes there, enough for "
            "an all-reduce of the whole tensor. Sum up inside the nodes first, and let each rank send only its shard of its "
            "node's sum."
        )
    astray = next((op for sent in out for op in sent if op.peer % k != op.rank % k), None)
    if astray is not None:
        return (
            f"Rank {astray.rank}, with index {astray.rank % k} on its node, sent to rank {astray.peer}, which has index "
            f"{astray.peer % k} on its node. Between nodes a rank should talk only to the ranks with its own index, and only "
            "about its own shard."
        )
    largest, piece = max(op.size for sent in out for op in sent), -(-size // n)
    shape = case.tensors[0].shape
    row = size // shape[0] if len(shape) > 1 else 0
    if row and largest > piece and not any(op.size % row for sent in out for op in sent):
        return (
            f"All messages between nodes are whole rows of {row:,} bytes, and 1/M of a shard is {piece:,}. Cut the flat tensor, "
            "tensor.contiguous().view(-1), into shards and pieces, not the matrix into rows."
        )
    if largest > piece:
        return f"There are messages of {largest:,} bytes between nodes, and 1/M of a shard is {piece:,}: pass on such pieces."
    return "Between nodes a rank need send no more than 2(M-1) messages, each 1/M of its shard."


def _enough_bytes(bench: RankBench, case: Case, result: CallResult) -> None:
    """What a rank or a node brings must leave it: at least one tensor's bytes. Raises Lost."""
    size, k = _size(case), ranks_per_node(case)
    parts = [(rank, f"rank {rank} sent only", result.trace.bytes_sent(rank)) for rank in range(case.ranks)]
    if case.ranks > k:
        nodes = enumerate(_bytes_leaving(case, result))
        parts += [(node * k, f"node {node} sent only", sent) for node, sent in nodes]
    for rank, who, sent in parts if case.ranks > 1 else []:
        if sent < size:
            where = "to other nodes" if who.startswith("node") else "in all"
            what = (
                f"With {case.label}: the sum is right, but {who} {sent:,} bytes {where}. Its own {size:,} bytes must have "
                "reached the others some other way than by messages between ranks."
            )
            raise bench.lost(case, "too_few_bytes", what, rank, f"at least {size:,} bytes", f"{sent:,} bytes")


def _speed(bench: RankBench) -> Outcome:
    """Virtual time: less than that of the flat ring on the same network."""
    for case, result in _values(bench, "speed"):
        flat = flat_ring(_size(case), case.ranks)
        slowest = max(range(case.ranks), key=lambda rank: result.finish[rank])
        taken = result.finish[slowest]
        if taken > FASTER * flat:
            what = (
                f"With {case.label}, 1 us and 100 GB/s inside nodes, 5 us and 10 GB/s between them: it takes "
                f"{taken * 1e6:.1f} us of virtual time, and must take less than the flat ring's {flat * 1e6:.1f} us. "
                f"{_where_time_goes(case, result, taken, flat)}"
            )
            texts = f"less than {flat * 1e6:.1f} us", f"{taken * 1e6:.1f} us"
            raise bench.lost(case, "too_slow", what, slowest, *texts)
        tally.note("virtual time", taken, flat, "s", where=case.label, reference=flat, of="the flat ring")
    return bench.picture("speed")


def _where_time_goes(case: Case, result: CallResult, taken: float, flat: float) -> str:
    """Why it takes longer than the `flat` ring."""
    k, network, allowed, leaving = ranks_per_node(case), case.network, _allowed(case), _bytes_leaving(case, result)
    if max(leaving) > allowed:
        return f"Up to {max(leaving):,} bytes leave a node, where {allowed:,} are enough."
    uplinks, ports = [0.0] * (case.ranks // k), [0.0] * case.ranks  # seconds in use: between nodes, inside them
    for rank in range(case.ranks):
        for op in (op for op in result.trace.operations(rank) if op.kind == SEND):
            seconds = network.cost(rank, op.peer, op.size)
            if network.crosses(rank, op.peer):
                uplinks[rank // k] += seconds
            else:
                ports[rank] += seconds
                ports[op.peer] += seconds
    count = max(sum(len(_leaving(result.trace, node * k + i, k)) for i in range(k)) for node in range(len(uplinks)))
    if max(uplinks) > flat:
        return (
            f"The uplink of one node alone is in use for {max(uplinks) * 1e6:.1f} us, with {count} messages, each of "
            "which costs 5 us before its first byte: send fewer and larger ones."
        )
    busiest = max(range(case.ranks), key=lambda rank: ports[rank])
    shard = _size(case) // k
    if ports[busiest] - 4 * (k - 1) * (network.alpha + shard * network.beta) > taken - flat:
        if min(ports) > EVENLY * ports[busiest]:
            return (
                f"Every rank is busy for up to {ports[busiest] * 1e6:.1f} us with sending and receiving inside its node. A "
                f"rank need send no more than {2 * (k - 1)} shards of {shard:,} bytes there, and receive as many."
            )
        return (
            f"Rank {busiest} is busy for {ports[busiest] * 1e6:.1f} us with sending and receiving inside its node: do "
            "not send everything through one rank."
        )
    return (
        f"An uplink is in use for {max(uplinks) * 1e6:.1f} us of that and idle for the rest: all nodes must send at "
        "the same time, and receive while they send."
    )


WAITED, LARGE = checks.waited(_values, "crossing"), checks.right(_values, "large")

EXERCISE = Exercise(
    name="hierarchical_all_reduce",
    chapter="06",
    title="Hierarchical all-reduce",
    minutes=45,
    difficulty=2,
    cost="seconds",
    world=Ranks((Function("hierarchical_all_reduce", ("tensor", "ranks_per_node")),), cases, p2p_only=True),
    checks=(
        Check("sum", "The sum, in place, on 1 to 9 and 12 ranks, any nodes", 4, checks.right(_values, "sum")),
        Check("any_length", "Lengths 0, 1, N-1 and not divisible", 2, checks.right(_values, "any_length")),
        Check("any_layout", "Matrices, transposes and every third element", 2, checks.right(_values, "any_layout")),
        Check("crossing", "At most 2(M-1)/M of the tensor sent out of each of M nodes", 4, _crossing),
        Check("speed", "Faster than the flat ring where nodes share an uplink", 3, _speed),
        Check("requests", "Every request waited for, no buffer touched too soon", 1, WAITED),
        Check("large", "4 MiB on 2 nodes of 2, real gloo processes unless --engine says sim", 2, LARGE),
    ),
)
