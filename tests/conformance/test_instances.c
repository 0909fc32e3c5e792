/* Instances: how they are opened, on which threads they run, and which matrices they take. */
#include "backend/kind.h"
#include "base/parallel.h"
#include "conformance/odd_backends.h"

#include <string.h>

/* -- opening ----------------------------------------------------------------------------------- */

TEST(test_an_instance_is_what_its_kind_says)
{
    backend *cpu = open_with("cpu", 0);
    backend *ref = open_with("ref", 0);
    assert_string_equal(backend_name(cpu), "cpu");
    assert_int_equal(backend_type(cpu), GRAIL_DTYPE_F32);
    assert_int_equal(backend_value_size(cpu), 4);
    assert_string_equal(backend_name(ref), "ref");
    assert_int_equal(backend_type(ref), GRAIL_DTYPE_F64);
    assert_int_equal(backend_value_size(ref), 8);
    assert_int_equal(backend_bytes(cpu), 0);
    assert_string_equal(backend_name(backend_host()), "cpu");
    assert_ptr_equal(backend_host(), backend_host());
    assert_ptr_not_equal(backend_host(), cpu);
    backend_close(cpu);
    backend_close(ref);
    backend_close(NULL);
}

TEST(test_kinds_are_listed_in_their_order)
{
    static const char *const names[] = {
        "cpu",     "cpu",       "cpu",       "cpu",       "ref",        "torch",      "torch",
        "torch",   "torch:cpu", "torch:cpu", "torch:cpu", "torch:cuda", "torch:cuda", "torch:cuda",
        "guarded", "recorder",  "bare f32",  "bare f64",  "distant"};
    enum { COUNT = sizeof names / sizeof names[0] };
    for (int i = 0; i < COUNT; i++) {
        assert_string_equal(backend_kind_name(backend_kind_at(i)), names[i]);
    }
    assert_null(backend_kind_at(-1));
    assert_null(backend_kind_at(COUNT));
    assert_null(backend_kind_at(1000));
}

static void assert_refused(const char *name, backend_options options, const char *text)
{
    backend *b = NULL;
    assert_fails(backend_open(name, &options, &b), GRAIL_ERROR_ARGUMENT, text);
    assert_null(b);
}

TEST(test_an_unknown_backend_is_refused_with_those_known)
{
    assert_refused("gpu", (backend_options){0},
                   "unknown backend 'gpu'; expected one of cpu, ref, torch, torch:cpu, torch:cuda, "
                   "guarded, recorder");
    assert_refused("", (backend_options){0}, "unknown backend ''");
    assert_refused("CPU", (backend_options){0}, "unknown backend 'CPU'");
}

TEST(test_a_precision_that_is_not_offered_is_refused)
{
    assert_refused("cpu", (backend_options){.precision = "f64"},
                   "the backend 'cpu' does not compute in 'f64'; expected 'f32', 'bf16', "
                   "'bf16-gram', 'bf16x3' or 'auto'");
    assert_refused("ref", (backend_options){.precision = "f32"},
                   "the backend 'ref' does not compute in 'f32'; expected 'f64' or 'auto'");
    assert_refused("cpu", (backend_options){.precision = "f16"}, "does not compute in 'f16'");
}

TEST(test_the_own_precision_may_be_named)
{
    static const char *const named[][2] = {
        {"cpu", "f32"}, {"cpu", "bf16"}, {"cpu", "bf16-gram"}, {"cpu", "bf16x3"}, {"ref", "f64"}};
    for (int i = 0; i < 5; i++) {
        OWNED(backend) *b = NULL;
        const backend_options options = {.precision = named[i][1]};
        const grail_status status = backend_open(named[i][0], &options, &b);
        if (status == GRAIL_ERROR_UNSUPPORTED) {
            continue; /* bf16 on a processor without AVX-512 */
        }
        assert_ok(status);
        assert_string_equal(backend_name(b), named[i][0]);
        assert_string_equal(backend_precision(b), named[i][1]);
    }
}

TEST(test_a_device_that_does_not_exist_is_refused)
{
    assert_refused("cpu", (backend_options){.device = 1},
                   "the backend 'cpu' has no device 1; the last one is 0");
    assert_refused("cpu", (backend_options){.device = -1}, "has no device -1; the last one is 0");
    assert_refused("distant", (backend_options){.device = 2}, "has no device 2; the last one is 1");
    OPENED(backend, b, backend_open("distant", &(backend_options){.device = 1}, &b));
    assert_int_equal(b->device, 1);
}

