"""dissemination_barrier(): nobody leaves before everybody has come, in ceil(log2 N) rounds of messages.

Hensgen, Finkel and Manber 1988, "Two algorithms for barrier synchronization": in round k each rank tells the one 2^k
after it that it is there, and waits for the one 2^k before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from grader.exercise import Check, Draw, Exercise
from grader.ranks.network import Network
from grader.ranks.program import CallResult, Function
from grader.says import counted
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench, Ranks

LINK = Network(alpha=1e-6, beta=0)
SIZES = (1, 2, 3, 4, 5, 8, 11)


def cases(draw: Draw) -> Iterator[Case]:
    """Each rank comes when its seconds are over; in each case another one is last by far."""
    for n in SIZES:
        for last in {0, n // 2, n - 1}:
            seconds = draw.generator(f"{n} {last}").uniform(0.1, 0.2, n)
            seconds[last] = 1.0
            label = f"{counted(n, 'rank')}, of which rank {last} comes last"
            yield Case("holds", label, tuple((float(each),) for each in seconds), by="come", network=LINK)
    for n in SIZES:
        yield Case("counted", counted(n, "rank"), ((0.0,),) * n, by="come")


def _left(bench: RankBench, group: str) -> Iterator[tuple[Case, CallResult]]:
    """The calls of a group in which no rank left too early. Raises Lost at the first other one."""
    for case, result in bench.calls(group):
        if result.diagnoses:
            found = result.diagnoses[0]
            raise bench.lost(case, found.kind, f"With {case.label}: {found.message}", found.rank)
        _stayed(bench, case, result)
        yield case, result


def _stayed(bench: RankBench, case: Case, result: CallResult) -> None:
    """Raise Lost for a rank that left before the last one had come."""
    came = [seconds for (seconds,) in case.arguments]
    first = min(range(case.ranks), key=lambda rank: result.finish[rank])
    if result.finish[first] < max(came):
        last = came.index(max(came))
        raise bench.lost(
            case, "left_early",
            f"With {case.label}: rank {first} left the barrier after {result.finish[first]:.2f} s, but rank {last} "
            f"came only after {max(came):.2f} s. Before a rank leaves, it must hear of every other rank, directly or "
            "through others.",
            first, f"after {max(came):.2f} s or later", f"{result.finish[first]:.2f} s",
        )  # fmt: skip


def _holds(bench: RankBench) -> Outcome:
    for _ in _left(bench, "holds"):
        pass
    return bench.picture("holds")


def _messages(bench: RankBench) -> Outcome:
    for case, result in _left(bench, "counted"):
        allowed = (case.ranks - 1).bit_length()
        sent = [result.trace.messages_sent(rank) for rank in range(case.ranks)]
        most = max(range(case.ranks), key=lambda rank: sent[rank])
        if sent[most] > allowed:
            raise bench.lost(
                case, "too_many_messages",
                f"With {case.label}: rank {most} sent {counted(sent[most], 'message')}. ceil(log2 {case.ranks}) = "
                f"{allowed} are enough: in round k, send to the rank 2^k after you, and wait for the rank 2^k before.",
                most, f"at most {allowed}", str(sent[most]),
            )  # fmt: skip
    return bench.picture("counted")


EXERCISE = Exercise(
    name="dissemination_barrier",
    chapter="06",
    title="A barrier that spreads by doubling",
    minutes=20,
    difficulty=1,
    world=Ranks((Function("dissemination_barrier", ()),), cases, p2p_only=True),
    checks=(
        Check("holds", "No rank leaves before the last has come", 3, _holds),
        Check("messages", "At most ceil(log2 N) messages from each rank", 2, _messages),
    ),
)
