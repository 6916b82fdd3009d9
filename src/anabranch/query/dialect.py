"""Reading SQL statements: a small dialect of sqlglot, Spark's with what streams need and without what they cannot have.

sqlglot gives the tokens and reads expressions; the statements around them are read here, because its own grammar takes
hundreds of clauses that a stream has no meaning for, and drops the places where they stood. So whatever is not in the
grammar of ``docs/reference/sql.md`` is refused where it stands, with what to write instead. Knows nothing of boxes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final, NoReturn

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parsers.spark import SparkParser

from anabranch.errors import ConfigError
from anabranch.model.times import parse_duration
from anabranch.query.problems import candidates
from anabranch.query.statements import (
    CreateOutput,
    CreateSource,
    CreateTable,
    CreateView,
    Distinct,
    Item,
    Joined,
    Name,
    Named,
    Nested,
    Option,
    Query,
    Refused,
    Relation,
    Select,
    Statement,
    Text,
    UnionAll,
    Windowed,
    WindowKind,
    With,
)

_UNITS: Final = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 7 * 86_400_000_000,
}
_NO_NAMES: Final = frozenset(
    """AS ASOF CLUSTER CROSS DISTRIBUTE EMIT EXCEPT FETCH FOR FROM FULL GROUP HAVING INNER INTERSECT JOIN LATERAL LEFT
    LIMIT MATCH_RECOGNIZE MINUS NATURAL OFFSET ON ORDER PIVOT QUALIFY RIGHT SELECT SEMI ANTI SORT TABLESAMPLE UNION
    UNPIVOT USING WHERE WINDOW WITH WITHIN""".split()
)
"""Words that begin the next clause, and so are no name of a table or column that lacks an AS."""
_CLAUSES: Final = {
    "ORDER BY": ("a stream never ends, so it cannot be sorted", "Leave it out; readers may sort."),
    "SORT BY": ("a stream never ends, so it cannot be sorted", "Leave it out; readers may sort."),
    "CLUSTER BY": ("Spark decides how rows are distributed over machines", "Leave it out."),
    "DISTRIBUTE BY": ("Spark decides how rows are distributed over machines", "Leave it out."),
    "LIMIT": ("a stream has no first rows", "Filter by a column or by _stime, or let the reader stop."),
    "OFFSET": ("a stream has no first rows", "Filter by a column or by _stime, or let the reader stop."),
    "FETCH": ("a stream has no first rows", "Filter by a column or by _stime, or let the reader stop."),
    "QUALIFY": ("there are no window functions", "Write GROUP BY over TUMBLE, HOP, SESSION or COUNT."),
    "WINDOW": ("there are no window functions", "Write GROUP BY over TUMBLE, HOP, SESSION or COUNT."),
    "LATERAL": ("it makes several tuples from one", "Split such values before they are sent."),
    "LATERAL VIEW": ("it makes several tuples from one", "Split such values before they are sent."),
    "TABLESAMPLE": ("a sample has to be the same on every replica", "Use a drop box, in Python or YAML."),
    "PIVOT": ("no box does this", "Write an aggregate with FILTER (WHERE …) for each column."),
    "UNPIVOT": ("no box does this", "Write a SELECT for each column, with UNION ALL between them."),
    "MATCH_RECOGNIZE": ("no box does this", "Write GROUP BY over SESSION, or a JOIN … WITHIN."),
    "EXCEPT": ("it needs all rows ever seen", "Write a JOIN … WITHIN, or a WHERE."),
    "MINUS": ("it needs all rows ever seen", "Write a JOIN … WITHIN, or a WHERE."),
    "INTERSECT": ("it needs all rows ever seen", "Write a JOIN … WITHIN."),
    "EMIT": ("a window is emitted once, when it closes", "Leave it out."),
}
"""What sqlglot's Spark has and streams do not: why, and what to write instead."""
_JOINS: Final = {
    "CROSS": ("pairs every row with every other", "Write JOIN … ON … WITHIN INTERVAL '10' SECOND."),
    "NATURAL": ("hides which columns are compared", "Write JOIN … ON a.x = b.x WITHIN INTERVAL '10' SECOND."),
    "RIGHT": ("would wait for rows that never come", "Exchange the sides, and write LEFT ASOF JOIN."),
    "FULL": ("would wait for rows that never come", "Write JOIN … WITHIN, or LEFT ASOF JOIN."),
    "SEMI": ("has no box", "Write JOIN … WITHIN and select the columns of the left side."),
    "ANTI": ("would wait for rows that never come", "Write LEFT ASOF JOIN, and WHERE a column of the right IS NULL."),
}
_CONSTRAINTS: Final = ("NOT", "NULL", "PRIMARY", "UNIQUE", "DEFAULT", "GENERATED", "CHECK", "COMMENT", "REFERENCES")
_CHECK: Final = "Check the SQL before it: docs/reference/sql.md."
_STATEMENTS: Final = "Write CREATE SOURCE, CREATE TABLE, CREATE VIEW, CREATE OUTPUT or SELECT."
_TABLE_FUNCTIONS: Final = tuple(kind.value for kind in WindowKind)


