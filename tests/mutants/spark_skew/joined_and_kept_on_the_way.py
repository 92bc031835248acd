"""Joins on the one key in an action of its own, and returns what it has kept.

check: balanced
kind: no_overlap
only: yes
"""

from pyspark.sql import functions as F


def join(events_df, users_df, countries_df):
    joined = events_df.join(users_df, "user_id").cache()
    joined.count()
    return joined.join(F.broadcast(countries_df), "country")
