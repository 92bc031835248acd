"""Text lines and from_json, a file a batch, and a trigger that ends when all is read."""

from pyspark.sql import functions as F


def start(spark, input_dir, output_dir, checkpoint_dir):
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(input_dir)
    parsed = lines.select(F.from_json("value", "event_id STRING, event_time STRING, key STRING").alias("event"))
    events = parsed.select(F.to_timestamp("event.event_time").alias("at"), "event.key")
    windows = events.withWatermark("at", "120 seconds").groupBy("key", F.window("at", "60 seconds"))
    counts = windows.agg(F.count("*").alias("count"))
    rows = counts.selectExpr("window.start AS window_start", "window.end AS window_end", "key", "count")
    options = {"path": output_dir, "checkpointLocation": checkpoint_dir}
    return rows.writeStream.format("parquet").options(**options).trigger(availableNow=True).start()
