/* The forward pass of a network that an ONNX file describes, against ONNX Runtime
 * (make_onnx_golden.py). */
#include "vision_golden.h"

TEST(a_small_network_of_onnx_nodes)
{
    assert_vision_directory("onnx", "net.onnx", "");
}

TEST(transformers_as_two_exporters_write_them)
{
    assert_vision_directory("onnx_vit", "net.onnx", "");
    assert_vision_directory("onnx_deit", "net.onnx", "");
}

TEST(attention_and_norms_that_are_operators)
{
    assert_vision_directory("onnx_attention", "net.onnx", "");
}

TEST(positions_that_nodes_resize)
{
    assert_vision_directory("onnx_dinov2", "net.onnx", "");
}

TEST(channels_behind_positions_and_before_them)
{
    assert_vision_directory("onnx_convnext", "net.onnx", "");
}

TEST(constants_and_activations_of_onnx_nodes)
{
    assert_vision_directory("onnx-elements", "net.onnx", "");
}

TEST(positions_beside_channels_and_tensors_that_several_nodes_read)
{
    assert_vision_directory("onnx_flat", "net.onnx", "");
}

TEST(a_decoder_of_transposed_convolutions)
{
    assert_vision_directory("onnx_decoder", "net.onnx", "");
}
