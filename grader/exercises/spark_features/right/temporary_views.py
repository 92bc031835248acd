"""Temporary views, and a table of one row that holds the day; the favourite by a rank and a pivot that knows its values."""


def user_features(events_df, as_of):
    spark = events_df.sparkSession
    events_df.createOrReplaceTempView("events")
    spark.createDataFrame([(as_of,)], "day date").createOrReplaceTempView("today")
    spark.sql("SELECT e.*, day FROM events e JOIN today ON to_date(e.timestamp) <= day").createOrReplaceTempView("known")
    spark.sql(
        """
        SELECT user_id, category, rank() OVER (PARTITION BY user_id ORDER BY count(*) DESC, category) AS place
        FROM known WHERE event_type = 'view' AND category IS NOT NULL GROUP BY user_id, category
        """
    ).createOrReplaceTempView("places")
    spark.sql(
        """
        SELECT user_id, count(*) AS total_events,
               count(DISTINCT if(event_type = 'purchase', event_id, NULL)) AS total_purchases,
               sum(if(event_type = 'purchase', value, NULL))
                   / nullif(count_if(event_type = 'purchase' AND value IS NOT NULL), 0) AS avg_purchase_value,
               datediff(max(day), max(if(event_type = 'purchase', timestamp, NULL))) AS days_since_last_purchase
        FROM known GROUP BY user_id
        """
    ).createOrReplaceTempView("totals")
    spark.sql(
        """
        SELECT user_id, count(*) AS viewed_categories, max(if(place = 1, category, NULL)) AS favorite_category
        FROM places GROUP BY user_id
        """
    ).createOrReplaceTempView("favourites")
    return spark.sql(
        """
        SELECT t.*, ifnull(viewed_categories, 0) AS viewed_categories, favorite_category
        FROM totals t LEFT JOIN favourites USING (user_id)
        """
    )
