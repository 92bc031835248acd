"""Writes all windows anew after each batch, so that its state keeps every window and no event is too late.

check: late
kind: wrong_result
"""

from pyspark.sql import functions as F


def start(spark, input_dir, output_dir, checkpoint_dir):
    events = spark.readStream.schema("event_id STRING, event_time TIMESTAMP, key STRING").json(input_dir)
    counts = events.withWatermark("event_time", "2 minutes").groupBy(F.window("event_time", "1 minute"), "key").count()
    rows = counts.select(
        F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end"), "key", "count"
    )

    def sink(frame, batch):
        frame.coalesce(1).write.mode("overwrite").parquet(output_dir)

    return rows.writeStream.outputMode("complete").foreachBatch(sink).option("checkpointLocation", checkpoint_dir).start()
