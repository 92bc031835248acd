"""What a box may take of the machine; an exercise may ask for other limits than these."""

from __future__ import annotations

import resource
from dataclasses import asdict, dataclass
from typing import Any

MIB = 2**20


@dataclass(frozen=True)
class BoxLimits:
    """What all processes of one box together may take.

    Bytes of memory (proportional set size, scratch files included), processes and threads, bytes and inodes on its
    scratch disk; and what one process may: open files, bytes in one file, CPU seconds. CPU seconds are a backstop:
    each call has a tighter limit of its own (`ranks.program.Limits`). `subreaper` says whether a process is that of
    what it starts, to end all of it itself; `unix_sockets` whether its processes may open unix sockets, and so talk
    with each other past the network; connected pairs they always may.
    """

    memory_bytes: int = 2048 * MIB
    processes: int = 400
    disk_bytes: int = 256 * MIB
    inodes: int = 4096
    open_files: int = 512  # sockets that nobody reads are a MiB of the kernel's memory each
    file_bytes: int = 128 * MIB
    cpu_seconds: int = 120
    subreaper: bool = False
    unix_sockets: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> BoxLimits:
        return cls(**data)

    def impose(self, alone: bool) -> None:
        """Give this process, for good, what the kernel keeps of these limits. Raises OSError.

        `alone` says whether its user's processes are counted in a namespace of the box's own.
        """
        most = {
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_NOFILE: self.open_files,
            resource.RLIMIT_FSIZE: self.file_bytes,
            resource.RLIMIT_CPU: self.cpu_seconds,
            resource.RLIMIT_DATA: 2 * self.memory_bytes,  # what is really used is watched from outside
            resource.RLIMIT_MEMLOCK: 2**16,
        }
        if alone:
            most[resource.RLIMIT_NPROC] = self.processes
        for name, value in most.items():
            hard = resource.getrlimit(name)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(name, (value, value))
