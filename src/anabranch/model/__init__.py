"""Frozen values that everything else speaks in: names, header, times, positions, punctuations, identity.

Knows nothing of queries, storage, Spark or Arrow; every other package may import it.
"""