TEST(test_a_name_may_end_with_a_device)
{
    backend *b = NULL;
    assert_refused("distant:2", (backend_options){0}, "has no device 2; the last one is 1");
    assert_refused("distant:", (backend_options){0}, "unknown backend 'distant:'");
    assert_ok(backend_open("distant:1", NULL, &b));
    assert_int_equal(b->device, 1);
    assert_true(backend_is(b, "distant:1", backend_precision(b)));
    assert_false(backend_is(b, "distant", backend_precision(b)));
    assert_false(backend_is(b, "cpu:1", NULL));
    backend_close(b);
    assert_true(backend_is(backend_host(), "cpu", "f32"));
    assert_false(backend_is(backend_host(), "cpu", "bf16"));
}

TEST(test_negative_threads_are_refused)
{
    assert_refused("cpu", (backend_options){.threads = -1}, "expected 0 or more threads, found -1");
}

static grail_status open_and_close(void *context)
{
    OWNED(backend) *b = NULL;
    const grail_status status = backend_open(context, NULL, &b);
    assert_true((status == GRAIL_OK) == (b != NULL));
    return status;
}

TEST(test_opening_without_memory_leaves_nothing_behind)
{
    static const char *const names[] = {"cpu", "ref", "guarded"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const int64_t before = memory_in_use();
        support_fail_each_allocation(open_and_close, (void *)(uintptr_t)names[i]);
        assert_int_equal(memory_in_use(), before);
    }
}

TEST(test_a_kind_of_a_known_name_is_not_added)
{
    static backend_kind again;
    again = backend_ref;
    assert_fails(backend_add(&again), GRAIL_ERROR_ARGUMENT,
                 "cannot add the backend 'ref': there is one of this name");
    assert_null(backend_kind_at(19));
}

/* Fills the list of kinds: the last test. */
TEST(test_kinds_beyond_the_last_place_are_not_added)
{
    static backend_kind last, too_many;
    last = backend_ref;
    last.name = "last";
    too_many = backend_ref;
    too_many.name = "too many";
    assert_ok(backend_add(&last));
    assert_fails(backend_add(&too_many), GRAIL_ERROR_ARGUMENT,
                 "cannot add the backend 'too many': there are too many");
    assert_ptr_equal(backend_kind_at(19), &last);
    assert_null(backend_kind_at(20));
}

/* -- threads ----------------------------------------------------------------------------------- */

/* Runs the recording operation of an instance. */
static grail_status run_recorded(backend *b)
{
    OWNED(matrix) a = {0};
    assert_ok(matrix_new_zero(b, GRAIL_DTYPE_F64, 2, 2, &a));
    recorded.threads_of_operation = -1;
    return matrix_shift_diagonal(1.0, a);
}

TEST_IN(test_each_instance_has_its_own_threads, NULL, forget_failures)
{
    const int before = parallel_threads();
    parallel_set_threads(3);
    backend *one = open_with("recorder", 1);
    assert_int_equal(recorded.threads_of_enter, 1);
    backend *two = open_with("recorder", 2);
    assert_int_equal(recorded.threads_of_enter, 2);
    for (int i = 0; i < 3; i++) {
        assert_ok(run_recorded(one));
        assert_int_equal(recorded.threads_of_enter, 1);
        assert_int_equal(recorded.threads_of_operation, 1);
        assert_int_equal(parallel_threads(), 3);
        assert_ok(run_recorded(two));
        assert_int_equal(recorded.threads_of_enter, 2);
        assert_int_equal(recorded.threads_of_operation, 2);
        assert_int_equal(parallel_threads(), 3);
    }
    backend_close(one);
    backend_close(two);
    assert_int_equal(parallel_threads(), 3);
    parallel_set_threads(before);
}

TEST_IN(test_an_instance_without_a_number_has_the_callers_threads, NULL, forget_failures)
{
    const int before = parallel_threads();
    backend *b = open_with("recorder", 0);
    for (int threads = 1; threads <= 3; threads++) {
        parallel_set_threads(threads);
        assert_ok(run_recorded(b));
        assert_int_equal(recorded.threads_of_operation, threads);
        assert_int_equal(parallel_threads(), threads);
    }
    backend_close(b);
    parallel_set_threads(before);
}

