"""The rules of a lane, each with a mutation that breaks it.

``ENTRIES`` are those that make a lane a function of its entries; then come stamps and times, who may say what, and what
a lane says by itself.
"""

from __future__ import annotations

from anabranch.core import lane, stamping
from anabranch.core.lane import Lane
from anabranch.core.lane_state import LaneRules, LaneState
from tests.property.mutations import Mutation

ENTRIES = [
    # Time
    Mutation("a row at the punctuation is not late", stamping._stamp_by_column, "times < punct", "times <= punct"),
    Mutation("disorder is allowed for", stamping._stamp_by_column, " - rules.disorder_us", ""),
    Mutation("earlier batches make a row late", stamping._stamp_by_column, "[state.max_time_us]", "[0]"),
    Mutation("an earlier boundary makes a row late", stamping._stamp_by_column, ", state.boundary_us)", ", 0)"),
    Mutation(
        "a late row gets the punctuation", stamping._stamp_by_column, "np.where(late, punctuations, times)", "times"
    ),
    Mutation("the largest time counts, not the last", stamping._stamp_by_column, "int(largest[-1])", "int(times[-1])"),
    Mutation("rows promise their time less the disorder", Lane.punctuation, " - self.rules.disorder_us", ""),
    Mutation("a boundary promises", Lane.punctuation, "max(state.boundary_us, state", "max(0, state"),
    Mutation("a boundary does not go back", Lane._raise_boundary, "max(state.boundary_us, time_us)", "time_us"),
    # Numbers
    Mutation("what was sent before is skipped", Lane._enter, "min(count, expected - first)", "0"),
    Mutation(
        "the skipped rows have no stamp", stamping.stamp_rows, "rows.times[skip:]", "rows.times[: rows.count - skip]"
    ),
    Mutation(
        "the lane's numbers go on",
        Lane._append_rows,
        "np.arange(state.next_number, state.next_number + count",
        "np.arange(1, 1 + count",
    ),
    Mutation(
        "every entry takes its number", lane._heard, "state.next_number + count", "state.next_number + min(count, 1)"
    ),
    Mutation(
        "every entry takes its client's number",
        lane._heard,
        "known.next_number + count",
        "known.next_number + min(count, 1)",
    ),
    Mutation("voids take the next numbers", Lane._append, "first=state.next_number", "first=1"),
    Mutation("a boundary takes the next number", Lane._raise_boundary, "number=state.next_number", "number=1"),
    Mutation("a client learns where it was", Lane._register, "known.next_number if known else 1", "1"),
    Mutation(
        "an answer tells the last number",
        Lane._enter,
        "[action, _answer(action, first + count - 1)]",
        "[action, _answer(action, expected)]",
    ),
    Mutation(
        "a repetition is answered as the first time",
        Lane._enter,
        "accepted_through=first + count - 1",
        "accepted_through=expected",
    ),
    # The end
    Mutation(
        "a closed lane counts as a large time", Lane.punctuation, "return CLOSED_US", "return state.last_stamp_us"
    ),
    Mutation("CLOSE ends the lane", Lane._append_close, "closed=True", "closed=False"),
    Mutation("CLOSE takes the next number", Lane._append_close, "number=state.next_number", "number=1"),
]

STAMPS = [
    Mutation(
        "a clock that is set back sets no stamp back",
        stamping._stamp_on_arrival,
        "max(state.last_stamp_us, now_us)",
        "now_us",
    ),
    Mutation("a stamp is remembered", stamping._stamp_by_producer, "int(stamps[-1])", "state.last_stamp_us"),
    Mutation("stamps may be equal", stamping._decreasing_stamp, "stamps < before", "stamps <= before"),
    Mutation("a stamp is not below that of an earlier batch", stamping._decreasing_stamp, "[last_stamp_us]", "[0]"),
    Mutation("a stamp is not below the one before it", stamping._decreasing_stamp, "stamps[:-1])", "stamps[1:])"),
    Mutation(
        "a boundary holds for stamps too",
        Lane._raise_boundary,
        "max(state.last_stamp_us, time_us)",
        "state.last_stamp_us",
    ),
    Mutation(
        "a boundary does not set stamps back", Lane._raise_boundary, "max(state.last_stamp_us, time_us)", "time_us"
    ),
    Mutation("a time is not NULL", stamping._bad_time, "null | (times", "(times"),
    Mutation("a NULL is told from a bad time", stamping._bad_time, "if null[row]:", "if False:"),
    Mutation("0 is no time", stamping._bad_time, "times < MIN_TIME_US", "times < 0"),
    Mutation("the end of time is no time", stamping._bad_time, "times >= CLOSED_US", "times > CLOSED_US"),
    Mutation(
        "the first bad row is told",
        stamping._first,
        "int(np.argmax(mask))",
        "len(mask) - 1 - int(np.argmax(mask[::-1]))",
    ),
    Mutation(
        "a bad row is counted from the batch's beginning", stamping.stamp_rows, "row=bad.row + skip", "row=bad.row"
    ),
    Mutation(
        "nulls that were sent before do not count",
        stamping.stamp_rows,
        "rows.nulls[skip:]",
        "rows.nulls[: rows.count - skip]",
    ),
    Mutation("a producer stamps its rows", stamping.stamp_rows, "if rows.times is None:", "if False:"),
    Mutation(
        "an endless disorder is a number",
        LaneRules.of.__func__,  # type: ignore[attr-defined]
        "min(source.disorder_us, CLOSED_US)",
        "source.disorder_us",
    ),
]

