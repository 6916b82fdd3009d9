"""Spark: sessions, the connector that reads journals, the compiler from boxes to DataFrames, and the runs of stages.

The only package that imports pyspark. It knows the diagram. Its Spark reads the journals by itself, by a
connector in Java (``jvm/``); what becomes of a batch's output is decided by whoever hands it a sink (``node``).
"""
