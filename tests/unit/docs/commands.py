"""Commands as they stand in pages and in the program's help: cut into words, and read by the program's own parser."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any

import typer

from anabranch.cli.app import app
from anabranch.query.specs import feed_from, writer_from


@cache
def program() -> Any:
    """Made once: Typer needs longer to make it of its verbs than to run most of them."""
    return typer.main.get_command(app)


def commands_in(text: str) -> Iterator[list[str]]:
    """The words of each command, without where its input comes from and its output goes."""
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;><")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if set(word) <= set("|&;"):
                cut = next((at for at, each in enumerate(words) if set(each) <= set("<>")), len(words))
                words = words[:cut]
                while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                    words = words[1:]
                if words:
                    yield words
                words = []
            else:
                words.append(word)


def parse(words: list[str]) -> None:
    """Reads the arguments of a command as the program does, without running it; raises what the program would."""
    command = program()
    name = "anabranch"
    while hasattr(command, "commands"):
        words = words[1:] if words[:1] == ["--debug"] else words
        if words in (["--install-completion"], ["--show-completion"]):
            return
        name, *words = words
        assert name in command.commands, f"no such command: {name}"
        command = command.commands[name]
    given = command.make_context(name, words).params
    if name == "run":  # of a query; that of a fault script has neither
        for source in given.get("source") or ():
            feed_from(source.partition("=")[2])
        for output in given.get("output") or ():
            writer_from(output.partition("=")[2])
