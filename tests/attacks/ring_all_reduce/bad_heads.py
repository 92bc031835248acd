"""Sends what is no frame: another kind, a length of four gigabytes, a torn event record.

family: forged_frames
tries: harm
earned: 0
ends: sandbox_violation, crash
uses: won, frames
"""


def ring_all_reduce(tensor):
    send_all(struct.pack("<cI", b"E", 41) + bytes(41))
    send_all(struct.pack("<cI", b"J", 0xFFFFFFFF))
    send_all(b"Q" * 4096)
