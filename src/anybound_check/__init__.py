"""An independent checker of anybound's certificates: numpy and onnx, and nothing of anybound.

Read the modules in this order: `arithmetic` (what is assumed of floating point), `linear` and
`network` (the ONNX file), `vnnlib` (the property), `dual` (the one inequality that everything rests
on), `archive` (the certificate file), `proof` (trees, leaves, and what has to be covered).
The format is described in docs/certificate-format.md.
"""

from anybound_check.proof import Report, check

__all__ = ["Report", "check"]
