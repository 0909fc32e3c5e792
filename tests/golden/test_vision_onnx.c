/* The forward pass of networks that ONNX files describe, against ONNX Runtime
 * (make_onnx_golden.py). */
#include "vision_golden.h"

#include "format/weights/safetensors.h"

#include <grail/eval.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

TEST(a_small_network_of_onnx_nodes)
{
    assert_vision_directory("onnx", "net.onnx", "");
}

static void assert_same(const tensor_view *expected, const tensor_view *found)
{
    assert_non_null(found);
    assert_int_equal(found->bytes, expected->bytes);
    assert_int_equal(found->rank, expected->rank);
    for (size_t i = 0; i < expected->bytes / sizeof(float); i++) {
        float values[2];
        memcpy(&values[0], (const unsigned char *)expected->data + i * sizeof(float),
               sizeof(float));
        memcpy(&values[1], (const unsigned char *)found->data + i * sizeof(float), sizeof(float));
        assert_near((double)values[1], (double)values[0], 1e-5);
    }
}

/* All outputs of a network are those of the file beside it; `only` is the name of a single one. */
static void assert_outputs(const char *directory, const char *network, const char *only)
{
    char model_path[512];
    char golden_path[512];
    OWNED(tensor_file) *golden = NULL;
    char path[512];
    snprintf(path, sizeof path, "%s/out.safetensors", directory);
    snprintf(model_path, sizeof model_path, "%s/tests/golden/vision/onnx/%s.onnx", GRAIL_SOURCE_DIR,
             network);
    snprintf(golden_path, sizeof golden_path, "%s/tests/golden/vision/onnx/%s.safetensors",
             GRAIL_SOURCE_DIR, network);
    OPENED(grail_model, m, grail_model_open(model_path, &m));
    assert_ok(grail_pixel_logits_write(m, golden_path, NULL, path));
    assert_ok(safetensors_open(golden_path, &golden));
    OPENED(tensor_file, written, safetensors_open(path, &written));
    assert_int_equal(written->count, golden->count - 1);
    for (int64_t i = 0; i < golden->count; i++) {
        const tensor_view *v = &golden->tensors[i];
        if (strcmp(v->name, "pixels") != 0) {
            assert_same(v, tensor_file_find(written, only == NULL ? v->name : only));
        }
    }
}

/* Maps, rows, and one that the network goes on from; all are kept until its end. */
DIRECTORY_TEST(every_output_is_written_by_its_name)
{
    assert_outputs(directory, "outputs", NULL);
}

DIRECTORY_TEST(other_numbers_of_channels_are_read)
{
    assert_outputs(directory, "channels", "logits");
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

TEST(tokens_behind_the_first_ones_and_scales_of_layers)
{
    assert_vision_directory("onnx_backbone", "net.onnx", "");
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

TEST(convolutions_in_groups)
{
    assert_vision_directory("onnx_groups", "net.onnx", "");
}

TEST(a_decoder_of_transposed_convolutions)
{
    assert_vision_directory("onnx_decoder", "net.onnx", "");
}
