"""Each operator in plain Python over lists, straight from the papers: the oracle of every test.

Slow and obvious on purpose. It shares with the engine and ``core`` only the model (names, times, the identity hash) and
the diagram, so that a mistake in one of them shows as a difference.
"""
