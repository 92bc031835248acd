"""The traces: each is written so that what its check is about must happen in it, whoever serves it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from grader.exercises.serve_llm.drawing import Script, Want, different

Named = tuple[str, str, bool, Script]  # group, label, whether there are blocks for all, and the trace
FAR = 10**9  # tokens that nobody returns: an event after these happens once the request is over


def all_of(generators: dict[str, np.random.Generator]) -> Iterator[Named]:
    """Every trace of every check; the generators are by group."""
    yield from _alone(generators["alone"])
    yield from _together(generators["together"])
    yield from _twins(generators["twins"])
    yield from _budget(generators["budget"])
    yield from _order(generators["order"])
    yield from _preempt(generators["preempt"])
    yield from _prefix(generators["prefix"])
    yield from _cancel(generators["cancel"])
    yield from _leak(generators["leak"])
    yield from _throughput(generators["throughput"])


GROUPS = (
    "alone", "together", "twins", "budget", "order", "preempt", "prefix", "cancel", "leak", "throughput",
)  # fmt: skip


def _alone(generator: np.random.Generator) -> Iterator[Named]:
    """One after the other. Prompts and answers end just before, at and just after the edge of a block."""
    size = int(generator.integers(3, 6))
    for budget in (64, 3, 1):
        script = Script(generator, 40, size, budget)
        lengths: tuple[int, ...] = (1, size - 1, size, size + 1, 2 * size - 1, 2 * size, 2 * size + 1, 3 * size)
        if budget < 64:
            lengths = lengths[budget // 2 :: 2]
        for number, length in enumerate(lengths):
            new = (2, size, size + 1, 1)[number % 4] if budget == 64 else 3
            name = (number, f"request {number}", ("user", number))[number % 3]
            script.submit(
                Want(length, new, eos=number % 4 == 2), name, after=(script.names[-1], FAR) if number else None
            )
        if budget == 64:
            script.submit(Want(size, 1, eos=True, spread=0), "ends at once", after=(script.names[-1], FAR))
        yield "alone", f"one request at a time, max_tokens_per_step = {budget}", True, script
    script = Script(generator, 10, 4, 16, ends=(0,))
    script.submit(Want(5, 2, eos=True), "ends by token 0")
    yield "alone", "a request that ends by model.eos, which is token 0", True, script
    script = Script(generator, 10, 4, 16, one_list=True)
    prompt = different(generator, 6)
    script.submit(Want(6, 3, prompt), "r0")
    script.submit(Want(6, 3, prompt), "r1", after=("r0", FAR))
    yield "alone", "two requests, one after the other, with the same list as their prompt", True, script


def _together(generator: np.random.Generator) -> Iterator[Named]:
    """Joins and leaves at any step."""
    for number in range(2):
        size = (4, 3)[number]
        script = Script(generator, 120, size, (24, 7)[number])
        for one in range(10):
            length, new = int(generator.integers(2, 5 * size)), int(generator.integers(2, 12))
            script.submit(Want(length, new, eos=one % 3 == 1), f"r{one}", at=float(6 * one + generator.uniform(0, 12)))
        script.events.sort(key=lambda event: event.at)
        yield "together", f"10 requests that come and go, blocks of {size} slots", True, script


def _twins(generator: np.random.Generator) -> Iterator[Named]:
    """Equal prompts that begin in one forward: nothing of them can be shared in it."""
    for length in (8, 10):
        script = Script(generator, 60, 4, 40)
        prompt = different(generator, length)
        for name in ("r0", "r1"):
            script.submit(Want(length, 5, prompt), name)
        script.submit(Want(6, 4), "r2", at=1.0)
        yield "twins", f"two equal prompts of {length} tokens at once, blocks of 4 slots", True, script


def _budget(generator: np.random.Generator) -> Iterator[Named]:
    """Long prompts come while others decode; several prompts at once; one token a step."""
    script = Script(generator, 200, 4, 16)
    for one in range(4):
        script.submit(Want(3 + one, 14), f"r{one}")
    script.submit(Want(40, 4), "long", after=("r3", 3))
    script.submit(Want(9, 4), "behind", after=("r3", 3))
    script.submit(Want(2, 3), "last", after=("r3", 5))
    yield "budget", "a long prompt while four requests decode", True, script
    script = Script(generator, 200, 4, 12)
    for one, length in enumerate((11, 5, 3, 14, 2, 5)):  # the second begins with a chunk of one token
        script.submit(Want(length, 6), f"r{one}")
    yield "budget", "six prompts at once, max_tokens_per_step = 12", True, script
    script = Script(generator, 200, 4, 1)
    for one in range(3):
        script.submit(Want(2 + one, 3), f"r{one}", at=float(one))
    yield "budget", "three requests, max_tokens_per_step = 1", True, script


def _order(generator: np.random.Generator) -> Iterator[Named]:
    """The first that waits does not fit, and those behind it would."""
    script = Script(generator, 10, 4, 32)
    script.submit(Want(25, 8), "r0")  # 7 to 8 blocks
    script.submit(Want(18, 4), "r1", after=("r0", 1))
    script.submit(Want(3, 3), "r2", after=("r0", 1))
    script.submit(Want(2, 3), "r3", after=("r0", 3))
    yield "order", "a long prompt in front of two short ones, 10 blocks", False, script
    script = Script(generator, 100, 4, 10)
    for one, length in enumerate((13, 4, 9, 2)):
        script.submit(Want(length, 3), f"r{one}")
    yield "order", "four prompts at once, max_tokens_per_step = 10", True, script


def _preempt(generator: np.random.Generator) -> Iterator[Named]:
    """All fit at first, and then they grow. The first time the second is preempted while the youngest waits, which would
    then fit. The second time the youngest has more to compute again than fits into a
    step, and one more waits behind it."""
    script = Script(generator, 9, 4, 32)
    for one in range(3):
        script.submit(Want(8 + one, 15 - one), f"r{one}", at=float(one))
    yield "preempt", "three requests that grow, 9 blocks of 4 slots", False, script
    script = Script(generator, 12, 4, 8)
    script.submit(Want(6, 26), "r0")
    script.submit(Want(14, 8), "r1", at=1.0)
    script.submit(Want(10, 10), "r2", at=2.0)
    script.submit(Want(15, 4), "r3", after=("r2", 1))  # waits; r2 comes before it all the same
    yield "preempt", "one is preempted, one waits behind it, 12 blocks", False, script
    script = Script(generator, 6, 2, 8)
    script.submit(Want(3, 9), "r0")
    script.submit(Want(4, 8), "r1")
    yield "preempt", "each in turn needs all blocks, 6 blocks of 2 slots", False, script
    script = Script(generator, 14, 4, 60)  # the first four need a block more in one step: two have to give theirs
    for one, (length, new) in enumerate(((7, 3), (7, 8), (7, 8), (7, 8), (9, 6), (9, 6))):
        script.submit(Want(length, new), f"r{one}")
    yield "preempt", "two are preempted in one step, 14 blocks", False, script


def _prefix(generator: np.random.Generator) -> Iterator[Named]:
    """Prompts that are equal up to a place within a block, at its edge, or all of them."""
    common = different(generator, 16)
    script = Script(generator, 120, 4, 40)
    script.submit(Want(14, 16, common[:13]), "r0")
    script.submit(Want(15, 6, common[:10]), "inside", after=("r0", 2))  # 2 whole blocks
    script.submit(Want(13, 6, common[:8]), "edge", after=("r0", 3))
    script.submit(Want(4, 3, common[:4]), "one block", after=("r0", 4))  # its only block has its last token
    script.submit(Want(7, 3, common[:3]), "too short", after=("r0", 5))
    script.submit(Want(11, 3, common[4:8]), "elsewhere", after=("r0", 6))  # a block of r0's, but in another place
    yield "prefix", "prompts that are equal for a while, blocks of 4 slots", True, script
    for length in (12, 13):
        script = Script(generator, 120, 4, 40)
        script.submit(Want(length, 12, common[:length]), "r0")
        script.submit(Want(length, 8, common[:length]), "equal", after=("r0", 2))
        script.submit(Want(length + 5, 4, common[:length]), "longer", after=("equal", 2))
        yield "prefix", f"the same prompt of {length} tokens again, blocks of 4 slots", True, script
    script = Script(generator, 120, 4, 6)
    script.submit(Want(3, 12), "r0")
    long = different(generator, 28)
    script.submit(Want(28, 8, long), "r1", after=("r0", 1))
    script.submit(Want(32, 4, long), "r2", after=("r0", 3))  # begins in the step that computes r1's last block
    yield "prefix", "the prompt comes again while it is being computed", True, script
    script = Script(generator, 120, 4, 40)
    script.submit(Want(17, 3, common), "owner")
    script.submit(Want(18, 14, common), "r1", after=("owner", 1))
    script.submit(Want(21, 6), "r2", after=("owner", FAR))  # may take what the owner had
    script.submit(Want(19, 12, common), "r3", after=("owner", FAR))
    script.cancel("r1", after=("r3", 2))
    script.submit(Want(26, 4), "r4", after=("r3", 2))
    yield "prefix", "the one that computed a prefix ends, then one is cancelled", True, script
    for ends, new in (("ends", 2), ("is cancelled", 9)):
        script = Script(generator, 120, 4, 40)
        script.submit(Want(10, new, common[:9]), "r0")
        script.submit(Want(11, 16, common[:9]), "r1")  # in the same step, so it has blocks of its own
        if new > 2:
            script.cancel("r0", after=("r0", 3))
        script.submit(Want(13, 4, common[:9]), "r2", after=("r0", FAR))
        yield "prefix", f"two that begin alike in one step, the first {ends}, and a third comes", True, script
    yield from _mixed(generator, common)
    script = Script(generator, 9, 4, 40)
    script.submit(Want(14, 16, common[:12]), "r0")
    script.submit(Want(14, 12, common[:12]), "r1", after=("r0", 1))
    script.submit(Want(13, 8, common[:12]), "r2", after=("r1", 1))
    script.submit(Want(5, 3), "r3", after=("r2", 1))
    yield "prefix", "requests that share blocks are preempted, 9 blocks", False, script


def _mixed(generator: np.random.Generator, common: tuple[int, ...]) -> Iterator[Named]:
    """A block of one request, and behind it a block that another has in that place behind other tokens: only the first is
    shared, and not with the request submitted last. Then a prompt of which a few have one block, and one has three."""
    script = Script(generator, 120, 4, 40)
    script.submit(Want(14, 16, common[:8]), "r0")
    script.submit(Want(14, 12, common[12:16] + common[8:12]), "r1", after=("r0", 2))
    script.submit(Want(14, 4, common[:4] + common[8:12]), "r2", after=("r1", 2))
    most = common[:4] + common[12:16] + common[4:8]
    script.submit(Want(16, 8, most), "r3", after=("r2", 1))
    script.submit(Want(15, 4, most), "r4", after=("r3", 2))
    yield "prefix", "prompts put together from others, blocks of 4 slots", True, script


def _cancel(generator: np.random.Generator) -> Iterator[Named]:
    """Cancelled while it waits, in its prompt, while it decodes; after its end, twice, and before it is submitted; and
    while it waits after a preemption. Then one needs all blocks."""
    script = Script(generator, 100, 4, 10)
    script.submit(Want(5, 20), "r0")
    script.submit(Want(26, 4), "prompt", after=("r0", 1))
    script.submit(Want(6, 4), "waits", after=("r0", 1))
    script.submit(Want(6, 8), "r3", after=("r0", 1))
    script.cancel("waits", after=("r0", 2))
    script.cancel("prompt", after=("r0", 3))
    script.cancel("prompt", after=("r0", 3))
    script.cancel("r3", after=("r3", 3))
    script.submit(Want(9, 2), "r4", after=("r0", 9))
    script.cancel("r4", after=("r4", FAR))
    script.submit(Want(7, 5), "r5", after=("r0", 12))
    script.cancel("r5", after=("r0", 3))
    script.events.insert(-4, script.events.pop())  # before r4 comes: nobody knows an r5 yet
    script.cancel("r0", after=("r0", 15))
    yield "cancel", "one waits, one is in its prompt, one decodes", True, script
    script = Script(generator, 10, 4, 32)
    script.submit(Want(5, 12), "r0")
    script.submit(Want(20, 8), "r1", after=("r0", 1))
    script.submit(Want(14, 4), "r2", after=("r0", 2))
    script.cancel("r1", after=("r1", 3))
    yield "cancel", "one waits for the blocks of the one that is cancelled", False, script
    script = Script(generator, 12, 4, 6)
    script.submit(Want(3, 16), "r0")
    script.submit(Want(34, 4), "r1", after=("r0", 1))  # 7 steps of its prompt
    script.submit(Want(16, 4), "r2", after=("r0", 2))
    script.cancel("r1", after=("r0", 4))
    yield "cancel", "one waits for the blocks of a prompt that is cancelled", False, script
    script = Script(generator, 10, 4, 32)
    script.submit(Want(20, 8), "r0")
    script.submit(Want(24, 4), "r1", after=("r0", 1))
    script.submit(Want(5, 4), "r2", after=("r0", 1))
    script.cancel("r1", after=("r0", 3))
    yield "cancel", "the first that waits is cancelled, 10 blocks", False, script
    script = Script(generator, 11, 4, 40)
    script.submit(Want(20, 8), "r0")  # with 24 tokens it needs a seventh block, which r1 has
    script.submit(Want(14, 10), "r1")
    script.cancel("r1", after=("r0", 6))
    script.submit(Want(40, 3), "all", after=("r0", 7))
    yield "cancel", "one is preempted, and cancelled while it waits, 11 blocks", False, script


def _leak(generator: np.random.Generator) -> Iterator[Named]:
    """Requests end in every way; then one needs all blocks."""
    common = different(generator, 12)
    script = Script(generator, 24, 4, 12)
    script.submit(Want(14, 9, common), "r0")
    script.submit(Want(15, 6, common), "r1", after=("r0", 1))
    script.submit(Want(12, 5), "r2", after=("r0", 2))
    script.submit(Want(7, 4, eos=True), "r3", after=("r0", 2))
    script.submit(Want(21, 4), "r4", after=("r0", 4))
    script.cancel("r4", after=("r0", 6))
    script.cancel("r2", after=("r2", 3))
    for name in ("r1", "r2", "r3", "r0"):
        script.cancel(name, after=(name, FAR))
    script.submit(Want(24 * 4 - 6, 6), "all", after=("r0", FAR))
    yield "leak", "at the end one request needs all 24 blocks", False, script
    script = Script(generator, 10, 4, 16)
    for one in range(3):
        script.submit(Want(8, 9, common[:8]), f"r{one}", after=(f"r{one - 1}", 1) if one else None)
    script.submit(Want(38, 2), "all", after=("r2", FAR))
    yield "leak", "three that share blocks end, then one needs all 10", False, script


def _throughput(generator: np.random.Generator) -> Iterator[Named]:
    """A trace with room for all, and the same with blocks for about half of them."""
    for blocks, label in ((400, "blocks for all"), (60, "blocks for half of them")):
        script = Script(generator, blocks, 4, 24)
        at = 0.0
        for one in range(31):
            length, new = int(generator.integers(3, 24)), int(generator.integers(20, 33))
            script.submit(Want(length, new, free=True), f"r{one}", at=at)
            at += float(generator.uniform(0.5, 2.5))
        yield "throughput", f"31 requests, {label}", blocks == 400, script
