"""A hook of mkdocs: formulas become MathML when the site is built, so that a page needs no script and no network."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_BLOCK = re.compile(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    content = _BLOCK.sub(lambda found: convert(html.unescape(found[1]), display="block"), content)
    return _INLINE.sub(lambda found: convert(html.unescape(found[1])), content)
