/* Sets of labelled images: labels, pixels, names, hash, samples, and loading ahead. */
#include "support/support.h"

#include "base/file.h"
#include "base/parallel.h"
#include "format/images/image_set.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum { SIDE = 32, PLANE = SIDE * SIDE, RECORD = 1 + 3 * PLANE, IMAGE = 3 * PLANE };

/* A directory with a test batch: image i has label i % 10 and bytes 7 i + place. */
static char *make_cifar(int64_t count)
{
    char *directory = support_temporary_directory();
    unsigned char *bytes = NULL;
    assert_ok(memory_new(&bytes, (size_t)count, RECORD));
    for (int64_t i = 0; i < count; i++) {
        bytes[i * RECORD] = (unsigned char)(i % 10);
        for (int64_t p = 0; p < IMAGE; p++) {
            bytes[i * RECORD + 1 + p] = (unsigned char)(7 * i + p);
        }
    }
    support_write_file(directory, "test_batch.bin", bytes, (size_t)count * RECORD);
    memory_free(bytes);
    return directory;
}

static image_set *open_set(const char *path)
{
    grail_image_source source;
    image_set *set = NULL;
    grail_image_source_init(&source);
    source.path = path;
    assert_ok(image_set_open(&source, &set));
    return set;
}

TEST(test_a_cifar_set_says_what_it_holds)
{
    OWNED(temporary) directory = make_cifar(23);
    OWNED(grail_images) *set = open_set(directory);
    assert_int_equal(image_set_count(set), 23);
    assert_int_equal(image_set_rule(set)->height, 32);
    assert_int_equal(image_set_classes(set), 10);
    assert_int_equal(image_set_label(set, 17), 7);
    assert_string_equal(image_set_preset(set), "cifar");
    assert_non_null(strstr(image_set_name(set, 17), "test_batch.bin image 17"));
}

TEST(test_cifar_pixels_are_normalised_channel_last)
{
    OWNED(temporary) directory = make_cifar(5);
    OWNED(grail_images) *set = open_set(directory);
    const int64_t indices[] = {4, 1};
    OWNED(float) *pixels = NULL;
    assert_ok(memory_new(&pixels, 2 * IMAGE, sizeof *pixels));
    assert_ok(image_set_load(set, 2, indices, pixels));
    static const double mean[] = {0.4914, 0.4822, 0.4465};
    static const double deviation[] = {0.2023, 0.1994, 0.2010};
    for (int64_t k = 0; k < 2; k++) {
        for (int64_t p = 0; p < PLANE; p++) {
            for (int64_t c = 0; c < 3; c++) {
                const unsigned char byte = (unsigned char)(7 * indices[k] + c * PLANE + p);
                assert_near((double)pixels[k * IMAGE + 3 * p + c],
                            (byte / 255.0 - mean[c]) / deviation[c], 1e-6);
            }
        }
    }
}

TEST(test_a_source_replaces_mean_and_deviation)
{
    OWNED(temporary) directory = make_cifar(1);
    const int64_t index = 0;
    grail_image_source source;
    float pixels[IMAGE];
    grail_image_source_init(&source);
    source.path = directory;
    source.mean = (grail_colour){1, {0, 0.25, 0.5}};
    source.deviation = (grail_colour){1, {1, 0.5, 2}};
    OPENED(grail_images, set, image_set_open(&source, &set));
    assert_ok(image_set_load(set, 1, &index, pixels));
    assert_near((double)pixels[3], 1 / 255.0, 1e-7);
    assert_near((double)pixels[4], (1 / 255.0 - 0.25) / 0.5, 1e-7);
    assert_near((double)pixels[5], (1 / 255.0 - 0.5) / 2, 1e-7);
}

TEST(test_cifar_images_can_be_resized)
{
    enum { NARROW = 24, RESIZED = NARROW * NARROW * 3 };
    OWNED(temporary) directory = make_cifar(1);
    const int64_t index = 0;
    grail_image_source source;
    static float pixels[RESIZED];
    grail_image_source_init(&source);
    source.path = directory;
    source.preset = "imagenet";
    source.size = NARROW;
    OPENED(grail_images, set, image_set_open(&source, &set));
    assert_int_equal(image_set_rule(set)->height, NARROW);
    assert_ok(image_set_load(set, 1, &index, pixels));
    for (int64_t i = 0; i < RESIZED; i++) {
        assert_true(pixels[i] > -2.2F && pixels[i] < 2.7F); /* 0 and 255 under this preset */
    }
}

