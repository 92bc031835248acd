"""The rules of scheduling, held against each step of an engine's record.

Where blocks suffice for everything, a step is decided to the token. Where they do not, engines may differ: how many
blocks they want to be free before they admit a request, for instance. There only what is never right is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grader.says import counted, listed
from grader.serving.follow import Follow
from grader.serving.frames import Frame, Live, Part


def judge(run: Follow, frame: Frame, ample: bool) -> None:
    """Add what is wrong in this step to the findings of the run. `ample`: there are blocks for all requests of the trace."""
    if not frame.parts:
        return
    alive = [run.live[number] for number in frame.before]
    _budget(run, frame)
    _decoders(run, frame, alive, ample)
    _oldest(run, frame, alive)
    _order(run, frame, alive)
    _again(run, frame, alive, ample)
    _prefix(run, frame)
    if ample:
        _exact(run, frame, alive)
    else:
        _waits(run, frame, alive)
    for one in alive:
        part = frame.of(one.number)
        before = frame.before[one.number]
        if part is None and before.begun and not before.decoding and _short(run, frame, one, alive):
            one.absent = True  # a prompt that was begun: it may have been preempted


def _names(many: list[Live]) -> str:
    names = listed([repr(one.name) for one in many[:4]] + (["others"] if len(many) > 4 else []))
    return f"request {names}" if len(many) == 1 else f"requests {names}"


def _numbers(blocks: Sequence[int], there: bool) -> str:
    """Which blocks to share, and what to do with them: a table may have them already."""
    those, which = ("this", "block") if len(blocks) == 1 else ("these", "blocks")
    does = (
        f"The table has {those} {which} already. Begin" if there else f"Put {those} {which} into the table, and begin"
    )
    return f"{which} {listed([str(block) for block in blocks])}. {does}"


def _budget(run: Follow, frame: Frame) -> None:
    if frame.tokens > run.trace.budget:
        text = (
            f"Step {frame.step} computes {counted(frame.tokens, 'token')} in {counted(len(frame.parts), 'chunk')}, but "
            f"max_tokens_per_step is {run.trace.budget}. Count the tokens of all chunks"
        )
        run.found("budget", text, frame.parts[0].request, f"at most {run.trace.budget} tokens", f"{frame.tokens}")


# ---- requests that decode


def _blocks(run: Follow, tokens: int) -> int:
    return -(-tokens // run.trace.block_size)


def _short(run: Follow, frame: Frame, one: Live, alive: list[Live]) -> bool:
    """Whether blocks may be too few for `one` in this step: those that older requests hold or may want soon, and all that
    it needs itself, are more than there are."""
    held, had = set[int](), set[int]()
    wanted = 0
    for other in alive[: alive.index(one)]:
        before = frame.before[other.number]
        if frame.of(other.number) is None and other.absent:
            if before.cached and not before.absent:  # preempted in this step: it wanted its blocks, too
                wanted += _blocks(run, len(other.known) + 1) - len(had.intersection(before.table))
                had.update(before.table)
            continue
        if not other.begun:
            continue
        held.update(other.table)
        had.update(before.table)
        wanted += max(0, _blocks(run, len(other.known) + 1) - len(other.table))
    shared = len(had.intersection(frame.before[one.number].table))  # what was taken from it is not shared
    return len(held) + wanted + _blocks(run, len(one.known) + 1) - shared > run.trace.blocks


def _decoders(run: Follow, frame: Frame, alive: list[Live], ample: bool) -> None:
    """Who has returned a token gets the next one, but for the youngest where blocks are too few."""
    for one in alive:
        if not frame.before[one.number].decoding or frame.of(one.number):
            continue
        if ample or not _short(run, frame, one, alive):
            _raise_no_token(run, frame, one, ample, _younger(frame, one, alive))
            continue
        younger = _younger(frame, one, alive)
        if younger:
            text = (
                f"There are too few blocks in step {frame.step}, and it leaves out {one.label}, but goes on with "
                f"{_names(younger)}, submitted later. Preempt the youngest running request, the one submitted last"
            )
            run.found("preempt", text, one.number, f"{younger[-1].label} is preempted", f"{one.label}")
        one.absent = True


def _younger(frame: Frame, one: Live, alive: list[Live]) -> list[Live]:
    """The requests submitted after this one that ran before the step and have a chunk in it."""
    return [
        other for other in alive[alive.index(one) + 1 :] if frame.of(other.number) and frame.before[other.number].begun
        and not frame.before[other.number].absent
    ]  # fmt: skip


def _raise_no_token(run: Follow, frame: Frame, one: Live, ample: bool, younger: list[Live]) -> None:
    prompts = [part for part in frame.parts if not part.decodes]
    spent = sum(part.count for part in prompts)
    text = f"{one.title} has returned {counted(one.returned, 'token')} and gets none in step {frame.step}"
    if spent:
        text += (
            f", which computes {counted(spent, 'token')} of prompts of {_names([run.live[p.request] for p in prompts])}"
        )
    else:
        text += f", which computes {counted(frame.tokens, 'token')}; max_tokens_per_step is {run.trace.budget}"
    if ample or spent:
        text += ". Give each request that decodes its next token first, and prompts what is left of the budget"
        run.found("budget", text, one.number, "a token in every step", "none")
    else:
        if younger:
            text += (
                f". It goes on with {_names(younger)}, submitted later. If a block is missing, preempt the youngest "
                "running request, the one submitted last"
            )
            run.found("preempt", text, one.number, f"{younger[-1].label} is preempted", f"{one.label}")
            return
        held = {block for part in frame.parts for block in part.table}
        text += (
            f". The other requests hold {len(held)} of {run.trace.blocks} blocks, so there is one for it. Preempt only "
            "if there is no free block"
        )
        run.found("preempt", text, one.number, "no preemption", f"{one.label} is left out")


def _oldest(run: Follow, frame: Frame, alive: list[Live]) -> None:
    one = alive[0]
    if frame.of(one.number) is None and not frame.before[one.number].decoding:
        others = [run.live[part.request] for part in frame.parts]
        text = (
            f"Step {frame.step} computes {_names(others)}, but not {one.label}, the oldest unfinished request. The oldest "
            "is in every forward, because only the youngest is ever preempted"
        )
        rule = "preempt" if frame.before[one.number].begun else "order"
        run.found(rule, text, one.number, f"a chunk of {one.label}", "none")


# ---- who comes first


def _order(run: Follow, frame: Frame, alive: list[Live]) -> None:
    for part in frame.parts:
        if not part.first:
            continue
        one = run.live[part.request]
        for other in alive[: alive.index(one)]:
            before = frame.before[other.number]
            if frame.of(other.number) or (before.decoding and not other.absent):
                continue
            if not before.decoding and before.begun and other.starts and before.cached and not before.absent:
                continue  # a prompt that was cut: it has begun
            again = before.begun
            text = (
                f"Step {frame.step} begins with {one.label}, but {other.label}, "
                f"{'which was preempted and ' if again else ''}which was submitted earlier, still waits"
            )
            if again:
                text += ". A preempted request goes back to the head of the waiting ones"
            else:
                need = _blocks(run, len(other.known))
                text += (
                    f" for its first chunk: it needs {counted(need, 'block')} for {len(other.known)} tokens. If the first "
                    "waiting request does not fit, nobody behind it may begin"
                )
            run.found("preempt" if again else "order", text, one.number, f"{other.label} first", f"{one.label}")
            return


def _again(run: Follow, frame: Frame, alive: list[Live], ample: bool) -> None:
    """Computed anew, though not preempted."""
    for part in frame.parts:
        before = frame.before[part.request]
        if not part.again or before.absent:
            continue
        one = run.live[part.request]
        if not ample and _short(run, frame, one, alive):
            continue
        text = (
            f"Step {frame.step} computes positions {part.start} .. {part.end - 1} of {one.label}, whose positions "
            f"0 .. {before.cached - 1} are in the cache. Blocks suffice, so nothing is to be computed again. Begin each "
            "chunk where the one before it ended"
        )
        run.found("again", text, one.number, f"start {before.cached}", f"start {part.start}")


# ---- where there is room for all


def _exact(run: Follow, frame: Frame, alive: list[Live]) -> None:
    """Every request that decodes gets one token; the rest goes to prompts in order of submission, cut where it ends."""
    left = run.trace.budget - sum(frame.before[one.number].decoding for one in alive)
    for one in alive:
        before, part = frame.before[one.number], frame.of(one.number)
        if before.decoding:
            continue
        start = part.start if part else before.cached
        wanted = min(max(left, 0), before.known - start)
        left -= wanted
        got = part.count if part else 0
        if got >= wanted:
            continue
        text = (
            f"Step {frame.step} computes {counted(got, 'token') if got else 'nothing'} of {one.label}, and "
            f"{counted(frame.tokens, 'token')} in all; max_tokens_per_step is {run.trace.budget}. "
        )
        later = [other for other in alive[alive.index(one) + 1 :] if frame.of(other.number)
                 and not frame.before[other.number].decoding]  # fmt: skip
        text += f"Its prompt still has {before.known - start} tokens to compute, so {wanted} of them {'fits' if wanted == 1 else 'fit'} into this step"
        if later and frame.tokens >= run.trace.budget:
            text += (
                f", before those of {_names(later)}, submitted later. Give the budget to prompts in order of submission"
            )
        elif not part:
            text += (
                ". Let a waiting request join in the first step that has room, whatever else runs, and even if only a "
                "part of its prompt fits"
            )
        else:
            text += ". Cut a prompt where the budget ends, not before"
        run.found("fill", text, one.number, f"{wanted} tokens", f"{got}")
        return


# ---- where there is not


def _waits(run: Follow, frame: Frame, alive: list[Live]) -> None:
    """The first that waits is admitted where there are blocks for all of its tokens, and one more for everybody."""
    if frame.tokens >= run.trace.budget:
        return
    one = next((one for one in alive if frame.of(one.number) is None), None)
    if one is None or frame.before[one.number].decoding:
        return
    held = {block for other in alive for block in other.table if not other.absent}
    need = _blocks(run, len(one.known) + 1) - (len(one.table) if not one.absent else 0)
    free = run.trace.blocks - len(held)
    if need + len(frame.parts) <= free:
        text = (
            f"Step {frame.step} computes {counted(frame.tokens, 'token')} of at most {run.trace.budget} and leaves "
            f"{one.label} waiting, the first in the queue. It needs {counted(_blocks(run, len(one.known)), 'block')} for its "
            f"{len(one.known)} tokens; {free} of {run.trace.blocks} are free, because the requests that run hold "
            f"{len(held)}. {_advice(run, one)}"
        )
        run.found("waits", text, one.number, f"a chunk of {one.label}", "none")


def _advice(run: Follow, one: Live) -> str:
    if why := run.all_in_whole_blocks(one):
        return why
    if any(one.ended == "cancelled" for one in run.live.values()):
        return "Free the blocks of a request as soon as it is cancelled or over, and admit the next one then"
    return (
        "Admit requests as long as their prompts fit, also several in one step: blocks for tokens to come are taken when they "
        "come"
    )


# ---- shared blocks


def owed(run: Follow, frame: Frame, part: Part) -> tuple[int, Live | None]:
    """How many positions of a prompt need not be computed, because requests that came before and are not over have
    computed these whole blocks; and one that has."""
    one, size = run.live[part.request], run.trace.block_size
    owner, blocks = None, 0
    while (blocks + 1) * size < len(one.prompt):
        end = (blocks + 1) * size
        found = next((other for other in _owners(run, frame, one, end)), None)
        if found is None:
            break
        owner, blocks = found, blocks + 1
    return blocks * size, owner


def _owners(run: Follow, frame: Frame, one: Live, end: int) -> Iterator[Live]:
    for number, before in frame.before.items():
        if number == one.number:
            return
        other = run.live[number]
        if before.absent or not before.own <= end - run.trace.block_size or end > min(before.cached, len(other.prompt)):
            continue
        if other.prompt[:end] == one.prompt[:end]:
            yield other


def _prefix(run: Follow, frame: Frame) -> None:
    for part in frame.parts:
        one = run.live[part.request]
        if not part.first or frame.before[part.request].begun:
            continue
        positions, owner = owed(run, frame, part)
        if owner is None or part.start >= positions:
            continue
        blocks = owner.table[: positions // run.trace.block_size]
        there = part.table[: len(blocks)] == blocks
        text = (
            f"Step {frame.step} computes {one.label} from position {part.start} on. {owner.title} is not over, "
            f"and its first {positions} tokens are the same and in the cache: "
            f"{_numbers(blocks, there)} at position {positions}"
        )
        run.found("prefix", text, one.number, f"start {positions}", f"start {part.start}")
        return
