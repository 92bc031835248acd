"""Draws the salts in a Python function.

check: in_spark
kind: forbidden_call
only: yes
"""

from pyspark.sql import functions as F

SALTS = 16


@F.udf("int")
def draw(event):
    return event * 7919 % SALTS


def join(events_df, users_df, countries_df):
    salted = events_df.withColumn("salt", draw("event_id"))
    every = F.explode(F.sequence(F.lit(0), F.lit(SALTS - 1)))
    users = users_df.withColumn("salt", every)
    joined = salted.join(users, ["user_id", "salt"]).drop("salt")
    return joined.join(F.broadcast(countries_df), "country")
