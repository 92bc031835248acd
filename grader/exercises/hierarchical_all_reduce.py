"""hierarchical_all_reduce(tensor, ranks_per_node): in place, sum over ranks, few bytes between nodes.

A node is one rank of an all-reduce over nodes, so its budget is that of Patarasuk and Yuan 2009, section 3. The
decomposition in stages that keeps it is that of Cho, Finkler, Kung and Hunter 2019 (BlueConnect).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from grader.exercise import Bench, Case, Check, Draw, Exercise, Lost, Outcome
from grader.exercises import _sums
from grader.ranks.network import Network
from grader.ranks.program import CallResult, Function, Strided
from grader.trace.events import SEND, Operation, Trace
from grader.verdict import Diagnosis, Kind

WORLDS = (*range(1, 10), 12)
SMALL_WORLDS = range(1, 7)  # in which every shape is tried
TIMED = ((2, 4), (3, 8))  # nodes and ranks per node
TIMED_BYTES = 3 * 2**20
GIVEN = Network(alpha=1e-6, beta=1e-11, uplink_alpha=5e-6, uplink_beta=1e-10)  # 100 GB/s inside, 10 GB/s between nodes
FASTER = 1 - 1e-6  # of the flat ring's time: less than it by more than rounding


def flat_ring(size: int, ranks: int) -> float:
    """Virtual seconds of the flat ring over more than one node: in each of its steps one chunk leaves every node."""
    return 2 * (ranks - 1) * (GIVEN.uplink_alpha + size / ranks * GIVEN.uplink_beta)


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check. One group a check that judges values; `crossing` serves the two that count."""
    for n in WORLDS:
        for k in (k for k in range(1, n + 1) if n % k == 0):
            yield _on_nodes(_sums.contiguous(draw, "sum", n, (3 * n,), "float64"), k)
            yield _on_nodes(_sums.contiguous(draw, "crossing", n, (64 * n,), "int64"), k)
            # from short to long: a buffer kept from an earlier call must not be long enough by luck
            for length in sorted({0, 1, n - 1, 2 * n + 1}) if n in SMALL_WORLDS else (2 * n + 1,):
                yield _on_nodes(_sums.contiguous(draw, "any_length", n, (length,), "int64"), k)
            yield _on_nodes(_sums.every_third(draw, "any_layout", n, 2 * n, "int64"), k)
            if n in SMALL_WORLDS:
                yield _on_nodes(_sums.contiguous(draw, "any_layout", n, (3, n), "int64"), k)
                yield _on_nodes(_sums.transposed(draw, "any_layout", n, (2, 2 * n), "int64"), k)
                for shape in ((64 * n + 1,), (2, 64 * n)):
                    yield _on_nodes(_sums.contiguous(draw, "odd_crossing", n, shape, "int64"), k)
    for nodes, k in TIMED:
        timed = _sums.contiguous(draw, "speed", nodes * k, (TIMED_BYTES // 8,), "int64")
        yield replace(_on_nodes(timed, k), network=replace(GIVEN, ranks_per_node=k))
    yield replace(_on_nodes(_sums.contiguous(draw, "large", 4, (2**19,), "float64"), 2), engine="gloo")


def _on_nodes(case: Case, k: int) -> Case:
    """The same case with `k` ranks a node."""
    ranks, _, what = case.label.partition(", ")
    return replace(
        case, label=f"{ranks}, {k} a node, {what}", arguments=tuple((*given, k) for given in case.arguments)
    )


def _ranks_per_node(case: Case) -> int:
    k: int = case.arguments[0][1]
    return k


def _values(bench: Bench, group: str) -> Iterator[tuple[Case, CallResult]]:
    """The calls of `group`, each found right. Raises Lost at the first that is not: a budget that a wrong sum keeps
    is worth nothing."""
    for case, result in bench.calls(group):
        found = next((found for found in result.diagnoses if found.kind == "forbidden_call"), None)
        found = found or _judge(case, result, bench.program.file)
        if found and found.kind == "wrong_result" and result.diagnoses:
            found = result.diagnoses[0]  # a race: the wrong sum is its consequence
        elif found and found.kind == "wrong_result" and group in ("crossing", "speed"):
            found = replace(found, message=f"Not counted, because the sum is wrong. {found.message}")
        if found:
            raise Lost(found, bench.outcome(case))
        yield case, result


def _judge(case: Case, result: CallResult, file: str) -> Diagnosis | None:
    """As _sums.judge, and where it is a stage that is missing or done twice, says which."""
    found = _sums.judge(case, result, file)
    if found is None or found.rank is None:
        return found
    outputs = [given[0] for given in result.arguments]
    before = case.tensors
    if any(not isinstance(o, Strided) or o.shape != t.shape for o, t in zip(outputs, before, strict=True)):
        return found
    stage = _stage(found.rank, [t.view().ravel() for t in before], [t.view().ravel() for t in outputs], case)
    return replace(found, message=f"With {case.label}: on rank {found.rank}, {stage}.") if stage else found


def _stage(rank: int, inputs: list[_sums.Array], outputs: list[_sums.Array], case: Case) -> str | None:
    """What the wrong elements on `rank` are, as a stage of the algorithm; None if they are nothing of that kind."""
    k, n = _ranks_per_node(case), case.ranks
    nodes, index, total = n // k, rank % k, np.sum(inputs, axis=0)
    bad = outputs[rank] != total
    wrong = outputs[rank][bad]
    share = f"{len(wrong)} of {len(bad)} elements"
    if k == 1 or nodes == 1 or not len(wrong):
        return None
    first = rank - index
    if np.array_equal(wrong, np.sum(inputs[first : first + k], axis=0)[bad]):
        return (
            f"{share} hold the sum over its own node ({_sums._names(range(first, first + k))}) and no more: what the "
            "other nodes have never came"
        )
    if np.array_equal(wrong, np.sum(inputs[index::k], axis=0)[bad]):
        return (
            f"{share} hold the sum over {_sums._names(range(index, n, k))} and no more, one rank a node: what the "
            "others on these nodes have was left out"
        )
    for times, whose in ((k, "for each rank of a node"), (nodes, "for each node")):
        if np.array_equal(wrong, (times * total)[bad]):
            return f"{share} hold {times} times the sum: it was added up once {whose}"
    right = [int(np.count_nonzero(output == total)) for output in outputs]
    if all(len(bad) // n < count <= -(-len(bad) // k) for count in right):
        return "as on every other, only its own shard is finished: the all-gather inside the node is missing or wrong"
    return None


def _right(group: str) -> Callable[[Bench], Outcome]:
    def judge(bench: Bench) -> Outcome:
        for _ in _values(bench, group):
            pass
        return bench.picture(group)

    return judge


def _leaving(trace: Trace, rank: int, k: int) -> list[Operation]:
    """The messages of `rank` to other nodes."""
    return [op for op in trace.operations(rank) if op.kind == SEND and op.peer // k != rank // k]


def _bytes_leaving(case: Case, result: CallResult) -> list[int]:
    """Bytes that the ranks of each node sent to other nodes."""
    k = _ranks_per_node(case)
    each = [sum(op.size for op in _leaving(result.trace, rank, k)) for rank in range(case.ranks)]
    return [sum(each[first : first + k]) for first in range(0, case.ranks, k)]


def _allowed(case: Case) -> int:
    """Bytes that may leave a node."""
    k, tensor = _ranks_per_node(case), case.tensors[0]
    nodes, itemsize = case.ranks // k, tensor.storage.itemsize
    return 2 * (nodes - 1) * tensor.numel * itemsize // nodes + 2 * (nodes - 1) * k * itemsize


def _crossing(bench: Bench) -> Outcome:
    """Bytes that leave each node: at most 2(M-1)/M of the tensor, and what lengths that do not divide may cost."""
    for case, result in _counted(bench):
        _enough_bytes(bench, case, result)
        k, allowed, leaving = _ranks_per_node(case), _allowed(case), _bytes_leaving(case, result)
        nodes, size = case.ranks // k, case.tensors[0].numel * case.tensors[0].storage.itemsize
        worst = max(range(nodes), key=lambda node: leaving[node])
        if leaving[worst] > allowed:
            what = (
                f"the sum is right, but node {worst} ({_sums._names(range(worst * k, (worst + 1) * k))}) sent "
                f"{leaving[worst]} bytes to other nodes; 2(M-1)/M x {size} = {2 * (nodes - 1) * size // nodes} and a "
                f"little for lengths that do not divide, {allowed} in all, are enough for M = {nodes} nodes. "
                f"{_habit(case, result, leaving, size)}"
            )
            texts = f"at most {allowed} bytes", f"{leaving[worst]} bytes"
            raise _lost(bench, case, "too_many_bytes", what, worst * k, texts)
    return bench.picture("crossing")


def _counted(bench: Bench) -> Iterator[tuple[Case, CallResult]]:
    """The calls whose bytes are counted. Of odd shapes only those that came out right: where they did not, it is the
    checks any_length and any_layout that say so."""
    yield from _values(bench, "crossing")
    with contextlib.suppress(Lost):
        for case, result in bench.calls("odd_crossing"):
            if not result.diagnoses and not _sums.judge(case, result, bench.program.file):
                yield case, result


def _habit(case: Case, result: CallResult, leaving: list[int], size: int) -> str:
    """What the messages between nodes look like, where they are too many bytes, and what to do."""
    k, n, trace = _ranks_per_node(case), case.ranks, result.trace
    nodes = n // k
    each = [sum(op.size for op in _leaving(trace, rank, k)) for rank in range(n)]
    to = [{op.peer for op in trace.operations(rank) if op.kind == SEND} for rank in range(n)]
    shard = -(-size // k)
    if k > 1 and all(peers == {(rank + 1) % n} for rank, peers in enumerate(to)):
        return "That is a flat ring: in every step a chunk leaves each node. Sum up inside the node first."
    if k > 1 and min(each) >= size:
        return "Every rank sends its whole tensor out of the node: sum up inside first, and send a shard of the sum."
    if max(leaving) >= (nodes - 1) * size and sorted(leaving)[-2] <= size:
        return "One node collects everything and sends it out again: its uplink is the bottleneck."
    if k > 1 and min(each) >= (nodes - 1) * shard // 2 and max(op.size for op in _leaving(trace, 0, k)) >= size // k:
        return "Each rank sends its whole shard at a time: cut the shard into M pieces and pass those round the nodes."
    if any(op.peer % k != rank % k for rank in range(n) for op in _leaving(trace, rank, k)):
        return "Between nodes each rank should talk only to the ranks with its own index, and only about its own shard."
    return "Between nodes each rank should pass on 1/M of its shard in each of 2(M-1) steps."


def _enough_bytes(bench: Bench, case: Case, result: CallResult) -> None:
    """What a rank or a node brings must leave it: at least one tensor's bytes. Raises Lost."""
    size, k = case.tensors[0].numel * case.tensors[0].storage.itemsize, _ranks_per_node(case)
    parts = [(rank, f"rank {rank} sent only", result.trace.bytes_sent(rank)) for rank in range(case.ranks)]
    if case.ranks > k:
        nodes = enumerate(_bytes_leaving(case, result))
        parts += [(node * k, f"node {node} sent only", sent) for node, sent in nodes]
    for rank, who, sent in parts if case.ranks > 1 else []:
        if sent < size:
            where = "to other nodes" if who.startswith("node") else "in all"
            what = (
                f"the sum is right, but {who} {sent} bytes {where}. Its own {size} bytes must have reached the others "
                "some other way than by messages between ranks."
            )
            raise _lost(bench, case, "too_few_bytes", what, rank, (f"at least {size} bytes", f"{sent} bytes"))


def _lost(bench: Bench, case: Case, kind: Kind, what: str, rank: int, texts: tuple[str, str]) -> Lost:
    found = Diagnosis(
        kind, f"With {case.label}: {what}", rank=rank, file=bench.program.file, expected=texts[0], got=texts[1]
    )
    return Lost(found, bench.outcome(case))


def _speed(bench: Bench) -> Outcome:
    """Virtual time: less than that of the flat ring on the same network."""
    for case, result in _values(bench, "speed"):
        size = case.tensors[0].numel * case.tensors[0].storage.itemsize
        flat = flat_ring(size, case.ranks)
        slowest = max(range(case.ranks), key=lambda rank: result.finish[rank])
        taken = result.finish[slowest]
        if taken > FASTER * flat:
            what = (
                f"on 1 us and 100 GB/s inside nodes, 5 us and 10 GB/s between them, it takes {taken * 1e6:.1f} us of "
                f"virtual time; the flat ring takes {flat * 1e6:.1f} us. {_where_time_goes(case, result, taken)}"
            )
            texts = f"less than {flat * 1e6:.1f} us", f"{taken * 1e6:.1f} us"
            raise _lost(bench, case, "too_slow", what, slowest, texts)
    return bench.picture("speed")


def _where_time_goes(case: Case, result: CallResult, taken: float) -> str:
    k, trace, network = _ranks_per_node(case), result.trace, case.network
    leaving = _bytes_leaving(case, result)
    if max(leaving) > _allowed(case):
        return f"Up to {max(leaving)} bytes leave a node, where {_allowed(case)} are enough."
    inside = [0.0] * case.ranks, [0.0] * case.ranks  # seconds that each rank's ports are in use, out and in
    uplink = [0.0] * (case.ranks // k)
    for rank in range(case.ranks):
        for op in (op for op in trace.operations(rank) if op.kind == SEND):
            seconds = network.cost(rank, op.peer, op.size)
            if network.crosses(rank, op.peer):
                uplink[rank // k] += seconds
            else:
                inside[0][rank] += seconds
                inside[1][op.peer] += seconds
    ports = [max(pair) for pair in zip(*inside, strict=True)]
    busiest = max(range(case.ranks), key=lambda rank: ports[rank])
    if ports[busiest] > taken / 3:
        return (
            f"For {ports[busiest] * 1e6:.1f} us of that rank {busiest} is busy with messages inside its node: do not "
            "send everything through one rank."
        )
    return (
        f"The uplinks are in use for {max(uplink) * 1e6:.1f} us of that and idle for the rest: all nodes must send at "
        "the same time, and receive while they send."
    )


def _requests(bench: Bench) -> Outcome:
    """Every request is waited for, and no buffer is touched while it is being sent."""
    for case, result in _values(bench, "crossing"):
        if result.diagnoses:
            raise Lost(result.diagnoses[0], bench.outcome(case))
    return bench.picture("crossing")


def _large(bench: Bench) -> Outcome:
    """Right on real processes too, and by messages."""
    for case, result in _values(bench, "large"):
        _enough_bytes(bench, case, result)
    return bench.picture("large")


EXERCISE = Exercise(
    name="hierarchical_all_reduce",
    chapter="06",
    title="Hierarchical all-reduce",
    functions=(Function("hierarchical_all_reduce", ("tensor", "ranks_per_node")),),
    minutes=45,
    difficulty=2,
    p2p_only=True,
    cases=cases,
    checks=(
        Check("sum", "The sum, in place, on 1 to 9 and 12 ranks, with every number of ranks a node", 4, _right("sum")),
        Check("any_length", "Lengths 0, 1, N-1 and not divisible by anything", 2, _right("any_length")),
        Check("any_layout", "Matrices, transposes and every third element", 2, _right("any_layout")),
        Check("crossing", "At most 2(M-1)/M of the tensor sent by each node to the others", 4, _crossing),
        Check("speed", "Faster than the flat ring where nodes share an uplink", 3, _speed),
        Check("requests", "Every request waited for, no buffer touched too soon", 1, _requests),
        Check("large", "Four MiB on 2 nodes of 2 ranks, real gloo processes unless --engine says sim", 2, _large),
    ),
)
