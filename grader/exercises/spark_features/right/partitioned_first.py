"""Partitions the events by user once, keeps them, and groups as often as it likes; broadcast is asked for nowhere."""

from pyspark.sql import functions as F


def user_features(events_df, as_of):
    mine = events_df.where(F.datediff(F.lit(as_of), F.to_date("timestamp")) >= 0).repartition("user_id").persist()
    purchases = mine.where(F.col("event_type") == "purchase")
    unique = purchases.groupBy("user_id", "event_id").agg(
        F.max("timestamp").alias("timestamp"), F.sum("value").alias("sum"), F.count("value").alias("priced")
    )
    bought = unique.groupBy("user_id").agg(
        F.count("*").alias("total_purchases"),
        F.try_divide(F.sum("sum"), F.sum("priced")).alias("avg_purchase_value"),
        F.date_diff(F.lit(as_of), F.max("timestamp")).alias("days_since_last_purchase"),
    )
    views = mine.where("event_type = 'view'").dropna(subset=["category"]).groupBy("user_id", "category").count()
    liked = views.groupBy("user_id").agg(
        F.count("*").alias("viewed_categories"),
        F.min_by("category", F.struct(-F.col("count"), "category")).alias("favorite_category"),
    )
    everybody = mine.groupBy("user_id").agg(F.count("*").alias("total_events"))
    joined = everybody.join(bought, "user_id", "left_outer").join(liked, ["user_id"], "left_outer")
    return joined.na.fill({"total_purchases": 0, "viewed_categories": 0})
