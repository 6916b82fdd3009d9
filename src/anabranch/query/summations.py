"""The calls in an expression that add up: where they stand in its text, and what they add.

Exact sums are written into the text in their place, and conditions behind them. A tree that is written back is not
always the same expression, so calls are found among the tokens, and everything around them stays as its author wrote
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from sqlglot import Token, TokenType

from anabranch.query.functions import AGGREGATES
from anabranch.query.sql import QUANTIFIED, parse_expression, split_tokens

SUMMATIONS: Final = frozenset({"sum", "avg", "mean"})
"""The aggregates whose result is a sum, or a sum by a number: these can be computed exactly."""


@dataclass(frozen=True, slots=True)
class Summation:
    """``function(argument) FILTER (WHERE condition)``, from character ``start`` up to ``end`` of the expression."""

    function: str
    argument: str
    condition: str | None
    start: int
    end: int


def summations(sql: str) -> Iterator[Summation]:
    """The sums and averages of an expression, in the order of its text. None lies in another."""
    tokens = parse_expression(sql).tokens
    for place, token in enumerate(tokens):
        if token.text.lower() in SUMMATIONS and _opens(tokens, place + 1):
            last = _closing(tokens, place + 1)
            inside = tokens[place + 2 : last]
            if inside and inside[0].token_type is TokenType.ALL:  # says only that it is not DISTINCT
                inside = inside[1:]
            condition, last = _condition(sql, tokens, last)
            if inside:
                argument = _text(sql, inside)
                yield Summation(token.text.lower(), argument, condition, token.start, tokens[last].end + 1)


def with_summations(sql: str, replaced: Callable[[Summation], str | None]) -> str:
    """The expression with other text in the place of its sums and averages; None leaves one as it is."""
    pieces: list[str] = []
    done = 0
    for each in summations(sql):
        text = replaced(each)
        if text is not None:
            pieces += [sql[done : each.start], text]
            done = each.end
    return "".join([*pieces, sql[done:]])


@dataclass(frozen=True, slots=True)
class Call:
    """An aggregate of an expression, from character ``start`` up to ``end``, with its FILTER clause; ``closed`` is the
    end of its bracket."""

    function: str
    arguments: tuple[str, ...]
    condition: str | None
    start: int
    closed: int
    end: int


def calls(sql: str) -> Iterator[Call]:
    """All aggregates of an expression, in the order of its text. None lies in another."""
    tokens = parse_expression(sql).tokens
    place = 0
    while place < len(tokens):
        is_call = tokens[place].text.lower() in AGGREGATES and _opens(tokens, place + 1)
        if not is_call or (place and tokens[place - 1].token_type in QUANTIFIED):
            place += 1
            continue
        last = _closing(tokens, place + 1)
        condition, end = _condition(sql, tokens, last)
        yield Call(
            function=tokens[place].text.lower(),
            arguments=tuple(
                _text(sql, each) for each in split_tokens(tokens[place + 2 : last], TokenType.COMMA) if each
            ),
            condition=condition,
            start=tokens[place].start,
            closed=tokens[last].end + 1,
            end=tokens[end].end + 1,
        )
        place = end + 1


def with_condition(sql: str, condition: str) -> str:
    """The expression with all its aggregates over only those rows for which the condition holds, too."""
    pieces: list[str] = []
    done = 0
    for call in calls(sql):
        both = condition if call.condition is None else f"({call.condition}) AND {condition}"
        pieces += [sql[done : call.closed], f" FILTER (WHERE {both})"]
        done = call.end
    return "".join([*pieces, sql[done:]])


def _condition(sql: str, tokens: tuple[Token, ...], last: int) -> tuple[str | None, int]:
    """What the FILTER clause behind a call says, if there is one; and where the call ends."""
    if last + 1 >= len(tokens) or tokens[last + 1].text.lower() != "filter" or not _opens(tokens, last + 2):
        return None, last
    end = _closing(tokens, last + 2)
    return _text(sql, tokens[last + 4 : end]), end  # after FILTER ( WHERE


def _opens(tokens: tuple[Token, ...], place: int) -> bool:
    return place < len(tokens) and tokens[place].token_type is TokenType.L_PAREN


def _closing(tokens: tuple[Token, ...], opening: int) -> int:
    depth = 0
    for place in range(opening, len(tokens)):
        depth += (tokens[place].token_type is TokenType.L_PAREN) - (tokens[place].token_type is TokenType.R_PAREN)
        if depth == 0:
            return place
    raise AssertionError("sqlglot has read an expression with a bracket that is not closed")


def _text(sql: str, tokens: tuple[Token, ...]) -> str:
    return sql[tokens[0].start : tokens[-1].end + 1]
