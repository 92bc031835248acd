"""Splits the one key off, and joins its rows by a shuffle too.

check: balanced
kind: no_overlap
only: yes
"""

from pyspark.sql import functions as F


def join(events_df, users_df, countries_df):
    counts = events_df.dropna(subset=["user_id"]).groupBy("user_id").count()
    hot = counts.orderBy(F.desc("count")).first()["user_id"]
    is_hot = F.col("user_id") == hot
    rest = events_df.where(~is_hot).join(users_df.where(~is_hot), "user_id")
    few = events_df.where(is_hot).join(users_df.where(is_hot), "user_id")
    return rest.unionByName(few).join(F.broadcast(countries_df), "country")
