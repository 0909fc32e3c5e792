/* Instances: how they are opened, on which threads they run, which matrices they take, and what is
 * done on the host for them. */
#include "backend/kind.h"
#include "base/parallel.h"
#include "conformance/conformance.h"

#include <string.h>

/* -- backends of this test -----------------------------------------------------------------------
 */

/* What the backend "recorder" saw last, and what it is to fail with. */
static struct {
    int threads_of_enter, threads_of_operation;
    grail_status enter, operation, upload, download;
} recorded;

static grail_status recording_enter(backend *b)
{
    recorded.threads_of_enter = parallel_threads();
    return recorded.enter != GRAIL_OK ? error_set(recorded.enter, "no entry to %s", b->kind->name)
                                      : GRAIL_OK;
}

static grail_status recording_slot(backend *b, const operation *o)
{
    (void)o;
    recorded.threads_of_operation = parallel_threads();
    return recorded.operation != GRAIL_OK
               ? error_set(recorded.operation, "no arithmetic in %s", b->kind->name)
               : GRAIL_OK;
}

static grail_status failing_upload(matrix m, const void *values)
{
    return recorded.upload != GRAIL_OK ? error_set(recorded.upload, "cannot upload")
                                       : backend_cpu.upload(m, values);
}

static grail_status failing_download(matrix m, void *values)
{
    return recorded.download != GRAIL_OK ? error_set(recorded.download, "cannot download")
                                         : backend_cpu.download(m, values);
}

/* cpu, whose first operation records; f32 and f64 without any operation; and one with its own
 * memory, two devices and transfers that fail when told to. */
static backend_kind recorder, bare_f32, bare_f64, distant;

static backend_kind without_operations(const backend_kind *like, const char *name)
{
    backend_kind kind = *like;
    kind.name = name;
    for (int i = 0; i < SLOT_COUNT; i++) {
        kind.slots[i] = NULL;
    }
    return kind;
}

static int add_backends(void **state)
{
    (void)state;
    recorder = backend_cpu;
    recorder.name = "recorder";
    recorder.enter = recording_enter;
    recorder.slots[SLOT_SHIFT_DIAGONAL] = recording_slot;
    bare_f32 = without_operations(&backend_cpu, "bare f32");
    bare_f64 = without_operations(&backend_ref, "bare f64");
    distant = without_operations(&backend_cpu, "distant");
    distant.is_host = false;
    distant.devices = 2;
    distant.upload = failing_upload;
    distant.download = failing_download;
    return backend_add(&recorder) == GRAIL_OK && backend_add(&bare_f32) == GRAIL_OK &&
                   backend_add(&bare_f64) == GRAIL_OK && backend_add(&distant) == GRAIL_OK
               ? 0
               : -1;
}

static int forget_failures(void **state)
{
    (void)state;
    memset(&recorded, 0, sizeof recorded);
    return 0;
}

static backend *open_with(const char *name, int threads)
{
    backend *b = NULL;
    assert_ok(backend_open(name, &(backend_options){.threads = threads}, &b));
    return b;
}

/* -- opening -------------------------------------------------------------------------------------
 */

