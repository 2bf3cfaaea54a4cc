"""Properties in VNN-LIB: text → words → parse tree → formula → normal form → property."""

from pathlib import Path

from anybound.errors import InvalidProperty
from anybound.io.files import read_bytes
from anybound.io.vnnlib.reader import parse_vnnlib
from anybound.spec.property import Property

__all__ = ["parse_vnnlib", "read_vnnlib"]


def read_vnnlib(path: str | Path) -> Property:
    """The property in a VNN-LIB 1.0 file, plain or gzip'd.

    >>> import anybound
    >>> prop = anybound.read_vnnlib(anybound.bundled("digits_dense_image0_eps0.05.vnnlib"))
    >>> prop.input_size, prop.output_size, len(prop.clauses)
    (64, 10, 9)
    """
    content = read_bytes(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidProperty(
            f"{path}:{line}: not a text: byte {content[error.start]:#x}"
        ) from None
    return parse_vnnlib(text, str(path))
