/* Parameters that share tensors or lie turned in them, with hand-made tensors of every kind: read,
 * narrowed and written. A tensor from which rows and columns are removed must be what is left of it
 * when they are struck out, whatever parameters they belong to. */
#include "graph/storage.h"
#include "support/support.h"

#include <math.h>
#include <string.h>

enum { MOST = 24, LARGEST = 4096 };

/* A tensor of the numbers 0, 1, 2 ..., and the parameters that lie in it. */
typedef struct fixture {
    float values[LARGEST];
    tensor_view tensor;
    storage_piece pieces[MOST];
    const stored_matrix *parameters[MOST];
    int count;
} fixture;

static void begin(fixture *f, int rank, const int64_t shape[])
{
    int64_t elements = 0;
    *f = (fixture){0};
    f->tensor =
        (tensor_view){.name = "fused", .dtype = GRAIL_DTYPE_F32, .rank = rank, .data = f->values};
    memcpy(f->tensor.shape, shape, (size_t)rank * sizeof shape[0]);
    assert_true(shape_elements(rank, shape, &elements) && elements <= LARGEST);
    for (int64_t i = 0; i < elements; i++) {
        f->values[i] = (float)i;
    }
}

/* All of the parameter stays unless `keep` is called. */
static void add(fixture *f, storage_map map, int64_t rows, int64_t columns)
{
    f->pieces[f->count] =
        (storage_piece){.dense = {.map = map, .rank = 2, .shape = {rows, columns}},
                        .rows = rows,
                        .columns = columns};
    f->parameters[f->count] = &f->pieces[f->count].dense;
    f->count++;
}

static storage_axis part(int64_t first, int64_t count)
{
    return storage_rows(first, count).rows;
}

static void keep_rows(fixture *f, int i, int64_t count, const int64_t *rows)
{
    f->pieces[i].rows = count;
    f->pieces[i].row_origin = rows;
}

static void keep_columns(fixture *f, int i, int64_t count, const int64_t *columns)
{
    f->pieces[i].columns = count;
    f->pieces[i].column_origin = columns;
}

/* q, k and v one after another. */
static void fuse_qkv(fixture *f)
{
    begin(f, 2, (const int64_t[]){12, 5});
    for (int i = 0; i < 3; i++) {
        add(f, (storage_map){.rows = part(4 * i, 4)}, 4, 5);
    }
}

/* q, k and v of one head after those of the other: heads of 2 features. */
static void interleave_heads(fixture *f)
{
    begin(f, 2, (const int64_t[]){18, 4});
    for (int i = 0; i < 3; i++) {
        add(f, (storage_map){.rows = {.first = 2 * i, .level = {{2, 1}, {0, 6}}}}, 6, 4);
    }
}

/* [in, 3 out], as GPT-2 stores its attention. */
static void fuse_transposed(fixture *f)
{
    begin(f, 2, (const int64_t[]){5, 12});
    for (int i = 0; i < 3; i++) {
        add(f, (storage_map){.transposed = true, .rows = part(4 * i, 4)}, 4, 5);
    }
}

/* [experts, out, in] */
static void stack_experts(fixture *f)
{
    begin(f, 3, (const int64_t[]){3, 4, 5});
    for (int e = 0; e < 3; e++) {
        add(f, (storage_map){.rows = part(4 * e, 4)}, 4, 5);
    }
}

/* [experts, in, 2 out]: gate and up turn by turn in the columns, transposed, scaled by 2 and 3. */
static void stack_interleaved(fixture *f)
{
    begin(f, 3, (const int64_t[]){3, 5, 8});
    for (int e = 0; e < 3; e++) {
        for (int half = 0; half < 2; half++) {
            add(f,
                (storage_map){.transposed = true,
                              .rows = {.first = half, .level = {{0, 2}}},
                              .columns = part(5 * e, 5),
                              .scale = 2.0 + half},
                4, 5);
        }
    }
}

