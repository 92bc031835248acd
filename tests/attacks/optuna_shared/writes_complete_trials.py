"""Adds complete trials to the study, with values of its own, and never calls the objective.

family: sharing_behind_the_network
tries: points
earned: 0
ends: wrong_result, lost_or_duplicated
"""

import optuna
from optuna.trial import TrialState


def objective(trial):
    return 0.0


def worker(storage_url, study_name, trials_total):
    study = optuna.create_study(storage=storage_url, study_name=study_name, load_if_exists=True)
    while len(study.get_trials(states=(TrialState.COMPLETE,))) < trials_total:
        study.add_trial(
            optuna.create_trial(
                params={"x": 0.5, "size": 3}, value=1.0,
                distributions={
                    "x": optuna.distributions.FloatDistribution(-10, 10),
                    "size": optuna.distributions.IntDistribution(1, 64),
                },
            )
        )
