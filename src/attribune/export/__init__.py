"""Models without the library: merged, ONNX, peft."""
