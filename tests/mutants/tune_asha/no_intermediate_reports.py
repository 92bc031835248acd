"""Only the last of the reports that the trainable makes reaches Tune, so nothing can be stopped early.
check: stops
kind: too_slow
"""
from ray import tune
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search.optuna import OptunaSearch


def search(space, trainable, num_samples, max_t):
    def quiet(config):
        from ray import tune

        report, kept = tune.report, []

        def keep(metrics, **more):
            kept.append(metrics)
            if len(kept) == max_t:
                raise StopIteration

        tune.report = keep
        try:
            trainable(config)
        except StopIteration:
            pass
        finally:
            tune.report = report
        report(kept[-1])

    tuner = tune.Tuner(
        quiet,
        param_space=space,
        tune_config=tune.TuneConfig(
            metric="loss", mode="min", num_samples=num_samples, search_alg=OptunaSearch(),
            scheduler=ASHAScheduler(max_t=max_t, grace_period=max(1, max_t // 9)),
        ),
        run_config=tune.RunConfig(verbose=0),
    )
    return tuner.fit()
