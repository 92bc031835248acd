"""Nothing is written yet.
check: finds
kind: crash
"""
def search(space, trainable, num_samples, max_t):
    raise NotImplementedError
