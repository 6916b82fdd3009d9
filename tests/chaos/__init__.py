"""Nodes are hurt again and again, and their output is compared with that of a run that nobody disturbed.

``python -m tests.chaos`` is ``make chaos``, a deployment whose replicas race; ``python -m tests.chaos.single`` is
``make chaos-single``, one node; ``python -m tests.chaos.backlog`` is ``make backlog``. Everything runs on loopback, in
directories of its own, and no process outlives the run.
"""
