"""The errors of the project: each is raised once, at the border, with one line of advice.

Everything that a user can cause derives from `AnyboundError`; the command line prints its message
and exits with code 2. Any other exception is a defect of the project.
"""

__all__ = [
    "AnyboundError",
    "InvalidConfig",
    "InvalidInput",
    "InvalidModel",
    "InvalidProperty",
    "MissingDependency",
    "UnsupportedModel",
    "UnsupportedProperty",
]


class AnyboundError(Exception):
    """Base of all errors that a user of the project can cause."""


class UnsupportedModel(AnyboundError):
    """The network is well formed, but needs something outside the normal form."""


class InvalidModel(AnyboundError):
    """The network cannot be read, or contradicts itself."""


class InvalidProperty(AnyboundError):
    """The property cannot be read, or contradicts itself or the network."""


class UnsupportedProperty(AnyboundError):
    """The property is well formed, but asks for something not supported yet."""


class InvalidInput(AnyboundError):
    """A file, an array or an argument is missing, of the wrong shape, or not finite."""


class InvalidConfig(AnyboundError):
    """An option or a method's parameter is unknown or out of range."""


class MissingDependency(AnyboundError):
    """An optional package that this operation needs is not installed."""
