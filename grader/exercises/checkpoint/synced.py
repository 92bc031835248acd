"""What a power cut takes although somebody called fsync: what was written after it."""

from __future__ import annotations

from collections.abc import Iterable

from grader.ranks.lives.calls import SYNCS, WRITES


def too_early(calls: Iterable[tuple[str, str]]) -> str:
    """Of file operations (call, name): a sentence on a file that was written to after its last sync, if it had one."""
    synced: set[str] = set()
    late: dict[str, None] = {}
    for call, name in calls:
        if name and call in SYNCS:
            synced.add(name)
            late.pop(name, None)
        elif name in synced and call in WRITES:
            late[name] = None
    if not late:
        return ""
    return (
        f"{next(iter(late))} was written to after its last fsync, so what was written is not on the disk. If "
        "Python held it in a buffer, call file.flush() before os.fsync()."
    )
