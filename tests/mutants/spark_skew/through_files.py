"""Writes the joined rows to files, and returns what it reads there.

check: in_spark
kind: forbidden_call
only: yes
"""

from pyspark.sql import functions as F

SALTS = 16


def join(events_df, users_df, countries_df):
    salted = events_df.withColumn("salt", F.abs(F.hash("event_id")) % SALTS)
    every = F.explode(F.sequence(F.lit(0), F.lit(SALTS - 1)))
    users = users_df.withColumn("salt", every)
    joined = salted.join(users, ["user_id", "salt"]).drop("salt")
    joined.write.json("joined")
    read = events_df.sparkSession.read.schema(joined.schema).json("joined")
    return read.join(F.broadcast(countries_df), "country")
