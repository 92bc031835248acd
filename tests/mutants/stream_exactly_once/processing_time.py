"""Windows of the time at which an event is read, not at which it happened.

check: counted
kind: wrong_result
"""

from pyspark.sql import functions as F


def start(spark, input_dir, output_dir, checkpoint_dir):
    read = spark.readStream.schema("event_id STRING, event_time TIMESTAMP, key STRING").json(input_dir)
    events = read.withColumn("event_time", F.current_timestamp())
    counts = events.withWatermark("event_time", "2 minutes").groupBy(F.window("event_time", "1 minute"), "key").count()
    rows = counts.select(
        F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end"), "key", "count"
    )
    written = rows.writeStream.format("parquet").option("path", output_dir)
    return written.option("checkpointLocation", checkpoint_dir).start()
