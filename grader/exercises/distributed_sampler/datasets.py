"""The cases of distributed_sampler: which samplers are made, and what is done with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grader.exercise import Draw
from grader.exercises.distributed_sampler.samplers import Job
from grader.worlds.cases import Case

AFTER = "after the same with"
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
        yield _case("epochs", Job(each * replicas, replicas, seed=seed + 1), GOING_BACK)
        yield _case("epochs", Job(each * replicas, replicas, shuffle=False), (0, 1))
    yield _after_others(Job(10, 5, seed=int(draw.generator("after others").integers(1, 10**6))), 4)
    generator = draw.generator("processes")
    yield _on_processes(Job(3 * int(generator.integers(6, 14)), 3, seed=int(generator.integers(1, 10**6))))
    yield _case("lengths", Job(3, 8, seed=1), by="lengths")
    for size, replicas in ((1, 4), (2, 3), (3, 8), (5, 16), (4, 6), (1, 2)):
        seed = int(draw.generator(f"fewer {size} {replicas}").integers(1, 10**6))
        for shuffle in (True, False):
            yield _case("fewer", Job(size, replicas, shuffle, seed))
        yield _case("fewer", Job(size, replicas, True, seed, drop_last=True))


def _options(job: Job) -> dict[str, Any]:
    """The arguments that are not the defaults, by name."""
    given = {"shuffle": job.shuffle, "seed": job.seed, "drop_last": job.drop_last}
    return {name: value for name, value in given.items() if value != getattr(Job(1, 1), name)}


def _case(group: str, job: Job, epochs: tuple[int | None, ...] = (None,), extra: int = 0, by: str = "hand_out") -> Case:
    options = _options(job)
    label = _label(job)
    if extra:
        label += f", after rank 0 has gone through its own {'once' if extra == 1 else 'twice'} before"
    arguments: tuple[Any, ...] = (job.size, job.replicas, options)
    if by == "hand_out":
        arguments += (list(epochs), [extra] + [0] * (job.replicas - 1))
    return Case(group, label, (arguments,), "ShardedSampler", expected=(job, epochs), by=by)


def _after_others(job: Job, others: int) -> Case:
    """The same order was handed out before to another number of ranks, which padded it."""
    label = f"{_label(job)}, {AFTER} num_replicas={others}"
    arguments = (job.size, job.replicas, _options(job), others)
    return Case("padding", label, (arguments,), "ShardedSampler", expected=(job, (None,)), by="after_others")


def _on_processes(job: Job) -> Case:
    """One sampler a rank, each in a process of its own."""
    arguments = ((job.size, _options(job), [1]),) * job.replicas
    return Case("agree", f"{_label(job)}, in real processes", arguments, "ShardedSampler", "gloo",
                expected=(job, (1,)), by="own")  # fmt: skip


def _label(job: Job) -> str:
    texts = [str(job.size), str(job.replicas), "rank", *(f"{name}={value}" for name, value in _options(job).items())]
    return f"ShardedSampler({', '.join(texts)})"
