"""What a host is at, as values: the code here knows no thread, clock, socket, file or Spark.

``docs/architecture.md`` says what moves here from ``node``.
"""
