"""A trial whose first loss is below the others' is stopped at once.

check: grace
kind: wrong_result
only: yes
"""

import statistics

from ray import tune
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search.optuna import OptunaSearch


def search(space, trainable, num_samples, max_t):
    """The results of num_samples trials, of which the bad ones are stopped early."""
    tuner = tune.Tuner(
        trainable,
        param_space=space,
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            num_samples=num_samples,
            search_alg=OptunaSearch(),
            scheduler=ASHAScheduler(max_t=max_t, grace_period=max(1, max_t // 9)),
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(verbose=0, stop=TooGood()),
    )
    return tuner.fit()


class TooGood(tune.Stopper):
    """Ends trials whose first loss is below the others': it must be a mistake."""

    def __init__(self):
        self.firsts = {}

    def __call__(self, trial_id, result):
        if trial_id in self.firsts:
            return False
        usual = statistics.median(self.firsts.values()) if len(self.firsts) > 3 else 0.0
        self.firsts[trial_id] = result["loss"]
        return result["loss"] < usual

    def stop_all(self):
        return False
