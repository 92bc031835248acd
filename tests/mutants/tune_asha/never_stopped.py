"""No trial is stopped at all.
check: stops
kind: too_slow
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
            search_alg=OptunaSearch(),
            scheduler=None,
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(verbose=0),
    )
    return tuner.fit()
