"""ShardedSampler: what torch.utils.data.DistributedSampler hands out, without it.

The expected lists are those of PyTorch's DistributedSampler, computed in numpy (see `_samplers`). All ranks' samplers
are made in one rank by the harness; one case has a process for every sampler.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grader import says
from grader.exercise import Check, Exercise
from grader.exercises.common import checks
from grader.exercises.common.plain import in_words
from grader.exercises.distributed_sampler import samplers
from grader.exercises.distributed_sampler.samplers import AFTER, GOING_BACK, INSIDE, TWICE, Job, Lists, cases
from grader.ranks.program import CallResult, Function, Strided
from grader.says import counted
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench, Ranks

_NOT_ONE = (
    "All ranks must take their places from one permutation. Let the permutation depend on seed and epoch only, not on "
    "the rank and not on earlier draws."
)
_NOT_DEALT = (
    "All ranks take their places from one permutation, but not each place once. Deal it out round robin: rank r gets places "
    "r, r + N, r + 2N, ..."
)


# ---- what came back


def _orders(bench: RankBench, group: str) -> Iterator[tuple[Case, Job, list[Lists], CallResult]]:
    """The calls of `group`: what the ranks handed out in each epoch. Raises Lost where those are no indices. Tensors of
    one integer are none in two groups, without and with shuffling; in the others they count as integers."""
    exact = group in ("covers", "as_torch")
    for case, result in bench.calls(group):
        job: Job = case.expected[0]
        parts = [returned["orders"] for returned in result.returned]
        orders: list[Lists] = [
            [list(indices if exact else map(_integer, indices)) for part in parts for indices in part[number]]
            for number in range(len(parts[0]))
        ]
        for lists in orders:
            for rank, indices in enumerate(lists):
                strange = next((index for index in indices if type(index) is not int), None)
                if strange is not None:
                    said = f"rank {rank} hands out {in_words(strange)}. Hand out indices, as plain integers."
                    if type(_integer(strange)) is int:
                        said += " A tensor's tolist() gives Python ints."
                    said = f"With {case.label}: {said}"
                    raise bench.lost(case, "wrong_result", said, rank, "an int", in_words(strange))
                outside = next((index for index in indices if not 0 <= index < job.size), None)
                if outside is not None:
                    those = f"0 to {job.size - 1}"
                    said = f"With {case.label}: rank {rank} hands out index {outside}, but the indices are {those}."
                    raise bench.lost(case, "wrong_result", said, rank, those, str(outside))
        yield case, job, orders, result


def _integer(index: Any) -> Any:
    """The integer that a tensor holds; anything else as it is."""
    if isinstance(index, Strided) and index.numel == 1 and index.storage.dtype.kind in "iu":
        return int(index.view().item())
    return index


def _short(indices: Any) -> str:
    """A list, cut short."""
    return f"[{says.some(indices, 8)}]"


def _compare(
    bench: RankBench, case: Case, lists: Lists, right: Lists, places: int, epoch: int = 0, when: str = "", rule: str = ""
) -> None:  # fmt: skip
    """Raise Lost where the first `places` of the round-robin order are not those of `right`."""
    found = samplers.difference(lists, right, places)
    if found is None:
        return
    rank, position = found
    got = lists[rank][position] if position < len(lists[rank]) else "nothing"
    job: Job = case.expected[0]
    if not rule and job.shuffle and samplers.shuffled_apart(lists, job):
        rule = (
            "Every rank permutes only its own part of the data set. Permute the whole data set first, then deal it out."
        )
    elif not rule and job.shuffle:
        rule = f"Draw the order with torch.randperm({job.size}) and a torch.Generator whose seed is seed + epoch."
    elif not rule:
        rule = "Deal out the data set's own order: rank r gets places r, r + N, r + 2N, ..."
    said = (
        f"With {case.label}{when}: at position {position} rank {rank} hands out {got} instead of "
        f"{right[rank][position]}. {samplers.habit(lists, job, epoch) or rule}"
    )
    raise bench.lost(case, "wrong_result", said, rank, _short(right[rank]), _short(lists[rank]))


def _lost_samples(bench: RankBench, case: Case, job: Job, lists: Lists) -> None:
    """Raise Lost where a sample is on no rank."""
    gone = samplers.missing(lists, job.size)
    if gone:
        said = f"With {case.label}: no rank hands out {_some(gone)}. Hand out all of them. {samplers.habit(lists, job)}"
        texts = f"{job.size} samples", f"{job.size - len(gone)} samples"
        raise bench.lost(case, "lost_or_duplicated", said.strip(), None, *texts)


def _some(samples: list[int]) -> str:
    if len(samples) == 1:
        return f"sample {samples[0]}"
    return f"{len(samples)} samples ({says.some(samples, 3)})"


def _even(bench: RankBench, case: Case, job: Job, lists: Lists) -> None:
    """Raise Lost where a rank has more or fewer samples than every rank is to have."""
    for rank, indices in enumerate(lists):
        if len(indices) != job.each:
            if job.drop_last:
                why = f"drop_last leaves {job.each} x {job.replicas} of the {job.size} samples"
            elif not job.padding:
                why = f"{counted(job.size, 'sample')} on {counted(job.replicas, 'rank')} need no padding"
            else:
                why = f"{counted(job.size, 'sample')} on {counted(job.replicas, 'rank')} {'needs' if job.size == 1 else 'need'} {job.padding} as padding"
            habit = samplers.habit(lists, job)
            if AFTER in case.label:
                habit = (
                    "Samplers for other ranks came before in this process. Share nothing with them that one changes."
                )
            said = (
                f"With {case.label}: rank {rank} hands out {counted(len(indices), 'sample')}. Every rank must hand out "
                f"{job.each}: {why}. {habit}"
            )
            raise bench.lost(case, "lost_or_duplicated", said.strip(), rank, str(job.each), str(len(indices)))


def _padded_at_the_end(bench: RankBench, case: Case, job: Job, lists: Lists) -> None:
    """Raise Lost where a sample is lost, repeated too soon, or where others than the order's first are repeated."""
    _even(bench, case, job, lists)
    dealt = samplers.round_robin(lists)
    order, padding = dealt[: job.size], dealt[job.size :]
    early = next((place for place, index in enumerate(order) if index in order[:place]), None)
    if early is not None:
        position, rank = divmod(early, job.replicas)
        last = "last" if job.padding == 1 else f"last {job.padding}"
        may = f"only the {last} of the {len(dealt)} places" if job.padding else "no place"
        said = (
            f"With {case.label}: rank {rank} hands out sample {order[early]} again at position {position}, before "
            f"every sample has been handed out once. Dealt out round robin, {may} may repeat a sample. "
            f"{samplers.habit(lists, job)}"
        )
        raise bench.lost(case, "lost_or_duplicated", said.strip(), rank)
    wanted = [order[place % job.size] for place in range(len(padding))]
    if padding != wanted:
        said = (
            f"With {case.label}: the order is padded with {_short(padding)}. Pad it with its own beginning instead: "
            f"{_short(wanted)}."
        )
        raise bench.lost(case, "lost_or_duplicated", said, None, _short(wanted), _short(padding))


