"""The scheduler by its other name, a concurrency limit around Optuna, a seed, actors reused."""

from ray import tune
from ray.tune.schedulers import AsyncHyperBandScheduler
from ray.tune.search import ConcurrencyLimiter
from ray.tune.search.optuna import OptunaSearch


def search(space, trainable, num_samples, max_t):
    goal = {"metric": "loss", "mode": "min"}
    tuner = tune.Tuner(
        trainable,
        param_space=space,
        run_config=tune.RunConfig(failure_config=tune.FailureConfig(max_failures=0, fail_fast=False), verbose=0),
        tune_config=tune.TuneConfig(
            **goal,
            num_samples=num_samples,
            search_alg=ConcurrencyLimiter(OptunaSearch(seed=1), max_concurrent=4),
            scheduler=AsyncHyperBandScheduler(
                time_attr="training_iteration", max_t=max_t, grace_period=3, reduction_factor=3
            ),
            reuse_actors=True,
        ),
    )
    return tuner.fit()
