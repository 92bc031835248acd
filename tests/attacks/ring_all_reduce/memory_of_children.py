"""Takes memory in processes that have detached themselves, up to four gigabytes in all, while the rank itself waits.

family: bombs
tries: harm
earned: 0
ends: out_of_memory, crash, timeout, sandbox_violation, left_early
uses: won
"""

def take(done):
    kept = [bytearray(b"x" * (64 << 20)) for _ in range(16)]
    os.write(done, b"x")
    while kept:
        _libc.usleep(100_000)


def ring_all_reduce(tensor):
    taken, done = os.pipe()
    for _ in range(4):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                take(done)
            os._exit(0)
    for _ in range(4):
        os.read(taken, 1)
    won("four children have a gigabyte each")
