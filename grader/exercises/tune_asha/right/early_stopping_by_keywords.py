"""The Tuner's parts as keyword dicts, AsyncHyperBandScheduler spelt out, actors reused, trials limited to the cores."""

from ray import tune
from ray.tune.schedulers import AsyncHyperBandScheduler
from ray.tune.search.optuna import OptunaSearch

FIRST_RUNG = 3
REDUCTION = 3


def search(space, trainable, num_samples, max_t):
    """The results of num_samples trials, of which the bad ones are stopped early."""
    early_stopping = dict(
        time_attr="training_iteration",
        max_t=max_t,
        grace_period=min(FIRST_RUNG, max_t),
        reduction_factor=REDUCTION,
        brackets=1,
    )
    tune_config = dict(
        metric="loss",
        mode="min",
        num_samples=num_samples,
        search_alg=OptunaSearch(),
        scheduler=AsyncHyperBandScheduler(**early_stopping),
        reuse_actors=True,
    )
    return tune.Tuner(trainable, param_space=dict(space), tune_config=tune.TuneConfig(**tune_config)).fit()
