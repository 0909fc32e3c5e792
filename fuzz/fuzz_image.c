/* Any bytes as an image file, decoded and prepared. The first byte chooses the preset and the size,
 * the rest is the file. An accepted image has numbers within the table's range. */
#include "fuzz.h"

#include "format/images/image_decode.h"
#include "format/images/image_preset.h"

/* Small, so that inputs of many pixels do not slow the search down. */
enum { MOST_PIXELS = 1 << 16, LARGEST_SIDE = 32 };

static void check_input(const image_rule *rule, const float *out)
{
    for (int64_t i = 0; i < rule->height * rule->width * 3; i++) {
        const float *table = rule->table[i % 3];
        fuzz_require(out[i] >= table[0] && out[i] <= table[255]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const presets[] = {"imagenet", "clip", "vit-square", "cifar"};
    static float out[LARGEST_SIDE * LARGEST_SIDE * 3];
    image picture = {0};
    image_rule rule;
    if (size == 0) {
        return 0;
    }
    const grail_image_source source = {.size = 1 + (data[0] >> 2) % LARGEST_SIDE};
    fuzz_require(image_rule_make(&source, NULL, presets[data[0] % 4], &rule) == GRAIL_OK);
    if (image_decode(data + 1, size - 1, MOST_PIXELS, &picture) != GRAIL_OK) {
        return 0;
    }
    fuzz_require(picture.width > 0 && picture.height <= MOST_PIXELS / picture.width);
    if (image_prepare(&rule, &picture, out) == GRAIL_OK) {
        check_input(&rule, out);
    }
    image_fini(&picture);
    return 0;
}
