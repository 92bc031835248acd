"""foreachBatch: one file a batch, whose name is the batch's number, complete before it has this name."""
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F
from pyspark.sql import types as T

LINE = T.StructType([T.StructField(name, T.StringType()) for name in ("event_id", "event_time", "key")])
SCHEMA = pa.schema([
    ("window_start", pa.timestamp("us", "UTC")), ("window_end", pa.timestamp("us", "UTC")), ("key", pa.string()),
    ("count", pa.int64()),
])


class Sink:
    def __init__(self, folder):
        self.folder = Path(folder)

    def __call__(self, frame, batch):
        rows = frame.select(
            F.unix_micros("window.start").alias("from"), F.unix_micros("window.end").alias("to"), "key", "count"
        ).collect()
        columns = list(zip(*rows)) or [[], [], [], []]
        table = pa.table([pa.array(values, kind) for values, kind in zip(columns, SCHEMA.types)], schema=SCHEMA)
        hidden = self.folder / f".batch-{batch:06d}.parquet"
        with open(hidden, "wb") as file:
            pq.write_table(table, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(hidden, self.folder / f"batch-{batch:06d}.parquet")


def start(spark, input_dir, output_dir, checkpoint_dir):
    lines = spark.readStream.format("text").load(input_dir)
    events = lines.select(F.from_json("value", LINE).alias("event")).select("event.*")
    events = events.withColumn("event_time", F.to_timestamp("event_time")).withWatermark("event_time", "120 seconds")
    counts = events.groupBy("key", F.window("event_time", "60 seconds")).agg(F.count(F.lit(1)).alias("count"))
    writer = counts.writeStream.outputMode("append").foreachBatch(Sink(output_dir))
    return writer.option("checkpointLocation", checkpoint_dir).trigger(processingTime="0 seconds").start()
