"""Formulas as MathML, made while the site is built: readers need neither scripts nor a network."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:  # what MkDocs passes depends on its version
    """Replace every formula of a rendered page."""
    inline = _INLINE.sub(lambda found: convert(html.unescape(found[1])), content)
    return _DISPLAY.sub(lambda found: convert(html.unescape(found[1]), display="block"), inline)
