/* Matrices: their views, and the ways of values in and out. */
#include "conformance/conformance.h"

#include <string.h>

static const grail_dtype types[] = {GRAIL_DTYPE_F32, GRAIL_DTYPE_F64};

enum { TYPES = sizeof types / sizeof types[0] };

static bool computes_on_the_host(const backend *b)
{
    return strcmp(backend_name(b), "guarded") != 0 && !has_foreign_memory(b);
}

/* 0, 1, 2, ... */
static double *counting(int64_t count)
{
    double *out = doubles(count, 0.0);
    for (int64_t i = 0; i < count; i++) {
        out[i] = (double)i;
    }
    return out;
}

/* [rows, columns] of 0, 1, 2, ... */
static matrix counting_matrix(backend *b, grail_dtype type, int64_t rows, int64_t columns)
{
    OWNED(double) *values = counting(rows * columns);
    const matrix m = matrix_of(b, type, rows, columns, values);
    return m;
}

static void assert_holds(matrix m, const double *expected)
{
    assert_matrix_near("matrix", m, expected, 0.0);
}

/* -- shapes and views -------------------------------------------------------------------------- */

BACKEND_TEST(test_a_new_matrix_is_packed_and_counted)
{
    for (int t = 0; t < TYPES; t++) {
        matrix m = {0};
        assert_false(matrix_exists(m));
        assert_ok(matrix_new(b, types[t], 7, 5, &m));
        assert_true(matrix_exists(m));
        assert_ptr_equal(m.owner, b);
        assert_true(matrix_is_packed(m));
        assert_int_equal(matrix_count(m), 35);
        assert_int_equal(backend_bytes(b), 35 * element_size(types[t]));
        matrix_free(&m);
        assert_false(matrix_exists(m));
        assert_int_equal(backend_bytes(b), 0);
        matrix_free(&m); /* of a zeroed one */
    }
}

BACKEND_TEST(test_a_new_matrix_may_hold_zeros)
{
    static const double zeros[35] = {0.0};
    for (int t = 0; t < TYPES; t++) {
        OWNED(matrix) m = {0};
        assert_ok(matrix_new_zero(b, types[t], 7, 5, &m));
        host_view v = {0};
        assert_ok(host_view_open(m, GRAIL_DTYPE_F64, HOST_READS, &v));
        assert_memory_equal(v.values, zeros, sizeof zeros);
        assert_ok(host_view_close(&v));
    }
}

BACKEND_TEST(test_a_matrix_may_be_empty)
{
    matrix m = {0};
    matrix copy = {0};
    assert_ok(matrix_new_zero(b, GRAIL_DTYPE_F64, 0, 5, &m));
    assert_ok(matrix_new(b, GRAIL_DTYPE_F64, 0, 5, &copy));
    assert_true(matrix_exists(m));
    assert_int_equal(matrix_count(m), 0);
    assert_ok(matrix_upload(m, NULL));
    assert_ok(matrix_download_f32(m, NULL));
    assert_ok(matrix_copy(m, copy));
    free_matrices(&m, &copy);
}

static void check_views(matrix m)
{
    static const double rows[] = {12, 13, 14, 15, 16, 17};
    static const double columns[] = {1, 2, 7, 8, 13, 14, 19, 20, 25, 26};
    static const double every_other[] = {0,  1,  2,  3,  4,  5,  12, 13, 14,
                                         15, 16, 17, 24, 25, 26, 27, 28, 29};
    static const double repeated[] = {18, 19, 20, 21, 22, 23, 18, 19, 20, 21, 22, 23};
    static const double several[] = {8, 9, 20, 21};
    assert_holds(matrix_rows(m, 2, 1), rows);
    assert_holds(matrix_columns(m, 1, 2), columns);
    assert_holds(matrix_every_row(m, 2), every_other);
    assert_holds(matrix_repeat_row(matrix_rows(m, 3, 1), 2), repeated);
    assert_holds(matrix_every_row(matrix_columns(matrix_rows(m, 1, 4), 2, 2), 2), several);
    assert_int_equal(matrix_every_row(m, 2).rows, 3);
    assert_int_equal(matrix_every_row(m, 5).rows, 1);
    assert_int_equal(matrix_every_row(m, 4).rows, 2);
}

