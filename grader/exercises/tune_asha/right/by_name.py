"""Scheduler and searcher by their names, with as many trials at a time as there are CPUs."""
import ray
from ray import tune


def search(space, trainable, num_samples, max_t):
    config = tune.TuneConfig(
        metric="loss",
        mode="min",
        num_samples=num_samples,
        search_alg=tune.create_searcher("optuna", metric="loss", mode="min"),
        scheduler=tune.create_scheduler("async_hyperband", max_t=max_t, grace_period=2, reduction_factor=4),
        max_concurrent_trials=int(ray.cluster_resources()["CPU"]),
    )
    return tune.Tuner(trainable, param_space=space, tune_config=config).fit()
