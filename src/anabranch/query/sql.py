"""Reading SQL expressions without Spark: sqlglot, dialect ``spark``.

An expression stays the text its author wrote: sqlglot's tree tells which columns and functions it uses, but what Spark
will run is always a slice of the original text, because a tree written back is not always the same expression. Knows
nothing of boxes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import ParseError, SqlglotError

from anabranch.errors import ConfigError
from anabranch.query.functions import AGGREGATES, WITHOUT_PARENTHESES, refusal, variation

DIALECT: Final = "spark"
_SELECT: Final = "SELECT "
_OPEN: Final = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE})
_CLOSE: Final = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END})
QUANTIFIED: Final = frozenset({TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE})
_MOVING_TIMES: Final = frozenset({"now", "today", "tomorrow", "yesterday"})
_SPECIAL: Final = (exp.Placeholder, exp.Parameter, exp.Tuple, exp.Aliases)


@dataclass(frozen=True, slots=True)
class Expression:
    """One expression: its text without the alias, the alias, and what sqlglot made of it."""

    sql: str
    alias: str | None
    tree: exp.Expr
    tokens: tuple[Token, ...]

    @property
    def is_star(self) -> bool:
        return self.sql == "*"

    @property
    def column(self) -> str | None:
        """The name of the column if the expression is nothing but one."""
        return self.tree.name if isinstance(self.tree, exp.Column) and not self.tree.table else None

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read, as written, each once; ``t.a`` with its prefix."""
        found = (".".join(part.name for part in column.parts) for column in self.tree.find_all(exp.Column))
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class Refusal:
    """A part of an expression that a stream may not have."""

    what: str
    why: str
    remedy: str
    code: str = "refused-function"


@lru_cache(maxsize=4096)
def parse_expression(text: str) -> Expression:
    """A predicate: one expression without a name."""
    expressions = parse_list(text)
    if len(expressions) != 1:
        raise ConfigError(f"`{text}` is {len(expressions)} expressions.", remedy="Write one; join conditions with AND.")
    if expressions[0].alias is not None:
        raise ConfigError(f"`{text}` gives the condition a name.", remedy="Remove the AS.")
    if expressions[0].is_star:
        raise ConfigError("`*` is not a condition.", remedy="Name a column.")
    return expressions[0]


@lru_cache(maxsize=4096)
def parse_list(text: str) -> tuple[Expression, ...]:
    """A select list: expressions between commas, each perhaps with a name."""
    tokens = _tokens(text)
    if not tokens:
        raise ConfigError("There is no expression.", remedy="Write at least one.")
    return tuple(_parse(text, piece) for piece in split_tokens(tokens, TokenType.COMMA))


def refusals(expression: Expression, *, aggregates: bool = False) -> Iterator[Refusal]:
    """Everything in the expression that replicas could not agree on, or that only a table can have."""
    yield from _refused_structure(expression.tree)
    for name, arguments in _calls(expression.tokens):
        found = refusal(name, aggregates=aggregates, arguments=arguments)
        if found is not None:
            yield Refusal(f"{name}()", *found)
    for literal in _moving_literals(expression.tree):
        yield Refusal(
            f"'{literal}'", "is a different time on every replica", "Read _stime, or send the value as a column."
        )
    if expression.tree.find(exp.Collate) or any(type_.args.get("collate") for type_ in _types(expression.tree)):
        yield Refusal("COLLATE", "makes unequal strings equal", "Compare lower(column), for example.", "collation")


def variations(expression: Expression) -> Iterator[str]:
    """The functions and times in the expression that runs need not agree on, each with the reason."""
    for name, arguments in _calls(expression.tokens):
        if (why := variation(name, arguments=arguments)) is not None:
            yield f"{name}() {why}"
    for literal in _moving_literals(expression.tree):
        yield f"'{literal}' is a different time on every replica"


def is_aggregate(node: exp.Expr) -> bool:
    if isinstance(node, exp.Any):
        return not isinstance(node.parent, (exp.Like, exp.ILike, exp.RegexpLike))
    return isinstance(node, exp.AggFunc) or (isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATES)


def columns_outside_aggregates(expression: Expression) -> tuple[str, ...]:
    found = (column.name for column in expression.tree.find_all(exp.Column) if not _inside_aggregate(column))
    return tuple(dict.fromkeys(found))


def quote(name: str) -> str:
    """A column name as SQL."""
    return "`" + name.replace("`", "``") + "`"