/* [groups, (queries, gates) of 3 heads and then k and v, features]: 2 groups, 2 features. The
 * queries of a group lie between the gates, those of all groups are one parameter. */
static void group_heads(fixture *f)
{
    begin(f, 2, (const int64_t[]){32, 3});
    for (int half = 0; half < 2; half++) {
        add(f, (storage_map){.rows = {2 * half, {{2, 1}, {3, 4}, {0, 16}}}}, 12, 3);
    }
    for (int i = 0; i < 2; i++) {
        add(f, (storage_map){.rows = {12 + 2 * i, {{2, 1}, {0, 16}}}}, 4, 3);
    }
}

/* [in, (head, group, feature)] of a parameter whose rows are (group, head, feature): 2 features, 3
 * heads, 2 groups. */
static void exchange_levels(fixture *f)
{
    begin(f, 2, (const int64_t[]){2, 12});
    add(f, (storage_map){.transposed = true, .rows = {0, {{2, 1}, {3, 4}, {0, 2}}}}, 12, 2);
}

/* [experts, (gate, up) of each unit and another one, in]: gate and up of all experts are a
 * parameter each, of 2 experts with 3 units. */
static void stack_units(fixture *f)
{
    begin(f, 3, (const int64_t[]){2, 8, 2});
    for (int half = 0; half < 2; half++) {
        add(f, (storage_map){.rows = {half, {{3, 2}, {0, 8}}}}, 6, 2);
    }
    add(f, (storage_map){.rows = {6, {{2, 1}, {0, 8}}}}, 4, 2);
}

static void turn(fixture *f)
{
    begin(f, 2, (const int64_t[]){5, 4});
    add(f, (storage_map){.transposed = true}, 4, 5);
}

static void leave_alone(fixture *f)
{
    begin(f, 2, (const int64_t[]){4, 5});
    add(f, (storage_map){0}, 4, 5);
}

typedef void (*kind)(fixture *f);

static const kind kinds[] = {leave_alone,     turn,          fuse_qkv,          interleave_heads,
                             fuse_transposed, stack_experts, stack_interleaved, group_heads,
                             exchange_levels, stack_units};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static float read_at(const fixture *f, int p, int64_t r, int64_t c)
{
    const stored_matrix *m = f->parameters[p];
    float values[LARGEST];
    assert_ok(storage_read(m, &f->tensor, values));
    return values[r * m->shape[1] + c];
}

TEST(parameters_are_read_from_their_places)
{
    fixture f;
    fuse_qkv(&f);
    assert_near((double)read_at(&f, 1, 2, 3), (4 + 2) * 5 + 3, 0);
    interleave_heads(&f); /* k of head 2, feature 1 */
    assert_near((double)read_at(&f, 1, 2 * 2 + 1, 3), (2 * 6 + 2 + 1) * 4 + 3, 0);
    fuse_transposed(&f);
    assert_near((double)read_at(&f, 2, 1, 4), 4 * 12 + 8 + 1, 0);
    stack_experts(&f);
    assert_near((double)read_at(&f, 2, 3, 1), (2 * 4 + 3) * 5 + 1, 0);
    stack_interleaved(&f); /* up of expert 1, output 2, input 3 */
    assert_near((double)read_at(&f, 3, 2, 3), 3.0 * ((5 + 3) * 8 + 2 * 2 + 1), 0);
    group_heads(&f); /* gate of group 1, head 2, feature 1; v of group 1, feature 0 */
    assert_near((double)read_at(&f, 1, (3 + 2) * 2 + 1, 2), (16 + 2 * 4 + 2 + 1) * 3 + 2, 0);
    assert_near((double)read_at(&f, 3, 2, 0), (16 + 14) * 3, 0);
    exchange_levels(&f); /* group 1, head 2, feature 1 */
    assert_near((double)read_at(&f, 0, (3 + 2) * 2 + 1, 1), 12 + (2 * 2 + 1) * 2 + 1, 0);
    stack_units(&f); /* up of expert 1, unit 2 */
    assert_near((double)read_at(&f, 1, 3 + 2, 1), (8 + 2 * 2 + 1) * 2 + 1, 0);
}

