"""Forgets that counts of those who are missing are null after a left join.

check: totals
kind: wrong_result
"""

from functools import reduce

from pyspark.sql import Window
from pyspark.sql import functions as F


def user_features(events_df, as_of):
    known = events_df.where(F.to_date("timestamp") <= F.lit(as_of))
    purchases = known.where("event_type = 'purchase'")
    views = known.where("event_type = 'view' AND category IS NOT NULL")
    first = Window.partitionBy("user_id").orderBy(F.desc("count"), "category")
    counts = views.groupBy("user_id", "category").count().withColumn("place", F.row_number().over(first))
    parts = [
        known.groupBy("user_id").agg(F.count("*").alias("total_events")),
        purchases.groupBy("user_id").agg(F.countDistinct("event_id").alias("total_purchases")),
        purchases.groupBy("user_id").agg(F.avg("value").alias("avg_purchase_value")),
        purchases.groupBy("user_id").agg(
            F.datediff(F.lit(as_of), F.max("timestamp")).alias("days_since_last_purchase")
        ),
        views.groupBy("user_id").agg(F.countDistinct("category").alias("viewed_categories")),
        counts.where("place = 1").select("user_id", F.col("category").alias("favorite_category")),
    ]
    joined = reduce(lambda left, right: left.join(right, "user_id", "left"), parts)
    return joined