TEST_IN(test_a_failure_gives_the_callers_threads_back, NULL, forget_failures)
{
    const int before = parallel_threads();
    parallel_set_threads(3);
    backend *b = open_with("recorder", 2);
    recorded.operation = GRAIL_ERROR_NUMERIC;
    assert_fails(run_recorded(b), GRAIL_ERROR_NUMERIC, "no arithmetic in recorder");
    assert_int_equal(recorded.threads_of_operation, 2);
    assert_int_equal(parallel_threads(), 3);
    recorded.enter = GRAIL_ERROR_MEMORY;
    assert_fails(run_recorded(b), GRAIL_ERROR_MEMORY, "no entry to recorder");
    assert_int_equal(recorded.threads_of_operation, -1); /* did not run */
    assert_int_equal(parallel_threads(), 3);
    backend_close(b);
    parallel_set_threads(before);
}

TEST_IN(test_an_instance_that_cannot_be_entered_is_not_opened, NULL, forget_failures)
{
    const int before = parallel_threads();
    const int64_t bytes = memory_in_use();
    backend *b = NULL;
    recorded.enter = GRAIL_ERROR_MEMORY;
    assert_fails(backend_open("recorder", &(backend_options){.threads = before + 1}, &b),
                 GRAIL_ERROR_MEMORY, "no entry to recorder");
    assert_null(b);
    assert_int_equal(parallel_threads(), before);
    assert_int_equal(memory_in_use(), bytes);
}

/* -- matrices that an operation does not take -------------------------------------------------- */

TEST(test_matrices_of_another_instance_are_refused)
{
    OWNED(backend) *one = open_with("cpu", 0);
    OWNED(backend) *other = open_with("cpu", 0);
    matrix here = zeros_in(one, GRAIL_DTYPE_F32, 3, 3);
    matrix there = zeros_in(other, GRAIL_DTYPE_F32, 3, 3);
    assert_fails(matrix_add(here, there, here), GRAIL_ERROR_INTERNAL,
                 "operation 'add': its matrix 1 is of another instance on the backend 'cpu'");
    assert_fails(matrix_linear(here, here, no_matrix, there), GRAIL_ERROR_INTERNAL,
                 "operation 'linear': its matrix 3 is of another instance");
    assert_fails(matrix_copy(there, here), GRAIL_ERROR_INTERNAL,
                 "operation 'copy': its matrix 1 is of another instance");
    free_matrices(&here, &there);
}

TEST(test_matrices_of_a_wrong_type_are_refused)
{
    OWNED(backend) *b = open_with("cpu", 0);
    matrix values = zeros_in(b, GRAIL_DTYPE_F32, 3, 3);
    matrix doubled = zeros_in(b, GRAIL_DTYPE_F64, 3, 3);
    const char *text = "has a type or stride that it does not take on the backend 'cpu'";
    assert_fails(matrix_multiply(values, doubled, values), GRAIL_ERROR_INTERNAL, text);
    assert_fails(matrix_multiply(values, doubled, values), GRAIL_ERROR_INTERNAL,
                 "operation 'multiply': its matrix 1");
    assert_fails(matrix_linear(values, values, no_matrix, doubled), GRAIL_ERROR_INTERNAL,
                 "operation 'linear': its matrix 3");
    assert_fails(matrix_gram(values, values), GRAIL_ERROR_INTERNAL,
                 "operation 'gram': its matrix 1");
    assert_fails(matrix_gemm(false, false, 1.0, doubled, values, 0.0, doubled),
                 GRAIL_ERROR_INTERNAL, "operation 'gemm': its matrix 1");
    assert_fails(matrix_fill_upper(values), GRAIL_ERROR_INTERNAL,
                 "operation 'fill_upper': its matrix 0");
    free_matrices(&values, &doubled);
}

TEST(test_strides_that_an_operation_does_not_take_are_refused)
{
    OWNED(backend) *b = open_with("cpu", 0);
    matrix wide = zeros_in(b, GRAIL_DTYPE_F32, 3, 5);
    matrix doubled = zeros_in(b, GRAIL_DTYPE_F64, 3, 5);
    const matrix values = matrix_columns(wide, 0, 3);
    const matrix square = matrix_columns(doubled, 0, 3);
    assert_fails(matrix_activate(ACTIVATION_RELU, values, values), GRAIL_ERROR_INTERNAL,
                 "operation 'activate': its matrix 0 has a type or stride");
    assert_fails(matrix_unit_length(matrix_repeat_row(wide, 3), wide), GRAIL_ERROR_INTERNAL,
                 "operation 'unit_length': its matrix 0 has a type or stride");
    assert_fails(matrix_gram(values, square), GRAIL_ERROR_INTERNAL,
                 "operation 'gram': its matrix 1 has a type or stride");
    free_matrices(&wide, &doubled);
}

