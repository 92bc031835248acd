"""Support vectors, which give no probabilities, and a grid over two stages."""

from pyspark.ml import Pipeline
from pyspark.ml.classification import LinearSVC
from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.ml.feature import RobustScaler, StringIndexer, VectorAssembler
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder


def build(feature_columns, label_column, folds, parallelism):
    to_number = StringIndexer(inputCol=label_column, outputCol="__label", handleInvalid="skip")
    to_vector = VectorAssembler(inputCols=feature_columns, outputCol="__vector")
    scaler = RobustScaler(inputCol="__vector", outputCol="__scaled", withCentering=True)
    model = LinearSVC(featuresCol="__scaled", labelCol="__label", rawPredictionCol="__margin", maxIter=10)
    grid = ParamGridBuilder().addGrid(model.regParam, [0.01]).addGrid(scaler.withScaling, [True, False]).build()
    return CrossValidator(
        estimator=Pipeline(stages=[to_number, to_vector, scaler, model]),
        estimatorParamMaps=grid,
        evaluator=BinaryClassificationEvaluator(labelCol="__label", rawPredictionCol="__margin"),
        numFolds=folds,
        parallelism=parallelism,
    )
