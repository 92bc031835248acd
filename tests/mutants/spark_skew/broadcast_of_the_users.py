"""Broadcasts the large side.

check: large
kind: too_much_memory
"""

from pyspark.sql import functions as F


def join(events_df, users_df, countries_df):
    joined = events_df.join(F.broadcast(users_df), "user_id")
    return joined.join(F.broadcast(countries_df), "country")
