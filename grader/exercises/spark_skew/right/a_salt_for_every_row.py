"""A salt for every row: users once for every salt, countries broadcast to the result."""

from pyspark.sql import functions as F

SALTS = 32


def join(events_df, users_df, countries_df):
    salted_events = events_df.withColumn(
        "_salt", F.pmod(F.xxhash64("event_id", "event_type", "value"), F.lit(SALTS)).cast("int")
    )
    salted_users = users_df.withColumn("_salt", F.explode(F.sequence(F.lit(0), F.lit(SALTS - 1))))
    joined = salted_events.join(salted_users, ["user_id", "_salt"]).drop("_salt")
    return joined.join(F.broadcast(countries_df), "country")
