/* The forward pass of networks that ONNX files describe, against ONNX Runtime
 * (make_onnx_golden.py). */
#include "vision_golden.h"

#include "format/weights/safetensors.h"

#include <grail/eval.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#define OUTPUTS GRAIL_SOURCE_DIR "/tests/golden/vision/onnx/outputs"

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

/* Maps, rows, and one that the network goes on from; all are kept until its end. */
DIRECTORY_TEST(every_output_is_written_by_its_name)
{
    grail_model *m = NULL;
    tensor_file *golden = NULL;
    tensor_file *written = NULL;
    char path[512];
    snprintf(path, sizeof path, "%s/out.safetensors", directory);
    assert_ok(grail_model_open(OUTPUTS ".onnx", &m));
    assert_ok(grail_pixel_logits_write(m, OUTPUTS ".safetensors", NULL, path));
    assert_ok(safetensors_open(OUTPUTS ".safetensors", &golden));
    assert_ok(safetensors_open(path, &written));
    assert_int_equal(written->count, 5);
    for (int64_t i = 0; i < golden->count; i++) {
        const tensor_view *v = &golden->tensors[i];
        if (strcmp(v->name, "pixels") != 0) {
            assert_same(v, tensor_file_find(written, v->name));
        }
    }
    tensor_file_close(written);
    tensor_file_close(golden);
    grail_model_close(m);
}
