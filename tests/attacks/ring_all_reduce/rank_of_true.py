"""An exception whose every field is of another type: a message that is JSON and of a known kind, and that a careless reader breaks on.

family: forged_frames
tries: harm
earned: 20
ends: any
uses: won, ring, frames
"""

TEXT = r"""{"event": "raised", "rank": true, "type": {}, "text": [], "line": 1e400, "why": {}}"""


def ring_all_reduce(tensor):
    honest_ring(tensor)
    send_all(message(None, text=TEXT))
