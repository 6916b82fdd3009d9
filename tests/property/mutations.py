"""Code that breaks one rule at a time, so that tests can show that they would notice.

A mutation replaces a piece of a function's source by a wrong one, wherever that function is in use already. If the
piece is not there, the rule is written in other words by now, and its mutation has to follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import getsource
from textwrap import dedent, indent
from types import CodeType
from typing import Any


@dataclass(frozen=True, slots=True)
class Mutation:
    """The rule in words; the function (or property) that keeps it; a piece of it, and what breaks the rule."""

    rule: str
    function: Any
    right: str
    wrong: str

    def __str__(self) -> str:
        return self.rule

    @contextmanager
    def applied(self) -> Iterator[None]:
        function = _plain(self.function)
        right_code = function.__code__
        wrong_code = self._wrong_code(function)
        forget = getattr(self.function, "cache_clear", lambda: None)
        try:
            function.__code__ = wrong_code
            forget()
            yield
        finally:
            function.__code__ = right_code
            forget()

    def _wrong_code(self, function: Callable[..., object]) -> CodeType:
        source = dedent(getsource(function))
        found = source.count(self.right)
        assert found == 1, f"{function.__qualname__} has {found} times {self.right!r}: follow it in this mutation"
        # Inside of a class, so that super() means the same.
        text = f"class _:\n{indent(source.replace(self.right, self.wrong), '    ')}"
        (body,) = _codes(compile(text, f"<{self.rule}>", "exec"), "_")
        (code,) = _codes(body, function.__name__)
        return code


def _plain(function: Any) -> Callable[..., object]:
    """The function itself, out of a property or a cache."""
    return getattr(function, "fget", None) or getattr(function, "__wrapped__", None) or function  # type: ignore[no-any-return]


def _codes(code: CodeType, name: str) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == name]
