"""What nodes and the simulator run as one code, over ports: it knows no thread, clock, socket, file or Spark.

``docs/architecture.md`` says what is here, and what moves here from ``node``.
"""