/* Rows that are read one by one are those that are read together. */
TEST(rows_are_read_alone)
{
    for (int k = 0; k < KINDS; k++) {
        fixture f;
        kinds[k](&f);
        for (int p = 0; p < f.count; p++) {
            const stored_matrix *m = f.parameters[p];
            float all[LARGEST];
            float row[LARGEST];
            assert_ok(storage_read(m, &f.tensor, all));
            for (int64_t r = 0; r < m->shape[0]; r++) {
                assert_ok(storage_read_row(m, &f.tensor, r, row));
                assert_memory_equal(row, all + r * m->shape[1],
                                    (size_t)m->shape[1] * sizeof row[0]);
            }
        }
    }
}

/* storage_element says where a parameter's elements are. */
TEST(elements_are_found_in_the_tensor)
{
    for (int k = 0; k < KINDS; k++) {
        fixture f;
        kinds[k](&f);
        for (int p = 0; p < f.count; p++) {
            const stored_matrix *m = f.parameters[p];
            const double scale = m->map.scale == 0.0 ? 1.0 : m->map.scale;
            for (int64_t i = 0; i < m->shape[0] * m->shape[1]; i++) {
                const int64_t at = storage_element(m, &f.tensor, i);
                const float value = read_at(&f, p, i / m->shape[1], i % m->shape[1]);
                assert_near((double)value, scale * (double)at, 0);
            }
        }
    }
}

TEST(all_kinds_cover_their_tensors)
{
    for (int k = 0; k < KINDS; k++) {
        fixture f;
        kinds[k](&f);
        for (int p = 0; p < f.count; p++) {
            assert_true(storage_fits(f.parameters[p], &f.tensor));
        }
        assert_ok(storage_check_cover(f.count, f.parameters, &f.tensor));
    }
}

/* Values of a piece, of its dense parameter. */
static void values_left(const fixture *f, int p, float *out)
{
    const storage_piece *piece = &f->pieces[p];
    float dense[LARGEST];
    assert_ok(storage_read(&piece->dense, &f->tensor, dense));
    for (int64_t r = 0; r < piece->rows; r++) {
        for (int64_t c = 0; c < piece->columns; c++) {
            const int64_t row = piece->row_origin == NULL ? r : piece->row_origin[r];
            const int64_t column = piece->column_origin == NULL ? c : piece->column_origin[c];
            out[r * piece->columns + c] = dense[row * piece->dense.shape[1] + column];
        }
    }
}

/* The numbers that are left stand in the order of the dense tensor, and each is there once. */
static void assert_struck_out(const float *narrow, int64_t count, const bool *left)
{
    int64_t found = 0;
    for (int64_t i = 0; i < LARGEST; i++) {
        if (left[i]) {
            assert_true(found < count);
            assert_near((double)narrow[found++], (double)i, 0);
        }
    }
    assert_int_equal(found, count);
}

static void mark_left(const fixture *f, int p, bool *left)
{
    const storage_piece *piece = &f->pieces[p];
    for (int64_t r = 0; r < piece->rows; r++) {
        for (int64_t c = 0; c < piece->columns; c++) {
            const int64_t row = piece->row_origin == NULL ? r : piece->row_origin[r];
            const int64_t column = piece->column_origin == NULL ? c : piece->column_origin[c];
            left[storage_element(&piece->dense, &f->tensor, row * piece->dense.shape[1] + column)] =
                true;
        }
    }
}

