"""Returns nothing.

check: users
kind: wrong_result
"""


def user_features(events_df, as_of):
    pass
