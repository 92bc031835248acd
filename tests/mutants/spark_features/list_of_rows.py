"""Returns rows, not a DataFrame.

check: users
kind: wrong_result
"""


def user_features(events_df, as_of):
    return [row.asDict() for row in events_df.select("user_id").distinct().collect()]