static void expect_refused(grail_image_source source, grail_status code, const char *text)
{
    image_set *set = NULL;
    assert_fails(image_set_open(&source, &set), code, text);
    assert_null(set);
}

TEST(test_sources_that_do_not_fit_are_refused)
{
    OWNED(temporary) directory = make_cifar(1);
    grail_image_source source;
    grail_image_source_init(&source);
    expect_refused(source, GRAIL_ERROR_ARGUMENT, "no path");
    source.path = directory;
    source.preset = "cifar-11";
    expect_refused(source, GRAIL_ERROR_ARGUMENT,
                   "unknown preset 'cifar-11'; expected one of cifar, cifar-imagenet");
    source.preset = NULL;
    source.split = "val";
    expect_refused(source, GRAIL_ERROR_ARGUMENT,
                   "unknown split 'val'; expected one of train, test");
    source.split = NULL;
    source.size = 33;
    expect_refused(source, GRAIL_ERROR_ARGUMENT, "images are 32 x 32");
    source.size = -1;
    expect_refused(source, GRAIL_ERROR_ARGUMENT, "the size of the network's input is -1");
    source.size = 0;
    source.mean = (grail_colour){1, {1, 1, 1}};
    source.deviation = (grail_colour){1, {1, 0, 1}};
    expect_refused(
        source, GRAIL_ERROR_ARGUMENT,
        "and the deviation 0 for channel 1; the mean must be finite and the deviation above 0");
    source.deviation.given = 0;
    source.labels = "labels.csv";
    expect_refused(source, GRAIL_ERROR_ARGUMENT,
                   "holds CIFAR batches with their own labels; leave out the labels file");
    source.labels = NULL;
    source.path = "/nowhere/at/all";
    expect_refused(source, GRAIL_ERROR_IO, "/nowhere/at/all");
}

TEST(test_pixels_in_memory_are_taken_as_they_are)
{
    float values[2 * 12];
    float out[12];
    const int64_t labels[] = {3, 1};
    const int64_t index = 1;
    image_set *set = NULL;
    uint64_t digests[2];
    for (int i = 0; i < 24; i++) {
        values[i] = (float)i;
    }
    grail_pixels pixels = {.values = values, .count = 2, .side = 2, .labels = labels};
    const grail_image_source source = {.pixels = &pixels};
    assert_ok(image_set_open(&source, &set));
    assert_int_equal(image_set_count(set), 2);
    assert_int_equal(image_set_classes(set), 4);
    assert_int_equal(image_set_label(set, 1), 1);
    assert_string_equal(image_set_name(set, 1), "image 1 in memory");
    assert_ok(image_set_load(set, 1, &index, out));
    assert_memory_equal(out, values + 12, sizeof out);
    assert_ok(image_set_digests(set, 1, &index, digests));
    image_set_close(set);
    pixels.channels_first = 1;
    pixels.labels = NULL;
    assert_ok(image_set_open(&source, &set));
    assert_int_equal(image_set_classes(set), 0);
    assert_int_equal(image_set_label(set, 1), -1);
    assert_ok(image_set_load(set, 1, &index, out));
    for (int p = 0; p < 12; p++) {
        assert_near((double)out[p], 12 + p % 3 * 4 + p / 3, 0.0);
    }
    image_set_close(set);
}

