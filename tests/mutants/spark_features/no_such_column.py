"""Asks for a column that is not there.

check: users
kind: crash
"""


def user_features(events_df, as_of):
    return events_df.groupBy("person").count()
