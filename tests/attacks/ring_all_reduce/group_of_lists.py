"""A process group whose ranks are lists: a message that is JSON and of a known kind, and that a careless reader breaks on.

family: forged_frames
tries: harm
earned: 20
ends: any
uses: won, ring, frames
"""

TEXT = r"""{"event": "group", "group": 5, "ranks": [[0], [1]]}"""


def ring_all_reduce(tensor):
    honest_ring(tensor)
    send_all(message(None, text=TEXT))
