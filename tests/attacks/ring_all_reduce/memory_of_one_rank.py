"""Takes memory on one rank, up to six gigabytes, and touches all of it.

family: bombs
tries: harm
earned: 0
ends: timeout, out_of_memory
uses: won
"""

def ring_all_reduce(tensor):
    kept = []
    while len(kept) < 96:  # of 64 MiB
        kept.append(bytearray(b"x" * (64 << 20)))
    won("one rank has six gigabytes")
