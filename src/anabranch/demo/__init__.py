"""The running example of the racing paper (section 2, figure 1) as something to watch: ``anabranch demo``.

``scenario`` is the story and the query, ``clients`` are the servers that report and the readers of the results,
``summary`` says what was found and whether it is right, ``screen`` and ``plot`` show it.
"""
