"""Keeps events whose user is not there.

check: rows
kind: wrong_result
only: yes
"""

from pyspark.sql import functions as F

SALTS = 16


def join(events_df, users_df, countries_df):
    salted = events_df.withColumn("salt", F.abs(F.hash("event_id")) % SALTS)
    every = F.explode(F.sequence(F.lit(0), F.lit(SALTS - 1)))
    users = users_df.withColumn("salt", every)
    joined = salted.join(users, ["user_id", "salt"], "left").drop("salt")
    return joined.join(F.broadcast(countries_df), "country", "left")