def select_items(columns: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """A select list over these columns as (name, SQL); ``*`` is spelled out. What lacks a name has the empty one."""
    spelled = {name.lower(): name for name in names}
    items: list[tuple[str, str]] = []
    for expression in parse_list(columns):
        if expression.is_star:
            items.extend((name, quote(name)) for name in names)
        else:
            column = expression.column or ""
            items.append((expression.alias or spelled.get(column.lower(), column), expression.sql))
    return items


def split_join(on: str, left: Sequence[str], right: Sequence[str]) -> tuple[list[tuple[str, str]], str | None]:
    """The equalities between the two sides, as (left, right) texts, and the rest of the condition.

    An equality has columns of only the left on one of its sides and of only the right on the other. All the rest,
    AND-ed, is the second result; None if nothing is left.
    """
    left_names, right_names = ({name.lower() for name in names} for names in (left, right))
    equalities: list[tuple[str, str]] = []
    rest: list[str] = []
    for conjunct in conjuncts(parse_expression(on)):
        pair = _equality(conjunct, left_names, right_names)
        if pair is None:
            rest.append(conjunct.sql)
        else:
            equalities.append(pair)
    return equalities, " AND ".join(f"({sql})" for sql in rest) if rest else None


def column_pairs(on: str, left: Sequence[str], right: Sequence[str]) -> list[tuple[str, str]] | None:
    """The columns of both sides that a condition wants to be equal, as the sides spell them; None if it is anything but
    equalities between a column of the left and one of the right."""
    equalities, rest = split_join(on, left, right)
    columns = [(parse_expression(one).column, parse_expression(other).column) for one, other in equalities]
    spelled = [{name.lower(): name for name in side} for side in (left, right)]
    if rest is not None or any(None in pair for pair in columns):
        return None
    return [(spelled[0][(one or "").lower()], spelled[1][(other or "").lower()]) for one, other in columns]


def _tokens(text: str) -> tuple[Token, ...]:
    try:
        return tuple(sqlglot.tokenize(text, dialect=DIALECT))
    except SqlglotError as error:
        raise ConfigError(f"`{text}` cannot be read: a quote is not closed.", remedy="Check the quotes.") from error


def split_tokens(tokens: Sequence[Token], separator: TokenType) -> list[tuple[Token, ...]]:
    """The tokens between separators that are in no bracket and in no CASE; the AND of a BETWEEN is none."""
    pieces: list[list[Token]] = [[]]
    depth = 0
    betweens = 0
    for token in tokens:
        depth += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
        betweens += depth == 0 and token.token_type is TokenType.BETWEEN
        if depth == 0 and token.token_type is separator and not (separator is TokenType.AND and betweens):
            pieces.append([])
            continue
        if depth == 0 and token.token_type is TokenType.AND:
            betweens -= betweens > 0
        pieces[-1].append(token)
    return [tuple(piece) for piece in pieces]


def _parse(text: str, tokens: tuple[Token, ...]) -> Expression:
    if not tokens:
        raise ConfigError(f"`{text}` has nothing between two commas.", remedy="Remove a comma.")
    piece = text[tokens[0].start : tokens[-1].end + 1]
    tree = _tree(piece)
    if not isinstance(tree, exp.Alias):
        return Expression(piece, None, tree, tokens)
    body = tokens[:-1]
    if body[-1].token_type is TokenType.ALIAS:
        body = body[:-1]
    return Expression(text[body[0].start : body[-1].end + 1], tree.alias, tree.this, body)


def _tree(piece: str) -> exp.Expr:
    try:
        statements = sqlglot.parse(_SELECT + piece, dialect=DIALECT)
    except ParseError as error:
        near = error.errors[0].get("highlight") if error.errors else None
        where = f" near `{near}`" if near else ""
        raise ConfigError(f"`{piece}` cannot be read{where}.", remedy="Complete or correct the SQL there.") from error
    except (SqlglotError, RecursionError) as error:
        raise ConfigError(f"`{piece}` cannot be read.", remedy="Correct or simplify it.") from error
    select = statements[0]
    clauses = {key for key, value in select.args.items() if value} if isinstance(select, exp.Select) else set()
    if len(statements) != 1 or not isinstance(select, exp.Select) or clauses != {"expressions"}:
        raise ConfigError(f"`{piece}` is more than an expression.", remedy="Write expressions only, no clauses.")
    tree: exp.Expr = select.expressions[0]
    special = tree.find(*_SPECIAL)
    if len(select.expressions) != 1 or (special is not None and not isinstance(special.parent, (exp.Any, exp.In))):
        raise ConfigError(f"`{piece}` is not one value of one column.", remedy="Write expressions over columns.")
    if tree.find(exp.Star) and piece != "*" and not _only_counted_stars(tree):
        raise ConfigError(f"`{piece}` uses `*` in an expression.", remedy="Write `*` alone, or count(*).")
    return tree


def _only_counted_stars(tree: exp.Expr) -> bool:
    return all(isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star))


