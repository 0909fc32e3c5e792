/* Where the time of a run went: what is counted as what, and that nothing is lost. */
#include "lab.h"

#include "backend/operations.h"
#include "base/clock.h"
#include "base/profile.h"

#include <string.h>

static double work_of(grail_status (*run)(backend *b))
{
    profile p;
    profile_start(&p);
    profile_use(&p);
    const grail_status status = run(backend_reference());
    profile_use(NULL);
    assert_ok(status);
    return p.operations[PROFILE_REST];
}

static matrix made(backend *b, int64_t rows, int64_t columns)
{
    matrix m = no_matrix;
    assert_ok(matrix_new_zero(b, GRAIL_DTYPE_F64, rows, columns, &m));
    return m;
}

static grail_status multiply(backend *b)
{
    OWNED(matrix) x = made(b, 7, 3);
    OWNED(matrix) y = made(b, 7, 5);
    OWNED(matrix) z = made(b, 3, 5);
    return matrix_gemm(true, false, 1.0, x, y, 0.0, z);
}

static grail_status map(backend *b)
{
    OWNED(matrix) x = made(b, 7, 3);
    OWNED(matrix) weight = made(b, 5, 3);
    OWNED(matrix) y = made(b, 7, 5);
    return matrix_linear(x, weight, no_matrix, y);
}

static grail_status sum(backend *b)
{
    OWNED(matrix) x = made(b, 7, 3);
    OWNED(matrix) g = made(b, 3, 3);
    return matrix_gram(x, g);
}

/* Half of all pairs of 4 tokens, of scores of 2 x 3 features and of values of 2 x 5. */
static grail_status attend(backend *b)
{
    const attention_shape shape = {.sequences = 2,
                                   .length = 4,
                                   .query_heads = 2,
                                   .kv_heads = 1,
                                   .head_dim = 3,
                                   .value_dim = 5};
    OWNED(matrix) q = made(b, 8, 6);
    OWNED(matrix) k = made(b, 8, 3);
    OWNED(matrix) v = made(b, 8, 5);
    OWNED(matrix) y = made(b, 8, 10);
    return matrix_attention(&shape, q, k, v, y, no_matrix, no_matrix);
}

TEST(operations_follow_from_shapes)
{
    assert_true(work_of(multiply) == 2.0 * 7.0 * 3.0 * 5.0);
    assert_true(work_of(map) == 2.0 * 7.0 * 3.0 * 5.0);
    assert_true(work_of(sum) == 7.0 * 3.0 * 4.0);
    assert_true(work_of(attend) == 2.0 * 2.0 * 8.0 * (6.0 + 10.0));
}

LAB_TEST(the_parts_of_a_run_are_its_time)
{
    grail_compress_options options = lab_options(l, lab_golden("llama3"), lab_path(l, "narrow"));
    grail_compression *c = NULL;
    grail_profile_part part;
    options.cut.selector = "obs";
    options.run.profile = 1;
    const double begun = clock_seconds();
    assert_ok(grail_compression_open(&options, &c));
    const double opened = clock_seconds();
    assert_ok(grail_compression_run(c));
    assert_ok(grail_compression_finish(c));
    const double ended = clock_seconds();
    double seconds = 0.0;
    json_t *report = read_json(options.output.path, "report.json");
    const json_t *parts = json_object_get(report, "profile");
    assert_int_equal(json_object_size(parts), PROFILE_KINDS);
    for (int i = 0; grail_compression_profile(c, i, &part) != 0; i++) {
        const bool multiplies = strstr("products attention statistics selection fits", part.name);
        const json_t *told = json_object_get(parts, part.name);
        assert_true(part.operations > 0.0 || !multiplies);
        assert_true(part.seconds > 0.0 || strcmp(part.name, "waiting") == 0);
        assert_true(json_number_value(json_object_get(told, "operations")) == part.operations);
        assert_true(json_number_value(json_object_get(told, "seconds")) <= part.seconds + 1e-9);
        seconds += part.seconds;
    }
    assert_true(seconds >= ended - opened && seconds <= clock_seconds() - begun);
    json_decref(report);
    grail_compression_close(c);
    assert_false(profile_is_on());
}

LAB_TEST(a_run_that_is_not_asked_has_no_profile)
{
    const grail_compress_options options =
        lab_options(l, lab_golden("llama3"), lab_path(l, "narrow"));
    grail_compression *c = NULL;
    grail_profile_part part;
    assert_ok(grail_compression_open(&options, &c));
    assert_ok(grail_compression_run(c));
    assert_int_equal(grail_compression_profile(c, 0, &part), 0);
    assert_ok(grail_compression_finish(c));
    grail_compression_close(c);
    OWNED(json_t) *report = read_json(options.output.path, "report.json");
    assert_null(json_object_get(report, "profile"));
}
