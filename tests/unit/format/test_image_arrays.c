/* Arrays of numpy as a network's input: their layouts and types, and what is refused. */
#include "support/support.h"

#include "base/buffer.h"
#include "format/images/image_set.h"
#include "tensor/half.h"

#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

enum { CHANNELS = 2, SIDE = 2, VALUES = CHANNELS * SIDE * SIDE, SAMPLES = 3 };

#define SHAPE "(3, 2, 2, 2)"

/* sample, channel, row, column */
static float value_of(int i)
{
    return (float)i - 4.0F;
}

static void write_array(const char *directory, const char *name, const char *type,
                        const char *shape, const char *order, const void *data, size_t size)
{
    char dict[128];
    OWNED(buffer) file = {.maximum = 1 << 16};
    snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", type, order,
             shape);
    assert_ok(buffer_append(&file, "\x93NUMPY\x01\x00\x00\x00", 10));
    assert_ok(buffer_append_string(&file, dict));
    while (file.size % 64 != 63) {
        assert_ok(buffer_append_string(&file, " "));
    }
    assert_ok(buffer_append_string(&file, "\n"));
    file.bytes[8] = (unsigned char)(file.size - 10);
    assert_ok(buffer_append(&file, data, size));
    support_write_file(directory, name, (const char *)file.bytes, file.size);
}

static void write_samples(const char *directory, const char *name)
{
    float values[SAMPLES * VALUES];
    for (int i = 0; i < SAMPLES * VALUES; i++) {
        values[i] = value_of(i);
    }
    write_array(directory, name, "<f4", SHAPE, "False", values, sizeof values);
}

static grail_status open_set(const char *directory, const char *name, image_set **out)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return image_set_open(&(grail_image_source){.path = path}, out);
}

/* The samples are what value_of says, channels last. */
static void assert_samples(const image_set *set)
{
    static const int64_t all[] = {0, 1, 2};
    float found[SAMPLES * VALUES];
    assert_int_equal(image_set_count(set), SAMPLES);
    assert_int_equal(image_set_rule(set)->channels, CHANNELS);
    assert_int_equal(image_set_rule(set)->height, SIDE);
    assert_int_equal(image_set_label(set, 1), -1);
    assert_ok(image_set_load(set, SAMPLES, all, found));
    for (int i = 0; i < SAMPLES * VALUES; i++) {
        const int position = i / CHANNELS % (SIDE * SIDE);
        const int from = i / VALUES * VALUES + i % CHANNELS * SIDE * SIDE + position;
        assert_true(found[i] == value_of(from));
    }
}

static void assert_read(const char *directory, const char *name)
{
    OPENED(grail_images, set, open_set(directory, name, &set));
    assert_samples(set);
}

DIRECTORY_TEST(arrays_of_all_types_are_the_input_as_they_are)
{
    double wide[SAMPLES * VALUES];
    uint16_t half[SAMPLES * VALUES];
    for (int i = 0; i < SAMPLES * VALUES; i++) {
        wide[i] = (double)value_of(i);
        half[i] = (uint16_t)f16_of_f32(bits_of(value_of(i)));
    }
    write_samples(directory, "a.npy");
    write_array(directory, "b.npy", "<f8", SHAPE, "False", wide, sizeof wide);
    write_array(directory, "c.npy", "<f2", SHAPE, "False", half, sizeof half);
    assert_read(directory, "a.npy");
    assert_read(directory, "b.npy");
    assert_read(directory, "c.npy");
}

DIRECTORY_TEST(a_folder_of_samples_is_one_set)
{
    static const int64_t all[] = {0, 1, 2};
    uint64_t digests[2][SAMPLES];
    image_set *set = NULL;
    image_set *other = NULL;
    float values[VALUES];
    char folder[512];
    snprintf(folder, sizeof folder, "%s/folder", directory);
    assert_int_equal(mkdir(folder, 0700), 0);
    for (int s = 0; s < SAMPLES; s++) {
        const char name[] = {(char)('a' + s), '.', 'n', 'p', 'y', 0};
        for (int i = 0; i < VALUES; i++) {
            values[i] = value_of(s * VALUES + i);
        }
        write_array(folder, name, "<f4", "(2, 2, 2)", "False", values, sizeof values);
    }
    write_samples(directory, "all.npy");
    assert_read(directory, "folder");
    assert_ok(open_set(directory, "folder", &set));
    assert_ok(open_set(directory, "all.npy", &other));
    assert_ok(image_set_digests(set, SAMPLES, all, digests[0]));
    assert_ok(image_set_digests(other, SAMPLES, all, digests[1]));
    assert_memory_equal(digests[0], digests[1], sizeof digests[0]);
    image_set_close(other);
    image_set_close(set);
    write_array(folder, "d.npy", "<f4", "(2, 1, 4)", "False", values, sizeof values);
    assert_fails(open_set(directory, "folder", &set), GRAIL_ERROR_SHAPE, "d.npy: its samples are");
    support_write_file(folder, "b.png", "", 0);
    assert_fails(open_set(directory, "folder", &set), GRAIL_ERROR_FORMAT, "'b.png', which is none");
}

