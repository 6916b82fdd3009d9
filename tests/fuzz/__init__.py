"""Random diagrams on real Spark, held against the reference. ``python -m tests.fuzz --help`` tells how to run it."""
