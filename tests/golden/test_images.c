/* The network's input made of the images under tests/golden/images, and of the ImageNet sample of
 * the shared data, against what Pillow and torchvision make of them, bit by bit
 * (make_image_golden.py). */
#include "support/support.h"

#include "base/file.h"
#include "base/hash.h"
#include "format/images/image_set.h"

#include <stdio.h>
#include <string.h>

static const char *golden_path(const char *file)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/tests/golden/images/%s", GRAIL_SOURCE_DIR, file);
    return path;
}

/* A line "file preset size sha256". */
typedef struct expectation {
    char file[128];
    char preset[32];
    int64_t size;
    char hash[HASH_TEXT_SIZE];
} expectation;

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

/* Whether the input of the image has the expected hash. */
static bool matches(const char *folder, const expectation *wanted)
{
    const grail_image_source source = {
        .path = folder, .preset = wanted->preset, .size = wanted->size};
    image_set *set = NULL;
    float *pixels = NULL;
    char hash[HASH_TEXT_SIZE];
    assert_ok(image_set_open(&source, &set));
    const size_t count = (size_t)(wanted->size * wanted->size * 3);
    const int64_t index = find_image(set, wanted->file);
    assert_ok(memory_new(&pixels, count, sizeof *pixels));
    assert_ok(image_set_load(set, 1, &index, pixels));
    hash_bytes(pixels, count * sizeof *pixels, hash);
    memory_free(pixels);
    image_set_close(set);
    if (strcmp(hash, wanted->hash) != 0) {
        print_error("%s by %s at %lld differs\n", wanted->file, wanted->preset,
                    (long long)wanted->size);
        return false;
    }
    return true;
}

/* Returns the number of lines. */
static int expect_all(const char *folder, const char *list)
{
    buffer text = {0};
    int lines = 0;
    int differing = 0;
    assert_ok(file_read(golden_path(list), 1 << 20, &text));
    char *rest = (char *)text.bytes;
    for (char *line = strsep(&rest, "\n"); line != NULL && *line != 0; line = strsep(&rest, "\n")) {
        expectation wanted;
        long long size = 0;
        assert_int_equal(
            sscanf(line, "%127s %31s %lld %64s", wanted.file, wanted.preset, &size, wanted.hash),
            4);
        wanted.size = size;
        differing += matches(folder, &wanted) ? 0 : 1;
        lines++;
    }
    buffer_fini(&text);
    assert_int_equal(differing, 0);
    return lines;
}

TEST(test_every_kind_of_file_is_what_pillow_makes_of_it)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", golden_path(""));
    assert_true(expect_all(folder, "expected.txt") > 200);
}

TEST(test_the_imagenet_sample_is_what_torchvision_makes_of_it)
{
    const char *folder = support_shared_data("imagenet-sample");
    if (folder == NULL) {
        printf("skipped: test_the_imagenet_sample_is_what_torchvision_makes_of_it\n");
        skip();
    }
    assert_true(expect_all(folder, "sample.txt") > 180);
}
