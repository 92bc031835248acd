"""Collects the three tables and joins them in Python.

check: in_spark
kind: forbidden_call
"""

def join(events_df, users_df, countries_df):
    users = {user.user_id: user for user in users_df.collect()}
    names = {row.country: row.country_name for row in countries_df.collect()}
    rows = []
    for event in events_df.collect():
        user = users.get(event.user_id)
        if user and user.country in names:
            rows.append((*event, user.name, user.country, names[user.country]))
    schema = "event_id long, user_id long, event_type string, value double, name string, country string, country_name string"
    return events_df.sparkSession.createDataFrame(rows, schema)
