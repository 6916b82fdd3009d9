"""Typed values as bytes, and back: what crosses the wire is a dataclass, and its types are all that is declared of it.

A message is one JSON object: its fields, and ``"v"``, the version of the wire. It is checked by its types when it is
read; fields that this side does not know are ignored. Letters between entry points, which hold rows, are MessagePack,
with the version before them. Rows themselves are always Arrow.
"""

from __future__ import annotations

import base64
import threading
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa

from anabranch.errors import ConfigError

VERSION: Final = 3

T = TypeVar("T")

_REMEDY: Final = "Run the same version of Anabranch on both sides."


def encode(said: object) -> bytes:
    """A dataclass as a message."""
    body = _JSON.encode(said)
    return b'{"v":%d%s%s' % (VERSION, b"" if body == b"{}" else b",", body[1:])


def decode(data: bytes, kind: type[T]) -> T:
    """The message as what it should be; ``ConfigError`` if it is something else."""
    try:
        version = _VERSIONED.decode(data).v
        if version != VERSION:
            raise _other_version(version)
        return _json(kind).decode(data)
    except msgspec.ValidationError as error:
        raise _no_fit(kind, error) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f"A message is not JSON: {data[:100]!r}.", remedy="Use the Anabranch client.") from error


def pack(said: object) -> bytes:
    """The same as bytes that may hold bytes."""
    return bytes((VERSION,)) + _PACKED.encode(said)


def unpack(data: bytes, kind: type[T]) -> T:
    if not data or data[0] != VERSION:
        raise _other_version(data[0] if data else None)
    try:
        return _packed(kind).decode(memoryview(data)[1:])
    except (msgspec.DecodeError, RecursionError) as error:
        raise _no_fit(kind, error) from error


def to_plain(said: object) -> Any:
    """A dataclass as what JSON has: for files."""
    return msgspec.to_builtins(said, enc_hook=_to_plain)


def from_plain(plain: object, kind: type[T]) -> T:
    _json(kind)  # what it needs to know of the class is complete then
    try:
        return msgspec.convert(plain, kind, dec_hook=_from_plain)
    except msgspec.ValidationError as error:
        raise _no_fit(kind, error) from error


class _Versioned(msgspec.Struct):
    v: int | None = None


def _other_version(found: int | None) -> ConfigError:
    return ConfigError(
        f"A message has version {'none' if found is None else found}; this side speaks version {VERSION}.",
        remedy=_REMEDY,
    )


def _no_fit(kind: type, error: Exception) -> ConfigError:
    return ConfigError(f"A message does not hold a {kind.__name__}: {error}.", remedy=_REMEDY)


def _to_plain(value: Any) -> Any:
    if isinstance(value, pa.Schema):
        return base64.b64encode(value.serialize()).decode()
    raise NotImplementedError(f"{type(value).__name__} cannot be sent.")


def _from_plain(kind: type, value: Any) -> Any:
    if kind is pa.Schema and isinstance(value, str):
        try:
            return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(value, validate=True)))
        except (ValueError, pa.ArrowException, OSError) as error:
            raise ValueError("not the schema of a stream") from error
    raise ValueError(f"not a {kind.__name__}")


_JSON: Final = msgspec.json.Encoder(enc_hook=_to_plain)
_PACKED: Final = msgspec.msgpack.Encoder()
_VERSIONED: Final = msgspec.json.Decoder(_Versioned)


_building: Final = threading.Lock()
"""One decoder is built at a time. msgspec keeps with a class what it found out about its fields, and shows it to other
threads before it is complete: a process that decodes with half of it is killed by the kernel (SIGSEGV)."""

_json_decoders: dict[type, msgspec.json.Decoder[Any]] = {}
_packed_decoders: dict[type, msgspec.msgpack.Decoder[Any]] = {}


def _json(kind: type[T]) -> msgspec.json.Decoder[T]:
    decoder = _json_decoders.get(kind)
    if decoder is None:
        with _building:
            decoder = _json_decoders[kind] = msgspec.json.Decoder(kind, dec_hook=_from_plain)
    return decoder


def _packed(kind: type[T]) -> msgspec.msgpack.Decoder[T]:
    decoder = _packed_decoders.get(kind)
    if decoder is None:
        with _building:
            decoder = _packed_decoders[kind] = msgspec.msgpack.Decoder(kind)
    return decoder