BACKEND_TEST(test_views_are_the_rows_and_columns_asked_for)
{
    for (int t = 0; t < TYPES; t++) {
        OWNED(matrix) m = counting_matrix(b, types[t], 5, 6);
        OWNED(double) *all = counting(30);
        check_views(m);
        assert_holds(matrix_reshape(m, 3, 10), all);
        assert_int_equal(matrix_reshape(m, 3, 10).stride, 10);
    }
}

BACKEND_TEST(test_only_views_of_whole_rows_are_packed)
{
    OWNED(matrix) m = counting_matrix(b, GRAIL_DTYPE_F64, 5, 6);
    assert_true(matrix_is_packed(matrix_rows(m, 1, 3)));
    assert_true(matrix_is_packed(matrix_columns(matrix_rows(m, 1, 1), 2, 3)));
    assert_true(matrix_is_packed(matrix_every_row(m, 5)));
    assert_false(matrix_is_packed(matrix_columns(m, 0, 5)));
    assert_false(matrix_is_packed(matrix_every_row(m, 2)));
    assert_false(matrix_is_packed(matrix_repeat_row(m, 2)));
}

BACKEND_TEST(test_a_view_owns_nothing)
{
    OWNED(matrix) m = counting_matrix(b, GRAIL_DTYPE_F64, 5, 6);
    const int64_t bytes = backend_bytes(b);
    matrix views[] = {matrix_rows(m, 0, 5), matrix_columns(m, 0, 6), matrix_every_row(m, 1),
                      matrix_repeat_row(m, 1), matrix_reshape(m, 5, 6)};
    OWNED(double) *all = counting(30);
    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++) {
        matrix_free(&views[i]);
        assert_false(matrix_exists(views[i]));
    }
    assert_int_equal(backend_bytes(b), bytes);
    assert_holds(m, all);
}

/* -- in and out -------------------------------------------------------------------------------- */

/* Values 100, 101, ... of the type. */
static void fill_hundreds(grail_dtype type, int64_t count, void *values)
{
    for (int64_t i = 0; i < count; i++) {
        if (type == GRAIL_DTYPE_F32) {
            ((float *)values)[i] = (float)(100 + i);
        } else {
            ((double *)values)[i] = (double)(100 + i);
        }
    }
}

BACKEND_TEST(test_uploads_and_downloads_of_views_leave_the_rest_alone)
{
    for (int t = 0; t < TYPES; t++) {
        double expected[] = {0, 1, 2, 3, 4, 100, 101, 7, 8, 9, 10, 11, 12, 102, 103, 15};
        double values[4];
        double back[4] = {0.0};
        OWNED(matrix) m = counting_matrix(b, types[t], 4, 4);
        const matrix view = matrix_every_row(matrix_columns(matrix_rows(m, 1, 3), 1, 2), 2);
        fill_hundreds(types[t], 4, values);
        assert_ok(matrix_upload(view, values));
        assert_ok(matrix_download(view, back));
        assert_memory_equal(back, values, 4 * element_size(types[t]));
        assert_holds(m, expected);
    }
}

/* A matrix of pieces that are converted one after another, or one row that is larger than such a
 * piece. */
static void check_f32_of_shape(backend *b, grail_dtype type, int64_t rows, int64_t columns)
{
    float *values = normals(rows * columns, 1, 1.0);
    float *back = normals(rows * columns, 2, 1.0);
    OWNED(matrix) m = blank_of(b, type, rows, columns + 3);
    const matrix view = matrix_columns(m, 2, columns);
    assert_ok(matrix_upload_f32(view, values));
    assert_ok(matrix_download_f32(view, back));
    assert_memory_equal(back, values, (size_t)(rows * columns) * sizeof *values);
    double *all = results_of(m);
    for (int64_t i = 0; i < rows * m.columns; i++) {
        const int64_t column = i % m.columns - 2;
        if (column < 0 || column >= columns) {
            assert_true(isnan(all[i]));
        } else {
            assert_true(all[i] == (double)values[i / m.columns * columns + column]);
        }
    }
    free_blocks(values, back, all);
}

