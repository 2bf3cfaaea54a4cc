"""What an experiment leaves in its folder: figures, tables and a page `results.md` that holds them together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from anybound.errors import MissingDependency
from anybound.experiments.canvas import save
from anybound.experiments.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Results"]


@dataclass
class Results:
    """The page, as it grows."""

    folder: Path
    title: str
    lines: list[str] = field(default_factory=list)
    figures: list[Path] = field(default_factory=list)
    tables: list[Path] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    lacking: str = ""  # why there are no figures

    def say(self, *paragraphs: str) -> None:
        """Words."""
        for paragraph in paragraphs:
            self.lines += [paragraph, ""]

    def table(self, name: str, made: Table) -> None:
        """`tables/name.txt`, `.md`, `.tex`."""
        self.tables += made.save(self.folder / "tables", name)
        self.texts.append(made.text)
        self.lines += [made.markdown]

    def figure(self, name: str, draw: Callable[[], Figure | None]) -> None:
        """`figures/name.png` and `.svg`; without matplotlib there is none, and the tables are left."""
        try:
            made = draw()
        except MissingDependency as error:
            self.lacking = str(error)
            return
        if made is None:
            return
        self.figures += save(made, self.folder / "figures", name)
        self.lines += [f"![{name}](figures/{name}.png)", ""]

    def write(self) -> Path:
        """`results.md`."""
        path = self.folder / "results.md"
        path.write_text("\n".join([f"# {self.title}", "", *self.lines]).rstrip() + "\n", "utf-8")
        return path

    @property
    def files(self) -> Sequence[Path]:
        """All that was written beside the page."""
        return [*self.figures, *self.tables]
