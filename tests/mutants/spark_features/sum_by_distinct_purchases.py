"""Divides the sum by the number of different purchases.

check: purchases
kind: wrong_result
only: yes
"""

from pyspark.sql import Window
from pyspark.sql import functions as F


def user_features(events_df, as_of):
    known = events_df.where(F.to_date("timestamp") <= F.lit(as_of))
    purchase, view = F.col("event_type") == "purchase", F.col("event_type") == "view"
    users = known.groupBy("user_id").agg(
        F.count("*").alias("total_events"),
        F.countDistinct(F.when(purchase, F.col("event_id"))).alias("total_purchases"),
        (F.sum(F.when(purchase, F.col("value"))) / F.countDistinct(F.when(purchase, F.col("event_id")))).alias("avg_purchase_value"),
        F.datediff(F.lit(as_of), F.max(F.when(purchase, F.col("timestamp")))).alias("days_since_last_purchase"),
        F.countDistinct(F.when(view, F.col("category"))).alias("viewed_categories"),
    )
    views = known.where(view & F.col("category").isNotNull()).groupBy("user_id", "category").count()
    first = Window.partitionBy("user_id").orderBy(F.desc("count"), "category")
    favourite = views.withColumn("place", F.row_number().over(first)).where("place = 1")
    return users.join(favourite.select("user_id", F.col("category").alias("favorite_category")), "user_id", "left")
