/* The network's input as descriptions of libraries say it, against what the libraries themselves
 * make of the images: preparations/CASE (make_preparation_golden.py). Transforms of PIL images are
 * reproduced up to the rounding of the scale, those of tensors within one of 255 levels. */
#include "support/support.h"

#include "arch/preparation_read.h"
#include "base/file.h"
#include "format/images/image_set.h"
#include "format/weights/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef enum library { HUGGING_FACE, TIMM, OPEN_CLIP, TORCHVISION } library;

static const struct {
    const char *name;
    library from;
} cases[] = {
    {"hf-vit", HUGGING_FACE},
    {"hf-vit-old", HUGGING_FACE},
    {"hf-vit-nearest", HUGGING_FACE},
    {"hf-vit-lanczos", HUGGING_FACE},
    {"hf-vit-box", HUGGING_FACE},
    {"hf-vit-hamming", HUGGING_FACE},
    {"hf-vit-bytes", HUGGING_FACE},
    {"hf-vit-plain", HUGGING_FACE},
    {"hf-clip", HUGGING_FACE},
    {"hf-clip-old", HUGGING_FACE},
    {"hf-clip-odd", HUGGING_FACE},
    {"hf-bit", HUGGING_FACE},
    {"hf-deit", HUGGING_FACE},
    {"hf-convnext", HUGGING_FACE},
    {"timm-center", TIMM},
    {"timm-default", TIMM},
    {"timm-squash", TIMM},
    {"timm-whole", TIMM},
    {"timm-lanczos", TIMM},
    {"timm-old", TIMM},
    {"open-clip", OPEN_CLIP},
    {"open-clip-squash", OPEN_CLIP},
    {"torchvision", TORCHVISION},
};

enum { CASE_COUNT = sizeof cases / sizeof cases[0], PATH_LENGTH = 4096 };

static const char *golden_path(const char *format, const char *name)
{
    static char path[PATH_LENGTH];
    const int length = snprintf(path, sizeof path, "%s/tests/golden/", GRAIL_SOURCE_DIR);
    snprintf(path + length, sizeof path - (size_t)length, format, name);
    return path;
}

static image_preparation read_case(int i)
{
    static const char *const files[] = {[HUGGING_FACE] = "preparations/%s/preprocessor_config.json",
                                        [TIMM] = "preparations/%s/config.json",
                                        [OPEN_CLIP] = "preparations/%s/open_clip_config.json"};
    image_preparation p = {0};
    const image_preparation *preset = NULL;
    bool found = false;
    if (cases[i].from == TORCHVISION) {
        assert_ok(image_preset_find("imagenet", &preset));
        p = *preset;
        p.side = 12;
        return p;
    }
    const char *path = golden_path(files[cases[i].from], cases[i].name);
    OPENED(json_t, document, json_read_file(path, 1 << 20, &document));
    if (cases[i].from == HUGGING_FACE) {
        assert_ok(preparation_of_huggingface(path, document, "none", &p));
    } else if (cases[i].from == TIMM) {
        assert_ok(preparation_of_timm(path, document, &found, &p));
        assert_true(found);
    } else {
        assert_ok(preparation_of_open_clip(path, document, &p));
    }
    return p;
}

static int64_t find_image(const image_set *set, const char *file)
{
    for (int64_t i = 0; i < image_set_count(set); i++) {
        const char *slash = strrchr(image_set_name(set, i), '/');
        if (slash != NULL && strcmp(slash + 1, file) == 0) {
            return i;
        }
    }
    fail_msg("%s is not in the folder", file);
    return -1;
}

/* A tensor "exact/FILE" or "near/FILE". */
static void compare(const image_preparation *p, const image_set *set, const char *name,
                    const tensor_view *expected)
{
    const char *slash = strchr(expected->name, '/');
    const bool exact = strncmp(expected->name, "exact/", strlen("exact/")) == 0;
    const int64_t index = find_image(set, slash + 1);
    const int64_t count = p->side * p->side * 3;
    OWNED(float) *pixels = NULL;
    assert_int_equal(expected->rank, 3);
    assert_int_equal(expected->shape[0], p->side);
    assert_int_equal(expected->shape[1], p->side);
    assert_ok(memory_new(&pixels, (size_t)count, sizeof pixels[0]));
    assert_ok(image_set_load(set, 1, &index, pixels));
    for (int64_t i = 0; i < count; i++) {
        float wanted = 0.0F;
        memcpy(&wanted, (const char *)expected->data + (size_t)i * sizeof wanted, sizeof wanted);
        const double level = p->rescale / p->deviation[i % 3];
        const double bound =
            (exact ? 2e-6 : 1.0001 * level + 2e-6) * fmax(1.0, fabs((double)wanted));
        if (!(fabs((double)pixels[i] - (double)wanted) <= bound)) {
            fail_msg("%s: %s differs at %lld: %.9g, expected %.9g", name, expected->name,
                     (long long)i, (double)pixels[i], (double)wanted);
        }
    }
}

TEST(what_is_read_gives_the_inputs_of_the_libraries)
{
    char folder[PATH_LENGTH];
    int64_t compared = 0;
    snprintf(folder, sizeof folder, "%s", golden_path("%s", "images"));
    const grail_image_source source = {.path = folder};
    for (int i = 0; i < CASE_COUNT; i++) {
        OWNED(checkpoint) *expected = NULL;
        const image_preparation p = read_case(i);
        OPENED(grail_images, set, image_set_open_as(&source, &p, NULL, &set));
        assert_ok(checkpoint_open(
            golden_path("preparations/%s/expected.safetensors", cases[i].name), &expected));
        for (int64_t t = 0; t < checkpoint_count(expected); t++) {
            compare(&p, set, cases[i].name, checkpoint_at(expected, t));
            compared++;
        }
    }
    assert_true(compared > 100);
}
