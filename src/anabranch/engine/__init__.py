"""Spark: sessions, the journal source, the compiler from boxes to DataFrames, and the runs of stages.

The only package that imports pyspark. It knows the diagram and reads journals through ``transport``'s client; what
becomes of a batch's output is decided by whoever hands it a sink (``node``).
"""
