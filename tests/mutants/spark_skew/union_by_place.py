"""Puts the two parts together by place, where columns are in another order.

check: rows
kind: crash
"""

from pyspark.sql import functions as F


def join(events_df, users_df, countries_df):
    counts = events_df.dropna(subset=["user_id"]).groupBy("user_id").count()
    hot = counts.orderBy(F.desc("count")).first()["user_id"]
    is_hot = F.col("user_id") == hot
    rest = events_df.where(~is_hot).join(users_df.where(~is_hot), "user_id")
    few = F.broadcast(users_df.where(is_hot)).join(events_df.where(is_hot), "user_id")
    return rest.union(few).join(F.broadcast(countries_df), "country")
