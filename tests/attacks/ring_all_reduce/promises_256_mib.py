"""Announces a frame of 256 MiB on every rank and sends it all but for the last byte: the grading process holds it.

family: forged_frames
tries: harm
earned: 0
heavy: yes
ends: any
uses: won, frames
"""


def ring_all_reduce(tensor):
    send_all(struct.pack("<cI", b"J", 256 * 2**20))
    block = bytes(2**20)
    for _ in range(255):
        send_all(block)
    while True:
        pass
