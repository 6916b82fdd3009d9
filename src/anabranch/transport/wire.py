"""What crosses the wire: the header types and JSON commands; ``failures`` has the errors.

Every command, ticket and metadata message is one JSON object with ``"v": 1``; rows are always Arrow.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from anabranch.errors import ConfigError
from anabranch.model.header import HEADER, ID, KIND, ORIGIN, STIME, TID
from anabranch.model.ids import QueryId
from anabranch.model.links import Cut, Delay, Heal, LinkFault, Slow
from anabranch.model.position import Position
from anabranch.transport.ports import (
    CopyAcknowledgement,
    CopyAnswer,
    CopyRequest,
    CopyReservation,
    Determinants,
    PeerPlaces,
    PieceAnswer,
    PieceRequest,
    Push,
    PushAnswer,
    ReadRequest,
    Registration,
    SnapshotPiece,
    Start,
)

VERSION: Final = 2
TIMESTAMP: Final = pa.timestamp("us", "UTC")
INCARNATION: Final = b"anabranch.incarnation"  # key in the metadata of a stream's schema

HEADER_FIELDS: Final = (
    pa.field(KIND, pa.int8(), nullable=False),
    pa.field(ID, pa.int64()),
    pa.field(TID, pa.int64()),
    pa.field(STIME, TIMESTAMP, nullable=False),
    pa.field(ORIGIN, pa.string()),
)

COPY: Final = b"anabranch.copy"  # the same, for what a copy answers to a replica
PIECES: Final = b"anabranch.pieces"  # and to a client

SNAPSHOT: Final = b"anabranch.snapshot"  # the same, for the life of the node whose state is sent
SNAPSHOT_SCHEMA: Final = pa.schema([pa.field("bytes", pa.binary(), nullable=False)])

Message = dict[str, object]


def wire_schema(data: pa.Schema) -> pa.Schema:
    """The schema of a stream with these data columns, as readers get it."""
    return pa.schema([*HEADER_FIELDS, *data])


def data_schema(wire: pa.Schema) -> pa.Schema:
    """The data columns of a stream."""
    return pa.schema([field for field in wire if field.name not in HEADER])


# --- messages ------------------------------------------------------------------------------------------------------


_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
_DECODER: Final = json.JSONDecoder()


def encode(message: Message) -> bytes:
    return _ENCODER.encode({"v": VERSION, **message}).encode()


def decode(data: bytes, version: int | None = None) -> Message:
    """A message of this version, or of the one that this side speaks."""
    version = VERSION if version is None else version
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


def numbers(message: Message, key: str) -> list[int]:
    value = message.get(key)
    if not isinstance(value, list) or not all(type(each) is int for each in value):
        raise ConfigError(f"A message needs {key!r} as a list of numbers.", remedy="Use the Anabranch client.")
    return value


def texts(message: Message, key: str) -> list[str]:
    value = message.get(key)
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ConfigError(f"A message needs {key!r} as a list of texts.", remedy="Use the Anabranch client.")
    return value


def table(message: Message, key: str) -> dict[str, object]:
    value = message.get(key)
    if not isinstance(value, dict):
        raise ConfigError(f"A message needs {key!r} as an object.", remedy="Use the Anabranch client.")
    return value


def tables(message: Message, key: str) -> list[dict[str, object]]:
    value = message.get(key)
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ConfigError(f"A message needs {key!r} as a list of objects.", remedy="Use the Anabranch client.")
    return value


def optional_text(message: Message, key: str) -> str | None:
    value = message.get(key)
    return value if value is None or type(value) is str else text(message, key)


def optional_number(message: Message, key: str) -> int | None:
    value = message.get(key)
    return value if value is None or type(value) is int else number(message, key)


def times(message: Message, key: str) -> dict[str, int]:
    """A time for each of some origins."""
    value = message.get(key)
    if not isinstance(value, dict) or not all(type(time) is int for time in value.values()):
        raise ConfigError(f"A message needs {key!r} as times by origin.", remedy="Use the Anabranch client.")
    return value


def position(message: Message, key: str) -> Position:
    return parse_position(text(message, key))


def parse_position(value: str) -> Position:
    """``incarnation:id``, where a reader of a stream is."""
    try:
        return Position.parse(value)
    except ValueError:
        raise ConfigError(
            f"{value!r} is not a position.", remedy="Write start, end, or incarnation:id as `status` shows it."
        ) from None


def read_ticket(request: ReadRequest) -> bytes:
    return encode(
        {
            "stream": request.stream,
            "start": str(request.start),
            "follow": request.follow,
            "reader": request.reader,
        }
    )


def read_request(message: Message) -> ReadRequest:
    return ReadRequest(
        stream=text(message, "stream"),
        start=_start(message),
        follow=message.get("follow") is True,
        reader=optional_text(message, "reader"),
    )


def _start(message: Message) -> Start:
    start = text(message, "start") if "start" in message else "start"
    return "start" if start == "start" else "end" if start == "end" else parse_position(start)


def piece_ticket(request: PieceRequest) -> bytes:
    return encode(
        {
            "pieces": request.stream,
            "start": str(request.start),
            "punctuations": dict(request.punctuations),
            "follow": request.follow,
            "reader": request.reader,
        }
    )


def piece_request(message: Message) -> PieceRequest:
    return PieceRequest(
        stream=text(message, "pieces"),
        start=_start(message),
        punctuations=times(message, "punctuations"),
        follow=message.get("follow") is True,
        reader=optional_text(message, "reader"),
    )


def piece_schema(answer: PieceAnswer) -> pa.Schema:
    """The schema of the rows, which carries the answer."""
    message: Message = {
        "incarnation": answer.incarnation,
        "first": answer.first_id,
        "floors": dict(answer.floors),
        "goes_on": answer.goes_on,
        "origins": list(answer.origins),
        "reaching": list(answer.reaching),
        "query": answer.query,
    }
    return answer.schema.with_metadata({PIECES: encode(message)})


def piece_answer(schema: pa.Schema) -> PieceAnswer:
    message = decode((schema.metadata or {}).get(PIECES, b""))
    return PieceAnswer(
        incarnation=text(message, "incarnation"),
        first_id=number(message, "first"),
        floors=times(message, "floors"),
        goes_on=message.get("goes_on") is True,
        origins=tuple(texts(message, "origins")),
        reaching=tuple(texts(message, "reaching")),
        schema=schema.remove_metadata(),
        query=QueryId(text(message, "query")),
    )


def copy_ticket(request: CopyRequest) -> bytes:
    return encode({"copy": request.stream} | _reader_place(request))


def copy_request(message: Message) -> CopyRequest:
    return CopyRequest(
        stream=text(message, "copy"),
        reader=text(message, "reader"),
        life=text(message, "life"),
        position=None if message.get("position") is None else position(message, "position"),
        punctuations=times(message, "punctuations"),
    )


def copy_schema(answer: CopyAnswer) -> pa.Schema:
    """The schema of the rows, which carries the answer."""
    message: Message = {
        "incarnation": answer.incarnation,
        "first": answer.first_id,
        "floors": dict(answer.floors),
        "earlier_life": answer.earlier_life,
        "origins": list(answer.origins),
    }
    return answer.schema.with_metadata({COPY: encode(message)})


def copy_answer(schema: pa.Schema) -> CopyAnswer:
    message = decode((schema.metadata or {}).get(COPY, b""))
    return CopyAnswer(
        incarnation=text(message, "incarnation"),
        first_id=number(message, "first"),
        floors=times(message, "floors"),
        earlier_life=message.get("earlier_life") is True,
        origins=tuple(texts(message, "origins")),
        schema=schema.remove_metadata(),
    )


def acknowledgements_message(said: Sequence[CopyAcknowledgement]) -> Message:
    return {"held": [{"stream": each.stream} | _reader_place(each) for each in said]}


def _reader_place(said: CopyRequest | CopyAcknowledgement) -> Message:
    """Who reads a copy, and how far it has come."""
    return {
        "reader": said.reader,
        "life": said.life,
        "position": None if said.position is None else str(said.position),
        "punctuations": dict(said.punctuations),
    }


def acknowledgements_of(message: Message) -> list[CopyAcknowledgement]:
    return [
        CopyAcknowledgement(
            stream=text(each, "stream"),
            reader=text(each, "reader"),
            life=text(each, "life"),
            position=position(each, "position"),
            punctuations=times(each, "punctuations"),
        )
        for each in tables(message, "held")
    ]


def determinants_message(said: Determinants) -> Message:
    return {
        "sender": said.sender,
        "stream": said.stream,
        "incarnation": said.incarnation,
        "first": said.first_id,
        "tids": list(said.tids),
        "times": list(said.times_us),
        "origins": list(said.origins),
    }


def determinants_of(message: Message) -> Determinants:
    return Determinants(
        sender=text(message, "sender"),
        stream=text(message, "stream"),
        incarnation=text(message, "incarnation"),
        first_id=number(message, "first"),
        tids=numbers(message, "tids"),
        times_us=numbers(message, "times"),
        origins=numbers(message, "origins"),
    )


def link_fault_message(fault: LinkFault) -> Message:
    match fault:
        case Cut():
            return {"do": "cut"}
        case Delay(delay_us, jitter_us):
            return {"do": "delay", "delay_us": delay_us, "jitter_us": jitter_us}
        case Slow(rate_bytes_s):
            return {"do": "slow", "rate_bytes_s": rate_bytes_s}
        case Heal():
            return {"do": "heal"}


def link_fault_of(message: Message) -> LinkFault:
    match text(message, "do"):
        case "cut":
            return Cut()
        case "delay":
            return Delay(number(message, "delay_us"), number(message, "jitter_us"))
        case "slow":
            return Slow(number(message, "rate_bytes_s"))
        case "heal":
            return Heal()
        case other:
            raise ConfigError(f"There is no link fault {other!r}.", remedy="Write cut, delay, slow or heal.")


def reservation_message(said: CopyReservation) -> Message:
    return {
        "stream": said.stream,
        "reader": said.reader,
        "life": said.life,
        "like": said.like,
        "like_life": said.like_life,
        "position": None if said.position is None else str(said.position),
    }


def reservation_of(message: Message) -> CopyReservation:
    return CopyReservation(
        stream=text(message, "stream"),
        reader=text(message, "reader"),
        life=text(message, "life"),
        like=text(message, "like"),
        like_life=text(message, "like_life"),
        position=None if message.get("position") is None else position(message, "position"),
    )


def places_message(said: PeerPlaces) -> Message:
    places = [[stream, copy, None if at is None else str(at)] for (stream, copy), at in said.places.items()]
    return {"life": said.life, "belongs_to": dict(said.belongs_to), "places": places}


def places_of(message: Message) -> PeerPlaces:
    belongs_to, places = message.get("belongs_to"), message.get("places")
    if not isinstance(belongs_to, dict) or not isinstance(places, list):
        raise ConfigError("A peer did not report how far it has read.", remedy="Run the same version on all nodes.")
    return PeerPlaces(
        life=text(message, "life"),
        belongs_to=belongs_to,
        places={(stream, copy): None if at is None else parse_position(at) for stream, copy, at in places},
    )


def snapshot_ticket(query: str, asker: str) -> bytes:
    return encode({"snapshot": asker, "query": query})


def snapshot_schema(life: str) -> pa.Schema:
    return SNAPSHOT_SCHEMA.with_metadata({SNAPSHOT: encode({"life": life})})


def snapshot_life(schema: pa.Schema) -> str:
    return text(decode((schema.metadata or {}).get(SNAPSHOT, b"")), "life")


def snapshot_batch(piece: SnapshotPiece) -> tuple[pa.RecordBatch, bytes]:
    batch = pa.record_batch([pa.array([piece.bytes], pa.binary())], schema=SNAPSHOT_SCHEMA)
    return batch, encode({"path": piece.path, "digest": piece.digest})


def snapshot_end(files: int) -> tuple[pa.RecordBatch, bytes]:
    """What comes last, so that a snapshot that was cut off is not taken for a whole one."""
    return pa.record_batch([pa.array([], pa.binary())], schema=SNAPSHOT_SCHEMA), encode({"files": files})


def push_metadata(push: Push) -> bytes:
    return encode(
        {
            "kind": push.kind,
            "producer": push.producer,
            "session": push.session,
            "first": push.first,
            "count": push.count,
            "time_us": push.time_us,
        }
    )


def push_of(source: str, message: Message, rows: pa.RecordBatch | None) -> Push:
    """The push that a metadata message and the rows beside it say. Without a message: rows of a plain client."""
    kind = message.get("kind", "rows")
    if kind not in ("rows", "boundary", "void", "close"):
        raise ConfigError(f"{kind!r} is not a kind of entry.", remedy="Use rows, boundary, void or close.")
    if (kind == "rows") != (rows is not None):
        raise ConfigError(f"A push of {kind} to {source!r} came {'with' if rows else 'without'} rows.")
    given = optional_number(message, "count")
    count = rows.num_rows if rows is not None else (1 if given is None else given)
    return Push(
        source=source,
        producer=optional_text(message, "producer"),
        session=optional_number(message, "session"),
        kind=kind,
        first=optional_number(message, "first"),
        count=count if kind in ("rows", "void") else 1,
        time_us=number(message, "time_us") if kind == "boundary" else None,
        rows=rows,
    )


def answer_message(answer: PushAnswer) -> Message:
    return {"through": answer.through, "rows": answer.rows, "repeated": answer.repeated, "late": answer.late}


def answer_of(message: Message) -> PushAnswer:
    return PushAnswer(
        through=optional_number(message, "through"),
        rows=number(message, "rows"),
        repeated=number(message, "repeated"),
        late=number(message, "late"),
    )


def registration_message(registration: Registration) -> Message:
    return {
        "session": registration.session,
        "next": registration.next,
        "lane": registration.lane,
        "schema": base64.b64encode(registration.schema.serialize()).decode(),
        "time": registration.time,
        "stamp_us": registration.stamp_us,
        "query": registration.query,
    }


def registration_of(message: Message) -> Registration:
    return Registration(
        session=number(message, "session"),
        next=number(message, "next"),
        lane=text(message, "lane"),
        schema=pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text(message, "schema")))),
        time=optional_text(message, "time"),
        stamp_us=number(message, "stamp_us"),
        query=QueryId(text(message, "query")),
    )
