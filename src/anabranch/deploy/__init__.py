"""Deployments: which node runs what, written down by a person, checked as a whole, made into a plan, and run.

``description`` is the file as it was written, ``validate`` says all that is wrong with it, ``plan`` is what each node
needs to know, ``parts`` puts it as a node is told it, and ``draw`` shows it to people. Up to here nothing is started.

``supervisor`` runs all nodes on one machine, ``running`` and ``control`` let other shells find and hurt them
(``faults``), ``looking`` asks all nodes how they are, wherever they run, and ``handing`` gives a query to nodes that
wait for one (``awaiting``).
"""
