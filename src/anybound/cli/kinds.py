"""Whether a file is a network or a property: by its name, else by its first bytes."""

from enum import Enum
from pathlib import Path

from anybound.errors import InvalidInput
from anybound.io.files import read_bytes

__all__ = ["Kind", "kind_of"]

_BLANK = b" \t\r\n\xef\xbb\xbf"  # with the byte order mark of UTF-8
_IR_VERSION = 0x08  # the tag that opens nearly every ONNX file


class Kind(Enum):
    """What a file holds."""

    NETWORK = ".onnx"
    PROPERTY = ".vnnlib"


def kind_of(path: Path) -> Kind:
    """The kind of the file at `path`; refused where neither name nor content tells."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    for kind in Kind:
        if suffixes and suffixes[-1] == kind.value:
            return kind
    content = read_bytes(path).lstrip(_BLANK)
    if content[:1] in (b"(", b";"):
        return Kind.PROPERTY
    if content[:1] == bytes([_IR_VERSION]):
        return Kind.NETWORK
    raise InvalidInput(
        f"{path}: neither a network nor a property, by name and content; "
        "expected .onnx, .onnx.gz, .vnnlib or .vnnlib.gz"
    )
