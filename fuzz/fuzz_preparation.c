/* Any text as a description of images. The first byte chooses the library, the rest is the
 * document. What is accepted has sound values, and prepares a small image to finite numbers. */
#include "fuzz.h"

#include "arch/preparation_read.h"
#include "format/images/image_preset.h"

#include <math.h>
#include <string.h>

/* Small, so that inputs of many pixels do not slow the search down. */
enum { LARGEST_SIDE = 24, WIDTH = 5, HEIGHT = 7 };

static grail_status read_document(uint8_t choice, const json_t *document, image_preparation *p)
{
    static const char *const usual[] = {"ViT", "CLIP", "ConvNext"};
    bool found = true;
    grail_status status = GRAIL_ERROR_FORMAT;
    if (choice % 5 < 3) {
        return preparation_of_huggingface("f", document, usual[choice % 5], p);
    }
    if (choice % 5 == 4) {
        return preparation_of_open_clip("f", document, p);
    }
    status = preparation_of_timm("f", document, &found, p);
    return status == GRAIL_OK && !found ? GRAIL_ERROR_FORMAT : status;
}

static void check_use(const image_preparation *p)
{
    static float out[LARGEST_SIDE * LARGEST_SIDE * 3];
    const grail_image_source source = {0};
    image_rule rule;
    image picture = {0};
    fuzz_require(image_rule_make(&source, p, NULL, &rule) == GRAIL_OK);
    if (rule.height > LARGEST_SIDE) {
        return;
    }
    fuzz_require(image_new(IMAGE_RGB, WIDTH, HEIGHT, &picture) == GRAIL_OK);
    memset(picture.pixels, 200, (size_t)WIDTH * HEIGHT * 3);
    if (image_prepare(&rule, &picture, out) == GRAIL_OK) {
        for (int64_t i = 0; i < rule.height * rule.width * 3; i++) {
            fuzz_require(isfinite(out[i]));
        }
    }
    image_fini(&picture);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *document = NULL;
    image_preparation p = {0};
    if (size > 0 && json_parse("f", data + 1, size - 1, &document) == GRAIL_OK &&
        json_is_object(document) && read_document(data[0], document, &p) == GRAIL_OK) {
        fuzz_require(image_preparation_fault(&p) == NULL);
        fuzz_require(p.name != NULL && p.side >= 1);
        check_use(&p);
    }
    json_decref(document);
    return 0;
}