# ---- the checks


def _covers(bench: RankBench) -> Outcome:
    """Without shuffling: every sample, in the data set's order, round the ranks. How it is padded is not judged."""
    found = list(_orders(bench, "covers"))
    for case, job, (lists,), _ in found:
        _lost_samples(bench, case, job, lists)
    for case, job, (lists,), _ in found:
        _compare(bench, case, lists, job.lists(), job.size)
    return bench.picture("covers")


def _lengths(bench: RankBench) -> Outcome:
    for case, job, (lists,), result in _orders(bench, "lengths"):
        for rank, (indices, length) in enumerate(zip(lists, result.returned[0]["lengths"], strict=True)):
            if len(indices) == length == job.each:
                continue
            if len(indices) == job.each:
                what = f"len() of rank {rank}'s sampler is {length}, but it hands out {counted(len(indices), 'sample')}"
            else:
                what = f"rank {rank} hands out {counted(len(indices), 'sample')}"
                if len(indices) != len(lists[0]):
                    what += f" and rank 0 hands out {len(lists[0])}"
            way = "floor" if job.drop_last else "ceil"
            said = (
                f"With {case.label}: {what}. Hand out {way}({job.size} / {job.replicas}) = {job.each} on every rank, "
                f"and return that from len(). Otherwise a rank with one step more waits forever in its all-reduce."
            )
            raise bench.lost(case, "wrong_result", said, rank, str(job.each), f"{length}, {len(indices)}")
    return bench.picture("lengths")