BACKEND_TEST(test_f32_values_are_kept_exactly_in_both_types)
{
    for (int t = 0; t < TYPES; t++) {
        check_f32_of_shape(b, types[t], 0, 3);
        check_f32_of_shape(b, types[t], 5, 0);
        check_f32_of_shape(b, types[t], 5, 7);
        check_f32_of_shape(b, types[t], 1237, 1001);
        check_f32_of_shape(b, types[t], 2, (1 << 20) + 9);
    }
}

BACKEND_TEST(test_downloads_as_f32_round_to_nearest)
{
    const double values[] = {1.0 / 3.0, 0.1, 1.0 + 0x1p-24, 1.0 + 0x1.8p-24, 1e300, -1e-60};
    const float rounded[] = {1.0F / 3.0F, 0.1F, 1.0F, 1.0F + 0x1p-23F, INFINITY, -0.0F};
    OWNED(matrix) m = matrix_of(b, GRAIL_DTYPE_F64, 2, 3, values);
    float back[6];
    assert_ok(matrix_download_f32(m, back));
    assert_memory_equal(back, rounded, sizeof rounded);
}

/* -- views of the host ------------------------------------------------------------------------- */

static double read_value(const host_view *v, int64_t i)
{
    return v->type == GRAIL_DTYPE_F32 ? (double)((const float *)v->values)[i]
                                      : ((const double *)v->values)[i];
}

static void write_value(host_view *v, int64_t i, double value)
{
    if (v->type == GRAIL_DTYPE_F32) {
        ((float *)v->values)[i] = (float)value;
    } else {
        ((double *)v->values)[i] = value;
    }
}

/* A matrix of 0, 1, ... 19 and a view of it that is packed or not, seen as some type. */
typedef struct seen {
    matrix whole, part;
    grail_dtype type;
} seen;

enum { SEEN_KINDS = 2 * TYPES * TYPES };

static seen seen_case(backend *b, int i)
{
    seen s = {.type = types[i / TYPES % TYPES]};
    s.whole = counting_matrix(b, types[i % TYPES], 4, 5);
    s.part = i / (TYPES * TYPES) == 0 ? matrix_rows(s.whole, 1, 2) : matrix_columns(s.whole, 1, 3);
    return s;
}

/* 0, 1, ... 19 with `values` in the part. */
static void assert_part(const seen *s, const double *values)
{
    OWNED(double) *expected = counting(20);
    for (int64_t i = 0; i < matrix_count(s->part); i++) {
        const int64_t row = i / s->part.columns;
        const int64_t column = i % s->part.columns;
        expected[s->part.columns == 5 ? 5 * (row + 1) + column : 5 * row + 1 + column] = values[i];
    }
    assert_holds(s->whole, expected);
}

BACKEND_TEST(test_a_host_view_reads_a_matrix_in_either_type)
{
    for (int i = 0; i < SEEN_KINDS; i++) {
        seen s = seen_case(b, i);
        host_view v = {0};
        assert_ok(host_view_open(s.part, s.type, HOST_READS, &v));
        double values[12];
        for (int64_t k = 0; k < matrix_count(s.part); k++) {
            values[k] = read_value(&v, k);
        }
        assert_part(&s, values);
        assert_ok(host_view_close(&v));
        assert_null(v.values);
        assert_null(v.copy);
        matrix_free(&s.whole);
    }
}

BACKEND_TEST(test_a_host_view_writes_or_updates_a_matrix_in_either_type)
{
    for (int i = 0; i < 2 * SEEN_KINDS; i++) {
        const bool updates = i >= SEEN_KINDS;
        seen s = seen_case(b, i % SEEN_KINDS);
        double *values = results_of(s.part);
        host_view v = {0};
        assert_ok(host_view_open(s.part, s.type, updates ? HOST_UPDATES : HOST_WRITES, &v));
        for (int64_t k = 0; k < matrix_count(s.part); k += updates ? 2 : 1) {
            values[k] = updates ? 2.0 * values[k] + 0.25 : 0.5 - (double)k;
            write_value(&v, k, updates ? 2.0 * read_value(&v, k) + 0.25 : values[k]);
        }
        assert_ok(host_view_close(&v));
        assert_part(&s, values);
        memory_free(values);
        matrix_free(&s.whole);
    }
}

