"""Weights to onnx graphs, written with onnx.helper; no tracing."""
