"""Requests of Spark's connector: JSON objects that name their version, read field by field."""

from __future__ import annotations

import json
from typing import Final

from anabranch.errors import ConfigError

Message = dict[str, object]

_DECODER: Final = json.JSONDecoder()


def decode(data: bytes, version: int) -> Message:
    try:
        message = _DECODER.decode(data.decode())
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"A message is not JSON: {data[:100]!r}.", remedy="Use the Anabranch client.") from error
    if not isinstance(message, dict) or message.get("v") != version:
        found = message.get("v") if isinstance(message, dict) else None
        raise ConfigError(
            f"A message has version {found}; this side speaks version {version}.",
            remedy="Run the same version of Anabranch on both sides.",
        )
    return message


def text(message: Message, key: str) -> str:
    value = message.get(key)
    if not isinstance(value, str):
        raise ConfigError(f"A message needs {key!r} as text, not {value!r}.", remedy="Use the Anabranch client.")
    return value


def number(message: Message, key: str) -> int:
    value = message.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"A message needs {key!r} as a number, not {value!r}.", remedy="Use the Anabranch client.")
    return value


def texts(message: Message, key: str) -> list[str]:
    value = message.get(key)
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ConfigError(f"A message needs {key!r} as a list of texts.", remedy="Use the Anabranch client.")
    return value
