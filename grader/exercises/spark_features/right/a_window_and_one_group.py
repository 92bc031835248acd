"""No join: a window counts views by user and category, then one groupBy with a minimum of structs."""

from datetime import timedelta

from pyspark.sql import Window
from pyspark.sql import functions as F


def user_features(events_df, as_of):
    next_day = F.to_timestamp(F.lit(f"{as_of + timedelta(days=1):%Y-%m-%d} 00:00:00"))
    is_purchase = F.col("event_type") == F.lit("purchase")
    viewed = F.when(F.col("event_type") == F.lit("view"), F.col("category"))  # null where nothing is viewed
    events = (
        events_df.where(F.col("timestamp") < next_day)
        .select(
            "user_id",
            F.when(is_purchase, F.col("event_id")).alias("bought"),
            F.when(is_purchase, F.col("value")).alias("paid"),
            F.when(is_purchase, F.to_date("timestamp")).alias("day"),
            viewed.alias("viewed"),
        )
        .withColumn("views", F.count("viewed").over(Window.partitionBy("user_id", "viewed")))
    )
    best = F.min(
        F.when(F.col("viewed").isNotNull(), F.struct((-F.col("views")).alias("less"), F.col("viewed").alias("name")))
    )
    return events.groupBy("user_id").agg(
        F.count(F.lit(1)).alias("total_events"),
        F.size(F.collect_set("bought")).alias("total_purchases"),
        F.avg("paid").alias("avg_purchase_value"),
        F.datediff(F.lit(as_of), F.max("day")).alias("days_since_last_purchase"),
        F.size(F.collect_set("viewed")).alias("viewed_categories"),
        best.getField("name").alias("favorite_category"),
    )
