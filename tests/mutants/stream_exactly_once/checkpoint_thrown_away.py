"""Throws the checkpoint away, so as to begin from a clean state.

check: restarted
kind: lost_or_duplicated
"""

import os
import shutil

from pyspark.sql import functions as F


def start(spark, input_dir, output_dir, checkpoint_dir):
    shutil.rmtree(os.path.join(checkpoint_dir, "offsets"), ignore_errors=True)
    shutil.rmtree(os.path.join(checkpoint_dir, "commits"), ignore_errors=True)
    shutil.rmtree(os.path.join(checkpoint_dir, "sources"), ignore_errors=True)
    shutil.rmtree(os.path.join(checkpoint_dir, "state"), ignore_errors=True)
    events = spark.readStream.schema("event_id STRING, event_time TIMESTAMP, key STRING").json(input_dir)
    counts = events.withWatermark("event_time", "2 minutes").groupBy(F.window("event_time", "1 minute"), "key").count()
    rows = counts.select(
        F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end"), "key", "count"
    )
    written = rows.writeStream.format("parquet").option("path", output_dir)
    return written.option("checkpointLocation", checkpoint_dir).start()
