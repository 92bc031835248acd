"""Returns nothing.

check: rows
kind: wrong_result
"""


def join(events_df, users_df, countries_df):
    pass
