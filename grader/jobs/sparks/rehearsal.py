"""A session that does a little of everything, for the archive of what a JVM has to load: python -m ... OUT FOLDER."""

from __future__ import annotations

import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from grader.jobs.sparks import java


def main(out: str, folder: str) -> None:
    line = java.command(folder, {"spark.sql.shuffle.partitions": "2"}, [f"-XX:AOTCacheOutput={out}"])
    gateway = java.start(line, folder, os.path.join(folder, "errors"))
    os.environ.update(PYSPARK_GATEWAY_PORT=str(gateway.port), PYSPARK_GATEWAY_SECRET=gateway.secret)
    try:
        warnings.simplefilter("ignore")
        _work(Path(folder))
    finally:
        assert gateway.process.stdin is not None
        gateway.process.stdin.close()
        gateway.process.wait()  # it writes the archive as it ends


def _work(folder: Path) -> None:
    from pyspark.ml import Pipeline
    from pyspark.ml.classification import LogisticRegression
    from pyspark.ml.evaluation import BinaryClassificationEvaluator
    from pyspark.ml.feature import StandardScaler, StringIndexer, VectorAssembler
    from pyspark.sql import SparkSession, Window
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.parallelize(range(100), 2).map(lambda x: (x % 3, 1)).reduceByKey(int.__add__).collect()
    rows = [(i, i % 5, f"k{i % 3}", float(i), "yes" if i % 2 else "no") for i in range(60)]
    frame = spark.createDataFrame(rows, "id long, user long, kind string, value double, label string")
    frame.write.json(str(folder / "rows"))
    read = spark.read.schema(frame.schema).json(str(folder / "rows"))
    window = Window.partitionBy("user").orderBy(F.desc("value"))
    ranked = read.withColumn("place", F.row_number().over(window)).where("place = 1")
    sums = read.groupBy("user").agg(F.countDistinct("kind"), F.avg("value"), F.max("id"))
    read.join(ranked.select("user", "place"), "user", "left").join(F.broadcast(sums), "user").toJSON().take(5)
    read.join(sums, "user").explain("formatted")
    stages: list[Any] = [
        StringIndexer(inputCol="label", outputCol="y"),
        VectorAssembler(inputCols=["value"], outputCol="v"),
    ]
    stages += [
        StandardScaler(inputCol="v", outputCol="x"),
        LogisticRegression(featuresCol="x", labelCol="y", maxIter=3),
    ]
    fitted = Pipeline(stages=stages).fit(read).transform(read)
    BinaryClassificationEvaluator(labelCol="y").evaluate(fitted)
    stream = spark.readStream.schema("at timestamp, key string").json(str(folder / "rows"))
    counted = stream.withWatermark("at", "2 minutes").groupBy(F.window("at", "1 minute"), "key").count()
    written = counted.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = written.trigger(availableNow=True).start(str(folder / "counts"))
    until = time.monotonic() + 60
    while query.isActive and time.monotonic() < until:
        query.awaitTermination(1)
    spark.read.parquet(str(folder / "counts")).count()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
