"""Names in a SELECT: which stream's column each one is, and how an expression reads once it stands in a box.

Boxes have no prefixes: ``b.price`` becomes ``price``, or what a Map before a Join called it where both sides have one.
Only names are exchanged; all other text stays as its author wrote it. Knows nothing of boxes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sqlglot import Token, TokenType, exp

from anabranch.errors import ConfigError
from anabranch.model.header import STIME
from anabranch.query.functions import AGGREGATES, ORDER_DEPENDENT, OTHER_AGGREGATES
from anabranch.query.problems import candidates
from anabranch.query.sql import parse_list, quote
from anabranch.query.statements import Refused, Text

_AGGREGATES = AGGREGATES | ORDER_DEPENDENT | OTHER_AGGREGATES
_QUANTIFIED = (TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE)


@dataclass(frozen=True, slots=True)
class Edit:
    """The text from ``at`` up to ``end`` becomes ``new``; it stays if that is empty."""

    at: int
    end: int
    new: str


@dataclass(frozen=True, slots=True)
class Reference:
    """A column as an expression names it, with its place."""

    at: int
    end: int
    table: str | None
    name: str


@dataclass(frozen=True, slots=True)
class Side:
    """One stream of a FROM clause: what it is called, and for each of its columns what the boxes call it."""

    name: str
    columns: Mapping[str, str]

    def find(self, column: str) -> str | None:
        return next((made for shown, made in self.columns.items() if shown.lower() == column.lower()), None)


@dataclass(frozen=True, slots=True)
class Scope:
    """The streams that the names of a SELECT can mean."""

    sides: tuple[Side, ...]

    def resolve(self, reference: Reference) -> str:
        """What the boxes call this column; Refused where it is unknown, or one of several."""
        if reference.name.lower() == STIME:
            return self._stime(reference)
        sides = self.sides if reference.table is None else (self.side(reference.table, reference.at),)
        found = [(side, made) for side in sides if (made := side.find(reference.name)) is not None]
        if len(found) == 1:
            return found[0][1]
        if not found:
            names = [name for side in sides for name in side.columns]
            message = f"There is no column {reference.name!r}."
            raise Refused(reference.at, message, candidates(reference.name, names), code="unknown-column")
        first = found[0][0].name
        message = f"{reference.name!r} could be a column of {' or of '.join(side.name for side, _ in found)}."
        raise Refused(reference.at, message, f"Write {first}.{reference.name}.", code="ambiguous-column")

    def side(self, name: str, at: int) -> Side:
        for side in self.sides:
            if side.name.lower() == name.lower():
                return side
        remedy = candidates(name, [side.name for side in self.sides])
        raise Refused(at, f"No stream is called {name!r} here.", remedy, code="unknown-column")

    def rewrite(self, text: Text) -> str:
        """The expression with the names of the boxes."""
        return edited(text, self.edits(text))

    def edits(self, text: Text) -> list[Edit]:
        return [self.edit(reference) for reference in references(text)]

    def edit(self, reference: Reference) -> Edit:
        """A column that has the same name in the boxes stays as it is written."""
        made = self.resolve(reference)
        plain = reference.table is None and made.lower() == reference.name.lower()
        return Edit(reference.at, reference.end, "" if plain else column_sql(made))

    def _stime(self, reference: Reference) -> str:
        if reference.table is not None and len(self.sides) > 1:
            message = f"The time of {reference.table} alone is gone: a pair has one time, the later of the two."
            remedy = f"Select it before the join: (SELECT *, _stime AS seen FROM {reference.table})."
            raise Refused(reference.at, message, remedy)
        return STIME


def references(text: Text) -> Iterator[Reference]:
    """Every column that the expression reads, with its place."""
    for column in text.tree.find_all(exp.Column):
        parts = column.parts
        if isinstance(column.this, exp.Star):
            raise Refused(text.at, f"`{text.sql}` uses `*` in an expression.", "Write `*` alone, or count(*).")
        at, end = parts[0].meta["start"], parts[-1].meta["end"] + 1
        if len(parts) > 2:
            raise Refused(at, f"`{text.sql[at - text.at : end - text.at]}` has too many parts.", "Write t.column.")
        yield Reference(at, end, parts[0].name if len(parts) == 2 else None, parts[-1].name)


def bare(text: Text) -> Reference | None:
    """The column, if the expression is nothing but one."""
    return next(references(text)) if isinstance(text.tree, exp.Column) else None


def edited(text: Text, edits: Iterable[Edit], at: int | None = None, end: int | None = None) -> str:
    """The text, or the part of it from ``at`` to ``end``, with these edits."""
    at, end = text.at if at is None else at, text.end if end is None else end
    sql, last = "", at
    for edit in sorted(edits, key=lambda each: each.at):
        if edit.new and at <= edit.at < end:
            sql += text.sql[last - text.at : edit.at - text.at] + edit.new
            last = edit.end
    return sql + text.sql[last - text.at : end - text.at]


def column_sql(name: str) -> str:
    """A column as SQL: the bare name where that reads back as it, in backquotes otherwise."""
    try:
        read = parse_list(name)
    except ConfigError:
        return quote(name)
    return name if len(read) == 1 and read[0].column == name and read[0].alias is None else quote(name)


def aggregate_calls(text: Text) -> list[tuple[int, int]]:
    """Where the expression calls aggregates, each with its FILTER; those inside of others are not listed."""
    tokens = text.tokens
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(tokens):
        if not _calls_aggregate(tokens, at):
            at += 1
            continue
        last = _closing(tokens, at + 1)
        follows = [token.text.upper() for token in tokens[last + 1 : last + 3]]
        if follows == ["FILTER", "("]:
            last = _closing(tokens, last + 2)
        found.append((tokens[at].start, tokens[last].end + 1))
        at = last + 1
    return found


def calls_of(part: Text, text: Text) -> list[tuple[int, int]]:
    """Where an expression repeats another one that is a call of a function, or stands in brackets."""
    wanted = [_folded(token) for token in part.tokens]
    opening = 0 if part.tokens[0].token_type is TokenType.L_PAREN else 1
    whole = len(wanted) > opening and part.tokens[opening].token_type is TokenType.L_PAREN
    if not whole or _closing(part.tokens, opening) != len(wanted) - 1:
        return []
    tokens = [_folded(token) for token in text.tokens]
    starts = [at for at in range(len(tokens) - len(wanted) + 1) if tokens[at : at + len(wanted)] == wanted]
    return [(text.tokens[at].start, text.tokens[at + len(wanted) - 1].end + 1) for at in starts]


def _folded(token: Token) -> tuple[TokenType, str]:
    return token.token_type, token.text if token.token_type is TokenType.STRING else token.text.lower()


def _calls_aggregate(tokens: tuple[Token, ...], at: int) -> bool:
    called = at + 1 < len(tokens) and tokens[at + 1].token_type is TokenType.L_PAREN
    quantifier = at > 0 and tokens[at - 1].token_type in _QUANTIFIED
    plain = tokens[at].token_type not in (TokenType.STRING, TokenType.IDENTIFIER)
    return called and plain and not quantifier and tokens[at].text.lower() in _AGGREGATES


def _closing(tokens: tuple[Token, ...], at: int) -> int:
    """The index of the bracket that closes the one at ``at``."""
    depth = 0
    for index in range(at, len(tokens)):
        depth += (tokens[index].token_type is TokenType.L_PAREN) - (tokens[index].token_type is TokenType.R_PAREN)
        if depth == 0:
            return index
    return len(tokens) - 1
