"""Counts in a dictionary of the driver, which dies with it.

check: restarted
kind: lost_or_duplicated
only: yes
"""

import os
from collections import Counter
from datetime import timedelta

from pyspark.sql import functions as F


def start(spark, input_dir, output_dir, checkpoint_dir):
    events = spark.readStream.schema("event_id STRING, event_time TIMESTAMP, key STRING").json(input_dir)
    counts, latest = Counter(), []
    minute = timedelta(minutes=1)

    def sink(frame, batch):
        mark = (max(latest) - 2 * minute).replace(tzinfo=None) if latest else None
        found = frame.groupBy(F.date_trunc("minute", "event_time").alias("begin"), "key").count().collect()
        for row in found:
            if mark is None or row["begin"] + minute > mark:
                counts[row["begin"], row["key"]] += row["count"]
        times = frame.agg(F.max("event_time")).first()[0]
        latest.extend([times] if times else [])
        mark = max(latest) - 2 * minute
        closed = [window for window in counts if window[0] + minute <= mark]
        rows = [(begin, begin + minute, key, counts.pop((begin, key))) for begin, key in closed]
        made = spark.createDataFrame(rows, "window_start TIMESTAMP, window_end TIMESTAMP, key STRING, count BIGINT")
        aside = os.path.join(checkpoint_dir, "aside")
        made.coalesce(1).write.mode("overwrite").parquet(aside)
        (part,) = [name for name in os.listdir(aside) if name.startswith("part-")]
        os.replace(os.path.join(aside, part), os.path.join(output_dir, f"batch-{batch}.parquet"))

    return events.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint_dir).start()