class StreamParser(SparkParser):
    """One statement at a time. Methods without an underscore of sqlglot's own are ours; positions are offsets."""

    wrong_at = 0

    def raise_error(self, message: str, token: Token | None = None, *args: Any, **more: Any) -> None:
        """As sqlglot does, and remember where: its message has the end of the token, not its beginning."""
        self.wrong_at = token.start if token else self.at()
        if token:
            super().raise_error(message, token, *args, **more)
        else:
            super().raise_error(message, *args, **more)

    # --- statements ------------------------------------------------------------------------------------------------

    def statement(self) -> Statement:
        found = self.created() if self.word("CREATE") else self.bare_query()
        if self._curr:
            self.refuse_here("is not expected here")
        return found

    def created(self) -> Statement:
        at = self.at()
        if self.word("SOURCE"):
            return self.created_source()
        if self.word("TABLE"):
            return self.created_table()
        if self.word("VIEW"):
            name = self.name("the name of the view")
            self.expect("AS")
            return CreateView(name=name, query=self.query())
        if self.word("OUTPUT"):
            name = self.name("the name of the output")
            options = self.options() if self.word("WITH") else ()
            self.expect("AS")
            return CreateOutput(at=at, name=name, options=options, query=self.query())
        if self.word("OR") or self.word("TEMPORARY") or self.word("TEMP") or self.word("MATERIALIZED"):
            raise Refused(at, f"CREATE {self.shown(at)}: a view is only a name here.", "Write CREATE VIEW … AS SELECT.")
        if self.word("SINK"):
            raise Refused(at, "CREATE SINK: outputs have writers.", "Write CREATE OUTPUT … WITH (to = '…') AS SELECT.")
        raise Refused(at, f"There is no CREATE {self.shown(at)}.", _STATEMENTS)

    def bare_query(self) -> CreateOutput:
        at = self.at()
        if self.word("INSERT"):
            raise Refused(at, "INSERT: rows go to outputs.", "Write CREATE OUTPUT name AS SELECT ….")
        if not self.sees("SELECT") and not self.sees("WITH") and not self.sees("("):
            raise Refused(at, f"{self.shown(at)} is not a statement here.", _STATEMENTS)
        return CreateOutput(at=at, name=None, options=(), query=self.query())

    def created_source(self) -> CreateSource:
        if self.sees("IF"):
            raise Refused(self.at(), "IF NOT EXISTS: every source is new here.", "Leave it out.")
        name = self.name("the name of the source")
        self.expect("(")
        columns = [self.column()]
        while self.word(","):
            columns.append(self.column())
        self.expect(")")
        return CreateSource(name=name, schema=", ".join(columns), options=self.options() if self.word("WITH") else ())

    def created_table(self) -> CreateTable:
        if self.sees("IF"):
            raise Refused(self.at(), "IF NOT EXISTS: every table is new here.", "Leave it out.")
        name = self.name("the name of the table")
        self.expect("(")
        columns: list[str] = []
        key: tuple[Name, ...] = ()
        while True:
            at = self.at()
            found = self.primary_key() if self.sees_key() else ()
            if not found:
                column = self.name("the name of a column")
                columns.append(f"{column.text} {self.column_type(in_table=True)}")
                found = (column,) if self.take_key() else ()
            if found and key:
                raise Refused(at, "A table has one PRIMARY KEY.", "Write PRIMARY KEY (a, b) after the columns.")
            key = key or found
            if not self.word(","):
                break
        self.expect(")")
        options = self.options() if self.word("WITH") else ()
        return CreateTable(name=name, schema=", ".join(columns), key=key, options=options)

    def primary_key(self) -> tuple[Name, ...]:
        """``PRIMARY KEY (a, b)``, in the place of a column."""
        self.take_key()
        self.expect("(")
        names = [self.name("a column")]
        while self.word(","):
            names.append(self.name("a column"))
        self.expect(")")
        return tuple(names)

    def sees_key(self) -> bool:
        return self.sees("PRIMARY KEY") or self.sees("PRIMARY")

    def take_key(self) -> bool:
        """Takes PRIMARY KEY, if it is next; it may be one token or two."""
        if self.word("PRIMARY"):
            self.expect("KEY")
            return True
        return self.word("PRIMARY KEY")

    def column(self) -> str:
        """A column and its type, as the text of a schema."""
        if self.sees("WATERMARK"):
            remedy = "Write WITH (time = 'column', disorder = '2s') after the columns."
            raise Refused(self.at(), "WATERMARK: the time of a source is an option.", remedy)
        name = self.name("the name of a column")
        return f"{name.text} {self.column_type()}"

    def column_type(self, *, in_table: bool = False) -> str:
        """All up to the next column, or up to the PRIMARY KEY of a table."""
        start, depth = self.at(), 0
        who = "a table" if in_table else "a source"
        while self._curr and (depth or not (self.sees(",") or self.sees(")"))):
            if in_table and self.sees_key():
                break
            if self._curr.text.upper().partition(" ")[0] in _CONSTRAINTS:
                self.refuse_here(f"is not checked by {who}", "Write the name of the column and its type only.")
            depth += self.sees("(") - self.sees(")")
            self._advance()
        return str(self.sql[start : self._prev.end + 1]) if start < self.at() else ""

    def options(self) -> tuple[Option, ...]:
        """``(name = value, …)`` behind WITH."""
        self.expect("(")
        found = [self.option()]
        while self.word(","):
            found.append(self.option())
        self.expect(")")
        return tuple(found)

    def option(self) -> Option:
        name = self.name("the name of an option", any_word=True)
        self.expect("=")
        at = self.at()
        if self.word("("):
            values = [self.option_text()]
            while self.word(","):
                values.append(self.option_text())
            self.expect(")")
            return Option(name=name, value=tuple(values), at=at)
        return Option(name=name, value=self.duration() if self.sees("INTERVAL") else self.option_text(), at=at)

    def option_text(self) -> str:
        pieces: list[str] = []
        while self._curr and self._curr.token_type is TokenType.STRING:
            pieces.append(self._curr.text)  # 'it''s' is two strings for Spark's dialect
            self._advance()
        if pieces:
            return "'".join(pieces)
        if not self._curr or not (self._curr.token_type is TokenType.NUMBER or self._curr.text.isidentifier()):
            self.refuse_here("is not an option value", "Write text in quotes, a number, or a list of texts.")
        self._advance()
        return str(self._prev.text)

    # --- queries ---------------------------------------------------------------------------------------------------

    def query(self) -> Query:
        at = self.at()
        if self.word("WITH"):
            if self.word("RECURSIVE"):
                raise Refused(at, "WITH RECURSIVE: a query has no loops.", "Write WITH without RECURSIVE.")
            views = [self.common_view()]
            while self.word(","):
                views.append(self.common_view())
            return With(at=at, views=tuple(views), query=self.query())
        parts = [self.term()]
        while self.word("UNION"):
            if not self.word("ALL"):
                remedy = "Write UNION ALL; SELECT DISTINCT WITHIN INTERVAL '1' HOUR … drops duplicates."
                raise Refused(self._prev.start, "UNION keeps each row once, which needs all rows ever seen.", remedy)
            parts.append(self.term())
        self.refuse_clauses()
        return parts[0] if len(parts) == 1 else UnionAll(at=at, parts=tuple(parts))

    def common_view(self) -> tuple[Name, Query]:
        name = self.name("the name of a query")
        self.expect("AS")
        return name, self.nested()

    def nested(self) -> Query:
        self.expect("(")
        query = self.query()
        self.expect(")")
        return query

    def term(self) -> Query:
        return self.nested() if self.sees("(") else self.select()

    def select(self) -> Select:
        at = self.at()
        self.expect("SELECT")
        distinct = self.distinct() if self.sees("DISTINCT") else None
        self.word("ALL")
        items = [self.item()]
        while self.word(","):
            items.append(self.item())
        if not self.word("FROM"):
            self.refuse_clauses()
            self.refuse_here("appears where FROM is expected", "Write SELECT … FROM a source or a view.")
        relation = self.relation()
        joins: list[Joined] = []
        while (join := self.join()) is not None:
            joins.append(join)
        where = self.text() if self.word("WHERE") else None
        group_at = self.at()
        group = self.groups() if self.word("GROUP BY") else ()
        having = self.text() if self.word("HAVING") else None
        self.refuse_clauses()
        return Select(
            at=at,
            items=tuple(items),
            relation=relation,
            joins=tuple(joins),
            distinct=distinct,
            where=where,
            group=group,
            group_at=group_at,
            having=having,
        )

    def distinct(self) -> Distinct:
        at = self.at()
        self.expect("DISTINCT")
        on: list[Text] = []
        if self.word("ON"):
            self.expect("(")
            on.append(self.text())
            while self.word(","):
                on.append(self.text())
            self.expect(")")
        within = self.duration() if self.word("WITHIN") else None
        return Distinct(at=at, within_us=within, on=tuple(on))

    def item(self) -> Item:
        at = self.at()
        if self.word("*"):
            self.refuse_star_options()
            return Item(at=at, expression=None)
        if self._next and self._next.token_type is TokenType.DOT and self.token_after(2) is TokenType.STAR:
            of = self.name("a name")
            self._advance(2)
            self.refuse_star_options()
            return Item(at=at, expression=None, of=of)
        expression = self.text()
        return Item(at=at, expression=expression, alias=self.alias())

    def groups(self) -> tuple[Text, ...]:
        for word in ("ALL", "ROLLUP", "CUBE", "GROUPING"):
            if self.sees(word):
                self.refuse_here("names no columns", "List the columns of the group.")
        found = [self.text()]
        while self.word(","):
            found.append(self.text())
        return tuple(found)

    # --- relations -------------------------------------------------------------------------------------------------

    def relation(self) -> Relation:
        at = self.at()
        if self.sees("("):
            return Nested(at=at, query=self.nested(), alias=self.alias())
        if self.word("TABLE"):
            self.expect("(")
            kind = self.name("TUMBLE, HOP, SESSION or COUNT", any_word=True)
            windowed = self.windowed(kind)
            self.expect(")")
            return self.with_alias(windowed)
        name = self.name(
            "a source, a view or a query in parentheses", any_word=self.token_after(1) is TokenType.L_PAREN
        )
        if self.sees("("):
            return self.with_alias(self.windowed(name))
        if self.sees("."):
            self.refuse_here("is not expected here", "Sources and views have names of one word.")
        if self.sees("FOR"):  # a join reads on, and then the alias
            return Named(name=name)
        return Named(name=name, alias=self.alias())

    def with_alias(self, windowed: Windowed) -> Windowed:
        return replace(windowed, alias=self.alias())

    def windowed(self, name: Name) -> Windowed:
        if name.text.upper() not in _TABLE_FUNCTIONS:
            remedy = candidates(name.text.upper(), _TABLE_FUNCTIONS)
            raise Refused(name.at, f"There is no window {name.text}(…).", remedy)
        kind = WindowKind(name.text.upper())
        self.expect("(")
        read = self.window_input()
        by = self.partition() if self.sees("PARTITION BY") else ()
        if by and kind is not WindowKind.SESSION:
            raise Refused(by[0].at, f"{kind.value} takes no PARTITION BY.", "Name the columns in GROUP BY.")
        self.expect(",")
        time: Name | None = None
        if kind is WindowKind.COUNT:
            sizes = self.counts()
        else:
            time = self.time_column()
            self.expect(",")
            sizes = self.durations(kind)
        self.expect(")")
        every, size = sizes if len(sizes) == 2 else (sizes[0], sizes[0])
        return Windowed(at=name.at, kind=kind, input=read, time=time, size=size, every=every, by=by)

    def window_input(self) -> Named | Nested:
        self.word("TABLE")
        if self.sees("("):
            return Nested(at=self.at(), query=self.nested())
        return Named(name=self.name("a source or a view"))

    def partition(self) -> tuple[Name, ...]:
        self.expect("PARTITION BY")
        in_brackets = self.word("(")
        names = [self.name("a column")]
        while in_brackets and self.word(","):
            names.append(self.name("a column"))
        if in_brackets:
            self.expect(")")
        return tuple(names)

    def time_column(self) -> Name:
        if self.sees("INTERVAL"):
            self.refuse_here(
                "appears where the time column is expected", "Write TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL …)."
            )
        if not self.word("DESCRIPTOR"):
            return self.name("the time column")
        self.expect("(")
        name = self.name("the time column")
        self.expect(")")
        return name

    def durations(self, kind: WindowKind) -> list[int]:
        found = [self.duration()]
        if kind is WindowKind.HOP:
            self.expect(",", "HOP takes two: how far apart windows begin, and how long they are.")
            found.append(self.duration())
        if self.sees(","):
            self.refuse_here("begins one argument too many", f"Write {_USAGE[kind]}.")
        return found

    def counts(self) -> list[int]:
        found = [self.count()]
        if self.word(","):
            found.append(self.count())
        return found

    def count(self) -> int:
        token = self._curr
        if not token or token.token_type is not TokenType.NUMBER or not token.text.isdigit():
            self.refuse_here("is not a number of tuples", f"Write {_USAGE[WindowKind.COUNT]}.")
        self._advance()
        self.word("ROWS")
        return int(token.text)

    def join(self) -> Joined | None:
        at = self.at()
        if self.word(","):
            remedy = "Write JOIN … ON … WITHIN INTERVAL '10' SECOND."
            raise Refused(at, "A comma between streams would pair every row with every other.", remedy)
        for word, (why, remedy) in _JOINS.items():
            if self.sees(word):
                raise Refused(at, f"{word} JOIN {why}.", remedy)
        inner, newest = self.word("INNER"), self.word("ASOF")
        outer = self.word("LEFT")
        if outer:
            self.word("OUTER")
            for word in ("SEMI", "ANTI"):
                if self.sees(word):
                    raise Refused(at, f"LEFT {word} JOIN {_JOINS[word][0]}.", _JOINS[word][1])
        newest = self.word("ASOF") or newest
        if not self.word("JOIN"):
            if inner or outer or newest:
                self.refuse_here("appears where JOIN is expected")
            return None
        relation = self.relation()
        as_of = self.as_of() if self.sees("FOR") else None
        if as_of is not None and isinstance(relation, Named):
            relation = Named(name=relation.name, alias=self.alias())
        if self.sees("USING"):
            self.refuse_here("hides which columns are compared", "Write ON a.x = b.x.")
        newest = newest or as_of is not None
        if not newest:
            self.expect("ON", "Write ON and the condition.")
        on = self.text() if not newest or self.word("ON") else None
        within = self.duration() if self.word("WITHIN") else None
        return Joined(at=at, relation=relation, on=on, newest=newest, outer=outer, within_us=within, as_of=as_of)

    def as_of(self) -> Text:
        self.expect("FOR")
        self.expect("SYSTEM_TIME", "Write FOR SYSTEM_TIME AS OF and the time column of the left side.")
        self.expect("AS")
        self.expect("OF")
        return self.text(self._parse_column)

    # --- small parts -----------------------------------------------------------------------------------------------

    def text(self, parse: Callable[[], exp.Expr | None] | None = None) -> Text:
        """An expression, with its text and tokens."""
        start = self._index
        tree = (parse or self._parse_disjunction)()
        tokens = tuple(self._tokens[start : self._index])
        if tree is None or not tokens:
            self.refuse_here("appears where an expression is expected")
        sql = self.sql[tokens[0].start : tokens[-1].end + 1]
        return Text(sql=sql, at=tokens[0].start, tokens=tokens, tree=tree)

    def duration(self) -> int:
        """``INTERVAL '10' SECOND``, ``INTERVAL 10 SECONDS`` or ``INTERVAL '10 seconds'``, as microseconds."""
        at = self.at()
        remedy = "Write INTERVAL '10' SECOND, for example."
        if not self.word("INTERVAL"):
            self.refuse_here("appears where a duration is expected", remedy)
        value, unit = (self._curr.text if self._curr else ""), ""
        if not self._curr or self._curr.token_type not in (TokenType.STRING, TokenType.NUMBER):
            self.refuse_here("is not a duration", remedy)
        written = self._curr.token_type is TokenType.NUMBER
        self._advance()
        match = re.fullmatch(r"\s*([\d.]+)\s*([A-Za-z]+)\s*", value)
        if match is not None and not written:
            value, unit = match[1], match[2]
        elif self._curr:
            unit = self._curr.text
            self._advance()
        return _microseconds(at, value.strip(), unit, remedy)

    def alias(self) -> Name | None:
        if self.word("AS"):
            return self.name("a name", any_word=True)
        token = self._curr
        if not token or not self.is_name(token):
            return None
        return self.name("a name")

    def name(self, what: str, *, any_word: bool = False) -> Name:
        token = self._curr
        if not token or not (self.is_name(token) or (any_word and token.text.isidentifier())):
            self.refuse_here(f"appears where {what} is expected")
        self._advance()
        return Name(str(token.text), token.start)

    def is_name(self, token: Token) -> bool:
        if token.token_type is TokenType.IDENTIFIER:
            return True
        words = token.token_type is TokenType.VAR or token.token_type in self.ID_VAR_TOKENS
        return words and token.text.upper() not in _NO_NAMES

    def sees(self, word: str) -> bool:
        """Whether this word or sign is next; something in quotes is never a word."""
        token = self._curr
        quoted = (TokenType.IDENTIFIER, TokenType.STRING)
        return bool(token) and token.token_type not in quoted and token.text.upper() == word

    def word(self, word: str) -> bool:
        """Take this word or sign, if it is next."""
        seen = self.sees(word)
        if seen:
            self._advance()
        return seen

    def expect(self, word: str, remedy: str = _CHECK) -> None:
        if not self.word(word):
            self.refuse_here(f"appears where {word} is expected", remedy)

    def token_after(self, steps: int) -> TokenType | None:
        at = self._index + steps
        return self._tokens[at].token_type if at < len(self._tokens) else None

    def at(self) -> int:
        """The offset of the next token, or of the end of the statement."""
        if self._curr:
            return int(self._curr.start)
        return int(self._tokens[-1].end) + 1 if self._tokens else 0

    def shown(self, at: int) -> str:
        end = next((token.end + 1 for token in self._tokens if token.start == at), at)
        return str(self.sql[at:end])

    def refuse_here(self, what: str, remedy: str = _CHECK) -> NoReturn:
        at = self.at()
        shown = self.shown(at)
        raise Refused(at, f"`{shown}` {what}." if shown else f"The end of the text {what}.", remedy)

    def refuse_clauses(self) -> None:
        for clause, (why, remedy) in _CLAUSES.items():
            if self.sees(clause):
                raise Refused(self.at(), f"{clause}: {why}.", remedy)

    def refuse_star_options(self) -> None:
        for word in ("EXCEPT", "EXCLUDE", "REPLACE", "RENAME"):
            if self.sees(word):
                raise Refused(self.at(), f"* {word}: all columns, or those you name.", "List the columns.")


