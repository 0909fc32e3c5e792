/* The forward pass of residual networks against torch, torchvision and Hugging Face transformers.
 * make_vision_golden_resnet.py made the references; weights of random networks are the same formula
 * here and there, so a tensor under another name would have other values. */
#include "unit/arch/lab_network.h"

#include "format/weights/safetensors.h"
#include "vision_golden.h"

#include <stdio.h>
#include <string.h>

static void assert_golden(const char *path, const char *name, int64_t side)
{
    char golden_path[1024];
    OWNED(tensor_file) *golden = NULL;
    OWNED(float) *values = NULL;
    snprintf(golden_path, sizeof golden_path, "%s/tests/golden/vision/resnet.safetensors",
             GRAIL_SOURCE_DIR);
    assert_ok(safetensors_open(golden_path, &golden));
    const tensor_view *expected = tensor_file_find(golden, name);
    assert_non_null(expected);
    const tensor_view pixels = lab_pixels(expected->shape[0], side, &values);
    assert_vision_outputs(path, "", &pixels, expected);
}

static void assert_random(const char *name, const lab_resnet *r, const char *config, int64_t side)
{
    static lab_network n;
    OWNED(temporary) directory = support_temporary_directory();
    lab_network_init(&n, r);
    lab_network_write(&n, directory, true);
    if (config != NULL) {
        support_write_file(directory, "config.json", config, strlen(config));
    }
    assert_golden(directory, name, side);
}

TEST(torchvisions_resnet18_gives_the_reference_logits)
{
    const lab_resnet r = lab_resnet18();
    assert_random("torchvision_resnet18", &r, NULL, 64);
}

TEST(torchvisions_resnet50_gives_the_reference_logits)
{
    const lab_resnet r = lab_resnet50();
    assert_random("torchvision_resnet50", &r, NULL, 64);
}

TEST(narrowed_bottlenecks_give_the_reference_logits)
{
    const lab_resnet r = lab_narrowed_resnet50();
    assert_random("narrowed_resnet50", &r, NULL, 71);
}

TEST(padding_shortcuts_give_the_reference_logits)
{
    const lab_resnet r = lab_akamaster(2);
    assert_random("akamaster_resnet14", &r, NULL, 32);
}

TEST(pre_activation_gives_the_reference_logits)
{
    const lab_resnet r = lab_pre_activation(16);
    assert_random("pre_activation_resnet18", &r, NULL, 32);
}

TEST(hugging_faces_basic_blocks_give_the_reference_logits)
{
    lab_resnet r = lab_hugging_face(false);
    r.strides_first_stage = true;
    assert_random("hugging_face_basic", &r,
                  "{\"model_type\": \"resnet\", \"hidden_act\": \"gelu\","
                  " \"downsample_in_first_stage\": true}",
                  64);
}

TEST(hugging_faces_bottlenecks_give_the_reference_logits)
{
    const lab_resnet r = lab_hugging_face(true);
    assert_random("hugging_face_bottleneck", &r,
                  "{\"model_type\": \"resnet\", \"downsample_in_bottleneck\": true}", 64);
}

TEST(directories_of_hugging_face_give_the_reference_logits)
{
    assert_vision_directory("hf-resnet-basic", "", "");
    assert_vision_directory("hf-resnet-bottleneck", "", "");
}

/* A checkpoint of the shared data; without it the test is skipped by name. */
static void assert_pretrained(const char *test, const char *name, const char *file)
{
    const char *path = support_shared_data(file);
    if (path == NULL) {
        print_message("skipped: %s\n", test);
        skip();
    }
    assert_golden(path, name, 32);
}

TEST(the_cifar_resnet18_gives_the_reference_logits)
{
    assert_pretrained(__func__, "resnet18_cifar10", "resnet18-cifar10/resnet18_cifar10.pth");
}
