"""The cases of distributed_sampler, and what must be handed out: torch's DistributedSampler in numpy, and what others do.

The permutation is torch.randperm's on the CPU: a Fisher-Yates shuffle from the front, whose i-th draw is a raw 32-bit
output of the Mersenne Twister (Matsumoto and Nishimura 1998), modulo what is left.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from grader import says
from grader.exercise import Draw
from grader.worlds.cases import Case

Lists = Sequence[Sequence[int]]  # what each rank hands out in one epoch


@lru_cache(maxsize=256)
def permutation(size: int, seed: int) -> tuple[int, ...]:
    """torch.randperm(size) of a torch.Generator with that seed (of at most 32 bits)."""
    order = list(range(size))
    twister = np.random.RandomState(seed)
    draws = twister.randint(0, 2**32, size=max(size - 1, 0), dtype=np.uint64).tolist()
    for place, drawn in enumerate(draws):
        other = place + drawn % (size - place)
        order[place], order[other] = order[other], order[place]
    return tuple(order)


@dataclass(frozen=True)
class Job:
    """The arguments of the samplers of all ranks."""

    size: int
    replicas: int
    shuffle: bool = True
    seed: int = 0
    drop_last: bool = False

    @property
    def each(self) -> int:
        """How many samples every rank gets."""
        return self.size // self.replicas if self.drop_last else -(-self.size // self.replicas)

    @property
    def padding(self) -> int:
        """How many samples are handed out once more than they need be."""
        return max(self.each * self.replicas - self.size, 0)

    def order(self, epoch: int = 0) -> tuple[int, ...]:
        """The data set in this epoch's order."""
        return permutation(self.size, self.seed + epoch) if self.shuffle else tuple(range(self.size))

    def lists(self, epoch: int = 0) -> list[list[int]]:
        """What each rank hands out."""
        order = list(itertools.islice(itertools.cycle(self.order(epoch)), self.each * self.replicas))
        return [order[rank :: self.replicas] for rank in range(self.replicas)]


def round_robin(lists: Lists) -> list[int]:
    """What the ranks hand out together: everybody's first, then everybody's second, ..."""
    rows = itertools.zip_longest(*lists)
    return [index for row in rows for index in row if index is not None]


def difference(lists: Lists, right: Lists, places: int) -> tuple[int, int] | None:
    """The first rank and position, among the first `places` of the round-robin order, where `lists` is not `right`."""
    replicas = len(right)
    for place in range(places):
        position, rank = divmod(place, replicas)
        if list(lists[rank][position : position + 1]) != list(right[rank][position : position + 1]):
            return rank, position
    return None


def missing(lists: Lists, size: int) -> list[int]:
    """The samples that are on no rank."""
    return sorted(set(range(size)).difference(*lists))


def repeated(lists: Lists) -> list[int]:
    """The samples that are handed out more than once."""
    return sorted(index for index, times in Counter(itertools.chain(*lists)).items() if times > 1)


def holders(lists: Lists, index: int) -> str:
    """Who hands out `index`, in words."""
    ranks = [rank for rank, indices in enumerate(lists) for one in indices if one == index]
    if len(set(ranks)) == 1:
        return f"{len(ranks)} times on rank {ranks[0]}"
    return f"on {says.names(ranks)}"


def shuffled_apart(lists: Lists, job: Job) -> bool:
    """Whether every rank has the samples that it would have without shuffling, in some order."""
    own = [set(indices) for indices in replace(job, shuffle=False).lists()]
    return job.replicas > 1 and [set(indices) for indices in lists] == own


def of_one(lists: Lists, job: Job, epoch: int) -> bool:
    """Whether every rank goes through the epoch's order in steps of one length: then no rank has an order of its own."""
    places = {index: place for place, index in enumerate(job.order(epoch))}
    steps = [{(places[after] - places[index]) % job.size for index, after in itertools.pairwise(one)} for one in lists]
    return all(len(of_rank) == 1 for of_rank in steps)


def habit(lists: Lists, job: Job, epoch: int = 0) -> str:
    """The mistake that gives just these lists, in a sentence; empty for none that is known."""
    handed = [list(indices) for indices in lists]
    if job.size == 1:
        return ""  # every mistake looks the same
    return next((said for made, said in _HABITS if made(job, epoch) == handed), "")


