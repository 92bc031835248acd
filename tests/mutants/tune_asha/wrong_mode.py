"""It looks for the largest loss.
check: finds
kind: wrong_result
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
            mode="max",
            num_samples=num_samples,
            search_alg=OptunaSearch(),
            scheduler=ASHAScheduler(max_t=max_t, grace_period=max(1, max_t // 9)),
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(verbose=0),
    )
    return tuner.fit()