TEST(test_a_missing_matrix_is_refused)
{
    OWNED(backend) *b = open_with("cpu", 0);
    OWNED(matrix) m = zeros_in(b, GRAIL_DTYPE_F32, 3, 3);
    const operation without_weight = {.slot = SLOT_linear, .m = {m, no_matrix, m, m}};
    const operation without_output = {.slot = SLOT_layer_norm, .m = {m}};
    const operation with_more = {.slot = SLOT_rope, .m = {m, m}};
    assert_fails(operation_run(&without_weight), GRAIL_ERROR_INTERNAL,
                 "operation 'linear': its matrix 1 is missing on the backend 'cpu'");
    assert_fails(operation_run(&without_output), GRAIL_ERROR_INTERNAL,
                 "operation 'layer_norm': its matrix 3 is missing");
    assert_fails(operation_run(&with_more), GRAIL_ERROR_INTERNAL,
                 "operation 'rope': its matrix 1 is one too many");
    assert_fails(matrix_shift_diagonal(1.0, no_matrix), GRAIL_ERROR_INTERNAL,
                 "operation 'shift_diagonal' was called without a matrix");
    assert_fails(matrix_add(no_matrix, no_matrix, no_matrix), GRAIL_ERROR_INTERNAL,
                 "operation 'add' was called without a matrix");
}

static matrix row_of(matrix m)
{
    return matrix_rows(m, 0, 1);
}

#define SHAPES_DISAGREE(call, name)                                                                \
    assert_fails(call, GRAIL_ERROR_INTERNAL,                                                       \
                 "operation '" name "': the shapes of its matrices disagree")

/* Places in a matrix that lie outside it, and rows that are not there. */
static void assert_places_are_checked(matrix v, matrix d)
{
    const int64_t places[] = {0, 1, 2, 4};
    const int64_t before[] = {0, 1, 2, -1};
    const double share[4] = {0.0};
    const attention_shape attention = {1, 4, 2, 2, 2, 0, false, 1.0, 0.0, 0, 0, 0};
    const attention_shape uneven = {1, 4, 4, 3, 1, 0, false, 1.0, 0.0, 0, 0, 0};
    const conv_shape larger = {1, {2, 2}, {4, 1}, 4, 4, WINDOW2D(1, 1, 1, 0, 1), 1};
    const conv_shape patches = {1, {2, 2}, {2, 2}, 4, 4, WINDOW2D(1, 1, 1, 0, 1), 1};
    const position_shape strided = {1, {2, 2}, {2, 2}, WINDOW2D(1, 1, 2, 0, 1), 0};
    const position_shape windows = {1, {4, 1}, {4, 1}, WINDOW2D(2, 1, 1, 0, 1), 0};
    const matrix row = row_of(d);
    const matrix no_row = matrix_rows(d, 0, 0);
    SHAPES_DISAGREE(matrix_gather(places, NULL, v, v), "gather");
    SHAPES_DISAGREE(matrix_gather(NULL, before, v, v), "gather");
    SHAPES_DISAGREE(matrix_fold_columns(4, places, share, v, v), "fold_columns");
    SHAPES_DISAGREE(matrix_fold_rows(4, before, share, v, v), "fold_rows");
    SHAPES_DISAGREE(matrix_fold_rows(2, places + 2, share, v, v), "fold_rows");
    SHAPES_DISAGREE(
        matrix_attention(&attention, v, matrix_rows(v, 0, 2), v, v, no_matrix, no_matrix),
        "attention");
    SHAPES_DISAGREE(matrix_attention(&uneven, v, matrix_columns(v, 0, 3), matrix_columns(v, 0, 3),
                                     v, no_matrix, no_matrix),
                    "attention");
    SHAPES_DISAGREE(matrix_conv2d(&larger, 0.0, v, v, no_matrix, no_matrix, v), "conv2d");
    SHAPES_DISAGREE(matrix_max_pool(&larger, v, v), "max_pool");
    SHAPES_DISAGREE(matrix_patches(&patches, 1, 3, v, v), "patches");
    SHAPES_DISAGREE(matrix_shortcut(&strided, v, v), "shortcut");
    SHAPES_DISAGREE(matrix_shortcut_gradient(&strided, v, v), "shortcut_gradient");
    SHAPES_DISAGREE(matrix_windows(&windows, matrix_columns(v, 0, 2), v), "windows");
    SHAPES_DISAGREE(matrix_row_dots(d, d, no_row), "row_dots");
    SHAPES_DISAGREE(matrix_scale_rows(no_row, v, v), "scale_rows");
    SHAPES_DISAGREE(matrix_column_sums(v, no_matrix, row, no_row), "column_sums");
    SHAPES_DISAGREE(matrix_linear(v, v, matrix_rows(v, 0, 0), v), "linear");
}

