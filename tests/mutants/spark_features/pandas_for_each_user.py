"""Hands each user's events to pandas.

check: in_spark
kind: forbidden_call
only: yes
"""

import pandas as pd


def features(frame, as_of):
    purchases, views = frame[frame.event_type == "purchase"], frame[frame.event_type == "view"]
    viewed = views.category.dropna()
    counts = viewed.value_counts()
    days = (pd.Timestamp(as_of) - purchases.timestamp.max().normalize()).days if len(purchases) else None
    value = purchases.value.mean()
    row = {
        "user_id": frame.user_id.iloc[0],
        "total_events": len(frame),
        "total_purchases": purchases.event_id.nunique(),
        "avg_purchase_value": None if pd.isna(value) else value,
        "days_since_last_purchase": days,
        "viewed_categories": viewed.nunique(),
        "favorite_category": min(counts.index, key=lambda name: (-counts[name], name)) if len(counts) else None,
    }
    return pd.DataFrame([row]).astype({"days_since_last_purchase": "Int64"})


def user_features(events_df, as_of):
    known = events_df.where(f"to_date(timestamp) <= date'{as_of}'")
    return known.groupBy("user_id").applyInPandas(
        lambda frame: features(frame, as_of),
        "user_id long, total_events long, total_purchases long, avg_purchase_value double, "
        "days_since_last_purchase long, viewed_categories long, favorite_category string",
    )
