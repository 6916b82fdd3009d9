"""Feeds that make or read rows, and writers that carry tuples into files: what needs neither Spark nor a thread.

A feed is asked for rows and says how long to wait for the next; a writer is given tuples and says how far it has come.
They keep no state of their own: a feed begins at the number that the lane expects next, a writer finds its place in
what it has written. Who asks, and what becomes of the rows, is the node's business.
"""