/* Writes what is left, compares it with the dense tensor struck out, and reads it back. */
static void assert_narrowed(fixture *f, int rank, const int64_t expected[])
{
    OWNED(storage_layout) l = {0};
    int64_t shape[TENSOR_MAX_RANK];
    float narrow[LARGEST];
    float values[LARGEST];
    float back[LARGEST];
    bool left[LARGEST] = {false};
    assert_ok(storage_lay_out(f->count, f->pieces, &l));
    assert_ok(storage_narrow_shape(&l, &f->tensor, shape));
    assert_int_equal(f->tensor.rank, rank);
    assert_memory_equal(shape, expected, (size_t)rank * sizeof shape[0]);
    for (int p = 0; p < f->count; p++) {
        values_left(f, p, values);
        assert_ok(storage_put(&l, p, &f->tensor, values, narrow));
        mark_left(f, p, left);
    }
    assert_struck_out(narrow, l.rows * l.columns, left);
    for (int p = 0; p < f->count; p++) {
        values_left(f, p, values);
        storage_get(&l, p, narrow, back);
        assert_memory_equal(back, values,
                            (size_t)(f->pieces[p].rows * f->pieces[p].columns) * sizeof back[0]);
    }
}

static const int64_t second_and_last[] = {1, 3};
static const int64_t first_and_third[] = {0, 2};
static const int64_t middle_column[] = {2};
static const int64_t outer_heads[] = {0, 1, 4, 5};
static const int64_t outer_of_three[] = {0, 1, 4, 5, 6, 7, 10, 11}; /* in two groups */
static const int64_t first_of_three[] = {0, 3};                     /* likewise */

TEST(what_is_left_keeps_its_order)
{
    fixture f;
    leave_alone(&f);
    keep_rows(&f, 0, 2, second_and_last);
    keep_columns(&f, 0, 1, middle_column);
    assert_narrowed(&f, 2, (const int64_t[]){2, 1});
    turn(&f);
    keep_rows(&f, 0, 2, first_and_third);
    assert_narrowed(&f, 2, (const int64_t[]){5, 2});
    fuse_qkv(&f);
    keep_rows(&f, 0, 2, second_and_last);
    keep_rows(&f, 2, 2, first_and_third);
    assert_narrowed(&f, 2, (const int64_t[]){8, 5});
    fuse_transposed(&f);
    keep_rows(&f, 1, 2, second_and_last);
    for (int p = 0; p < f.count; p++) {
        keep_columns(&f, p, 2, first_and_third);
    }
    assert_narrowed(&f, 2, (const int64_t[]){2, 10});
    interleave_heads(&f);
    for (int p = 0; p < f.count; p++) {
        keep_rows(&f, p, 4, outer_heads);
    }
    assert_narrowed(&f, 2, (const int64_t[]){12, 4});
    group_heads(&f); /* the outer heads of both groups, all of k and v */
    keep_rows(&f, 0, 8, outer_of_three);
    keep_rows(&f, 1, 8, outer_of_three);
    assert_narrowed(&f, 2, (const int64_t[]){24, 3});
    exchange_levels(&f);
    keep_rows(&f, 0, 8, outer_of_three);
    assert_narrowed(&f, 2, (const int64_t[]){2, 8});
}

/* Rows of a convolution in a matrix: [out, channels * taps], or the other way round. */
TEST(a_convolution_may_lie_in_a_matrix)
{
    static const int64_t left[] = {4, 5, 6, 7};
    for (int turned = 0; turned < 2; turned++) {
        fixture f;
        storage_layout l;
        int64_t shape[2];
        float values[24];
        begin(&f, 2, turned ? (const int64_t[]){8, 3} : (const int64_t[]){3, 8});
        add(&f, (storage_map){.transposed = turned == 1}, 3, 8);
        stored_matrix *p = &f.pieces[0].dense;
        *p = (stored_matrix){.map = p->map, .rank = 4, .shape = {3, 2, 2, 2}};
        assert_true(storage_fits(p, &f.tensor));
        assert_ok(storage_check_cover(1, f.parameters, &f.tensor));
        assert_ok(storage_read(p, &f.tensor, values));
        assert_near((double)values[8 + 5], turned ? 16 : 13, 0);
        keep_columns(&f, 0, 4, left);
        assert_ok(storage_lay_out(1, f.pieces, &l));
        assert_ok(storage_narrow_shape(&l, &f.tensor, shape));
        assert_int_equal(shape[turned], 3);
        assert_int_equal(shape[1 - turned], 4);
        storage_layout_fini(&l);
        p->shape[1] = 3;
        assert_false(storage_fits(p, &f.tensor));
    }
}

