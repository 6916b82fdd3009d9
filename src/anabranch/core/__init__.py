"""The protocols as pure state machines: an event and a state in, a new state and actions out.

Knows no clock, thread, file, socket, Spark or Arrow: the node gives it times and carries out what it says, and the
simulator runs the very same code. Header columns are NumPy arrays; payloads stay with whoever called.
"""
