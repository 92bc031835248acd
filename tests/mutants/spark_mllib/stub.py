"""The cell as it is handed out.

check: stages
kind: wrong_result
"""


def build(feature_columns, label_column, folds, parallelism):
    pass