static void test_an_instance_is_what_its_kind_says(void **state)
{
    (void)state;
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

static void test_kinds_are_listed_in_their_order(void **state)
{
    (void)state;
    static const char *const names[] = {"cpu",      "ref",      "guarded", "recorder",
                                        "bare f32", "bare f64", "distant"};
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

static void test_an_unknown_backend_is_refused_with_those_known(void **state)
{
    (void)state;
    assert_refused("gpu", (backend_options){0},
                   "unknown backend 'gpu'; expected one of 'cpu', 'ref', 'guarded', 'recorder'");
    assert_refused("", (backend_options){0}, "unknown backend ''");
    assert_refused("CPU", (backend_options){0}, "unknown backend 'CPU'");
}

static void test_a_precision_that_is_not_offered_is_refused(void **state)
{
    (void)state;
    assert_refused("cpu", (backend_options){.precision = "f64"},
                   "the backend 'cpu' computes in f32; the precision 'f64' is not offered");
    assert_refused("ref", (backend_options){.precision = "f32"},
                   "the backend 'ref' computes in f64; the precision 'f32' is not offered");
    assert_refused("cpu", (backend_options){.precision = "f16"}, "'f16' is not offered");
}

static void test_the_own_precision_may_be_named(void **state)
{
    (void)state;
    backend *cpu = NULL;
    backend *ref = NULL;
    assert_ok(backend_open("cpu", &(backend_options){.precision = "f32"}, &cpu));
    assert_ok(backend_open("ref", &(backend_options){.precision = "f64"}, &ref));
    backend_close(cpu);
    backend_close(ref);
}

static void test_a_device_that_does_not_exist_is_refused(void **state)
{
    (void)state;
    backend *b = NULL;
    assert_refused("cpu", (backend_options){.device = 1},
                   "the backend 'cpu' has no device 1; the last one is 0");
    assert_refused("cpu", (backend_options){.device = -1}, "has no device -1; the last one is 0");
    assert_refused("distant", (backend_options){.device = 2}, "has no device 2; the last one is 1");
    assert_ok(backend_open("distant", &(backend_options){.device = 1}, &b));
    assert_int_equal(b->device, 1);
    backend_close(b);
}

static void test_negative_threads_are_refused(void **state)
{
    (void)state;
    assert_refused("cpu", (backend_options){.threads = -1}, "expected 0 or more threads, found -1");
}

static grail_status open_and_close(void *context)
{
    backend *b = NULL;
    const grail_status status = backend_open(context, NULL, &b);
    assert_true((status == GRAIL_OK) == (b != NULL));
    backend_close(b);
    return status;
}

static void test_opening_without_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    static const char *const names[] = {"cpu", "ref", "guarded"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const int64_t before = memory_in_use();
        support_fail_each_allocation(open_and_close, (void *)(uintptr_t)names[i]);
        assert_int_equal(memory_in_use(), before);
    }
}

static void test_a_kind_of_a_known_name_is_not_added(void **state)
{
    (void)state;
    static backend_kind again;
    again = backend_ref;
    assert_fails(backend_add(&again), GRAIL_ERROR_ARGUMENT,
                 "cannot add the backend 'ref': there is one of this name");
    assert_null(backend_kind_at(7));
}

/* Fills the list of kinds: the last test. */
static void test_kinds_beyond_the_last_place_are_not_added(void **state)
{
    (void)state;
    static backend_kind last, too_many;
    last = backend_ref;
    last.name = "last";
    too_many = backend_ref;
    too_many.name = "too many";
    assert_ok(backend_add(&last));
    assert_fails(backend_add(&too_many), GRAIL_ERROR_ARGUMENT,
                 "cannot add the backend 'too many': there are too many");
    assert_ptr_equal(backend_kind_at(7), &last);
    assert_null(backend_kind_at(8));
}

/* -- threads -------------------------------------------------------------------------------------
 */

/* Runs the recording operation of an instance. */
static grail_status run_recorded(backend *b)
{
    matrix a = {0};
    assert_ok(matrix_new_zero(b, GRAIL_DTYPE_F64, 2, 2, &a));
    recorded.threads_of_operation = -1;
    const grail_status status = matrix_shift_diagonal(1.0, a);
    matrix_free(&a);
    return status;
}

static void test_each_instance_has_its_own_threads(void **state)
{
    (void)state;
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

static void test_an_instance_without_a_number_has_the_callers_threads(void **state)
{
    (void)state;
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

static void test_a_failure_gives_the_callers_threads_back(void **state)
{
    (void)state;
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

static void test_an_instance_that_cannot_be_entered_is_not_opened(void **state)
{
    (void)state;
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

/* -- matrices that an operation does not take ----------------------------------------------------
 */

static matrix zeros_in(backend *b, grail_dtype type, int64_t rows, int64_t columns)
{
    matrix m = {0};
    assert_ok(matrix_new_zero(b, type, rows, columns, &m));
    return m;
}

static void test_matrices_of_another_instance_are_refused(void **state)
{
    (void)state;
    backend *one = open_with("cpu", 0);
    backend *other = open_with("cpu", 0);
    matrix here = zeros_in(one, GRAIL_DTYPE_F32, 3, 3);
    matrix there = zeros_in(other, GRAIL_DTYPE_F32, 3, 3);
    assert_fails(matrix_add(here, there, here), GRAIL_ERROR_INTERNAL,
                 "operation 'add': its matrix 1 is of another instance on the backend 'cpu'");
    assert_fails(matrix_linear(here, here, no_matrix, there), GRAIL_ERROR_INTERNAL,
                 "operation 'linear': its matrix 3 is of another instance");
    assert_fails(matrix_copy(there, here), GRAIL_ERROR_INTERNAL,
                 "operation 'copy': its matrix 1 is of another instance");
    free_matrices(&here, &there);
    backend_close(one);
    backend_close(other);
}

static void test_matrices_of_a_wrong_type_are_refused(void **state)
{
    (void)state;
    backend *b = open_with("cpu", 0);
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
                 "operation 'fill_triangle': its matrix 0");
    free_matrices(&values, &doubled);
    backend_close(b);
}

static void test_strides_that_an_operation_does_not_take_are_refused(void **state)
{
    (void)state;
    backend *b = open_with("cpu", 0);
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
    backend_close(b);
}

static void test_a_missing_matrix_is_refused(void **state)
{
    (void)state;
    backend *b = open_with("cpu", 0);
    matrix m = zeros_in(b, GRAIL_DTYPE_F32, 3, 3);
    const operation without_weight = {.slot = SLOT_LINEAR, .m = {m, no_matrix, m, m}};
    const operation without_output = {.slot = SLOT_LAYER_NORM, .m = {m}};
    const operation with_more = {.slot = SLOT_ROPE, .m = {m, m}};
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
    matrix_free(&m);
    backend_close(b);
}

static matrix row_of(matrix m)
{
    return matrix_rows(m, 0, 1);
}

/* Every function with shapes, each with one that disagrees. */
static void assert_shapes_are_checked(matrix v, matrix d, matrix narrow_v, matrix narrow_d)
{
    const attention_shape attention = {1, 4, 2, 2, 3, 0, false, 1.0}; /* 6 columns */
    const rope_shape rope = {2, 2, 3, NULL};                          /* 4 rows */
    const conv_shape conv = {1, {2, 2}, {2, 2}, 4, 3, {1, 1, 1, 0, 1}};
    const position_shape positions = {1, {2, 2}, {2, 2}, {1, 1, 1, 0, 1}, 1};
    const int64_t labels[4] = {0};
    const double share[4] = {0.0};
#define SHAPES_DISAGREE(call, name)                                                                \
    assert_fails(call, GRAIL_ERROR_INTERNAL,                                                       \
                 "operation '" name "': the shapes of its matrices disagree")
    SHAPES_DISAGREE(matrix_linear(v, narrow_v, no_matrix, v), "linear");
    SHAPES_DISAGREE(matrix_linear(v, v, narrow_v, v), "linear");
    SHAPES_DISAGREE(matrix_rms_norm(0.0, v, narrow_v, v), "rms_norm");
    SHAPES_DISAGREE(matrix_rope(&rope, v), "rope");
    SHAPES_DISAGREE(matrix_attention(&attention, v, v, v, v), "attention");
    SHAPES_DISAGREE(matrix_activate(ACTIVATION_RELU, v, narrow_v), "activate");
    SHAPES_DISAGREE(matrix_multiply(v, narrow_v, v), "multiply");
    SHAPES_DISAGREE(matrix_add(narrow_v, v, v), "add");
    SHAPES_DISAGREE(matrix_subtract(v, v, narrow_v), "subtract");
    SHAPES_DISAGREE(matrix_find_non_finite(true, narrow_d, NULL), "find_non_finite");
    SHAPES_DISAGREE(matrix_conv2d(&conv, false, v, v, no_matrix, no_matrix, v), "conv2d");
    SHAPES_DISAGREE(matrix_patches(&conv, 0, 1, v, v), "patches");
    SHAPES_DISAGREE(matrix_patches(&conv, 0, 2, narrow_v, v), "patches");
    SHAPES_DISAGREE(matrix_max_pool(&conv, v, v), "max_pool");
    SHAPES_DISAGREE(matrix_mean_positions(v, narrow_v), "mean_positions");
    SHAPES_DISAGREE(matrix_batch_norm(0.0, v, v, narrow_v, v, v, v), "batch_norm");
    SHAPES_DISAGREE(matrix_layer_norm(0.0, v, no_matrix, narrow_v, v), "layer_norm");
    SHAPES_DISAGREE(matrix_unit_length(v, narrow_v), "unit_length");
    SHAPES_DISAGREE(matrix_shortcut(&positions, v, v), "shortcut");
    SHAPES_DISAGREE(matrix_windows(&positions, v, narrow_v), "windows");
    SHAPES_DISAGREE(matrix_gram(narrow_v, d), "gram");
    SHAPES_DISAGREE(matrix_cross(v, v, narrow_d), "cross");
    SHAPES_DISAGREE(matrix_column_sums(v, no_matrix, narrow_d), "column_sums");
    SHAPES_DISAGREE(matrix_copy(v, narrow_v), "copy");
    SHAPES_DISAGREE(matrix_gather(NULL, NULL, narrow_v, v), "gather");
    SHAPES_DISAGREE(matrix_fold_columns(3, labels, share, v, v), "fold_columns");
    SHAPES_DISAGREE(matrix_fold_rows(4, labels, share, v, narrow_v), "fold_rows");
    SHAPES_DISAGREE(matrix_fold_rows(4, labels, share, v, d), "fold_rows");
    SHAPES_DISAGREE(matrix_gemm(false, true, 1.0, d, narrow_d, 0.0, d), "gemm");
    SHAPES_DISAGREE(matrix_add_scaled(1.0, narrow_d, d), "add_scaled");
    SHAPES_DISAGREE(matrix_add_outer(false, 1.0, d, d, d), "add_outer");
    SHAPES_DISAGREE(matrix_add_outer(true, 1.0, row_of(d), row_of(narrow_d), narrow_d),
                    "add_outer");
    SHAPES_DISAGREE(matrix_diagonal(narrow_d, d), "diagonal");
    SHAPES_DISAGREE(matrix_set_diagonal(narrow_d, d), "set_diagonal");
    SHAPES_DISAGREE(matrix_shift_diagonal(1.0, narrow_d), "shift_diagonal");
    SHAPES_DISAGREE(matrix_fill_upper(narrow_d), "fill_triangle");
    SHAPES_DISAGREE(matrix_fill_lower(narrow_d), "fill_triangle");
    SHAPES_DISAGREE(matrix_row_dots(d, narrow_d, d), "row_dots");
    SHAPES_DISAGREE(matrix_divide_columns(narrow_d, d), "divide_columns");
    SHAPES_DISAGREE(matrix_cholesky(narrow_d, NULL), "cholesky");
    SHAPES_DISAGREE(matrix_cholesky_solve(d, narrow_d), "cholesky_solve");
    SHAPES_DISAGREE(matrix_cholesky_multiply(d, narrow_d), "cholesky_multiply");
    SHAPES_DISAGREE(matrix_eigen(narrow_d, d), "eigen");
#undef SHAPES_DISAGREE
}

static void test_shapes_that_disagree_are_refused(void **state)
{
    (void)state;
    backend *b = open_with("cpu", 0);
    matrix v = zeros_in(b, GRAIL_DTYPE_F32, 4, 4);
    matrix d = zeros_in(b, GRAIL_DTYPE_F64, 4, 4);
    matrix narrow_v = zeros_in(b, GRAIL_DTYPE_F32, 4, 3);
    matrix narrow_d = zeros_in(b, GRAIL_DTYPE_F64, 4, 3);
    assert_shapes_are_checked(v, d, narrow_v, narrow_d);
    free_matrices(&v, &d, &narrow_v, &narrow_d);
    backend_close(b);
}

/* -- operations on the host ----------------------------------------------------------------------
 */

static void test_operations_have_names_of_their_own(void **state)
{
    (void)state;
    assert_int_equal(operation_count(), SLOT_COUNT);
    for (int i = 0; i < operation_count(); i++) {
        assert_non_null(operation_name(i));
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(operation_name(i), operation_name(j));
        }
    }
}

static const backend_kind *kind_of(const char *name)
{
    int i = 0;
    while (strcmp(backend_kind_name(backend_kind_at(i)), name) != 0) {
        i++;
    }
    return backend_kind_at(i);
}

static void test_a_backend_says_which_operations_it_leaves_out(void **state)
{
    (void)state;
    for (int i = 0; i < operation_count(); i++) {
        const char *name = operation_name(i);
        const bool guarded_lacks = strcmp(name, "eigen") == 0 || strcmp(name, "fold_rows") == 0 ||
                                   strcmp(name, "windows") == 0 || strcmp(name, "layer_norm") == 0;
        assert_false(backend_leaves_out(kind_of("cpu"), i));
        assert_false(backend_leaves_out(kind_of("ref"), i));
        assert_true(backend_leaves_out(kind_of("bare f32"), i));
        assert_true(backend_leaves_out(kind_of("guarded"), i) == guarded_lacks);
    }
}

/* A run of some operations; the results are owned by the caller. */
typedef double *(*some_operations)(backend *b, int64_t *count);

static double *take_results(matrix m, int64_t *count)
{
    double *out = results_of(m);
    *count = matrix_count(m);
    matrix_free(&m);
    return out;
}

static double *run_eigen(backend *b, int64_t *count)
{
    enum { N = 12 };
    double *a = normal_doubles(N * N, 1);
    matrix m = matrix_of(b, GRAIL_DTYPE_F64, N, N, a);
    matrix values = blank_of(b, GRAIL_DTYPE_F64, 1, N);
    assert_ok(matrix_eigen(m, values));
    memory_free(a);
    matrix_free(&values);
    return take_results(m, count);
}

static double *run_fold_rows(backend *b, int64_t *count)
{
    static const int64_t labels[] = {1, 0, 1};
    static const double share[] = {1.0, 0.3};
    double *x = normal_doubles(9 * 10, 2);
    matrix in = matrix_of(b, GRAIL_DTYPE_F64, 9, 10, x);
    matrix out = matrix_of(b, GRAIL_DTYPE_F64, 6, 10, x);
    assert_ok(
        matrix_fold_rows(3, labels, share, matrix_columns(in, 1, 7), matrix_columns(out, 2, 7)));
    memory_free(x);
    matrix_free(&in);
    return take_results(out, count);
}

static double *run_windows(backend *b, int64_t *count)
{
    const position_shape s = {2, {4, 6}, {2, 3}, {2, 2, 2, 0, 1}, 0};
    float *x = normals(48 * 5, 3, 1.0);
    matrix in = values_of(b, 48, 5, x);
    matrix out = blank_values(b, 12, 20);
    assert_ok(matrix_windows(&s, in, out));
    memory_free(x);
    matrix_free(&in);
    return take_results(out, count);
}

static double *run_layer_norm(backend *b, int64_t *count)
{
    float *x = normals(7 * 31, 4, 1.0);
    matrix m = values_of(b, 7, 31, x);
    matrix weight = values_of(b, 1, 31, x + 31);
    assert_ok(matrix_layer_norm(1e-5, m, weight, no_matrix, m));
    memory_free(x);
    matrix_free(&weight);
    return take_results(m, count);
}

static void assert_same_bits(const char *name, const char *other, some_operations run)
{
    backend *b = open_with(name, 0);
    backend *like = open_with(other, 0);
    int64_t count = 0;
    double *actual = run(b, &count);
    double *expected = run(like, &count);
    assert_memory_equal(actual, expected, (size_t)count * sizeof *actual);
    free_blocks(actual, expected);
    assert_int_equal(backend_bytes(b), 0);
    assert_int_equal(backend_bytes(backend_host()), 0);
    backend_close(b);
    backend_close(like);
}

static void test_a_left_out_operation_has_the_bits_of_the_host(void **state)
{
    (void)state;
    static const some_operations runs[] = {run_eigen, run_fold_rows, run_windows, run_layer_norm};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        assert_same_bits("guarded", "cpu", runs[i]);
        assert_same_bits("bare f32", "cpu", runs[i]);
        assert_same_bits("bare f64", "ref", runs[i]);
    }
}

static int slot_named(const char *name)
{
    int i = 0;
    while (strcmp(operation_name(i), name) != 0) {
        i++;
    }
    return i;
}

static void assert_counts(const backend *b, const char *name, int64_t times)
{
    for (int i = 0; i < operation_count(); i++) {
        assert_int_equal(backend_fallbacks(b, i), i == slot_named(name) ? times : 0);
    }
}

static void test_fallbacks_are_counted_for_each_instance(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        some_operations run;
    } cases[] = {{"eigen", run_eigen},
                 {"fold_rows", run_fold_rows},
                 {"windows", run_windows},
                 {"layer_norm", run_layer_norm}};
    backend *cpu = open_with("cpu", 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        backend *b = open_with("guarded", 0);
        for (int times = 1; times <= 3; times++) {
            int64_t count = 0;
            memory_free(cases[i].run(b, &count));
            memory_free(cases[i].run(cpu, &count));
            assert_counts(b, cases[i].name, times);
            assert_counts(cpu, cases[i].name, 0);
        }
        backend_close(b);
    }
    backend_close(cpu);
}

/* Operations with repeated rows, strides, missing matrices, and results that are not matrices. */
static double *run_several(backend *b, int64_t *count)
{
    enum { ROWS = 6, COLUMNS = 8, WIDTH = 11 };
    static const int32_t target[ROWS] = {3, 1, 4, 1, 5, 2};
    int64_t found = 0;
    float *x = normals(ROWS * WIDTH, 5, 1.0);
    double *nll = doubles(ROWS, NAN);
    matrix in = values_of(b, ROWS, COLUMNS, x);
    matrix wide = values_of(b, ROWS, WIDTH, x);
    matrix product = blank_values(b, ROWS, ROWS);
    matrix row = values_of(b, 1, COLUMNS, x + ROWS);
    const matrix part = matrix_columns(wide, 2, COLUMNS);
    assert_ok(matrix_add(in, matrix_repeat_row(row, ROWS), part));
    assert_ok(matrix_subtract(matrix_repeat_row(row, ROWS), part, in));
    assert_ok(matrix_linear(in, in, no_matrix, product));
    assert_ok(matrix_cross_entropy(product, target, nll));
    assert_ok(matrix_find_non_finite(false, wide, &found));
    assert_int_equal(found, -1);
    for (int64_t i = 0; i < ROWS; i++) { /* so that all results are in one matrix */
        x[i] = (float)nll[i];
    }
    assert_ok(matrix_upload_f32(matrix_columns(matrix_rows(wide, 1, 1), 0, ROWS), x));
    assert_ok(matrix_copy(product, matrix_columns(wide, 5, ROWS)));
    free_blocks(x, nll);
    free_matrices(&in, &product, &row);
    return take_results(wide, count);
}

static void test_the_host_takes_repeated_rows_strides_and_missing_matrices(void **state)
{
    (void)state;
    assert_same_bits("bare f32", "cpu", run_several);
    assert_same_bits("bare f64", "ref", run_several);
    assert_same_bits("guarded", "cpu", run_several);
    assert_same_bits("distant", "cpu", run_several);
}

/* Bytes that an operation with a block of memory for each thread takes at most. */
static int64_t peak_of_gram(backend *b)
{
    enum { ROWS = 9000, COLUMNS = 16 };
    float *x = normals(ROWS * COLUMNS, 6, 1.0);
    matrix in = values_of(b, ROWS, COLUMNS, x);
    matrix g = zeros_in(b, GRAIL_DTYPE_F64, COLUMNS, COLUMNS);
    const int64_t before = memory_in_use();
    memory_peak_begin();
    assert_ok(matrix_gram(in, g));
    const int64_t peak = memory_peak() - before;
    memory_free(x);
    free_matrices(&in, &g);
    return peak;
}

static void test_the_host_works_with_the_instances_threads(void **state)
{
    (void)state;
    const int before = parallel_threads();
    backend *one = open_with("bare f32", 1);
    backend *two = open_with("bare f32", 2);
    parallel_set_threads(1);
    const int64_t peak_of_one = peak_of_gram(one);
    const int64_t peak_of_two = peak_of_gram(two);
    assert_true(peak_of_two > peak_of_one);
    parallel_set_threads(2);
    assert_int_equal(peak_of_gram(one), peak_of_one);
    assert_int_equal(peak_of_gram(two), peak_of_two);
    assert_int_equal(parallel_threads(), 2);
    parallel_set_threads(before);
    backend_close(one);
    backend_close(two);
}

static grail_status fall_back(void *context)
{
    const matrix *m = context;
    const grail_status status = matrix_add(m[0], m[1], m[0]);
    assert_int_equal(backend_bytes(backend_host()), 0);
    return status;
}

static void test_a_fallback_without_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    backend *b = open_with("distant", 0);
    matrix m[] = {zeros_in(b, GRAIL_DTYPE_F32, 5, 6), zeros_in(b, GRAIL_DTYPE_F32, 5, 6)};
    const int64_t before = memory_in_use();
    support_fail_each_allocation(fall_back, m);
    assert_int_equal(memory_in_use(), before);
    free_matrices(&m[0], &m[1]);
    backend_close(b);
}

