"""Broadcasts the events.

check: large
kind: too_much_memory
"""

from pyspark.sql import functions as F


def join(events_df, users_df, countries_df):
    joined = users_df.join(F.broadcast(events_df), "user_id")
    return joined.join(F.broadcast(countries_df), "country")
