"""tune.run, an explicit sampler, metric and mode given to each part, concurrency limited."""
import optuna
from ray import tune
from ray.tune import ResultGrid
from ray.tune.schedulers import AsyncHyperBandScheduler
from ray.tune.search import ConcurrencyLimiter
from ray.tune.search.optuna import OptunaSearch

AIM = {"metric": "loss", "mode": "min"}


def search(space, trainable, num_samples, max_t):
    suggest = ConcurrencyLimiter(OptunaSearch(sampler=optuna.samplers.TPESampler(seed=5)), max_concurrent=4)
    halving = AsyncHyperBandScheduler(time_attr="training_iteration", max_t=max_t, grace_period=3, reduction_factor=3)
    analysis = tune.run(
        trainable,
        config=space,
        num_samples=num_samples,
        search_alg=suggest,
        scheduler=halving,
        raise_on_failed_trial=False,
        reuse_actors=True,
        verbose=0,
        **AIM,
    )
    return ResultGrid(analysis)