SENDERS = [
    Mutation(
        "only the lane's producer registers",
        Lane._register,
        "if self.rules.producer not in (None, event.producer):",
        "if False:",
    ),
    Mutation(
        "a session is never given twice",
        Lane._register,
        "state.last_session + 1",
        "(known.session if known else 0) + 1",
    ),
    Mutation(
        "a plain client has no producer's lane",
        Lane._refuse_sender,
        "if self.rules.producer is None or by_hand:",
        "if True:",
    ),
    Mutation(
        "any lane may be closed by hand",
        Lane._refuse_sender,
        "if self.rules.producer is None or by_hand:",
        "if self.rules.producer is None:",
    ),
    Mutation(
        "only the lane's producer speaks",
        Lane._refuse_sender,
        "if self.rules.producer not in (None, event.producer):",
        "if False:",
    ),
    Mutation(
        "a newer session ends the older",
        Lane._refuse_sender,
        "event.session != known.session",
        "event.session > known.session",
    ),
    Mutation(
        "who never registered has no session", Lane._refuse_sender, "if known is None or", "if known is not None and"
    ),
    Mutation("a client counts", Lane._refuse_sender, "event.first is None or ", "event.first is not None and "),
    Mutation("a client counts from one", Lane._refuse_sender, "event.first < 1", "event.first < 0"),
    Mutation("a hole in a counting is refused", Lane._enter, "if first > expected:", "if False:"),
    Mutation("a closed lane takes nothing new", Lane._enter, "if state.closed:", "if False:"),
    Mutation(
        "a closed lane answers repetitions",
        Lane._enter,
        "if skip == count or closed_again:",
        "if (skip == count and not state.closed) or closed_again:",
    ),
    Mutation(
        "closing by hand again is harmless", Lane._enter, "if skip == count or closed_again:", "if skip == count:"
    ),
    Mutation(
        "a stamping lane takes no boundaries",
        Lane._append_boundary,
        "if self.rules.producer is None and not self.rules.timed:",
        "if False:",
    ),
    Mutation("0 is no boundary", Lane._append_boundary, "MIN_TIME_US <= event", "0 <= event"),
    Mutation(
        "the end of time is no boundary",
        Lane._append_boundary,
        "event.time_us < CLOSED_US",
        "event.time_us <= CLOSED_US",
    ),
    Mutation(
        "clients are forgotten at a limit", lane._with_producer, "if len(producers) > limits.PRODUCERS:", "if False:"
    ),
    Mutation(
        "the longest silent client is forgotten",
        lane._with_producer,
        "producers[other].seen_us, other",
        "-producers[other].seen_us, other",
    ),
    Mutation(
        "who speaks is not silent",
        lane._heard,
        "seen_us=now_us",
        "seen_us=known.seen_us",
    ),
    Mutation("late rows are counted", lane._answer, "int(np.count_nonzero(rows.late))", "0"),
    Mutation("new rows are counted", lane._answer, "len(rows.numbers)", "accepted_through"),
    Mutation("a clock that cannot be stops the lane", Lane.handle, "MIN_TIME_US <= event", "0 <= event"),
]

CLOCK = [
    Mutation("a closed lane is silent", Lane._tick, "if state.closed:", "if False:"),
    Mutation(
        "a clock that is set back begins the silence again",
        Lane._tick,
        "0 < state.last_activity_us <= now_us",
        "0 < state.last_activity_us",
    ),
    Mutation("a heartbeat takes its number", Lane._tick, "new.next_number + 1", "new.next_number"),
    Mutation("a heartbeat is an entry", Lane._tick, ", last_entry_us=now_us", ""),
    Mutation(
        "a heartbeat breaks no silence",
        Lane._tick,
        ", last_entry_us=now_us",
        ", last_entry_us=now_us, last_activity_us=now_us",
    ),
    Mutation(
        "silence lasts as long as said", Lane._close_silent, "last_activity_us < self", "last_activity_us <= self"
    ),
    Mutation(
        "without a limit silence may last",
        Lane._close_silent,
        "self.rules.silence_us is None or ",
        "self.rules.silence_us is not None and ",
    ),
    Mutation("boundaries are coalesced", Lane._heartbeat, "last_entry_us < self", "last_entry_us <= self"),
    Mutation(
        "rows are as good as a heartbeat",
        lane._heard,
        "now_us if count else state.last_entry_us",
        "state.last_entry_us",
    ),
    Mutation(
        "a time column does not follow the clock",
        Lane._heartbeat,
        "if self.rules.timed:",
        "if self.rules.timed and self.rules.idle_us is not None:",
    ),
    Mutation("idle lasts as long as said", Lane._heartbeat, "last_activity_us < self", "last_activity_us <= self"),
    Mutation("an idle lane stays behind its clock", Lane._heartbeat, "now_us - self.rules.idle_us -", "now_us -"),
    Mutation("an idle lane allows for disorder", Lane._heartbeat, "idle_us - self.rules.disorder_us", "idle_us"),
    Mutation(
        "a heartbeat promises something new", Lane._heartbeat, "if time_us <= self.punctuation(state):", "if False:"
    ),
    Mutation(
        "a repetition breaks the silence", Lane._enter, "return _heard(state, event), [Answer", "return state, [Answer"
    ),
    Mutation(
        "an entry breaks the silence",
        lane._heard,
        "last_activity_us=now_us",
        "last_activity_us=state.last_activity_us if count else now_us",
    ),
    Mutation("a registration breaks the silence", Lane._register, ", last_activity_us=event.now_us", ""),
    Mutation(
        "nobody is silent while the entry point is down",
        Lane.handle,
        "replace(state, last_activity_us=event.now_us), []",
        "state, []",
    ),
    Mutation("another format is refused", LaneState.from_bytes.__func__, "if found != FORMAT:", "if False:"),  # type: ignore[attr-defined]
]