TEST(stacked_matrices_are_cut_alike)
{
    fixture f;
    stack_experts(&f);
    keep_rows(&f, 0, 2, second_and_last);
    keep_rows(&f, 1, 2, first_and_third);
    keep_rows(&f, 2, 2, second_and_last);
    assert_narrowed(&f, 3, (const int64_t[]){3, 2, 5});
    stack_interleaved(&f);
    for (int p = 0; p < f.count; p++) {
        keep_rows(&f, p, 2, first_and_third);
    }
    assert_narrowed(&f, 3, (const int64_t[]){3, 5, 4});
    stack_units(&f);
    keep_rows(&f, 0, 2, first_of_three);
    keep_rows(&f, 1, 2, first_of_three);
    assert_narrowed(&f, 3, (const int64_t[]){2, 4, 2});
    stack_experts(&f);
    keep_rows(&f, 0, 2, second_and_last);
    OWNED(storage_layout) l = {0};
    int64_t shape[TENSOR_MAX_RANK];
    assert_ok(storage_lay_out(f.count, f.pieces, &l));
    assert_fails(storage_narrow_shape(&l, &f.tensor, shape), GRAIL_ERROR_SHAPE,
                 "3 matrices in it, which 10 rows do not fill evenly");
}

/* The matrices of an expert that goes are no longer there; whatever is cut in the others. */
TEST(stacked_matrices_go_as_a_whole)
{
    fixture f;
    stack_experts(&f);
    f.pieces[1].rows = f.pieces[1].columns = 0;
    assert_narrowed(&f, 3, (const int64_t[]){2, 4, 5});
    keep_rows(&f, 0, 2, second_and_last);
    keep_rows(&f, 2, 2, second_and_last);
    assert_narrowed(&f, 3, (const int64_t[]){2, 2, 5});
    f.pieces[0].rows = f.pieces[0].columns = 0; /* of both axes the last one speaks */
    assert_narrowed(&f, 3, (const int64_t[]){1, 2, 5});
}

TEST(gaps_and_overlaps_are_told)
{
    fixture f;
    fuse_qkv(&f);
    assert_fails(storage_check_cover(2, f.parameters, &f.tensor), GRAIL_ERROR_SHAPE,
                 "tensor 'fused' has 12 rows, but row 8 is read by no parameter");
    f.pieces[2].dense.map.rows = part(6, 4);
    assert_fails(storage_check_cover(3, f.parameters, &f.tensor), GRAIL_ERROR_SHAPE,
                 "row 6 of tensor 'fused' is read by two parameters");
    group_heads(&f);
    f.pieces[0].dense.map.rows.level[1].stride = 1;
    assert_fails(storage_check_cover(4, f.parameters, &f.tensor), GRAIL_ERROR_SHAPE,
                 "row 1 of tensor 'fused' is read twice by one parameter");
    stack_interleaved(&f);
    f.pieces[5] = f.pieces[4];
    assert_fails(storage_check_cover(6, f.parameters, &f.tensor), GRAIL_ERROR_SHAPE,
                 "a part of tensor 'fused' is read by 2 parameters, expected 1");
}

