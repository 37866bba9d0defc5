"""The data pipeline: histories judged and measured by Spark, on one machine or on many.

Rules:
1. Transforms take and return DataFrames; `reading` and `writing` touch files, and nothing else does.
2. What "correct" means is said once, in `braidcast.properties`. Spark decides where to look; the definitions judge.
3. `pyspark` is imported inside functions of `cli`, never by another command: it takes a second.
"""
