"""For the site: links to files outside of docs/ become plain text, because a site has no sources beside it."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

_log = logging.getLogger("mkdocs.hooks.site")  # a warning fails a strict build
_LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+(?:src|examples|tests|bench)/[^)#]+)\)")


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    here = Path(page.file.abs_src_path).parent

    def plain(match: re.Match[str]) -> str:
        if not (here / match[2]).exists():
            _log.warning("%s: there is no %s", page.file.src_path, match[2])
        return f"`{match[1]}`"

    return _LINK.sub(plain, markdown)
