"""Experiments of the papers, run again on real nodes: ``anabranch paper``.

``wide_area`` is the deployment of the racing paper's figure 7, ``measuring`` reads how late tuples come, ``racing``
runs the experiments of figures 8 and 9, ``curves`` makes numbers of what was measured, ``claims`` says whether what the
paper says holds in them, and ``figures`` shows both.
"""