DIRECTORY_TEST(other_arrays_are_refused_by_name)
{
    static const struct {
        const char *type, *shape, *order;
        size_t size;
        grail_status status;
        const char *text;
    } cases[] = {
        {"<f4", SHAPE, "True", 96, GRAIL_ERROR_UNSUPPORTED, "x.npy: is in Fortran order"},
        {">f4", SHAPE, "False", 96, GRAIL_ERROR_UNSUPPORTED, "has dtype '>f4'"},
        {"<i4", SHAPE, "False", 96, GRAIL_ERROR_UNSUPPORTED, "has dtype '<i4'"},
        {"<f4", SHAPE, "False", 95, GRAIL_ERROR_FORMAT, "but 95 bytes follow it"},
        {"<f4", "(0, 2, 2, 2)", "False", 0, GRAIL_ERROR_FORMAT, "holds no numbers"},
        {"<f4", "(1, 3, 2, 2, 2)", "False", 96, GRAIL_ERROR_UNSUPPORTED, "has more dimensions"},
        {"<f4", "()", "False", 4, GRAIL_ERROR_UNSUPPORTED, "has no dimensions"},
        {"<f4", "(1, 1, 1, 65536)", "False", 96, GRAIL_ERROR_FORMAT, "but 96 bytes follow it"},
        {"<f4", "(4611686018427387904, 4, 1, 1)", "False", 96, GRAIL_ERROR_FORMAT, "too large"},
    };
    const float zeros[SAMPLES * VALUES] = {0.0F};
    image_set *set = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_array(directory, "x.npy", cases[i].type, cases[i].shape, cases[i].order, zeros,
                    cases[i].size);
        assert_fails(open_set(directory, "x.npy", &set), cases[i].status, cases[i].text);
    }
    assert_null(set);
}

DIRECTORY_TEST(what_is_no_number_is_an_error_of_its_sample)
{
    static const int64_t second = 1;
    float values[SAMPLES * VALUES] = {0.0F};
    float out[VALUES];
    char path[512];
    image_set *set = NULL;
    values[VALUES + 3] = NAN;
    write_array(directory, "x.npy", "<f4", SHAPE, "False", values, sizeof values);
    assert_ok(open_set(directory, "x.npy", &set));
    assert_fails(image_set_load(set, 1, &second, out), GRAIL_ERROR_NUMERIC,
                 "x.npy: sample 1: holds NaN at element 3");
    image_set_close(set);
    set = NULL;
    snprintf(path, sizeof path, "%s/x.npy", directory);
    assert_fails(image_set_open(&(grail_image_source){.path = path, .preset = "cifar"}, &set),
                 GRAIL_ERROR_ARGUMENT, "arrays are the network's input as they are");
    const grail_image_source small = {.path = path, .size = 3};
    assert_ok(image_set_open(&small, &set));
    assert_fails(image_set_settle(set, &small, false, 0), GRAIL_ERROR_SHAPE, "expected 3 x 3");
    image_set_close(set);
}

DIRECTORY_TEST(several_inputs_lie_side_by_side_as_their_layouts_say)
{
    static const float frames[] = {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F};
    static const int32_t kinds[] = {7};
    static const array_layout layouts[] = {
        {.name = "frames", .rank = 3, .channels_last = true},
        {.name = "signal", .rank = 3},
        {.name = "kind", .rank = 1, .of_integers = true, .least = 0, .most = 7}};
    static const float expected[] = {1, 2, 3, 4, 5, 6, 1, 4, 2, 5, 3, 6, 7};
    char path[1024];
    float found[13];
    image_arrays arrays = {0};
    write_array(directory, "a.npy", "<f4", "(1, 2, 3)", "False", frames, sizeof frames);
    write_array(directory, "k.npy", "<i4", "(1,)", "False", kinds, sizeof kinds);
    snprintf(path, sizeof path, "frames=%s/a.npy,signal=%s/a.npy,kind=%s/k.npy", directory,
             directory, directory);
    assert_ok(image_arrays_open(path, layouts, &arrays));
    assert_int_equal(arrays.count, 1);
    assert_int_equal(arrays.channels, 13);
    assert_ok(image_arrays_load(&arrays, 0, found));
    assert_memory_equal(found, expected, sizeof found);
    image_arrays_close(&arrays);
    array_layout fewer = layouts[2];
    fewer.most = 6;
    snprintf(path, sizeof path, "%s/k.npy", directory);
    assert_ok(image_arrays_open_part(path, &fewer, &arrays));
    assert_fails(image_arrays_load(&arrays, 0, found), GRAIL_ERROR_NUMERIC,
                 "sample 0 has 7 at position 0 of 'kind', expected 0 to 6");
    image_arrays_close(&arrays);
}
