/* The formats that weights are written in: one line for each weights_format_NAME of a file
 * written_NAME.c. Whoever includes this list defines WEIGHTS_FORMAT. */
WEIGHTS_FORMAT(safetensors)
WEIGHTS_FORMAT(torch)
WEIGHTS_FORMAT(gguf)
WEIGHTS_FORMAT(onnx)
