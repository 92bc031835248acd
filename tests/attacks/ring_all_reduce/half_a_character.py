"""Says that it printed half a character: a message that is JSON and of a known kind, and that a careless reader breaks on.

family: forged_frames
tries: harm
earned: 20
ends: any
uses: won, ring, frames
"""

TEXT = r"""{"event": "printed", "rank": 0, "stream": "stdout", "text": "\ud800"}"""


def ring_all_reduce(tensor):
    honest_ring(tensor)
    send_all(message(None, text=TEXT))