TEST(what_does_not_fit_is_refused)
{
    fixture f;
    stack_experts(&f); /* a matrix of 12 rows is not told apart from three of 4 */
    const stored_matrix all = {.rank = 2, .shape = {12, 5}};
    assert_false(storage_fits(&all, &f.tensor));
    stored_matrix last = *f.parameters[2];
    last.map.rows.first = 9;
    assert_false(storage_fits(&last, &f.tensor));
    last = *f.parameters[2];
    last.map.rows.first = -1;
    assert_false(storage_fits(&last, &f.tensor));
    group_heads(&f); /* each level reaches too far, or the levels have too few places */
    for (int l = 0; l < STORAGE_LEVELS; l++) {
        stored_matrix wide = *f.parameters[0];
        wide.map.rows.level[l].stride = l == 2 ? 23 : 12;
        assert_false(storage_fits(&wide, &f.tensor));
        wide.map.rows.level[l].stride = INT64_MAX;
        assert_false(storage_fits(&wide, &f.tensor));
        wide.map.rows.level[l].stride = -1;
        assert_false(storage_fits(&wide, &f.tensor));
    }
    last = *f.parameters[0];
    last.map.rows.level[2].count = 1;
    assert_false(storage_fits(&last, &f.tensor));
    leave_alone(&f);
    const stored_matrix narrow = {.rank = 2, .shape = {4, 4}};
    const stored_matrix vector = {.rank = 1, .shape = {20}};
    assert_false(storage_fits(&narrow, &f.tensor));
    assert_false(storage_fits(&vector, &f.tensor));
    f.tensor.rank = 1;
    f.tensor.shape[0] = 20;
    assert_true(storage_fits(&vector, &f.tensor));
    assert_false(storage_fits(f.parameters[0], &f.tensor));
}

/* Numbers of which 1 + w loses some bits, or all of them. */
static void fill_with_small_numbers(fixture *f, grail_dtype dtype, void *stored)
{
    for (int i = 0; i < 20; i++) {
        f->values[i] = ldexpf(i % 2 == 0 ? 1.28125F : -1.40625F, i - 24);
    }
    assert_ok(convert_from_f32(dtype, f->values, 20, stored));
    f->tensor.dtype = dtype;
    f->tensor.data = stored;
}

/* What is left of 1 + w, or scaled by a third, gives the bits of w again; what was changed gives
 * its own value. */
TEST(unchanged_numbers_keep_their_bits)
{
    static const grail_dtype dtypes[] = {GRAIL_DTYPE_F32, GRAIL_DTYPE_F16, GRAIL_DTYPE_BF16};
    static const storage_map maps[] = {{.offset = 1.0},
                                       {.scale = 1.0 / 3.0, .offset = -0.5, .transposed = true}};
    enum { CASES = 6, CHANGED = 5 };
    for (int i = 0; i < CASES; i++) {
        fixture f;
        uint32_t stored[20];
        uint32_t narrow_stored[20];
        float values[20];
        float narrow[20];
        float dense[20];
        float back[20];
        OWNED(storage_layout) l = {0};
        const storage_map *map = &maps[i % 2];
        const size_t size = dtype_bits(dtypes[i / 2]) / 8;
        begin(&f, 2, map->transposed ? (const int64_t[]){5, 4} : (const int64_t[]){4, 5});
        add(&f, *map, 4, 5);
        fill_with_small_numbers(&f, dtypes[i / 2], stored);
        assert_ok(convert_to_f32(dtypes[i / 2], stored, 20, dense));
        keep_rows(&f, 0, 2, second_and_last);
        values_left(&f, 0, values);
        memcpy(back, values, sizeof back);
        assert_ok(storage_round(map, dtypes[i / 2], 10, values));
        assert_memory_equal(values, back, 10 * sizeof back[0]);
        values[CHANGED] = 0.8125F;
        assert_ok(storage_round(map, dtypes[i / 2], 10, values));
        assert_ok(storage_lay_out(1, f.pieces, &l));
        assert_ok(storage_put(&l, 0, &f.tensor, values, narrow));
        assert_ok(convert_from_f32(dtypes[i / 2], narrow, 10, narrow_stored));
        for (int64_t e = 0; e < 10; e++) {
            const int64_t row = second_and_last[e / 5];
            const int64_t at = storage_element(f.parameters[0], &f.tensor, row * 5 + e % 5);
            const int64_t to = map->transposed ? e % 5 * 2 + e / 5 : e;
            const bool same = memcmp((const char *)narrow_stored + (size_t)to * size,
                                     (const char *)stored + (size_t)at * size, size) == 0;
            assert_int_equal(same, e != CHANGED);
        }
        assert_ok(convert_to_f32(dtypes[i / 2], narrow_stored, 10, narrow));
        storage_get(&l, 0, narrow, back);
        assert_memory_equal(back, values, 10 * sizeof back[0]);
        assert_near((double)back[CHANGED], 0.8125, 0.01);
    }
}

