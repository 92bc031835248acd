"""Has a row for each salt on one side, and joins by the user alone.

check: rows
kind: wrong_result
"""

from pyspark.sql import functions as F

SALTS = 4


def join(events_df, users_df, countries_df):
    salted = events_df
    every = F.explode(F.sequence(F.lit(0), F.lit(SALTS - 1)))
    users = users_df.withColumn("salt", every)
    joined = salted.join(users, "user_id").drop("salt")
    return joined.join(F.broadcast(countries_df), "country")
