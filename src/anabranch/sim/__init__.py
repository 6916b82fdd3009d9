"""The protocols under a simulated clock, network and disk, with the reference as engine: one seed, one run, for ever.

Knows no thread, file or socket either: a world is a queue of things to happen, in an order that its seed decides.
"""
