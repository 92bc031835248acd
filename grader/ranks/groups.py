"""Who calls `new_group` for which ranks: all ranks must, in the same order, also those that are not in the group.

torch counts the calls to name groups (`distributed_c10d._process_group_name`): ranks that call in another order give
one name to two groups, and their messages mix. Runs in the box.
"""

from __future__ import annotations

from collections.abc import Callable

from torch.distributed import distributed_c10d as c10d

MOST_RANKS = 64  # of a world: in larger ones each group of each rank is too much to tell

_name = c10d._process_group_name


def tell(made: Callable[[list[int], int], None] | None, line: Callable[[], int]) -> None:
    """From now on tell `made` of each group's ranks, and of the line; of none if that is None."""

    def name(ranks: list[int], use_hashed_name: bool) -> str:
        if ranks and not use_hashed_name and made is not None and c10d._get_default_group().size() <= MOST_RANKS:
            made(list(ranks), line())
        return str(_name(ranks, use_hashed_name))

    c10d._process_group_name = name
