"""Keeps its checkpoint in a temporary folder, which is new in each life.

check: restarted
kind: lost_or_duplicated
"""

import tempfile

from pyspark.sql import functions as F


def start(spark, input_dir, output_dir, checkpoint_dir):
    events = spark.readStream.schema("event_id STRING, event_time TIMESTAMP, key STRING").json(input_dir)
    counts = events.withWatermark("event_time", "2 minutes").groupBy(F.window("event_time", "1 minute"), "key").count()
    rows = counts.select(
        F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end"), "key", "count"
    )
    written = rows.writeStream.format("parquet").option("path", output_dir)
    return written.option("checkpointLocation", tempfile.mkdtemp()).start()
