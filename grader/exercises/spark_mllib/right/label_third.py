"""MinMaxScaler, the indexer third and with alphabetical order, ranked by probability, a grid with a base value."""

from pyspark.ml import Pipeline
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.ml.feature import MinMaxScaler, StringIndexer, VectorAssembler
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder

RAW, SCALED, TARGET = "raw_features_", "scaled_features_", "target_"


def build(feature_columns, label_column, folds, parallelism):
    gather = VectorAssembler(inputCols=list(feature_columns), outputCol=RAW)
    scale = MinMaxScaler(inputCol=RAW, outputCol=SCALED)
    target = StringIndexer(inputCol=label_column, outputCol=TARGET, stringOrderType="alphabetAsc")
    classify = LogisticRegression(featuresCol=SCALED, labelCol=TARGET, maxIter=60)
    pipeline = Pipeline(stages=[gather, scale, target, classify])
    grid = (
        ParamGridBuilder()
        .baseOn({classify.elasticNetParam: 0.0})
        .addGrid(classify.regParam, [0.0, 0.003, 0.05])
        .build()
    )
    judge = BinaryClassificationEvaluator(labelCol=TARGET, rawPredictionCol="probability", metricName="areaUnderROC")
    return CrossValidator(
        estimator=pipeline, estimatorParamMaps=grid, evaluator=judge, numFolds=folds, parallelism=parallelism, seed=7
    )
