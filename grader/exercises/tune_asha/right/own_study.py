"""Optuna with a sampler of its own and three trials at a time, each of which is tried twice where it crashes."""
import optuna
from ray import tune
from ray.tune.schedulers import AsyncHyperBandScheduler
from ray.tune.search import ConcurrencyLimiter
from ray.tune.search.optuna import OptunaSearch


def search(space, trainable, num_samples, max_t):
    sampler = optuna.samplers.TPESampler(n_startup_trials=8, seed=3)
    asha = AsyncHyperBandScheduler(
        time_attr="training_iteration", metric="loss", mode="min", max_t=max_t, grace_period=3, reduction_factor=4
    )
    optimizer = ConcurrencyLimiter(OptunaSearch(metric="loss", mode="min", sampler=sampler), max_concurrent=3)
    return tune.Tuner(
        tune.with_resources(trainable, {"cpu": 1}),
        param_space=space,
        tune_config=tune.TuneConfig(num_samples=num_samples, search_alg=optimizer, scheduler=asha),
        run_config=tune.RunConfig(name="asha", failure_config=tune.FailureConfig(max_failures=1)),
    ).fit()
