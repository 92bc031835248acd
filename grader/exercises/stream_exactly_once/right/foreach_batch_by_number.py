"""foreachBatch, idempotent: a batch's rows are one file, which has the batch's number and is moved there whole."""

import glob
import os

from pyspark.sql import functions as F


def start(spark, input_dir, output_dir, checkpoint_dir):
    events = spark.readStream.schema("event_id STRING, event_time TIMESTAMP, key STRING").json(input_dir)
    counts = events.withWatermark("event_time", "2 minutes").groupBy(F.window("event_time", "1 minute"), "key").count()
    rows = counts.select(
        F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end"), "key", "count"
    )

    def sink(frame, batch):
        aside = os.path.join(checkpoint_dir, "aside")
        frame.coalesce(1).write.mode("overwrite").parquet(aside)
        (made,) = glob.glob(os.path.join(aside, "part-*.parquet"))
        os.replace(made, os.path.join(output_dir, f"batch-{batch:06d}.parquet"))

    return rows.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint_dir).start()
