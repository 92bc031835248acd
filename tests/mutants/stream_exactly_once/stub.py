"""The cell as it is handed out.

check: counted
kind: wrong_result
"""

def start(spark, input_dir, output_dir, checkpoint_dir):
    pass
