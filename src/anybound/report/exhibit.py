"""What was read from an instance's files, ready to be drawn: its images, and the tightness by layer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anybound.drawing.charts import Axis, Series, chart
from anybound.drawing.markup import Html, joined, tag
from anybound.report.png import data_address

__all__ = ["Exhibit", "as_image"]

FloatArray = NDArray[np.float64]

# Flat inputs of these sizes are taken for images [height, width, channels' place first].
_FLAT_IMAGES = {64: (8, 8), 784: (28, 28), 1024: (32, 32), 3072: (3, 32, 32)}
_MOST_PIXELS = 96  # a side; larger images are shown coarser
_SMALLEST = 4


@dataclass(frozen=True)
class Exhibit:
    """The box of an input set `[inputs]`, the input's shape, and tightness records by strategy."""

    shape: tuple[int, ...]
    lower: FloatArray
    upper: FloatArray
    tightness: Sequence[Mapping[str, Any]] = ()

    @staticmethod
    def of(record: Mapping[str, Any]) -> Exhibit:
        """From what `anybound.examining` found."""
        lower, upper = (np.asarray(record[key], np.float64) for key in ("lower", "upper"))
        return Exhibit(tuple(record["shape"]), lower, upper, record["tightness"])

    def images(self, witness: Sequence[float] | None) -> Html | None:
        """The middle of the box, the counterexample and their difference; None if these are no images."""
        middle = as_image(self.lower / 2 + self.upper / 2, self.shape)
        if middle is None:
            return None
        low, high = float(self.lower.min()), float(self.upper.max())
        low, high = (0.0, 1.0) if low >= 0 and high <= 1 else (low, max(high, low + 1e-9))
        radius = float((self.upper - self.lower).max()) / 2
        pictures = [
            _picture("input", f"middle of the set, ± {radius:.4g}", _scaled(middle, low, high))
        ]
        found = None if witness is None else as_image(np.asarray(witness, np.float64), self.shape)
        if found is not None:
            change = found - middle
            most = float(np.abs(change).max()) or 1.0
            pictures += [
                _picture("counterexample", "classified otherwise", _scaled(found, low, high)),
                _picture(
                    "difference", f"grey is none, ends are ± {most:.4g}", 0.5 + change / (2 * most)
                ),
            ]
        return tag("div", *pictures, class_="images")

    def layers(self) -> Html | None:
        """How tight each strategy's bounds are, layer by layer."""
        if not self.tightness or not self.tightness[0]["layers"]:
            return None
        names = [entry["strategy"] for entry in self.tightness]
        layers = [layer["layer"] for layer in self.tightness[0]["layers"]]
        widths = {
            entry["strategy"]: [layer["width"] for layer in entry["layers"]]
            for entry in self.tightness
        }
        series = [
            Series(
                name,
                [(k, w) for k, w in zip(layers, widths[name], strict=True) if w > 0],
                dots=True,
            )
            for name in names
        ]
        everything = [w for values in widths.values() for w in values if w > 0]
        picture = chart(
            "Mean width of the bounds that all leave ambiguous",
            Axis("layer", layers[0] - 0.2, max(layers[-1], layers[0] + 1) + 0.2, whole=True),
            Axis.around("u − l", everything, log=True),
            series,
        )
        return joined(picture, self._counts(names))

    def _counts(self, names: Sequence[str]) -> Html:
        first = self.tightness[0]["layers"]
        head = tag(
            "tr", tag("th", "layer"), tag("th", "neurons"), *(tag("th", name) for name in names)
        )
        rows = [
            tag(
                "tr",
                tag("td", layer["layer"]),
                tag("td", f"{layer['neurons']:,}"),
                *(tag("td", f"{entry['layers'][i]['ambiguous']:,}") for entry in self.tightness),
            )
            for i, layer in enumerate(first)
        ]
        table = tag("table", tag("thead", head), tag("tbody", *rows), class_="numbers")
        scrolled = tag("div", table, class_="wide")
        return tag("figure", tag("figcaption", "Ambiguous neurons"), scrolled, class_="chart")


def as_image(x: FloatArray, shape: Sequence[int]) -> FloatArray | None:
    """`x` as `[height, width]` or `[height, width, 3]`, if its shape is that of an image."""
    extents = [extent for extent in shape if extent != 1]
    if len(extents) == 1 and extents[0] in _FLAT_IMAGES:
        extents = list(_FLAT_IMAGES[extents[0]])
    if math.prod(extents) != x.size or min(extents, default=0) < 1:
        return None
    image = x.reshape(extents)
    if image.ndim == 3 and image.shape[0] == 3:
        image = image.transpose(1, 2, 0)
    is_image = image.ndim == 2 or (image.ndim == 3 and image.shape[2] == 3)
    return _coarser(image) if is_image and min(image.shape[:2]) >= _SMALLEST else None


def _coarser(image: FloatArray) -> FloatArray:
    step = -(-max(image.shape[:2]) // _MOST_PIXELS)
    return image[::step, ::step]


def _scaled(image: FloatArray, low: float, high: float) -> FloatArray:
    return (image - low) / (high - low)


def _picture(name: str, about: str, image: FloatArray) -> Html:
    drawn = tag("img", src=data_address(image), alt=f"{name}: {about}")
    return tag("figure", drawn, tag("figcaption", tag("b", name), tag("br"), about))
