"""In SQL, with common table expressions and struct comparison in place of a window."""


def user_features(events_df, as_of):
    return events_df.sparkSession.sql(
        """
        WITH known AS (SELECT * FROM {events} WHERE timestamp < date_add({day}, 1)),
        totals AS (
            SELECT user_id,
                   count(*) AS total_events,
                   count(DISTINCT event_id) FILTER (WHERE event_type = 'purchase') AS total_purchases,
                   avg(value) FILTER (WHERE event_type = 'purchase') AS avg_purchase_value,
                   datediff({day}, max(timestamp) FILTER (WHERE event_type = 'purchase')) AS days_since_last_purchase
            FROM known GROUP BY user_id),
        counts AS (
            SELECT user_id, category, count(*) AS n FROM known
            WHERE event_type = 'view' AND category IS NOT NULL GROUP BY user_id, category),
        viewed AS (
            SELECT user_id, count(*) AS viewed_categories, min(struct(-n, category)).category AS favorite_category
            FROM counts GROUP BY user_id)
        SELECT favorite_category, coalesce(viewed_categories, 0) AS viewed_categories, totals.*
        FROM totals LEFT JOIN viewed ON totals.user_id = viewed.user_id
        """.replace("{day}", f"date'{as_of}'"),
        events=events_df,
    )
