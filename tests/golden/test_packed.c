/* Matrices that compressed-tensors packed, against what it makes of them again
 * (make_packed_golden.py); and the same bytes when they are written. */
#include "support/support.h"

#include "format/weights/checkpoint.h"
#include "format/weights/packed_groups.h"
#include "tensor/groups.h"

#include <stdio.h>
#include <string.h>

enum { ROWS = 3, COLUMNS = 256 };

static const char path[] = GRAIL_SOURCE_DIR "/tests/golden/packed/packed.safetensors";
static const char *const names[] = {"w4_g32", "w4_g64", "w4_g128", "w4_row",
                                    "w8_g32", "w8_g64", "w8_g128"};

static const tensor_view *find(const checkpoint *c, const char *name, const char *what)
{
    char full[64];
    snprintf(full, sizeof full, "%s.%s", name, what);
    const tensor_view *found = checkpoint_find(c, full);
    assert_non_null(found);
    return found;
}

TEST(values_are_those_of_compressed_tensors)
{
    static float values[ROWS * COLUMNS];
    OPENED(checkpoint, c, checkpoint_open(path, &c));
    assert_ok(checkpoint_load(c));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const tensor_view *stored = find(c, names[i], "weight");
        assert_int_equal(group_bits(stored->dtype), names[i][1] - '0');
        assert_int_equal(stored->shape[0], ROWS);
        assert_int_equal(stored->shape[1], COLUMNS);
        assert_ok(convert_to_f32(stored->dtype, stored->data, ROWS * COLUMNS, values));
        assert_memory_equal(values, find(c, names[i], "values")->data, sizeof values);
    }
    assert_int_equal(checkpoint_count(c), 2 * sizeof names / sizeof names[0]);
}

static void the_parts_of(const tensor_file *file, const char *name, tensor_view parts[PACKED_PARTS])
{
    for (int k = 0; k < PACKED_PARTS; k++) {
        char full[64];
        snprintf(full, sizeof full, "%s.weight%s", name, packed_groups_suffixes[k]);
        parts[k] = *tensor_file_find(file, full);
    }
}

TEST(what_is_read_is_written_as_the_same_bytes)
{
    static unsigned char blocks[ROWS * COLUMNS * 2];
    static unsigned char data[PACKED_PARTS][ROWS * COLUMNS];
    void *const places[PACKED_PARTS] = {data[0], data[1], data[2]};
    OPENED(tensor_file, file, safetensors_open(path, &file));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        tensor_view read[PACKED_PARTS];
        tensor_view written[PACKED_PARTS];
        tensor_view whole = {0};
        the_parts_of(file, names[i], read);
        assert_ok(packed_groups_describe(read, &whole));
        assert_true(whole.bytes <= sizeof blocks);
        packed_groups_join(read, &whole, blocks);
        packed_groups_parts(&whole, read[1].dtype, written);
        assert_ok(packed_groups_split(&whole, blocks, written, places));
        for (int k = 0; k < PACKED_PARTS; k++) {
            const bool repeats = k == 1 && strcmp(names[i], "w4_row") == 0;
            if (!repeats) {
                assert_int_equal(written[k].bytes, read[k].bytes);
                assert_memory_equal(data[k], read[k].data, read[k].bytes);
            }
        }
    }
}

/* Rounds to the nearest of the numbers of a group, with the scale of compressed-tensors. */
TEST(values_on_the_grid_stay)
{
    static const grail_dtype types[] = {GRAIL_DTYPE_W4_G32, GRAIL_DTYPE_W8_G128};
    for (size_t i = 0; i < 2; i++) {
        float values[128];
        float again[128];
        unsigned char block[136];
        const int64_t n = dtype_block(types[i]);
        const int most = (1 << (group_bits(types[i]) - 1)) - 1;
        for (int64_t j = 0; j < n; j++) {
            values[j] = 0.25F * (float)((int)(j * 37 % (2 * most + 1)) - most);
        }
        values[0] = 0.25F * (float)most;
        group_put_head(block, 0.25F, GRAIL_DTYPE_F32);
        block_grid grid;
        block_read_grid(types[i], block, &grid);
        for (int j = 0; j < (int)n; j++) {
            block_put(types[i], block, j, block_nearest(&grid, j, values[j]));
        }
        blocks_to_f32(types[i], block, 1, again);
        assert_memory_equal(again, values, (size_t)n * sizeof values[0]);
        memset(values, 0, sizeof values);
        assert_ok(blocks_from_f32(types[i], values, 1, block));
        assert_true(group_scale(block) > 0.0F);
        blocks_to_f32(types[i], block, 1, again);
        assert_memory_equal(again, values, (size_t)n * sizeof values[0]);
    }
}