def _blocks(order: Sequence[int], job: Job, each: int) -> list[list[int]]:
    return [list(order[rank * each : (rank + 1) * each]) for rank in range(job.replicas)]


def _padded(job: Job, epoch: int) -> list[int]:
    return list(itertools.islice(itertools.cycle(job.order(epoch)), job.each * job.replicas))


def _per_rank_seed(job: Job, epoch: int) -> list[list[int]]:
    """Every rank's share of a permutation of its own."""
    return [replace(job, seed=job.seed + rank).lists(epoch)[rank] for rank in range(job.replicas)]


def _other_seed(seed: Callable[[Job, int], int]) -> Callable[[Job, int], list[list[int]]]:
    return lambda job, epoch: (
        replace(job, seed=seed(job, epoch)).lists() if seed(job, epoch) != job.seed + epoch else []
    )


def _padded_first(job: Job, epoch: int) -> list[list[int]]:
    """A permutation of the padded data set; empty where there is no padding."""
    order = [place % job.size for place in permutation(job.each * job.replicas, job.seed + epoch)]
    return [order[rank :: job.replicas] for rank in range(job.replicas)] if job.padding > 0 else []


_HABITS: tuple[tuple[Callable[[Job, int], list[list[int]]], str], ...] = (
    (lambda job, epoch: Job(job.size, job.replicas, False).lists() if job.order(epoch) != (*range(job.size),) else [],
     "This is the data set's own order. With shuffle=True, the default, permute the samples."),
    (lambda job, epoch: _blocks(_padded(job, epoch), job, job.each),
     "Every rank gets one contiguous block of the order. Deal the order out round robin instead: rank r gets places "
     "r, r + N, r + 2N, ..."),
    (lambda job, epoch: _blocks(job.order(epoch), job, job.size // job.replicas),
     "Every rank gets one contiguous block of size // num_replicas samples, and the tail is lost. Pad the order "
     "first. Then deal it out round robin: rank r gets places r, r + N, r + 2N, ..."),
    (lambda job, epoch: [list(job.order(epoch)[rank :: job.replicas]) for rank in range(job.replicas)],
     "Some ranks get a sample less than others. Make the length of the order divisible by num_replicas first."),
    (lambda job, epoch: _blocks(job.order(epoch), job, job.each),
     "Every rank gets one contiguous block of the order, and the last block is shorter. Deal the padded order out "
     "round robin instead: rank r gets places r, r + N, r + 2N, ..."),
    (_padded_first, "This is a permutation of the padded data set. Permute the data set alone, with torch.randperm("
     "dataset_size). Then pad that order at its end."),
    (_per_rank_seed, "Each rank permutes with its own seed (seed + rank). Use one seed on all ranks: seed + epoch."),
    (lambda job, epoch: [list(permutation(job.size, job.seed + epoch))] * job.replicas,
     "Every rank gets the whole data set. Hand out only the rank's own places of the order."),
    (_other_seed(lambda job, epoch: job.seed), "This is the order of epoch 0. Seed the generator with seed + epoch."),
    (_other_seed(lambda job, epoch: epoch), "This order ignores the seed. Seed the generator with seed + epoch."),
)  # fmt: skip


AFTER = "after the same with"
TWICE = "made twice for each rank"
INSIDE = "where rank 0 makes a pass of epoch 1 in the middle of one of epoch 0"
GOING_BACK = (0, 1, 2, 1, 0)  # the epochs of one sampler


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check; but for one, all of them are called in one world of one rank."""
    for replicas in (1, 2, 3, 4, 7):
        each = int(draw.generator(f"covers {replicas}").integers(3, 12))
        for more in sorted({0, 1, replicas - 1}):
            if more < replicas:
                yield _case("covers", Job(each * replicas + more, replicas, shuffle=False))
    for replicas in (2, 3, 5, 8):
        generator = draw.generator(f"shuffled {replicas}")
        each, seed = int(generator.integers(6, 14)), int(generator.integers(1, 10**6))
        for more in (0, 1, replicas - 1):
            job = Job(each * replicas + more, replicas, seed=seed)
            yield _case("lengths", job, by="lengths")
            yield _case("padding", job)
            yield _case("as_torch", job)
            for shuffle in (True, False):
                dropping = Job(job.size, replicas, shuffle, seed, drop_last=True)
                yield _case("drop_last", dropping, by="with_the_rest")
        yield _case("lengths", Job(each * replicas + 1, replicas, seed=seed, drop_last=True), by="lengths")
        yield _case("as_torch", Job(each * replicas, replicas))  # with all defaults
        epoch = int(generator.integers(1, 100)) | seed & -seed  # a bit of the seed: seed ^ epoch is another number
        yield _case("as_torch", Job(each * replicas, replicas, seed=seed), (epoch,))
        whole = Job(each * replicas, replicas, seed=seed)
        yield _case("agree", whole)
        yield _case("agree", whole, extra=1)
        yield _case("agree", whole, extra=2)
        yield _case("agree", whole, inside=True)
        yield _case("epochs", Job(each * replicas, replicas, seed=seed + 1), GOING_BACK)
        yield _case("epochs", Job(each * replicas, replicas, shuffle=False), (0, 1))
        yield _beside_another(Job(each * replicas, replicas, seed=seed + 1), epoch)
    yield _after_others(Job(10, 5, seed=int(draw.generator("after others").integers(1, 10**6))), 4)
    generator = draw.generator("processes")
    yield _on_processes(Job(3 * int(generator.integers(6, 14)), 3, seed=int(generator.integers(1, 10**6))))
    yield _case("lengths", Job(3, 8, seed=1), by="lengths")
    yield _case("lengths", Job(201, 200, seed=2), by="lengths")  # 1.005 rounds up to 2
    for size, replicas in ((1, 4), (2, 3), (3, 8), (5, 16), (4, 6), (1, 2)):
        seed = int(draw.generator(f"fewer {size} {replicas}").integers(1, 10**6))
        for shuffle in (True, False):
            yield _case("fewer", Job(size, replicas, shuffle, seed))
        yield _case("fewer", Job(size, replicas, True, seed, drop_last=True))


def _options(job: Job) -> dict[str, Any]:
    """The arguments that are not the defaults, by name."""
    given = {"shuffle": job.shuffle, "seed": job.seed, "drop_last": job.drop_last}
    return {name: value for name, value in given.items() if value != getattr(Job(1, 1), name)}


def _case(
    group: str, job: Job, epochs: tuple[int | None, ...] = (None,), extra: int = 0, by: str = "hand_out",
    inside: bool = False,
) -> Case:  # fmt: skip
    options = _options(job)
    label = _label(job)
    if extra:
        label += f", after rank 0 has gone through its own {'once' if extra == 1 else 'twice'} before"
    if inside:
        label += f", {INSIDE}"
    arguments: tuple[Any, ...] = (job.size, job.replicas, options)
    if by == "hand_out":
        arguments += (list(epochs), [extra] + [0] * (job.replicas - 1), inside)
    return Case(group, label, (arguments,), "ShardedSampler", expected=(job, epochs), by=by)


def _after_others(job: Job, others: int) -> Case:
    """The same order was handed out before to another number of ranks, which padded it."""
    label = f"{_label(job)}, {AFTER} num_replicas={others}"
    arguments = (job.size, job.replicas, _options(job), others)
    return Case("padding", label, (arguments,), "ShardedSampler", expected=(job, (None,)), by="after_others")


def _beside_another(job: Job, epoch: int) -> Case:
    """Two samplers of a rank are alive at once, as for training and validation, and set_epoch is called on one."""
    arguments = (job.size, job.replicas, _options(job), epoch)
    return Case("epochs", f"{_label(job)}, {TWICE}", (arguments,), "ShardedSampler", expected=(job, (0, epoch)),
                by="beside_another")  # fmt: skip


def _on_processes(job: Job) -> Case:
    """One sampler a rank, each in a process of its own."""
    arguments = ((job.size, _options(job), [1]),) * job.replicas
    return Case("agree", f"{_label(job)}, in real processes", arguments, "ShardedSampler", "gloo",
                expected=(job, (1,)), by="own")  # fmt: skip


def _label(job: Job) -> str:
    texts = [str(job.size), str(job.replicas), "rank", *(f"{name}={value}" for name, value in _options(job).items())]
    return f"ShardedSampler({', '.join(texts)})"
