"""Takes of the users only what the second join needs.

check: columns
kind: wrong_result
"""

from pyspark.sql import functions as F

SALTS = 16


def join(events_df, users_df, countries_df):
    salted = events_df.withColumn("salt", F.abs(F.hash("event_id")) % SALTS)
    every = F.explode(F.sequence(F.lit(0), F.lit(SALTS - 1)))
    users = users_df.select("user_id", "country").withColumn("salt", every)
    joined = salted.join(users, ["user_id", "salt"]).drop("salt")
    return joined.join(F.broadcast(countries_df), "country")
