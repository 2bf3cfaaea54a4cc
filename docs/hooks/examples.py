"""Examples on a page: a Python block that only says `# see examples/NAME.py` shows that file."""

import re
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_SEE = re.compile(r"^# see (examples/\w+\.py)$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:  # what MkDocs passes depends on its version
    """Put every example in its place; one that is not there stops the build."""
    return _SEE.sub(lambda found: (_ROOT / found[1]).read_text(encoding="utf-8").rstrip(), markdown)
