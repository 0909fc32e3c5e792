/* Checkpoints with weights in MXFP4, which lie in two tensors: seen as one, by hand, and whatever
 * does not fit. tests/golden has a network of them. */
#include "support/support.h"

#include "base/file.h"
#include "format/weights/checkpoint.h"
#include "tensor/packed.h"

#include <math.h>
#include <string.h>

enum { MOST = 4 };

/* U8 tensors of these names and shapes, filled with `byte`. */
typedef struct half {
    const char *name;
    int rank;
    int64_t shape[4];
    int byte;
} half;

static void write_halves(const char *directory, const char *file, int count, const half *halves)
{
    tensor_view tensors[MOST] = {0};
    OWNED(tensor_writer) *writer = NULL;
    for (int i = 0; i < count; i++) {
        tensors[i] =
            (tensor_view){.name = halves[i].name, .dtype = GRAIL_DTYPE_U8, .rank = halves[i].rank};
        memcpy(tensors[i].shape, halves[i].shape, sizeof halves[i].shape);
    }
    OPENED(char, path, path_join(&path, directory, file));
    assert_ok(safetensors_writer_open(path, count, tensors, LAYOUT_NEW, &writer));
    for (int i = 0; i < count; i++) {
        unsigned char data[1024];
        int64_t bytes = 0;
        assert_true(shape_elements(halves[i].rank, halves[i].shape, &bytes));
        memset(data, halves[i].byte, sizeof data);
        assert_ok(tensor_writer_put(writer, halves[i].name, data, (size_t)bytes));
    }
    assert_ok(tensor_writer_seal(writer));
}

static grail_status try_halves(int count, const half *halves)
{
    OWNED(checkpoint) *c = NULL;
    OWNED(temporary) directory = support_temporary_directory();
    write_halves(directory, CHECKPOINT_SINGLE_NAME, count, halves);
    return checkpoint_open(directory, &c);
}

#define BLOCKS "x_blocks", 4, {2, 3, 1, 16}, 0x5A /* codes 10 and 5: -1 and 3 */
#define SCALES "x_scales", 3, {2, 3, 1}, 128

DIRECTORY_TEST(a_pair_is_seen_as_one_tensor)
{
    static const half halves[] = {{"a", 1, {4}, 7}, {BLOCKS}, {SCALES}, {"y_scales", 1, {3}, 1}};
    float values[8];
    write_halves(directory, CHECKPOINT_SINGLE_NAME, 4, halves);
    OPENED(checkpoint, c, checkpoint_open(directory, &c));
    assert_int_equal(checkpoint_count(c), 3);
    assert_null(checkpoint_find(c, "x_blocks"));
    assert_null(checkpoint_find(c, "x_scales"));
    assert_non_null(checkpoint_find(c, "y_scales"));
    assert_false(tensor_is_packed(checkpoint_find(c, "a")));
    const tensor_view *x = checkpoint_find(c, "x");
    assert_true(x != NULL && tensor_is_packed(x));
    assert_int_equal(x->rank, 3);
    assert_true(x->shape[0] == 2 && x->shape[1] == 32 && x->shape[2] == 3);
    packed_to_f32(x, 0, 8,
                  values); /* rows of 3, the first and second of which are -1 and 3 twice */
    for (int i = 0; i < 8; i++) {
        assert_true(values[i] == (i / 3 % 2 == 0 ? -2.0F : 6.0F));
    }
    checkpoint_release(c, x);
}

/* Every code with every exponent, where an own byte lies at each place. */
TEST(elements_lie_where_the_format_says)
{
    static const double codes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    unsigned char blocks[2 * 2 * 2 * 16]; /* [matrices, out, blocks, 16] */
    unsigned char scales[2 * 2 * 2] = {0, 1, 126, 127, 128, 200, 253, 255};
    float values[2 * 64 * 2]; /* [matrices, in, out] */
    for (size_t i = 0; i < sizeof blocks; i++) {
        blocks[i] = (unsigned char)(i * 37 + 11);
    }
    const tensor_view view = {.name = "x",
                              .dtype = GRAIL_DTYPE_F4,
                              .rank = 3,
                              .shape = {2, 64, 2},
                              .data = blocks,
                              .bytes = sizeof blocks,
                              .scales = scales};
    packed_to_f32(&view, 0, 256, values);
    for (int m = 0; m < 2; m++) {
        for (int in = 0; in < 64; in++) {
            for (int out = 0; out < 2; out++) {
                const int byte = blocks[((m * 2 + out) * 64 + in) / 2];
                const int code = in % 2 == 0 ? byte % 16 : byte / 16;
                const int exponent = scales[(m * 2 + out) * 2 + in / 32] - 127;
                const double size = ldexp(codes[code % 8], exponent);
                float found = 0.0F;
                packed_to_f32(&view, (m * 64 + in) * 2 + out, 1, &found);
                assert_true(found == values[(m * 64 + in) * 2 + out]);
                assert_true(found == (float)(code < 8 ? size : -size));
            }
        }
    }
}

TEST(halves_that_do_not_fit_are_refused)
{
    static const struct {
        int count;
        half halves[3];
        const char *text;
    } bad[] = {
        {1,
         {{BLOCKS}},
         "tensor 'x_blocks' has weights in MXFP4, but the checkpoint lacks 'x_scales'"},
        {3,
         {{BLOCKS}, {SCALES}, {"x", 1, {4}, 1}},
         "tensor 'x_blocks' has weights in MXFP4, but beside it the checkpoint has 'x'"},
        {2, {{BLOCKS}, {"x_scales", 3, {2, 3, 2}, 1}}, "do not fit each other as weights in MXFP4"},
        {2, {{BLOCKS}, {"x_scales", 2, {2, 3}, 1}}, "[2, 3, 1, 16] and 'x_scales' [2, 3] (U8)"},
        {2, {{"x_blocks", 4, {2, 3, 1, 8}, 1}, {SCALES}}, "expected [n, out, in / 32, 16]"},
        {2, {{"x_blocks", 3, {2, 3, 16}, 1}, {SCALES}}, "expected [n, out, in / 32, 16]"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_fails(try_halves(bad[i].count, bad[i].halves), GRAIL_ERROR_FORMAT, bad[i].text);
    }
    const half alone = {SCALES}; /* blocks make the pair */
    assert_ok(try_halves(1, &alone));
}

DIRECTORY_TEST(halves_may_lie_in_two_shards)
{
    static const char index[] = "{\"weight_map\":{\"x_scales\":\"model-1.safetensors\","
                                "\"x_blocks\":\"model-2.safetensors\"}}";
    static const half blocks = {BLOCKS};
    static const half scales = {SCALES};
    write_halves(directory, "model-1.safetensors", 1, &scales);
    write_halves(directory, "model-2.safetensors", 1, &blocks);
    support_write_file(directory, CHECKPOINT_INDEX_NAME, index, strlen(index));
    OPENED(checkpoint, c, checkpoint_open(directory, &c));
    assert_int_equal(checkpoint_count(c), 1);
    assert_string_equal(checkpoint_file_name(c, checkpoint_file_of(c, 0)), "model-2.safetensors");
}

static grail_status open_pair(void *context)
{
    OWNED(checkpoint) *c = NULL;
    return checkpoint_open(context, &c);
}

DIRECTORY_TEST(every_failing_allocation_is_reported)
{
    static const half halves[] = {{BLOCKS}, {SCALES}};
    write_halves(directory, CHECKPOINT_SINGLE_NAME, 2, halves);
    support_fail_each_allocation(open_pair, directory);
}
