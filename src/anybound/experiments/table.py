"""A table as text, Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Table", "number"]

Cell = str | float | int | None
_ESCAPES = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"ε": r"$\varepsilon$", "≥": r"$\ge$", "−": "--", "~": r"\textasciitilde{}", "^": r"\^{}"}
    | {"≤": r"$\le$", "→": r"$\to$", "∞": r"$\infty$"}
)


@dataclass(frozen=True)
class Table:
    """A title, a head, rows whose first cell is a name, and notes below."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()

    @property
    def text(self) -> str:
        """Columns of text: the first to the left, numbers to the right."""
        lines = self._lines()
        width = [max(len(line[i]) for line in lines) for i in range(len(self.head))]
        aligned = ["  ".join(_fit(c, w, i) for i, (c, w) in enumerate(zip(line, width, strict=True)))
                   for line in lines]  # fmt: skip
        rule = "-" * len(aligned[0])
        body = [self.title, "", aligned[0].rstrip(), rule, *(a.rstrip() for a in aligned[1:])]
        return "\n".join([*body, *(["", *self.notes] if self.notes else [])]) + "\n"

    @property
    def markdown(self) -> str:
        """As of GitHub."""
        head, *rows = [[cell.replace("|", "\\|") for cell in line] for line in self._lines()]
        rule = ["---"] + ["---:"] * (len(head) - 1)
        lines = [f"| {' | '.join(line)} |" for line in [head, rule, *rows]]
        notes = [f"\n{note}" for note in self.notes]
        return "\n".join([f"**{self.title}**", "", *lines, *notes]) + "\n"

    @property
    def latex(self) -> str:
        """With booktabs."""
        head, *rows = [[cell.translate(_ESCAPES) for cell in line] for line in self._lines()]
        lines = [
            r"\begin{table}",
            r"  \centering",
            f"  \\caption{{{' '.join([self.title + '.', *self.notes]).translate(_ESCAPES)}}}",
            f"  \\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
            r"    \toprule",
            f"    {' & '.join(head)} \\\\",
            r"    \midrule",
            *(f"    {' & '.join(row)} \\\\" for row in rows),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def save(self, folder: Path, name: str) -> list[Path]:
        """`name.txt`, `name.md` and `name.tex`."""
        folder.mkdir(parents=True, exist_ok=True)
        forms = {"txt": self.text, "md": self.markdown, "tex": self.latex}
        paths = []
        for suffix, content in forms.items():
            paths.append(folder / f"{name}.{suffix}")
            paths[-1].write_text(content, "utf-8")
        return paths

    def _lines(self) -> list[list[str]]:
        return [list(self.head), *([_written(cell) for cell in row] for row in self.rows)]


def _fit(cell: str, width: int, column: int) -> str:
    return cell.ljust(width) if column == 0 else cell.rjust(width)


def _written(cell: Cell) -> str:
    if cell is None:
        return "–"
    return number(cell) if isinstance(cell, float) else str(cell)


def number(value: float) -> str:
    """Three digits that matter."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
