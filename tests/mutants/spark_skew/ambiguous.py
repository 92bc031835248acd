"""Asks for a column that both sides have.

check: rows
kind: crash
"""


def join(events_df, users_df, countries_df):
    joined = events_df.join(users_df, events_df.user_id == users_df.user_id)
    return joined.where("user_id > 0").join(countries_df, "country")
