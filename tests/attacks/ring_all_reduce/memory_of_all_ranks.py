"""Takes memory on every rank at once, each less than one alone may have: up to a gigabyte and a half.

family: bombs
tries: harm
earned: 18
ends: out_of_memory, crash, sandbox_violation, timeout
uses: won, ring
"""

def ring_all_reduce(tensor):
    honest_ring(tensor)
    if simulated():
        return
    kept = [bytearray(b"x" * (64 << 20)) for _ in range(24)]
    honest_ring(torch.zeros(dist.get_world_size()))  # all have got that far
    won(f"every rank has {len(kept)} times 64 MiB")