TEST(test_pixels_that_do_not_fit_are_refused)
{
    float values[12] = {0};
    const int64_t labels[] = {-2};
    grail_pixels pixels = {.values = values, .count = 1, .side = 2};
    grail_image_source source = {.pixels = &pixels, .preset = "imagenet"};
    expect_refused(source, GRAIL_ERROR_ARGUMENT, "leave out the preset");
    source.preset = NULL;
    source.path = "elsewhere";
    expect_refused(source, GRAIL_ERROR_ARGUMENT, "leave out the path");
    source.path = NULL;
    source.size = 4;
    expect_refused(source, GRAIL_ERROR_SHAPE, "are 2 x 2, but the network reads 4 x 4");
    source.size = 0;
    pixels.labels = labels;
    expect_refused(source, GRAIL_ERROR_ARGUMENT, "image 0 in memory has label -2");
    pixels.labels = NULL;
    pixels.count = INT64_MAX;
    expect_refused(source, GRAIL_ERROR_ARGUMENT, "expected at least one");
    pixels.count = 0;
    expect_refused(source, GRAIL_ERROR_ARGUMENT, "expected at least one");
    pixels.count = 1;
    pixels.values = NULL;
    expect_refused(source, GRAIL_ERROR_ARGUMENT, "no values");
    pixels.values = values;
    values[7] = NAN;
    expect_refused(source, GRAIL_ERROR_NUMERIC, "image 0 in memory holds NaN at element 7");
    values[7] = -INFINITY;
    expect_refused(source, GRAIL_ERROR_NUMERIC, "holds infinity at element 7");
}

TEST(test_the_hash_follows_the_bytes)
{
    OWNED(temporary) three = make_cifar(3);
    OWNED(temporary) same = make_cifar(3);
    OWNED(temporary) four = make_cifar(4);
    image_set *sets[] = {open_set(three), open_set(same), open_set(four)};
    assert_int_equal(strlen(image_set_hash(sets[0])), 64);
    assert_string_equal(image_set_hash(sets[0]), image_set_hash(sets[1]));
    assert_string_not_equal(image_set_hash(sets[0]), image_set_hash(sets[2]));
    for (size_t i = 0; i < 3; i++) {
        image_set_close(sets[i]);
    }
}

/* Image i and image i + 256 have the same bytes, and labels of their own. */
TEST(test_digests_are_of_an_image_s_own_bytes)
{
    static const int64_t indices[] = {258, 2, 3};
    uint64_t digests[3];
    uint64_t alone = 0;
    OWNED(temporary) directory = make_cifar(260);
    OWNED(grail_images) *set = open_set(directory);
    assert_int_not_equal(image_set_label(set, 258), image_set_label(set, 2));
    assert_ok(image_set_digests(set, 3, indices, digests));
    assert_true(digests[0] == digests[1] && digests[1] != digests[2]);
    assert_ok(image_set_digests(set, 1, indices + 2, &alone));
    assert_true(alone == digests[2]);
}

TEST(test_a_sample_is_ascending_distinct_and_seeded)
{
    enum { COUNT = 200, SAMPLE = 60 };
    OWNED(temporary) directory = make_cifar(COUNT);
    OWNED(grail_images) *set = open_set(directory);
    int64_t first[COUNT];
    int64_t again[SAMPLE];
    int64_t other[SAMPLE];
    assert_ok(image_set_sample(set, SAMPLE, 1, first));
    assert_ok(image_set_sample(set, SAMPLE, 1, again));
    assert_ok(image_set_sample(set, SAMPLE, 2, other));
    assert_memory_equal(first, again, sizeof again);
    assert_memory_not_equal(first, other, sizeof other);
    for (int64_t i = 0; i < SAMPLE; i++) {
        assert_in_range(first[i], i > 0 ? first[i - 1] + 1 : 0, COUNT - 1);
    }
    assert_ok(image_set_sample(set, COUNT, 3, first));
    for (int64_t i = 0; i < COUNT; i++) {
        assert_int_equal(first[i], i);
    }
    assert_fails(image_set_sample(set, COUNT + 1, 1, first), GRAIL_ERROR_ARGUMENT,
                 "201 images were requested, but the data holds only 200");
    assert_fails(image_set_sample(set, 0, 1, first), GRAIL_ERROR_ARGUMENT, "0 images");
}

