"""One exchange: everything is collected by user in one groupBy, and higher-order functions do the rest."""

from pyspark.sql import functions as F


def user_features(events_df, as_of):
    past = events_df.where(F.datediff(F.lit(as_of), F.col("timestamp")) >= 0)
    purchase = F.col("event_type").eqNullSafe("purchase")
    view = F.col("event_type").eqNullSafe("view")
    lists = past.groupBy("user_id").agg(
        F.count("*").alias("total_events"),
        F.collect_set(F.when(purchase, F.col("event_id"))).alias("bought"),
        F.avg(F.when(purchase, F.col("value"))).alias("avg_purchase_value"),
        F.max(F.when(purchase, F.to_date("timestamp"))).alias("last_purchase"),
        F.collect_list(F.when(view, F.col("category"))).alias("viewed"),
    )
    lists = lists.withColumn("categories", F.array_distinct("viewed"))
    ranked = F.transform(
        "categories",
        lambda category: F.struct(
            (-F.size(F.filter("viewed", lambda one: one == category))).alias("order"), category.alias("category")
        ),
    )
    return lists.select(
        "user_id",
        "total_events",
        F.size("bought").alias("total_purchases"),
        "avg_purchase_value",
        F.datediff(F.lit(as_of), F.col("last_purchase")).alias("days_since_last_purchase"),
        F.size("categories").alias("viewed_categories"),
        F.array_min(ranked).getField("category").alias("favorite_category"),
    )