/* That of a view for reading, nor one that is dropped. */
BACKEND_TEST(test_a_copy_that_does_not_count_is_not_written_back)
{
    for (int i = 0; i < 2 * SEEN_KINDS; i++) {
        const bool drops = i >= SEEN_KINDS;
        seen s = seen_case(b, i % SEEN_KINDS);
        double *before = results_of(s.part);
        host_view v = {0};
        host_view_drop(&v); /* of a zeroed one */
        assert_ok(host_view_open(s.part, s.type, drops ? HOST_UPDATES : HOST_READS, &v));
        if (v.copy != NULL) {
            write_value(&v, 0, 99.0);
        }
        if (drops) {
            host_view_drop(&v);
        } else {
            assert_ok(host_view_close(&v));
        }
        assert_null(v.copy);
        assert_part(&s, before);
        memory_free(before);
        matrix_free(&s.whole);
    }
}

BACKEND_TEST(test_the_host_maps_packed_memory_of_the_type_alone)
{
    for (int i = 0; i < SEEN_KINDS; i++) {
        seen s = seen_case(b, i);
        const bool maps =
            computes_on_the_host(b) && s.type == s.part.type && matrix_is_packed(s.part);
        host_view v = {0};
        assert_ok(host_view_open(s.part, s.type, HOST_UPDATES, &v));
        assert_true(maps == (v.copy == NULL));
        assert_true(maps == (v.values == s.part.memory));
        assert_ok(host_view_close(&v));
        matrix_free(&s.whole);
    }
}

/* -- import and shrink ------------------------------------------------------------------------- */

static void check_import(backend *b, grail_dtype type, int64_t rows, int64_t columns,
                         int64_t stride)
{
    double *values = counting(rows * stride);
    double *expected = doubles(rows * columns, 0.0);
    float *narrow = normals(rows * stride, 1, 1.0);
    for (int64_t i = 0; i < rows * stride; i++) {
        narrow[i] = (float)values[i];
    }
    for (int64_t i = 0; i < rows * columns; i++) {
        expected[i] = values[i / columns * stride + i % columns];
    }
    const void *from = type == GRAIL_DTYPE_F32 ? (const void *)narrow : values;
    matrix m = {0};
    assert_ok(matrix_import(b, type, rows, columns, stride, from, &m));
    const bool borrows = m.memory == from;
    assert_true(borrows == computes_on_the_host(b));
    assert_int_equal(backend_bytes(b), borrows ? 0 : (int64_t)element_size(type) * rows * columns);
    double *actual = NULL;
    matrix copy = blank_of(b, type, rows, columns);
    assert_ok(matrix_copy(m, copy));
    actual = results_of(copy);
    assert_all_near(b, "imported", rows * columns, actual, expected, NULL, 0.0);
    free_matrices(&m, &copy);
    assert_true(narrow[0] == 0.0F && values[0] == 0.0); /* still the caller's */
    free_blocks(values, expected, narrow, actual);
}

BACKEND_TEST(test_host_values_are_borrowed_or_copied)
{
    for (int t = 0; t < TYPES; t++) {
        check_import(b, types[t], 1, 1, 1);
        check_import(b, types[t], 7, 5, 5);
        check_import(b, types[t], 7, 5, 8);
        check_import(b, types[t], 1, 5, 8);
    }
}

BACKEND_TEST(test_an_empty_import_works)
{
    static const float nothing = 0.0F;
    OWNED(matrix) m = {0};
    assert_ok(matrix_import(b, GRAIL_DTYPE_F32, 0, 4, 6, &nothing, &m));
    assert_true(matrix_exists(m));
    assert_int_equal(m.rows, 0);
    assert_int_equal(m.columns, 4);
}

