"""In SQL, with hints; the salts are a table of their own."""


def join(events_df, users_df, countries_df):
    return events_df.sparkSession.sql(
        """
        WITH salted AS (SELECT *, pmod(event_id, 20) AS salt FROM {events}),
        everywhere AS (SELECT /*+ BROADCAST(range) */ * FROM {users} CROSS JOIN range(20))
        SELECT /*+ BROADCAST(c) */ event_type, salted.user_id, event_id, value, name, c.country, c.country_name
        FROM salted
        JOIN everywhere ON salted.user_id = everywhere.user_id AND salt = id
        JOIN {countries} AS c ON everywhere.country = c.country
        """,
        events=events_df,
        users=users_df,
        countries=countries_df,
    )