def _refused_structure(tree: exp.Expr) -> Iterator[Refusal]:
    if tree.find(exp.Query):
        yield Refusal("A subquery", "reads a table", "Use a join box.")
    if tree.find(exp.Window):
        yield Refusal("OVER", "is a window function", "Windows are a parameter of an aggregate box.")
    aggregates = [node for node in tree.walk() if is_aggregate(node)]
    if any(node.find(exp.Distinct) for node in aggregates):
        yield Refusal(
            "DISTINCT", "needs every value ever seen, which a stream cannot keep", "Group by the column first."
        )
    if any(_inside_aggregate(node) for node in aggregates):
        yield Refusal("An aggregate in an aggregate", "has no meaning", "Use two aggregate boxes.")


def _inside_aggregate(node: exp.Expr) -> bool:
    """Whether an aggregate is around the node; what stands in its FILTER clause counts as inside."""
    parent = node.parent
    while parent is not None:
        if is_aggregate(parent) or isinstance(parent, exp.Where):
            return True
        parent = parent.parent
    return False


def _calls(tokens: Sequence[Token]) -> Iterator[tuple[str, bool]]:
    """Every function that is called, by its name as written, and whether it has arguments."""
    closing = [*tokens[1:], None]
    second = [*tokens[2:], None, None]
    before = [None, *tokens[:-1]]
    for previous, token, following, after in zip(before, tokens, closing, second, strict=False):
        name = token.text.lower()
        if following is not None and following.token_type is TokenType.L_PAREN:
            if previous is None or previous.token_type not in QUANTIFIED:
                yield name, after is None or after.token_type is not TokenType.R_PAREN
        elif name in WITHOUT_PARENTHESES and token.token_type not in (TokenType.IDENTIFIER, TokenType.STRING):
            yield name, False


def _moving_literals(tree: exp.Expr) -> Iterator[str]:
    for cast in tree.find_all(exp.Cast, exp.TryCast):
        words = cast.this.name.split() if isinstance(cast.this, exp.Literal) and cast.this.is_string else []
        if words and words[0].lower() in _MOVING_TIMES:
            yield cast.this.name


def _types(tree: exp.Expr) -> Iterator[exp.DataType]:
    yield from tree.find_all(exp.DataType)


def conjuncts(expression: Expression) -> list[Expression]:
    """The parts of an AND as texts; the whole if the texts would not mean what the tree says."""
    tokens = expression.tokens
    if isinstance(expression.tree, exp.Paren):
        return conjuncts(_slice(expression, tokens[1:-1]))
    if not isinstance(expression.tree, exp.And):
        return [expression]
    parts = [_slice(expression, piece) for piece in split_tokens(tokens, TokenType.AND)]
    if [part.tree for part in parts] != list(expression.tree.flatten(unnest=False)):
        return [expression]
    return [conjunct for part in parts for conjunct in conjuncts(part)]


def _slice(expression: Expression, tokens: Sequence[Token]) -> Expression:
    start = expression.tokens[0].start
    return parse_expression(expression.sql[tokens[0].start - start : tokens[-1].end + 1 - start])


def _equality(expression: Expression, left: set[str], right: set[str]) -> tuple[str, str] | None:
    if not isinstance(expression.tree, exp.EQ):
        return None
    pieces = split_tokens(expression.tokens, TokenType.EQ)
    if len(pieces) != 2:
        return None
    first, second = (_slice(expression, piece) for piece in pieces)
    if (first.tree, second.tree) != (expression.tree.this, expression.tree.expression):
        return None
    for one, other in ((first, second), (second, first)):
        if _reads_only(one, left) and _reads_only(other, right):
            return one.sql, other.sql
    return None


def _reads_only(expression: Expression, names: set[str]) -> bool:
    columns = {name.lower() for name in expression.columns}
    return bool(columns) and columns <= names