def _padding(bench: RankBench) -> Outcome:
    for case, job, (lists,), _ in _orders(bench, "padding"):
        _padded_at_the_end(bench, case, job, lists)
    return bench.picture("padding")


def _agree(bench: RankBench) -> Outcome:
    """All ranks take their places of one permutation, whatever else happened in their processes."""
    for case, job, (dealt,), result in _orders(bench, "agree"):
        lists = [indices[: job.each] for indices in dealt]  # more of them is no matter of this check
        gone, twice = samplers.missing(lists, job.size), samplers.repeated(lists)
        if gone or twice:
            what = f"sample {twice[0]} is {samplers.holders(lists, twice[0])}" if twice else ""
            lost = f"sample {gone[0]} is on no rank" if gone else ""
            if gone and gone[0] not in samplers.missing(dealt, job.size):
                lost = f"sample {gone[0]} is not among the first {job.each} that any rank hands out"
            epoch = case.expected[1][0] or 0
            why = samplers.habit(dealt, job, epoch) or (_NOT_DEALT if samplers.of_one(lists, job, epoch) else _NOT_ONE)
            if "before" in case.label:
                why = "Two passes in one epoch must give the same order. Draw it from seed and epoch alone, and let only set_epoch change the epoch."
            both = ", and ".join(filter(None, (what, lost)))
            if INSIDE in case.label:  # alone, the pass is right: that was judged before
                both = f"with the second pass in between, the first one hands out {_short(dealt[0])}"
                why = "Alone it is right. Keep the order of a pass, and its place in that order, in local variables of __iter__, not in self."
            raise bench.lost(case, "lost_or_duplicated", f"With {case.label}: {both}. {why}")
        disturbed = result.returned[0].get("disturbed")
        if disturbed:
            said = (
                f"With {case.label}: iterating over rank {disturbed[0]}'s sampler changes torch's global generator, "
                "which dropout uses, too. Draw the order from a torch.Generator of the sampler's own."
            )
            raise bench.lost(case, "wrong_result", said, disturbed[0])
    return bench.picture("agree")


@checks.judged(_orders, "epochs")
def _epochs(bench: RankBench, case: Case, job: Job, orders: list[Lists], _: CallResult) -> None:
    """A new order for each epoch, and an epoch's own whenever one comes back to it."""
    if TWICE in case.label:
        _apart(bench, case, orders)
        return
    if not job.shuffle:
        if orders[1] != orders[0]:
            said = f"With {case.label}: set_epoch(1) changes the order, although shuffle is False. Keep the order."
            raise bench.lost(case, "wrong_result", said)
        return
    for later, epoch in enumerate(GOING_BACK):
        for earlier, other in enumerate(GOING_BACK[:later]):
            for rank in range(job.replicas):
                same = orders[earlier][rank] == orders[later][rank]
                if same and epoch != other:
                    said = (
                        f"rank {rank} hands out the same order after set_epoch({epoch}) as after "
                        f"set_epoch({other}). Draw a new order from seed + epoch whenever iteration begins."
                    )
                elif not same and epoch == other:
                    said = (
                        f"rank {rank} hands out another order when set_epoch({epoch}) is called again after other "
                        "epochs. Give an epoch the same order each time, so that a run can resume in it."
                    )
                else:
                    continue
                got = _short(orders[later][rank])
                raise bench.lost(case, "wrong_result", f"With {case.label}: {said}", rank, got=got)


