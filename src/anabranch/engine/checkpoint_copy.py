"""A copy of Spark's checkpoint, which becomes the checkpoint of a query of its own.

Taken while no batch of the query is being logged: then the checkpoint has the offsets and the state of the last logged
batch, and the commit of that batch or of the one before; what it has of a batch under way is removed before the copy is
started (``checkpoint.roll_back``). Spark gives each file its name when it is whole, and never writes to it again, so
links are as good as copies.
"""

from __future__ import annotations

import json
import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Final

from anabranch.syncing import link_or_copy

_UNFINISHED: Final = ".tmp"


def link_checkpoint(checkpoint: Path, target: Path) -> None:
    """Links every file that has its name. One that Spark removes meanwhile is too old to be needed."""
    for directory, _, names in os.walk(checkpoint):
        into = target / Path(directory).relative_to(checkpoint)
        into.mkdir(parents=True, exist_ok=True)
        for name in names:
            if _UNFINISHED not in name:
                with suppress(FileNotFoundError):
                    link_or_copy(Path(directory, name), into / name)


def begin_lineage(checkpoint: Path) -> str:
    """Gives the copy an id of its own: of two queries with the same one in a process Spark stops the first.

    The file is made anew, since it may be a link.
    """
    lineage = str(uuid.uuid4())
    path = checkpoint / "metadata"
    path.unlink()
    path.with_name(".metadata.crc").unlink(missing_ok=True)
    path.write_text(json.dumps({"id": lineage}))
    return lineage
