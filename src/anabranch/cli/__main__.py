"""``python -m anabranch.cli``: the ``anabranch`` program where it is not installed."""

from __future__ import annotations

from anabranch.cli import main

if __name__ == "__main__":
    main()
