"""torch.distributed's own bookkeeping, one for each simulated rank.

`distributed_c10d._world` holds the process groups of a process. Here ranks share a process, so it is exchanged
whenever another rank begins to run. Private to torch: the version is pinned and tests/ranks/sim holds the seam.
"""

from __future__ import annotations

from typing import Any

from torch.distributed import distributed_c10d as c10d

_NAMES = (
    "default_pg",
    "pg_map",
    "pg_names",
    "pg_group_ranks",
    "pg_backend_config",
    "group_count",
    "tags_to_pg",
    "pg_to_tag",
    "pg_coalesce_state",
    "comms",
)


class RankWorld:
    """What one rank's process would hold."""

    def __init__(self) -> None:
        self.default_pg: Any = None
        self.pg_map: dict[Any, Any] = {}
        self.pg_names: dict[Any, str] = {}
        self.pg_group_ranks: dict[Any, dict[int, int]] = {}
        self.pg_backend_config: dict[Any, str] = {}
        self.group_count = 0
        self.tags_to_pg: dict[str, list[Any]] = {}
        self.pg_to_tag: dict[Any, str] = {}
        self.pg_coalesce_state: dict[Any, list[Any]] = {}
        self.comms: list[Any] = []

    @property
    def pg_config_info(self) -> list[dict[str, Any]]:
        return []


def check() -> None:
    """Raise RuntimeError if this torch keeps its process groups elsewhere."""
    missing = [name for name in _NAMES if not hasattr(c10d._world, name)]
    if missing:
        raise RuntimeError(f"this torch keeps its process groups elsewhere (no {', '.join(missing)})")
