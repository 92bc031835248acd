"""Calls a learner's search with a trainable that asks at the gate what its loss is. It decides nothing."""

from __future__ import annotations

from typing import Any

from ray import tune
from ray.tune.search.optuna import OptunaSearch

from grader.jobs.rays.rendezvous import tell

PAST = 8  # times max_t: where a trial that nobody stops comes to its end


def find(search: Any, space: dict[str, list[Any]], num_samples: int, max_t: int) -> dict[str, Any]:
    """What search returns, how often Optuna was asked for a configuration, and what it takes for the better one."""
    asked, suggest, looks = 0, OptunaSearch.suggest, ["", ""]

    def counted(self: Any, *given: Any, **more: Any) -> Any:
        nonlocal asked
        found = suggest(self, *given, **more)
        asked += isinstance(found, dict)
        for number, each in enumerate((self.metric, self.mode)):
            looks[number] = str(each[0] if isinstance(each, list) and len(each) == 1 else each)
        return found

    def trainable(config: dict[str, Any]) -> None:
        trial = tell(what="trial", config={name: config.get(name) for name in space})
        for step in range(1, PAST * max_t + 1):
            told = tell(what="step", trial=trial, step=step)
            if told["broken"]:
                raise ValueError("this trial's data cannot be read")
            tune.report({"loss": told["loss"]})

    OptunaSearch.suggest = counted
    try:
        grid = search(
            {name: getattr(tune, kind)(*given) for name, (kind, given) in space.items()}, trainable, num_samples, max_t
        )
    finally:
        OptunaSearch.suggest = suggest
    if not isinstance(grid, tune.ResultGrid):
        return {
            "type": type(grid).__name__, "results": 0, "errors": 0, "asked": asked, "losses": [], "looks": looks, "longest": 0,
        }  # fmt: skip
    whole = [result.metrics for result in grid if result.error is None and result.metrics]
    longest = max((int(metrics.get("training_iteration") or 0) for metrics in whole), default=0)
    return {
        "type": "ResultGrid", "results": len(grid), "errors": grid.num_errors, "asked": asked,
        "losses": [metrics.get("loss") for metrics in whole], "looks": looks, "longest": longest,
    }  # fmt: skip
