"""Joins on the one key, and spreads the rows out afterwards.

check: balanced
kind: no_overlap
only: yes
"""

from pyspark.sql import functions as F


def join(events_df, users_df, countries_df):
    return events_df.join(users_df, "user_id").repartition(8).join(F.broadcast(countries_df), "country")
