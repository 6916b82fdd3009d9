"""Every call: what is asked and answered crosses the wire unchanged, and anything else is refused with a sentence."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from anabranch.core.roll_call import Met
from anabranch.core.telling import Range, Told
from anabranch.errors import ConfigError
from anabranch.model.assignment import AssignedReplica, QueryAssignment
from anabranch.model.ids import QueryId
from anabranch.model.position import Position
from anabranch.transport import calls, messages
from anabranch.transport.calls import Call, Nothing
from anabranch.transport.ports import (
    CopyAcknowledgement,
    CopyRequest,
    CopyReservation,
    Determinants,
    HandOver,
    PeerPlaces,
    PieceRequest,
    ReadRequest,
    Registration,
)

AT = Position("i:1", 7)
COPY = CopyRequest(stream="q/s", reader="r", life="l", position=AT, punctuations={"s/0": 5})
HELD = CopyAcknowledgement(stream="q/s", reader="r", life="l", position=AT, punctuations={})
RANGE = Range(begin_us=0, end_us=30)
TOLD = Told(range=RANGE, starts_us=[0, 20], rows=[1, 2], totals=[2**64 - 1, 0])
ASSIGNMENT = QueryAssignment(
    query=QueryId("q"),
    host="a",
    replicas=(AssignedReplica(stage="x", inputs={"s": ("b", "c")}),),
    cuts=(("b", 0, "c"),),
)
SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), ("at", pa.timestamp("us", "UTC"))])

EXAMPLES: dict[Call[Any, Any], tuple[object, object]] = {
    calls.REGISTER: (
        calls.Register(source="s", producer="p", session=3),
        Registration(session=3, next=9, lane="p", schema=SCHEMA, time="at"),
    ),
    calls.ACKNOWLEDGE: (calls.Acknowledge(stream="s", reader="r", position=AT), Nothing()),
    calls.FORGET_READER: (calls.ForgetReader(stream="s", reader="r"), Nothing()),
    calls.CLOSE_LANE: (calls.CloseLane(source="s"), Nothing()),
    calls.ACKNOWLEDGE_COPIES: (calls.AcknowledgeCopies(held=(HELD, HELD)), Nothing()),
    calls.FAULT_LINK: (calls.FaultLink(node="b", do="delay", delay_us=5), Nothing()),
    calls.MAY_TAKE: (HandOver(assignment=ASSIGNMENT, query={"boxes": [{"name": "x"}]}), calls.MayTake(takes=True)),
    calls.TAKE: (HandOver(assignment=ASSIGNMENT, query={}), Nothing()),
    calls.KEEP_DETERMINANTS: (
        Determinants(sender="a", stream="s", incarnation="i", first_id=4, tids=[1, 2], times_us=[3, 4], origins=[0, 1]),
        Nothing(),
    ),
    calls.DIGESTS: (
        calls.AskDigests(asker="a", stream="s", ranges={"s/0": RANGE}),
        calls.Digests(told={"s/0": TOLD}),
    ),
    calls.RESERVE_COPY: (
        CopyReservation(stream="s", reader="r", life="l", like="o", like_life="m", position=None),
        Nothing(),
    ),
    calls.PLACES: (
        calls.AskPlaces(query=QueryId("q"), asker="a"),
        PeerPlaces(life="l", belongs_to={"format": 4}, places={"s": {"b": AT, "c": None}}),
    ),
    calls.GREET: (
        calls.Greeting(source="s", form="s (n int64)", name="a", met=Met(2, "token")),
        calls.Greeted(roll={"a": Met(2, "token"), "b": Met(1, "other")}),
    ),
    calls.STATUS: (Nothing(), {"node": "a"}),
}

TICKETS = [
    calls.Ticket(read=ReadRequest(stream="s", start=AT, follow=True)),
    calls.Ticket(read=ReadRequest(stream="s", start="end")),
    calls.Ticket(pieces=PieceRequest(stream="s", punctuations={"s/0": 3})),
    calls.Ticket(copy=COPY),
    calls.Ticket(snapshot=calls.SnapshotRequest(query=QueryId("q"), asker="a")),
]


def test_there_is_an_example_of_every_call() -> None:
    assert set(EXAMPLES) == {each for each in vars(calls).values() if isinstance(each, Call)}


@pytest.mark.parametrize("call", EXAMPLES, ids=lambda call: call.name)
def test_what_is_asked_and_answered_comes_as_it_was(call: Call[Any, Any]) -> None:
    asked, answered = EXAMPLES[call]
    assert messages.decode(messages.encode(asked), call.asked) == asked
    came = messages.decode(messages.encode(answered), call.answered)
    assert came == (answered if call is not calls.STATUS else {"v": messages.VERSION, "node": "a"})


@pytest.mark.parametrize("ticket", TICKETS, ids=str)
def test_a_ticket_comes_as_it_was(ticket: calls.Ticket) -> None:
    assert messages.decode(messages.encode(ticket), calls.Ticket) == ticket


@pytest.mark.parametrize("call", [call for call in EXAMPLES if EXAMPLES[call][0] != Nothing()], ids=lambda c: c.name)
def test_a_question_that_lacks_something_or_has_it_otherwise_is_refused(call: Call[Any, Any]) -> None:
    plain = json.loads(messages.encode(EXAMPLES[call][0]))
    for key in plain.keys() - {"v"}:
        with pytest.raises(ConfigError, match=f"A message does not hold a {call.asked.__name__}: .*{key}"):
            messages.decode(json.dumps({**plain, key: 1.5}).encode(), call.asked)


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"range": {"begin_us": 0}, "starts_us": [], "rows": [], "totals": []},
        {"range": {"begin_us": 0, "end_us": 10}, "starts_us": [0], "rows": [1], "totals": []},
        {"range": {"begin_us": 0, "end_us": 10}, "starts_us": [0], "rows": [1], "totals": [-1]},
        {"range": {"begin_us": 0, "end_us": 10}, "starts_us": [0], "rows": [1], "totals": [2**64]},
        {"range": {"begin_us": 0, "end_us": 10}, "starts_us": [0], "rows": [1], "totals": ["1"]},
    ],
)
def test_what_is_no_digest_is_refused(told: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        messages.decode(json.dumps({"v": messages.VERSION, "told": {"s/0": told}}).encode(), calls.Digests)


@pytest.mark.parametrize("schema", ["", "AAAA", "not base64", 3], ids=str)
def test_what_is_no_schema_is_refused(schema: object) -> None:
    plain = json.loads(messages.encode(EXAMPLES[calls.REGISTER][1]))
    with pytest.raises(ConfigError, match="schema"):
        messages.decode(json.dumps({**plain, "schema": schema}).encode(), Registration)


def test_fields_of_a_later_release_are_ignored() -> None:
    assert messages.decode(b'{"v":%d,"takes":true,"when":"now"}' % messages.VERSION, calls.MayTake).takes


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"3", b'"v"', b"\xff", b'{"v":"3"}', b'{"takes":true}'])
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigError):
        messages.decode(data, calls.MayTake)


def test_what_a_file_holds_is_the_same_without_the_version() -> None:
    given = HandOver(assignment=ASSIGNMENT, query={"boxes": []})
    plain = json.loads(json.dumps(messages.to_plain(given)))
    assert "v" not in plain
    assert messages.from_plain(plain, HandOver) == given
    with pytest.raises(ConfigError, match="does not hold a HandOver"):
        messages.from_plain({"query": {}}, HandOver)