class Streams(Spark):
    """The dialect: Spark's tokens and expressions, the statements of streams."""

    Parser = StreamParser


_USAGE: Final = {
    WindowKind.TUMBLE: "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)",
    WindowKind.HOP: "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)",
    WindowKind.SESSION: "SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)",
    WindowKind.COUNT: "COUNT(TABLE t, 10 ROWS)",
}


def parse(text: str) -> list[Statement | Refused]:
    """Each statement of the text, or why it cannot be read. One that is wrong does not hide the others."""
    dialect = Streams()
    try:
        tokens = dialect.tokenize(text)
    except SqlglotError as error:
        return [_unclosed(text, error)]
    return [_parse(dialect, chunk, text) for chunk in _chunks(tokens) if chunk]


def _chunks(tokens: list[Token]) -> list[list[Token]]:
    chunks: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            chunks.append([])
        else:
            chunks[-1].append(token)
    return chunks


def _parse(dialect: Spark, tokens: list[Token], text: str) -> Statement | Refused:
    parser = dialect.parser()
    assert isinstance(parser, StreamParser)
    try:
        found: list[Any] = parser._parse(StreamParser.statement, tokens, text)  # type: ignore[arg-type]
    except Refused as refused:
        return refused
    except ParseError as error:
        what = str((error.errors[0].get("description") if error.errors else "") or "it is not SQL")
        what = "something is missing" if "Required keyword" in what else what[0].lower() + what[1:]
        return Refused(parser.wrong_at, f"This cannot be read: {what}.", "Check the SQL before it.")
    except RecursionError:
        return Refused(tokens[0].start, "The statement is nested too deeply.", "Use views for its parts.")
    statement: Statement = found[0]
    return statement


