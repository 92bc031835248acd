"""Every column under its default name where there is one; a linear SVM, whose only score is rawPrediction; the grid is
also over a parameter of the scaler; several columns of the indexer's array form."""
from itertools import product

from pyspark.ml import Pipeline
from pyspark.ml.classification import LinearSVC
from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.ml.feature import StandardScaler, StringIndexer, VectorAssembler
from pyspark.ml.tuning import CrossValidator


def build(feature_columns, label_column, folds, parallelism):
    svm = LinearSVC(maxIter=8, labelCol="index of the label")
    stages = [
        VectorAssembler(inputCols=feature_columns, outputCol="assembled numbers"),
        StandardScaler(inputCol="assembled numbers", outputCol=svm.getFeaturesCol()),
        StringIndexer(inputCols=[label_column], outputCols=[svm.getLabelCol()]),
        svm,
    ]
    grid = [
        {stages[1].withMean: centred, svm.regParam: strength} for centred, strength in product((False, True), (0.01,))
    ]
    return CrossValidator(
        estimator=Pipeline(stages=stages),
        estimatorParamMaps=grid,
        evaluator=BinaryClassificationEvaluator(labelCol=svm.getLabelCol(), metricName="areaUnderROC"),
        numFolds=folds,
        parallelism=parallelism,
        seed=3,
        collectSubModels=False,
    )
