/* The forward pass of a network that an ONNX file describes, against ONNX Runtime
 * (make_onnx_golden.py). */
#include "vision_golden.h"

TEST(a_small_network_of_onnx_nodes)
{
    assert_vision_directory("onnx", "net.onnx", "");
}

TEST(positions_beside_channels_and_tensors_that_several_nodes_read)
{
    assert_vision_directory("onnx_flat", "net.onnx", "");
}

TEST(a_decoder_of_transposed_convolutions)
{
    assert_vision_directory("onnx_decoder", "net.onnx", "");
}