def _unclosed(text: str, error: SqlglotError) -> Refused:
    """sqlglot says which quote is missing and about where it was opened."""
    found = re.search(r"Missing (\S+) from (\d+):(\d+)", str(error.__cause__ or error))
    at = len(text)
    if found is not None:
        lines = text.splitlines(keepends=True)
        near = sum(len(line) for line in lines[: int(found[2]) - 1]) + int(found[3])
        at = max(text.rfind(found[1], 0, near + 1), 0)
    return Refused(at, "A quote or a comment is not closed.", "Close it.")


def _microseconds(at: int, value: str, unit: str, remedy: str) -> int:
    name = unit.upper()
    name = name.removesuffix("S") if name.removesuffix("S") in _UNITS else name
    if name.removesuffix("S") in ("MONTH", "YEAR", "QUARTER"):
        raise Refused(at, f"A {name.removesuffix('S').lower()} has no fixed length.", "Write it in days.")
    try:
        if name in _UNITS:
            us = Decimal(value) * _UNITS[name]
            if us == us.to_integral_value() and us >= 0:
                return int(us)
        else:
            return parse_duration(f"{value}{unit}")
    except (ArithmeticError, ConfigError):
        pass
    raise Refused(at, f"`{value} {unit}` is not a duration.".replace(" `", "`"), remedy)
