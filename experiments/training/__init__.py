"""Training small networks reproducibly, and writing them as ONNX without an exporter."""
