"""The kinds of boxes, a module for each family: all that a query knows of them besides their parameters.

A kind is one object. What it does not say is said for it in ``kind``; what it has to say, mypy asks for. ``catalog``
lists them.
"""
