"""Sends all users' ids to every task, to drop events of strangers before the join.

check: large
kind: too_much_memory
only: yes
"""

from pyspark.sql import functions as F

SALTS = 16


def join(events_df, users_df, countries_df):
    known = F.broadcast(users_df.select("user_id"))
    salted = events_df.join(known, "user_id", "left_semi").withColumn("salt", F.abs(F.hash("event_id")) % SALTS)
    every = F.explode(F.sequence(F.lit(0), F.lit(SALTS - 1)))
    users = users_df.withColumn("salt", every)
    joined = salted.join(users, ["user_id", "salt"]).drop("salt")
    return joined.join(F.broadcast(countries_df), "country")
