"""Data sets by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from anybound.errors import InvalidConfig
from anybound.training.datasets import cifar10, mnist
from anybound.training.datasets.dataset import Dataset
from anybound.training.datasets.digits import digits
from anybound.training.datasets.store import Store, open_store

__all__ = ["read_dataset"]

_READERS: Mapping[str, tuple[Callable[[Store], Dataset], str]] = MappingProxyType(
    {"cifar10": (cifar10.cifar10, cifar10.ADDRESS), "mnist": (mnist.mnist, mnist.ADDRESS)}
)


def read_dataset(name: str, location: str | None) -> Dataset:
    """The data set of a name, from where its files are; the digits need none."""
    if name == "digits":
        if location is not None:
            raise InvalidConfig("the digits come with scikit-learn; --data is for other data sets")
        return digits()
    if name not in _READERS:
        raise InvalidConfig(f"unknown data set {name!r}; there are digits, {', '.join(_READERS)}")
    read, address = _READERS[name]
    if location is None:
        raise InvalidConfig(
            f"--data: {name} needs the place of its files; fetch them from {address}"
        )
    return read(open_store(location, address))
