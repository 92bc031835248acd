"""Why a world's ranks will never be done: from what is known of them to the one diagnosis that ends the run."""

from __future__ import annotations

from grader.ranks import blame
from grader.ranks.account import Account, Broken
from grader.ranks.faults import kills
from grader.sandbox import frames


def explain(account: Account, stuck: dict[int, set[int]]) -> Broken:
    """Why the ranks that are not done never will be. A broken rank comes before those that wait for it."""
    if account.endless is not None:
        return Broken(account.endless, "timed_out")
    forbidden = any(rank.raised is not None and rank.raised.why == "forbidden" for rank in account.ranks)
    different = None if forbidden else blame.mismatched(account.trace, account.source)
    if different:
        return Broken(different, "mismatched")
    if any(rank.state == "killed" for rank in account.ranks) and not forbidden:
        return after_a_kill(account, stuck)
    for number, rank in enumerate(account.ranks):
        if rank.state == "dead" and rank.status not in (0, None):
            return Broken(blame.died(number, rank.status or 0, account.trace, account.source), "crashed")
    gone = next((n for n, rank in enumerate(account.ranks) if rank.state == "dead"), None)
    fallen = [(n, r.raised) for n, r in enumerate(account.ranks) if r.state == "raised" and r.raised is not None]
    if fallen and (gone is None or any(error.why != "peer" for _, error in fallen)):
        order = {"forbidden": 0, "peer": 2}
        number, error = min(fallen, key=lambda pair: (order.get(pair[1].why, 1), pair[0]))
        alike = sum((other.type, other.line) == (error.type, error.line) for _, other in fallen) - 1
        found = blame.raised(number, error, account.size, account.source, alike)
        return Broken(found, blame.ENDINGS.get(found.kind, "crashed"))
    blocked = {n: r.blocked for n, r in enumerate(account.ranks) if r.blocked is not None}
    account.ring = blame.cycle(stuck)
    lost = {(rank, peer) for rank, peer, _ in account.trace.lost}
    kept_apart = [f for f in account.faults if f.kind == "partition" or (f.kind == "drop" and (f.rank, f.peer) in lost)]
    told = [fault.told() for fault in kept_apart]
    if account.ring and not told:
        return Broken(blame.deadlock(account.ring, blocked, account.trace, account.source), "deadlocked")
    if blocked and told:
        first = blocked[min(blocked)]
        waiters = [blame.waits(op, account.source) for _, op in sorted(blocked.items())]
        line = first.wait_line or first.line or None
        return Broken(blame.stranded(told, waiters, first.rank, line, account.source), "deadlocked")
    if gone is not None:
        return Broken(blame.died(gone, 0, account.trace, account.source), "left_early")
    returned = [n for n, rank in enumerate(account.ranks) if rank.state == "returned"]
    if not stuck:
        raise frames.FrameError("ranks that neither go on nor wait for anything")
    trace = account.trace if account.program.watched else None
    return Broken(blame.left_early(stuck, blocked, returned, account.source, trace), "left_early")


def after_a_kill(account: Account, stuck: dict[int, set[int]]) -> Broken:
    """A fault killed a rank, and others could not go on."""
    number = next(n for n, rank in enumerate(account.ranks) if rank.state == "killed")
    told = kills(account.faults)[number].told()
    waits = [
        blame.waits(rank.blocked, account.source) for n, rank in enumerate(account.ranks) if n in stuck and rank.blocked
    ]
    lines = [rank.raised.line for rank in account.ranks if rank.raised is not None]  # not where the killed rank was
    lines += [op.wait_line or op.line for n in sorted(stuck) if (op := account.ranks[n].blocked) is not None]
    did: dict[str, list[int]] = {}
    for n, rank in enumerate(account.ranks):
        if rank.raised is not None:
            where = account.source.quote(rank.raised.line)
            did.setdefault(f"raised {rank.raised.type}: {rank.raised.text}{where}", []).append(n)
        elif rank.state == "returned" and waits:
            did.setdefault("returned", []).append(n)
    line = next((line for line in lines if line), None)
    return Broken(blame.killed(told, number, waits, did, account.source, line), "crashed")
