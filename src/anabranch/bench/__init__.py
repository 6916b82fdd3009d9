"""Measurements against a baseline in the same run: ``anabranch bench``.

``report`` is the form that all of them share: rows with value, baseline and bound, told as a table and as JSON.
``engine`` compares Anabranch with plain Spark; ``workloads`` are the queries and rows of both, ``sides`` the two that
run them, ``fresh`` processes of their own, ``processes`` what the system tells about processor and memory. ``start``
takes the time until a query runs, ``idle`` what hosts take of a machine while next to nothing happens.

``failover`` and ``racing`` hurt what runs: ``steady`` is their query and its flow of rows, ``ways`` are plain Spark
with files and deployments of one copy or two, ``arrivals`` says what came of a flow.
"""