static void test_a_failing_transfer_is_reported(void **state)
{
    (void)state;
    static const float values[30] = {0.0F};
    backend *b = open_with("distant", 0);
    matrix m = zeros_in(b, GRAIL_DTYPE_F32, 5, 6);
    matrix imported = {0};
    host_view v = {0};
    const int64_t before = memory_in_use();
    recorded.download = GRAIL_ERROR_IO;
    assert_fails(matrix_add(m, m, m), GRAIL_ERROR_IO, "cannot download");
    assert_fails(host_view_open(m, GRAIL_DTYPE_F64, HOST_UPDATES, &v), GRAIL_ERROR_IO, "download");
    assert_null(v.copy);
    recorded.download = GRAIL_OK;
    recorded.upload = GRAIL_ERROR_IO;
    assert_fails(matrix_add(m, m, m), GRAIL_ERROR_IO, "cannot upload");
    assert_fails(matrix_import(b, GRAIL_DTYPE_F32, 5, 6, 6, values, &imported), GRAIL_ERROR_IO,
                 "cannot upload");
    assert_false(matrix_exists(imported));
    assert_ok(host_view_open(m, GRAIL_DTYPE_F64, HOST_WRITES, &v));
    assert_fails(host_view_close(&v), GRAIL_ERROR_IO, "cannot upload");
    assert_null(v.copy);
    assert_int_equal(memory_in_use(), before);
    matrix_free(&m);
    backend_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_instance_is_what_its_kind_says),
        cmocka_unit_test(test_kinds_are_listed_in_their_order),
        cmocka_unit_test(test_an_unknown_backend_is_refused_with_those_known),
        cmocka_unit_test(test_a_precision_that_is_not_offered_is_refused),
        cmocka_unit_test(test_the_own_precision_may_be_named),
        cmocka_unit_test(test_a_device_that_does_not_exist_is_refused),
        cmocka_unit_test(test_negative_threads_are_refused),
        cmocka_unit_test(test_opening_without_memory_leaves_nothing_behind),
        cmocka_unit_test_teardown(test_each_instance_has_its_own_threads, forget_failures),
        cmocka_unit_test_teardown(test_an_instance_without_a_number_has_the_callers_threads,
                                  forget_failures),
        cmocka_unit_test_teardown(test_a_failure_gives_the_callers_threads_back, forget_failures),
        cmocka_unit_test_teardown(test_an_instance_that_cannot_be_entered_is_not_opened,
                                  forget_failures),
        cmocka_unit_test(test_matrices_of_another_instance_are_refused),
        cmocka_unit_test(test_matrices_of_a_wrong_type_are_refused),
        cmocka_unit_test(test_strides_that_an_operation_does_not_take_are_refused),
        cmocka_unit_test(test_a_missing_matrix_is_refused),
        cmocka_unit_test(test_shapes_that_disagree_are_refused),
        cmocka_unit_test(test_operations_have_names_of_their_own),
        cmocka_unit_test(test_a_backend_says_which_operations_it_leaves_out),
        cmocka_unit_test(test_a_left_out_operation_has_the_bits_of_the_host),
        cmocka_unit_test(test_fallbacks_are_counted_for_each_instance),
        cmocka_unit_test(test_the_host_takes_repeated_rows_strides_and_missing_matrices),
        cmocka_unit_test(test_the_host_works_with_the_instances_threads),
        cmocka_unit_test(test_a_fallback_without_memory_leaves_nothing_behind),
        cmocka_unit_test_teardown(test_a_failing_transfer_is_reported, forget_failures),
        cmocka_unit_test(test_a_kind_of_a_known_name_is_not_added),
        cmocka_unit_test(test_kinds_beyond_the_last_place_are_not_added),
    };
    return cmocka_run_group_tests(tests, add_backends, NULL);
}
