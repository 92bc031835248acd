"""Spreads the events out before the join, which puts them together again.

check: balanced
kind: no_overlap
only: yes
"""

from pyspark.sql import functions as F


def join(events_df, users_df, countries_df):
    return events_df.repartition(8).join(users_df, "user_id").join(F.broadcast(countries_df), "country")
