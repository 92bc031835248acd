"""Writes down that a batch is done after it has appended it: two steps, and a crash comes between.

check: midway
kind: lost_or_duplicated
only: yes
"""

import os

from pyspark.sql import functions as F


def start(spark, input_dir, output_dir, checkpoint_dir):
    events = spark.readStream.schema("event_id STRING, event_time TIMESTAMP, key STRING").json(input_dir)
    counts = events.withWatermark("event_time", "2 minutes").groupBy(F.window("event_time", "1 minute"), "key").count()
    rows = counts.select(
        F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end"), "key", "count"
    )
    done = os.path.join(checkpoint_dir, "done")
    os.makedirs(done, exist_ok=True)

    def sink(frame, batch):
        mark = os.path.join(done, str(batch))
        if os.path.exists(mark):
            frame.write.format("noop").mode("overwrite").save()  # Spark wants its state read
            return
        frame.write.mode("append").parquet(output_dir)
        with open(mark, "w"):
            pass

    return rows.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint_dir).start()