def _apart(bench: RankBench, case: Case, orders: list[Lists]) -> None:
    """Raise Lost where a sampler hands out another order because set_epoch was called on another sampler."""
    at_first, later, *both = orders
    epoch = case.expected[1][1]
    for rank in range(len(at_first)):
        if both[0][rank] != at_first[rank]:
            said = (
                f"after set_epoch({epoch}) on one sampler of rank {rank}, the other one hands out another order than "
                "without it, although its own epoch is still 0."
            )
            right, got = at_first[rank], both[0][rank]
        elif both[1][rank] != later[rank]:
            said = (
                f"after set_epoch({epoch}), a sampler of rank {rank} hands out another order than without the second "
                "sampler, which is still in epoch 0."
            )
            right, got = later[rank], both[1][rank]
        else:
            continue
        said += (
            " Keep the epoch and what belongs to it in the sampler itself (self), because samplers for training and "
            "for validation are alive at the same time."
        )
        raise bench.lost(case, "wrong_result", f"With {case.label}: {said}", rank, _short(right), _short(got))


def _as_torch(bench: RankBench) -> Outcome:
    """The permutation of torch's generator with seed + epoch; how it is padded is not judged."""
    for case, job, (lists,), _ in _orders(bench, "as_torch"):
        (epoch,) = case.expected[1]
        when = "" if epoch is None else f" after set_epoch({epoch})"
        _compare(bench, case, lists, job.lists(epoch or 0), job.size, epoch or 0, when)
    return bench.picture("as_torch")


def _drop_last(bench: RankBench) -> Outcome:
    """The tail of the order is dropped, and nothing else."""
    for case, job, (lists, whole), _ in _orders(bench, "drop_last"):
        _even(bench, case, job, lists)
        right = job.lists() if not job.shuffle else [indices[: job.each] for indices in whole]
        short = next((rank for rank, indices in enumerate(right) if len(indices) < job.each), None)
        if short is not None:
            said = (
                f"With {case.label}: rank {short} hands out fewer samples without drop_last than with it. Without "
                "drop_last, pad the order instead of cutting it."
            )
            raise bench.lost(case, "lost_or_duplicated", said, short)
        rule = (
            f"Deal out the first {job.each * job.replicas} of the {job.size} samples round robin, in the same order as "
            "without drop_last, and drop the rest."
        )
        rule = f"Expected is what the same rank hands out there without drop_last. {rule}" if job.shuffle else rule
        _compare(bench, case, lists, right, job.each * job.replicas, rule=rule)
    return bench.picture("drop_last")


def _fewer(bench: RankBench) -> Outcome:
    for case, job, (lists,), _ in _orders(bench, "fewer"):
        _padded_at_the_end(bench, case, job, lists)
        if not job.shuffle:
            _compare(bench, case, lists, job.lists(), job.each * job.replicas)
    return bench.picture("fewer")


EXERCISE = Exercise(
    name="distributed_sampler",
    chapter="07",
    title="A sampler for every rank",
    minutes=30,
    difficulty=1,
    world=Ranks(
        (Function("ShardedSampler", ("dataset_size", "num_replicas", "rank", "shuffle", "seed", "drop_last")),),
        cases,
        banned=("torch.utils.data.distributed.DistributedSampler",),
    ),
    checks=(
        Check("covers", "Without shuffling: every sample, in order, round the ranks", 3, _covers),
        Check("lengths", "The same length on every rank, and len() says it", 2, _lengths),
        Check("padding", "Padding at the end of the order, and only where it is needed", 3, _padding),
        Check("agree", "All ranks take their places of one permutation", 2, _agree),
        Check("epochs", "A new order each epoch, and the old one on going back", 2, _epochs),
        Check("as_torch", "The permutation that torch's sampler draws", 3, _as_torch),
        Check("drop_last", "drop_last drops the tail, and nothing else", 2, _drop_last),
        Check("fewer", "Fewer samples than replicas", 2, _fewer),
    ),
)
