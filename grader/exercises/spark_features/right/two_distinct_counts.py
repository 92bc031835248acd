"""One groupBy with two distinct counts, the favourite by a window, and a left join."""

from pyspark.sql import Window
from pyspark.sql import functions as F


def user_features(events_df, as_of):
    events = events_df.filter(F.to_date("timestamp") <= F.lit(as_of))
    purchase = F.col("event_type") == "purchase"
    view = F.col("event_type") == "view"
    totals = events.groupBy("user_id").agg(
        F.count("*").alias("total_events"),
        F.countDistinct(F.when(purchase, F.col("event_id"))).alias("total_purchases"),
        F.avg(F.when(purchase, F.col("value"))).alias("avg_purchase_value"),
        F.datediff(F.lit(as_of), F.to_date(F.max(F.when(purchase, F.col("timestamp"))))).alias(
            "days_since_last_purchase"
        ),
        F.countDistinct(F.when(view, F.col("category"))).alias("viewed_categories"),
    )
    by_views = Window.partitionBy("user_id").orderBy(F.desc("views"), F.asc("category"))
    favourites = (
        events.filter(view & F.col("category").isNotNull())
        .groupBy("user_id", "category")
        .agg(F.count("*").alias("views"))
        .withColumn("place", F.row_number().over(by_views))
        .filter(F.col("place") == 1)
        .select("user_id", F.col("category").alias("favorite_category"))
    )
    return totals.join(favourites, "user_id", "left")