BACKEND_TEST(test_a_shrunk_matrix_keeps_its_first_elements)
{
    for (int t = 0; t < TYPES; t++) {
        const int64_t size = (int64_t)element_size(types[t]);
        float *values = normals(3000, 1, 1.0);
        float back[60];
        matrix m = {0};
        assert_ok(matrix_new(b, types[t], 50, 60, &m));
        assert_ok(matrix_upload_f32(m, values));
        assert_ok(matrix_shrink(&m, 6, 10));
        assert_int_equal(m.rows, 6);
        assert_int_equal(m.columns, 10);
        assert_true(matrix_is_packed(m));
        assert_int_equal(backend_bytes(b), (computes_on_the_host(b) ? 60 : 3000) * size);
        assert_ok(matrix_download_f32(m, back));
        assert_memory_equal(back, values, sizeof back);
        assert_ok(matrix_shrink(&m, 10, 6)); /* not smaller */
        assert_ok(matrix_shrink(&m, 0, 6));
        matrix_free(&m);
        memory_free(values);
        assert_int_equal(backend_bytes(b), 0);
    }
}

/* -- failures ---------------------------------------------------------------------------------- */

BACKEND_TEST(test_a_matrix_that_no_address_reaches_is_refused)
{
    static const int64_t sizes[][2] = {{INT64_MAX, INT64_MAX},
                                       {INT64_MAX, 2},
                                       {1, INT64_MAX / 2},
                                       {INT64_C(1) << 32, INT64_C(1) << 31},
                                       {-1, 4},
                                       {4, -1}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        matrix m = {0};
        assert_fails(matrix_new(b, GRAIL_DTYPE_F32, sizes[i][0], sizes[i][1], &m),
                     GRAIL_ERROR_MEMORY, "is too large to address");
        assert_fails(matrix_new_zero(b, GRAIL_DTYPE_F64, sizes[i][0], sizes[i][1], &m),
                     GRAIL_ERROR_MEMORY, "is too large to address");
        assert_false(matrix_exists(m));
    }
}

/* Steps that allocate; whatever fails, nothing may be left when they return. */
static grail_status take_all_steps(void *context)
{
    static const float values[30] = {1.0F};
    backend *b = context;
    grail_status status = GRAIL_OK;
    matrix m = {0};
    matrix zero = {0};
    matrix imported = {0};
    host_view v = {0};
    float back[30];
    TRY(matrix_new(b, GRAIL_DTYPE_F64, 5, 6, &m));
    TRY(matrix_upload_f32(m, values));
    TRY(matrix_new_zero(b, GRAIL_DTYPE_F64, 5, 6, &zero));
    TRY(matrix_import(b, GRAIL_DTYPE_F32, 5, 3, 6, values, &imported));
    TRY(host_view_open(matrix_columns(m, 1, 2), GRAIL_DTYPE_F32, HOST_UPDATES, &v));
    TRY(host_view_close(&v));
    TRY(host_view_open(m, GRAIL_DTYPE_F64, HOST_READS, &v));
    TRY(host_view_close(&v));
    TRY(matrix_download_f32(m, back));
    TRY(matrix_shrink(&m, 2, 2));
out:
    host_view_drop(&v);
    matrix_free(&m);
    matrix_free(&zero);
    matrix_free(&imported);
    assert_int_equal(backend_bytes(b), 0);
    return status;
}

BACKEND_TEST(test_lack_of_memory_leaves_nothing_behind)
{
    const int64_t before = memory_in_use();
    support_fail_each_allocation(take_all_steps, b);
    assert_int_equal(memory_in_use(), before);
}

static grail_status fail_once(void *context, grail_status (*step)(backend *b, matrix *m))
{
    matrix m = {0};
    memory_fail_after(0);
    const grail_status status = step(context, &m);
    memory_fail_after(-1);
    assert_false(matrix_exists(m));
    return status;
}

static grail_status new_one(backend *b, matrix *m)
{
    return matrix_new(b, GRAIL_DTYPE_F32, 3, 3, m);
}

static grail_status new_zero_one(backend *b, matrix *m)
{
    return matrix_new_zero(b, GRAIL_DTYPE_F32, 3, 3, m);
}

BACKEND_TEST(test_a_matrix_that_finds_no_memory_does_not_exist)
{
    if (has_foreign_memory(b)) {
        return;
    }
    assert_fails(fail_once(b, new_one), GRAIL_ERROR_MEMORY, "out of memory");
    assert_fails(fail_once(b, new_zero_one), GRAIL_ERROR_MEMORY, "out of memory");
    assert_int_equal(backend_bytes(b), 0);
}
