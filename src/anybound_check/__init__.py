"""An independent checker of anybound's certificates: numpy and onnx, and nothing of anybound.

Read the modules in this order: `arithmetic` (what is assumed of floating point), `linear`,
`operators` and `network` (the ONNX file), `vnnlib` (the property), `bounds` (the one inequality
that everything rests on) with `curves` (sigmoid and tanh), `archive` (the certificate file), `proof`
(what has to be covered), `witness` (answers of the other kind).
The format is described in docs/certificate-format.md.
"""

from anybound_check.check import Report, check

__all__ = ["Report", "check"]
