"""Chapter 16's language model on a mesh, for `torchrun`: trained, saved, and what it came to as JSON.

    torchrun --standalone --nproc-per-node=4 course/labs/mesh_hamlet.py dp=2,tp=2 200 FOLDER

The ranks of a tensor-parallel group get the same sequences. Rank 0 prints one line.
"""

from __future__ import annotations

import json
import sys

import torch
import torch.distributed as dist

from courselib import composed


def main() -> None:
    mesh, steps, folder = sys.argv[1:]
    sizes = {name: int(size) for name, size in (part.split("=") for part in mesh.split(","))}
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    report = composed.trained(sizes, int(steps), folder)
    if dist.get_rank() == 0:
        print(json.dumps(report))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
