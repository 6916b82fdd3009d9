"""A running Anabranch: wires the pure core to storage, transport and Spark. The only package with threads."""
