"""Deployments: which node runs what, written down by a person, checked as a whole, and made into a plan.

``description`` is the file as it was written, ``validate`` says all that is wrong with it, ``plan`` is what each node
needs to know, ``parts`` puts it as a node is told it, and ``draw`` shows it to people. Nothing here starts anything.
"""
