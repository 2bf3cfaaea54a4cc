"""Training the paper's networks and small ones, reproducibly, and writing them as ONNX."""
