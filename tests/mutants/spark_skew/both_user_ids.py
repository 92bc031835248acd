"""Joins on expressions and has the user's id twice.

check: columns
kind: wrong_result
"""

from pyspark.sql import functions as F

SALTS = 16


def join(events_df, users_df, countries_df):
    salted = events_df.withColumn("salt", F.abs(F.hash("event_id")) % SALTS)
    every = F.explode(F.sequence(F.lit(0), F.lit(SALTS - 1)))
    users = users_df.withColumn("salt", every)
    same = (salted.user_id == users.user_id) & (salted.salt == users.salt)
    joined = salted.join(users, same).drop("salt")
    return joined.join(F.broadcast(countries_df), "country")
