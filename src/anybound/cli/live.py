"""Progress on a terminal: a few lines on standard error that are redrawn, and vanish at the end.

In a pipe, with `--quiet`, or on a terminal that cannot move its cursor there are none. What is
shown is made anew for every redraw, so that clocks run while nothing happens.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from anybound.cli.output import Output

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

__all__ = ["Display", "amount", "clock", "display"]

Draw = Callable[[float], "RenderableType"]  # of the seconds since the start

_PATIENCE = 0.4  # seconds; what takes less is not worth a flicker
_PER_SECOND = 4


class Display:
    """What is being redrawn; it begins with the first `show`.

    A process that is forked before that has neither its thread nor its modules.
    """

    def __init__(self, output: Output, started: float) -> None:
        self.output, self.started = output, started
        self.draw: Draw | None = None
        self.live: Live | None = None
        self.is_wanted = _is_wanted(output)

    def show(self, draw: Draw) -> None:
        """Draw this from now on."""
        self.draw = draw
        if self.is_wanted and self.live is None:
            self._start()

    def note(self, message: str) -> None:
        """A line that stays, above what is redrawn."""
        if self.live is None:
            self.output.note(message)
            return
        from rich.text import Text

        from anybound.cli.text import printable

        self.live.console.print(Text(printable(message)), soft_wrap=True)

    def stop(self) -> None:
        """Leave the terminal as it was."""
        if self.live is not None:
            self.live.stop()
            self.live = None

    def _start(self) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console(
            file=self.output.stderr,
            no_color=bool(os.environ.get("NO_COLOR")),
            highlight=False,
            markup=False,
            emoji=False,
        )
        self.live = Live(
            console=console,
            transient=True,
            refresh_per_second=_PER_SECOND,
            get_renderable=self._drawn,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self.live.start()

    def _drawn(self) -> RenderableType:
        seconds = time.monotonic() - self.started
        return "" if self.draw is None or seconds < _PATIENCE else self.draw(seconds)


@contextmanager
def display(output: Output, started: float | None = None) -> Iterator[Display]:
    """A display that ends with the block, whatever happens in it."""
    shown = Display(output, time.monotonic() if started is None else started)
    try:
        yield shown
    finally:
        shown.stop()


def clock(seconds: float) -> str:
    """`7 s`, `2:05` or `1:02:05`."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    if hours:
        return f"{hours}:{rest // 60:02}:{rest % 60:02}"
    return f"{rest // 60}:{rest % 60:02}" if rest >= 60 else f"{rest} s"


def amount(size: float) -> str:
    """Bytes, such as `512 MB` or `1.4 GB`."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def _is_wanted(output: Output) -> bool:
    stream = output.stderr
    able = stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
    return able and not output.quiet
