"""What a kind of box says of itself: how it is written, checked, drawn, judged, and what comes out of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from anabranch.query.boxes import Box, Schema
from anabranch.query.judgement import Judgement, Order
from anabranch.query.keys import Key
from anabranch.query.problems import Report
from anabranch.query.value_flow import Columns, Flow

B = TypeVar("B", bound=Box)


class Kind(ABC, Generic[B]):
    """One kind of box. It has no state: every question comes with the box that it is about."""

    makes: ClassVar[type[Any]]
    """The class of such boxes. Its name in lower case is what the text form calls them."""
    keys: ClassVar[tuple[Key, ...]]
    """What it has besides a name, in the text form."""
    shape: ClassVar[tuple[str, str]]
    """How Mermaid draws it."""
    meaning: ClassVar[str]
    """One line on what it makes of tuples."""
    state: ClassVar[str] = "none"
    """What it keeps between batches, in a few words."""
    class_: ClassVar[str]
    """Its class in a few words; ``judge`` decides for one box."""

    def sql(self, box: B) -> tuple[str, ...]:
        """Its predicates and select lists, as Spark will get them."""
        return ()

    @abstractmethod
    def lines(self, box: B) -> Iterator[str]:
        """Its parameters, as a drawing shows them."""

    @abstractmethod
    def check(self, box: B, inputs: Sequence[Schema | None], report: Report) -> None:
        """Tells all that is wrong with it, given the schemas that reach it.

        A schema of None is unknown because of a mistake further up: what depends on it is passed over.
        """

    @abstractmethod
    def schema(self, box: B, inputs: Sequence[Schema]) -> Schema | None:
        """What comes out of each of its ports; None where a mistake leaves it unknown."""

    @abstractmethod
    def judge(self, box: B, order: Order) -> Judgement:
        """Its class where streams have this order, whatever functions it calls."""

    def kept(self, box: B) -> str:
        """What this box keeps between batches."""
        return self.state

    @abstractmethod
    def flow(self, box: B, flow: Flow) -> Columns:
        """What the last bits of its columns depend on, and by which values it decides."""

    def waits_us(self, box: B) -> int | None:
        """None if it emits at once. Otherwise it waits for the watermark, and later tuples are at or after it plus this
        many microseconds."""
        return None
