"""The query in SQL, the file sink, and a trigger after which the query ends by itself."""
SOURCE = "event_id STRING, key STRING, event_time TIMESTAMP"
QUERY = """
    SELECT window.start AS window_start, window.end AS window_end, key, count(event_id) AS `count`
    FROM {events}
    GROUP BY window(event_time, '1 minute'), key
"""


def start(spark, input_dir, output_dir, checkpoint_dir):
    events = spark.readStream.format("json").schema(SOURCE).option("path", input_dir).load()
    late = events.withWatermark("event_time", "2 minutes")
    counts = spark.sql(QUERY, events=late)
    return counts.writeStream.trigger(availableNow=True).start(
        path=output_dir, format="parquet", outputMode="append", checkpointLocation=checkpoint_dir, queryName="by_minute"
    )
