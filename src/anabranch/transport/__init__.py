"""Arrow Flight between nodes and to clients: the server of a node, the client, and the conveniences built on it.

The only package that imports ``pyarrow.flight``. It knows streams, lanes and positions as names and numbers; of Spark,
SQLite and the inside of a node it knows nothing: a node is whatever implements ``ports.NodePorts``.
"""
