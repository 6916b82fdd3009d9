"""Where each node of a deployment keeps its state, if nobody says otherwise."""

from __future__ import annotations

from pathlib import Path

from anabranch.deploy.plan import NodePlan


def state_of(node: NodePlan, file: Path, below: Path | None = None) -> Path:
    """Of a node of the deployment ``file``: ``below`` some directory, or as the file says, or beside the file."""
    if below is not None:
        return below / node.name
    return node.state or file.parent / ".anabranch" / file.stem / node.name


def log_of(state: Path) -> Path:
    """What a node says that is run by ``anabranch up``: beside its state directory, which holds nothing of others."""
    return state.with_name(f"{state.name}.log")
