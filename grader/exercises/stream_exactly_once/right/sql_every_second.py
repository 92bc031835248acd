"""SQL on a temporary view, each event id once, a batch a second, and no batch without data."""

def start(spark, input_dir, output_dir, checkpoint_dir):
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    events = spark.readStream.schema("event_id STRING, event_time TIMESTAMP, key STRING").json(input_dir)
    once = events.withWatermark("event_time", "2 minutes").dropDuplicates(["event_id", "event_time"])
    once.createOrReplaceTempView("events")
    rows = spark.sql("""
        SELECT window.start AS window_start, window.end AS window_end, key, count(*) AS count
        FROM events GROUP BY window(event_time, '1 minute'), key
    """)
    written = rows.writeStream.format("parquet").outputMode("append").trigger(processingTime="1 second")
    return written.option("checkpointLocation", checkpoint_dir).start(output_dir)
