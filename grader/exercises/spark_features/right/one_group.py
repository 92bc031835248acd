"""One exchange: everything about a user is collected by one groupBy, and worked out with functions on arrays and maps."""

from datetime import timedelta

from pyspark.sql import functions as F


def user_features(events_df, as_of):
    bought, viewed = F.expr("event_type = 'purchase'"), F.expr("event_type = 'view'")
    gathered = events_df.where(F.col("timestamp") < F.lit(as_of + timedelta(days=1))).groupBy("user_id").agg(
        F.count(F.lit(1)).alias("total_events"),
        F.collect_set(F.when(bought, F.col("event_id"))).alias("bought"),
        F.avg(F.when(bought, F.col("value"))).alias("avg_purchase_value"),
        F.max(F.when(bought, F.to_date("timestamp"))).alias("last"),
        F.collect_list(F.when(viewed, F.col("category"))).alias("views"),
    )
    distinct = F.array_sort(F.array_distinct("views"))
    counted = F.transform(distinct, lambda name: F.size(F.filter("views", lambda other: other == name)))
    favourite = F.when(F.size("views") > 0, F.element_at(distinct, F.array_position(counted, F.array_max(counted)).cast("int")))
    return gathered.select(
        "user_id",
        "total_events",
        F.size("bought").alias("total_purchases"),
        "avg_purchase_value",
        F.datediff(F.lit(as_of), "last").alias("days_since_last_purchase"),
        F.size(distinct).alias("viewed_categories"),
        favourite.alias("favorite_category"),
    )
