"""Draws up the grid for a classifier that is not in the pipeline.

check: fits
kind: crash
"""

from pyspark.ml import Pipeline
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.ml.feature import StandardScaler, StringIndexer, VectorAssembler
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder


def build(feature_columns, label_column, folds, parallelism):
    indexer = StringIndexer(inputCol=label_column, outputCol="label_index")
    assembler = VectorAssembler(inputCols=feature_columns, outputCol="raw_features")
    scaler = StandardScaler(inputCol="raw_features", outputCol="features", withMean=True)
    model = LogisticRegression(featuresCol="features", labelCol="label_index", maxIter=20)
    return CrossValidator(
        estimator=Pipeline(stages=[indexer, assembler, scaler, model]),
        estimatorParamMaps=ParamGridBuilder().addGrid(LogisticRegression().regParam, [0.001, 0.1]).build(),
        evaluator=BinaryClassificationEvaluator(labelCol="label_index"),
        numFolds=folds,
        parallelism=parallelism,
        seed=7,
    )
