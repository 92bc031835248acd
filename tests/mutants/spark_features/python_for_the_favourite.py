"""Finds the favourite in Python, from a list of all views.

check: in_spark
kind: forbidden_call
only: yes
"""

from collections import Counter

from pyspark.sql import functions as F
from pyspark.sql.types import StringType


@F.udf(StringType())
def most_viewed(categories):
    counts = Counter(categories)
    return min(counts, key=lambda name: (-counts[name], name), default=None)


def user_features(events_df, as_of):
    known = events_df.where(F.to_date("timestamp") <= F.lit(as_of))
    purchase, view = F.col("event_type") == "purchase", F.col("event_type") == "view"
    return known.groupBy("user_id").agg(
        F.count("*").alias("total_events"),
        F.countDistinct(F.when(purchase, F.col("event_id"))).alias("total_purchases"),
        F.avg(F.when(purchase, F.col("value"))).alias("avg_purchase_value"),
        F.datediff(F.lit(as_of), F.max(F.when(purchase, F.col("timestamp")))).alias("days_since_last_purchase"),
        F.countDistinct(F.when(view, F.col("category"))).alias("viewed_categories"),
        most_viewed(F.collect_list(F.when(view, F.col("category")))).alias("favorite_category"),
    )
