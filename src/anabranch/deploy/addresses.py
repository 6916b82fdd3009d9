"""Addresses of nodes, as a deployment file has them: each must be one that the other nodes can call."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from anabranch.errors import ConfigError

_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")
_EVERYWHERE: Final = frozenset({"0.0.0.0", "[::]"})


class Address(NamedTuple):
    """Host and port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def machine(self) -> str:
        """The host, the same for names that mean this machine."""
        host = self.host.lower()
        return "127.0.0.1" if host in ("localhost", "[::1]") else host


def parse_address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    if not _HOST.fullmatch(host) or not re.fullmatch(r"[0-9]{1,5}", port):
        raise ConfigError(f"{text!r} is not an address.", remedy="Write host:port, as 127.0.0.1:7700.")
    if host in _EVERYWHERE:
        raise ConfigError(
            f"{host} is not an address that other machines can reach.",
            remedy="Write the name or address of the machine.",
        )
    if not 0 < int(port) < 65_536:
        raise ConfigError(
            f"{text!r} has a port that other machines cannot connect to.", remedy="Write a port from 1 to 65535."
        )
    return Address(host, int(port))