/* Batches of `batch` over all images hold what image_set_load gives, in order. */
static void expect_batches(const image_set *set, int64_t count, int64_t batch)
{
    int64_t indices[64];
    OWNED(float) *expected = NULL;
    const float *pixels = NULL;
    int64_t loaded = 0;
    int64_t done = 0;
    for (int64_t i = 0; i < count; i++) {
        indices[i] = (i * 5) % image_set_count(set);
    }
    assert_ok(memory_new(&expected, (size_t)count, IMAGE * sizeof *expected));
    assert_ok(image_set_load(set, count, indices, expected));
    OPENED(image_loader, loader, image_loader_open(set, count, indices, batch, &loader));
    for (;;) {
        assert_ok(image_loader_next(loader, &pixels, &loaded));
        if (loaded == 0) {
            break;
        }
        assert_int_equal(loaded, count - done < batch ? count - done : batch);
        assert_memory_equal(pixels, expected + done * IMAGE,
                            (size_t)loaded * IMAGE * sizeof *pixels);
        done += loaded;
    }
    assert_int_equal(done, count);
    assert_ok(image_loader_next(loader, &pixels, &loaded));
    assert_int_equal(loaded, 0);
}

TEST(test_a_loader_gives_every_batch_in_order)
{
    OWNED(temporary) directory = make_cifar(21);
    OWNED(grail_images) *set = open_set(directory);
    expect_batches(set, 21, 7);
    expect_batches(set, 21, 8);
    expect_batches(set, 21, 1);
    expect_batches(set, 21, 100);
    expect_batches(set, 0, 4);
}

TEST(test_a_loader_can_be_closed_at_any_time)
{
    OWNED(temporary) directory = make_cifar(21);
    OWNED(grail_images) *set = open_set(directory);
    const int64_t indices[] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int used = 0; used < 3; used++) {
        const float *pixels = NULL;
        int64_t loaded = 0;
        OPENED(image_loader, loader, image_loader_open(set, 8, indices, 2, &loader));
        for (int i = 0; i < used; i++) {
            assert_ok(image_loader_next(loader, &pixels, &loaded));
        }
    }
    image_loader_close(NULL);
}

TEST(test_a_loader_can_be_closed_while_it_decodes)
{
    enum { COUNT = 2000 };
    OWNED(temporary) directory = make_cifar(COUNT);
    OWNED(grail_images) *set = open_set(directory);
    OWNED(int64_t) *indices = NULL;
    const float *pixels = NULL;
    int64_t loaded = 0;
    assert_ok(memory_new(&indices, COUNT, sizeof *indices));
    assert_ok(image_set_sample(set, COUNT, 1, indices));
    OPENED(image_loader, loader, image_loader_open(set, COUNT, indices, COUNT / 2, &loader));
    assert_ok(image_loader_next(loader, &pixels, &loaded));
    /* Here the thread has begun, or is about to begin, a thousand images. */
    struct timespec moment = {.tv_nsec = 2000000};
    nanosleep(&moment, NULL);
}

TEST(test_a_loader_refuses_empty_batches)
{
    OWNED(temporary) directory = make_cifar(1);
    OWNED(grail_images) *set = open_set(directory);
    const int64_t index = 0;
    image_loader *loader = NULL;
    assert_fails(image_loader_open(set, 1, &index, 0, &loader), GRAIL_ERROR_ARGUMENT,
                 "batches of 0");
}

static grail_status use_set(void *context)
{
    const grail_image_source source = {.path = context};
    OWNED(grail_images) *set = NULL;
    OWNED(image_loader) *loader = NULL;
    int64_t indices[4];
    const float *pixels = NULL;
    int64_t loaded = 0;
    CHECK(image_set_open(&source, &set));
    CHECK(image_set_sample(set, 4, 1, indices));
    CHECK(image_loader_open(set, 4, indices, 3, &loader));
    CHECK(image_loader_next(loader, &pixels, &loaded));
    return image_loader_next(loader, &pixels, &loaded);
}

TEST(test_failed_allocations_leave_nothing_behind)
{
    OWNED(temporary) directory = make_cifar(5);
    support_fail_each_allocation(use_set, directory);
}

TEST(test_presets_are_listed)
{
    static const char *const names[] = {
        "cifar", "cifar-imagenet", "cifar-plain", "imagenet", "clip", "vit", "vit-square"};
    for (int i = 0; i < 7; i++) {
        assert_string_equal(grail_image_preset_at(i), names[i]);
    }
    assert_null(grail_image_preset_at(7));
    assert_null(grail_image_preset_at(-1));
}
