"""Data sets by name."""

from __future__ import annotations

from anybound.errors import InvalidConfig
from anybound.training.datasets.dataset import Dataset
from anybound.training.datasets.digits import digits
from anybound.training.names import DATASETS

__all__ = ["read_dataset"]


def read_dataset(name: str, location: str | None) -> Dataset:
    """The data set of a name, from where its files are; the digits need none."""
    if name == "digits":
        if location is not None:
            raise InvalidConfig("the digits come with scikit-learn; --data is for other data sets")
        return digits()
    raise InvalidConfig(f"unknown data set {name!r}; there are {', '.join(DATASETS)}")
