"""ForeachBatch: each batch is written beside the checkpoint as one file and renamed to a name that its number decides."""

import os
import shutil

from pyspark.sql import functions as F


def start(spark, input_dir, output_dir, checkpoint_dir):
    staging = os.path.join(checkpoint_dir, "staging")

    def sink(frame, number):
        """The file of batch `number`: made elsewhere, and complete when it gets its name. A second time it is the same."""
        folder = os.path.join(staging, str(number))
        frame.coalesce(1).write.mode("overwrite").parquet(folder)
        (part,) = [name for name in os.listdir(folder) if name.startswith("part-") and name.endswith(".parquet")]
        os.replace(os.path.join(folder, part), os.path.join(output_dir, f"batch-{number:08d}.parquet"))
        shutil.rmtree(folder, ignore_errors=True)

    counts = (
        spark.readStream.schema("event_id STRING, event_time TIMESTAMP, key STRING")
        .json(input_dir)
        .withWatermark("event_time", "2 minutes")
        .groupBy(F.window("event_time", "1 minute").alias("w"), "key")
        .count()
        .select(F.col("w.start").alias("window_start"), F.col("w.end").alias("window_end"), "key", "count")
    )
    return (
        counts.writeStream.outputMode("append")
        .option("checkpointLocation", checkpoint_dir)
        .foreachBatch(sink)
        .trigger(processingTime="200 milliseconds")
        .start()
    )
