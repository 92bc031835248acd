"""A forest, scaled to a range, the label indexed last and by the alphabet, and a grid of three."""

import pyspark.ml.feature as feature
import pyspark.ml.tuning as tuning
from pyspark.ml import Pipeline
from pyspark.ml.classification import RandomForestClassifier
from pyspark.ml.evaluation import BinaryClassificationEvaluator


def build(feature_columns, label_column, folds, parallelism):
    assembled = feature.VectorAssembler(inputCols=list(feature_columns), outputCol="assembled")
    scaled = feature.MinMaxScaler(inputCol="assembled", outputCol="scaled")
    indexed = feature.StringIndexer(inputCol=label_column, outputCol="y", stringOrderType="alphabetAsc")
    forest = RandomForestClassifier(featuresCol="scaled", labelCol="y", seed=1, numTrees=20)
    pipeline = Pipeline().setStages([assembled, scaled, indexed, forest])
    judge = BinaryClassificationEvaluator(labelCol="y", rawPredictionCol="probability", metricName="areaUnderROC")
    grid = tuning.ParamGridBuilder().addGrid(forest.maxDepth, [4, 6]).build()
    validator = tuning.CrossValidator(estimator=pipeline, estimatorParamMaps=grid, evaluator=judge)
    return validator.setNumFolds(folds).setParallelism(parallelism)
