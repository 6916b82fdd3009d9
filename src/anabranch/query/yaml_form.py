"""YAML as queries use it: ``on`` is a word, a key may not come twice.

YAML 1.1, which PyYAML reads, takes ``on``, ``off``, ``yes`` and ``no`` for truth values, but ``on`` is what a join has.
So only ``true`` and ``false`` count here, as in YAML 1.2. PyYAML also lets the last of two equal keys win without a
word; an output would be gone.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

from anabranch.errors import ConfigError

_BOOL: Final = "tag:yaml.org,2002:bool"
_TRUTH: Final = re.compile(r"true|True|TRUE|false|False|FALSE")

_UNICODE_LINE_ENDS: Final = "\x85\u2028\u2029"


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = next((key for index, key in enumerate(keys) if key in keys[:index]), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(None, None, f"the key {twice!r} appears twice", node.start_mark)
        return super().construct_mapping(node, deep=deep)


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)  # lists are indented below their key

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Unicode's own line ends are written as escapes: in any other style they would read back as spaces."""
        style = '"' if any(end in text for end in _UNICODE_LINE_ENDS) else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)


def _only_true_and_false(resolver: type[_Loader] | type[_Dumper]) -> None:
    resolver.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOL]
        for first, resolvers in resolver.yaml_implicit_resolvers.items()
    }
    resolver.add_implicit_resolver(_BOOL, _TRUTH, list("tTfF"))


_only_true_and_false(_Loader)
_only_true_and_false(_Dumper)


def dump(data: object) -> str:
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def parse(text: str, *, place: str) -> object:
    """The data in a YAML text; ``place`` is the file, or what to call it in an error."""
    try:
        found = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        what = getattr(error, "problem", None) or "not YAML"
        raise ConfigError(f"{place}{line}: {what}.", remedy="Correct the YAML there.") from error
    if found is None:
        raise ConfigError(f"{place} is empty.", remedy="Write a query: the keys query, boxes and outputs.")
    return found
