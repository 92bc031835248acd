"""Stages a batch under its number and moves it under names that nobody knows again.

check: uncommitted
kind: lost_or_duplicated
only: yes
"""

import os
import shutil
import uuid

from pyspark.sql import functions as F


def start(spark, input_dir, output_dir, checkpoint_dir):
    events = spark.readStream.schema("event_id STRING, event_time TIMESTAMP, key STRING").json(input_dir)
    counts = events.withWatermark("event_time", "2 minutes").groupBy(F.window("event_time", "1 minute"), "key").count()
    rows = counts.select(
        F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end"), "key", "count"
    )

    def sink(frame, batch):
        staged = os.path.join(checkpoint_dir, f"staged-{batch}")
        frame.coalesce(1).write.mode("overwrite").parquet(staged)
        for name in os.listdir(staged):
            if name.startswith("part-"):
                os.replace(os.path.join(staged, name), os.path.join(output_dir, f"{uuid.uuid4()}.parquet"))
        shutil.rmtree(staged)

    return rows.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint_dir).start()