/* Every function with shapes, each with one that disagrees. */
static void assert_shapes_are_checked(matrix v, matrix d, matrix narrow_v, matrix narrow_d)
{
    const attention_shape attention = {1, 4, 2, 2, 3, 0, false, 1.0, 0.0, 0, 0, 0}; /* 6 columns */
    const rope_shape rope = {.sequences = 2, .length = 2, .head_dim = 3};           /* 4 rows */
    const rope_shape odd = {.sequences = 2, .length = 2, .head_dim = 4, .turned = 3};
    const rope_shape wide = {.sequences = 2, .length = 2, .head_dim = 2, .turned = 4};
    const conv_shape conv = {1, {2, 2}, {2, 2}, 4, 3, WINDOW2D(1, 1, 1, 0, 1), 1};
    const position_shape positions = {1, {2, 2}, {2, 2}, WINDOW2D(1, 1, 1, 0, 1), 1};
    const int64_t labels[4] = {0};
    const double share[4] = {0.0};
    SHAPES_DISAGREE(matrix_linear(v, narrow_v, no_matrix, v), "linear");
    SHAPES_DISAGREE(matrix_linear(v, v, narrow_v, v), "linear");
    SHAPES_DISAGREE(matrix_rms_norm(0.0, v, narrow_v, v), "rms_norm");
    SHAPES_DISAGREE(matrix_rope(&rope, v), "rope");
    SHAPES_DISAGREE(matrix_rope(&odd, v), "rope");
    SHAPES_DISAGREE(matrix_rope(&wide, v), "rope");
    SHAPES_DISAGREE(matrix_attention(&attention, v, v, v, v, no_matrix, no_matrix), "attention");
    SHAPES_DISAGREE(matrix_activate(ACTIVATION_RELU, v, narrow_v), "activate");
    SHAPES_DISAGREE(matrix_multiply(v, narrow_v, v), "multiply");
    SHAPES_DISAGREE(matrix_add(narrow_v, v, v), "add");
    SHAPES_DISAGREE(matrix_subtract(v, v, narrow_v), "subtract");
    SHAPES_DISAGREE(matrix_subtract(v, row_of(v), v), "subtract");
    SHAPES_DISAGREE(matrix_multiply(v, matrix_rows(v, 0, 3), v), "multiply");
    SHAPES_DISAGREE(matrix_add(v, matrix_columns(v, 0, 2), v), "add");
    SHAPES_DISAGREE(matrix_add(row_of(v), v, row_of(v)), "add");
    SHAPES_DISAGREE(matrix_spread_gradient(narrow_v, v, v), "spread_gradient");
    SHAPES_DISAGREE(matrix_spread_gradient(v, v, narrow_v), "spread_gradient");
    SHAPES_DISAGREE(matrix_scale_rows(row_of(d), v, narrow_v), "scale_rows");
    SHAPES_DISAGREE(matrix_scale_rows(row_of(narrow_d), v, v), "scale_rows");
    SHAPES_DISAGREE(matrix_find_non_finite(true, narrow_d, NULL), "find_non_finite");
    SHAPES_DISAGREE(matrix_conv2d(&conv, 0.0, v, v, no_matrix, no_matrix, v), "conv2d");
    SHAPES_DISAGREE(matrix_patches(&conv, 0, 1, v, v), "patches");
    SHAPES_DISAGREE(matrix_patches(&conv, 0, 2, narrow_v, v), "patches");
    SHAPES_DISAGREE(matrix_put_patches(&conv, v, narrow_v), "put_patches");
    SHAPES_DISAGREE(matrix_max_pool(&conv, v, v), "max_pool");
    SHAPES_DISAGREE(matrix_average_pool(&conv, true, v, v), "average_pool");
    SHAPES_DISAGREE(matrix_average_pool_gradient(&conv, true, v, v), "average_pool_gradient");
    SHAPES_DISAGREE(matrix_mean_positions(v, narrow_v), "mean_positions");
    SHAPES_DISAGREE(matrix_batch_norm(0.0, v, v, narrow_v, v, v, v), "batch_norm");
    SHAPES_DISAGREE(matrix_layer_norm(0.0, v, no_matrix, narrow_v, v), "layer_norm");
    SHAPES_DISAGREE(matrix_unit_length(v, narrow_v), "unit_length");
    SHAPES_DISAGREE(matrix_shortcut(&positions, v, v), "shortcut");
    SHAPES_DISAGREE(matrix_windows(&positions, v, narrow_v), "windows");
    SHAPES_DISAGREE(matrix_gram(narrow_v, d), "gram");
    SHAPES_DISAGREE(matrix_cross(v, v, narrow_d), "cross");
    SHAPES_DISAGREE(matrix_column_sums(v, no_matrix, no_matrix, narrow_d), "column_sums");
    SHAPES_DISAGREE(matrix_column_sums(v, row_of(narrow_d), no_matrix, no_matrix), "column_sums");
    SHAPES_DISAGREE(matrix_copy(v, narrow_v), "copy");
    SHAPES_DISAGREE(matrix_gather(NULL, NULL, narrow_v, v), "gather");
    SHAPES_DISAGREE(matrix_fold_columns(3, labels, share, v, v), "fold_columns");
    SHAPES_DISAGREE(matrix_fold_rows(4, labels, share, v, narrow_v), "fold_rows");
    SHAPES_DISAGREE(matrix_fold_rows(4, labels, share, v, d), "fold_rows");
    SHAPES_DISAGREE(matrix_gemm(false, true, 1.0, d, narrow_d, 0.0, d), "gemm");
    SHAPES_DISAGREE(matrix_add_symmetric(1.0, d, narrow_d, d), "add_symmetric");
    SHAPES_DISAGREE(matrix_add_scaled(1.0, narrow_d, d), "add_scaled");
    SHAPES_DISAGREE(matrix_add_outer(false, 1.0, d, d, d), "add_outer");
    SHAPES_DISAGREE(matrix_add_outer(true, 1.0, row_of(d), row_of(narrow_d), narrow_d),
                    "add_outer");
    SHAPES_DISAGREE(matrix_diagonal(narrow_d, d), "diagonal");
    SHAPES_DISAGREE(matrix_set_diagonal(narrow_d, d), "set_diagonal");
    SHAPES_DISAGREE(matrix_shift_diagonal(1.0, narrow_d), "shift_diagonal");
    SHAPES_DISAGREE(matrix_fill_upper(narrow_d), "fill_upper");
    SHAPES_DISAGREE(matrix_fill_lower(narrow_d), "fill_lower");
    SHAPES_DISAGREE(matrix_row_dots(d, narrow_d, d), "row_dots");
    SHAPES_DISAGREE(matrix_row_dots(d, v, d), "row_dots");
    SHAPES_DISAGREE(matrix_divide_columns(narrow_d, d), "divide_columns");
    SHAPES_DISAGREE(matrix_cholesky(narrow_d, NULL), "cholesky");
    SHAPES_DISAGREE(matrix_cholesky_solve(d, narrow_d), "cholesky_solve");
    SHAPES_DISAGREE(matrix_cholesky_multiply(d, narrow_d), "cholesky_multiply");
    SHAPES_DISAGREE(matrix_cholesky_invert(narrow_d), "cholesky_invert");
    SHAPES_DISAGREE(matrix_eigen(narrow_d, d), "eigen");
}
#undef SHAPES_DISAGREE

TEST(test_shapes_that_disagree_are_refused)
{
    OWNED(backend) *b = open_with("cpu", 0);
    matrix v = zeros_in(b, GRAIL_DTYPE_F32, 4, 4);
    matrix d = zeros_in(b, GRAIL_DTYPE_F64, 4, 4);
    matrix narrow_v = zeros_in(b, GRAIL_DTYPE_F32, 4, 3);
    matrix narrow_d = zeros_in(b, GRAIL_DTYPE_F64, 4, 3);
    assert_shapes_are_checked(v, d, narrow_v, narrow_d);
    assert_places_are_checked(v, d);
    free_matrices(&v, &d, &narrow_v, &narrow_d);
}

CMFixtureFunction support_setup = add_odd_backends;
