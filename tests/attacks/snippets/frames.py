# The frame protocol, written anew: what a rank and the grading process say to each other goes over descriptor 3.
import json
import os
import struct

CHANNEL = 3


def send_all(data):
    view = memoryview(data)
    while view:
        view = view[os.write(CHANNEL, view) :]


def frame(kind, body):
    return struct.pack("<cI", kind, len(body)) + body


def message(header, blob=b"", text=None):
    text = (json.dumps(header) if text is None else text).encode()
    return frame(b"J", struct.pack("<I", len(text)) + text + blob)


def standings(state="returned", **more):
    import torch.distributed as dist

    usual = {"state": state, "blocked": None, "raised": None, "clock": 0.0, "peak": 0, "thread": 1}
    return [{**usual, **more} for _ in range(dist.get_world_size())]


def record(what, kind, peer=0, tag=0, number=0, size=0, at=0, line=1, info=0):
    return struct.pack("<BBHiiqIQQ", what, kind, info, line, peer, tag, number, size, at)


def events(records):
    """Event records of this rank, as real processes and the simulator send them."""
    import torch.distributed as dist

    if type(dist.group.WORLD).__name__ == "ProcessGroup":
        return frame(b"E", records)
    return message({"event": "trace", "rank": dist.get_rank()}, records)
