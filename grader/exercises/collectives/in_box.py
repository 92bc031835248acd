"""Calls a learner's function twice in every rank. Runs in the box; decides nothing."""

from __future__ import annotations

from typing import Any

import torch


def again(function: Any, *arguments: Any) -> dict[str, Any]:
    """What a call returns, as it is at once, and as it is after a second call, whose first argument comes last here."""
    first, *more, other = arguments
    returned = function(first, *more)
    at_once = _copy(returned)
    function(other, *more)
    return {"at_once": at_once, "later": returned}


def _copy(returned: Any) -> Any:
    if isinstance(returned, torch.Tensor):
        return returned.detach().clone()
    return [_copy(each) for each in returned] if isinstance(returned, (list, tuple)) else returned
