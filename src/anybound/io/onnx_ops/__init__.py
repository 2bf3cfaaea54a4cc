"""The operators of ONNX, one family per file, and the values they work on."""