/* A vector of channels between dimensions of 1, by which values are divided. */
TEST(a_vector_lies_along_any_one_dimension)
{
    static const int64_t shapes[][4] = {{1, 4, 1, 1}, {4, 1, 1}, {1, 1, 4}, {4, 1}};
    static const int ranks[] = {4, 3, 3, 2};
    static const int64_t expected[][4] = {{1, 2, 1, 1}, {2, 1, 1}, {1, 1, 2}, {2, 1}};
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
        fixture f;
        storage_layout l = {0};
        int64_t shape[TENSOR_MAX_RANK];
        float values[4];
        float narrow[2];
        begin(&f, ranks[i], shapes[i]);
        f.values[0] = -0.5F;
        f.pieces[0] = (storage_piece){
            .dense = {.map = {.rows = part(0, 4), .inverts = true}, .rank = 1, .shape = {4}},
            .rows = 4,
            .columns = 1};
        f.parameters[f.count++] = &f.pieces[0].dense;
        assert_true(storage_fits(f.parameters[0], &f.tensor));
        assert_ok(storage_check_cover(1, f.parameters, &f.tensor));
        assert_ok(storage_read(f.parameters[0], &f.tensor, values));
        assert_near((double)values[0], -2.0, 0);
        assert_near((double)values[3], (double)(1.0F / 3.0F), 0);
        keep_rows(&f, 0, 2, second_and_last);
        values[1] = 4.0F; /* changed, and 3 keeps its bits */
        assert_ok(storage_lay_out(1, f.pieces, &l));
        assert_ok(storage_narrow_shape(&l, &f.tensor, shape));
        assert_memory_equal(shape, expected[i], (size_t)ranks[i] * sizeof shape[0]);
        assert_ok(storage_put(&l, 0, &f.tensor, (const float[]){values[1], values[3]}, narrow));
        assert_near((double)narrow[0], 0.25, 0);
        assert_near((double)narrow[1], 3.0, 0);
        storage_layout_fini(&l);
    }
}

/* A tensor of a narrow dtype cannot hold every number of 1 + w: values are rounded to what it
 * gives, and refused where it gives none. */
TEST(values_are_rounded_to_what_the_tensor_gives)
{
    const storage_map map = {.offset = 1.0};
    float values[] = {1.00390625F + 0x1p-20F, 1.0F / 3.0F};
    assert_ok(storage_round(&map, GRAIL_DTYPE_BF16, 2, values));
    assert_near((double)values[0], 1.00390625, 0); /* 2^-8 + 2^-20 does not fit in 8 bits */
    assert_near((double)values[1], 1.0 / 3.0, 0x1p-9);
    float large[] = {1.0F, 65540.0F};
    assert_fails(storage_round(&map, GRAIL_DTYPE_F16, 2, large), GRAIL_ERROR_NUMERIC, "1");
}

static grail_status read_check_and_lay_out(void *context)
{
    fixture f;
    OWNED(storage_layout) l = {0};
    float values[LARGEST];
    stack_interleaved(&f);
    CHECK(storage_read(f.parameters[3], &f.tensor, values));
    CHECK(storage_check_cover(f.count, f.parameters, &f.tensor));
    return storage_lay_out(f.count, f.pieces, &l);
}

TEST(every_failing_allocation_is_survived)
{
    support_fail_each_allocation(read_check_and_lay_out, NULL);
}
