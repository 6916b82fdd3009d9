"""A node is killed again and again, and its output is compared with that of a run that nobody disturbed.

``python -m tests.chaos`` is ``make chaos``; ``python -m tests.chaos.backlog`` is ``make backlog``. Everything runs on
loopback, in directories of its own, and no process outlives the run.
"""
