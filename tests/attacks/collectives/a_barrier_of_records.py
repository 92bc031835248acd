"""Its barrier waits for nobody: it writes the records of one into the trace. Nothing else is there.

family: patched_counters
tries: points
earned: 0
ends: any
uses: won, forge
"""


def barrier():
    n, rank = dist.get_world_size(), dist.get_rank()
    records, distance, number = b"", 1, 0
    while distance < n:
        right, left, at = (rank + distance) % n, (rank - distance) % n, number * 10**9
        for what, kind, peer, op, when in (
            (_POST, _SEND, right, number, at), (_POST, _RECV, left, number + 1, at), (_WAIT, _SEND, right, number, at),
            (_DONE, _SEND, right, number, at), (_WAIT, _RECV, left, number + 1, at), (_DONE, _RECV, left, number + 1, at),
        ):  # fmt: skip
            records += _RECORD.pack(what, kind, 0, 1, peer, 0, op, 0, when)
        distance, number = 2 * distance, number + 2
    context = simulator()
    if context is None:
        recorder()._records += records
    else:
        context.scheduler.ranks[rank].records += records
