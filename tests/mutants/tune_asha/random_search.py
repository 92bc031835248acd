"""Configurations are drawn at random, without Optuna.
check: optuna
kind: wrong_result
only: yes
"""
from ray import tune
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search.optuna import OptunaSearch


def search(space, trainable, num_samples, max_t):
    tuner = tune.Tuner(
        trainable,
        param_space=space,
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            num_samples=num_samples,
            scheduler=ASHAScheduler(max_t=max_t, grace_period=max(1, max_t // 9)),
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(verbose=0),
    )
    return tuner.fit()
