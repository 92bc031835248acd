"""Turns adaptive execution on and lets Spark do it.

check: balanced
kind: forbidden_call
only: yes
"""

from pyspark.sql import functions as F


def join(events_df, users_df, countries_df):
    conf = events_df.sparkSession.conf
    conf.set("spark.sql.adaptive.enabled", "true")
    conf.set("spark.sql.adaptive.skewJoin.skewedPartitionFactor", "2")
    conf.set("spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes", "10k")
    conf.set("spark.sql.adaptive.advisoryPartitionSizeInBytes", "20k")
    return events_df.join(users_df, "user_id").join(F.broadcast(countries_df), "country")
