/* Which backend and precision a caller's choice stands for. */
#include "unit/pipeline/lab_model.h"

#include "exec/compute.h"

#include <string.h>

TEST(names_are_taken_as_they_are)
{
    backend *b = NULL;
    OPENED(grail_model, model, grail_model_open(lab_golden("llama3-bf16"), &model));
    assert_string_equal(compute_backend(NULL), "cpu");
    assert_null(compute_precision(NULL, model));
    const grail_compute ref = {.backend = "ref"};
    assert_string_equal(compute_backend(&ref), "ref");
    assert_null(compute_precision(&ref, model));
    const grail_compute named = {.precision = "bf16"};
    assert_string_equal(compute_backend(&named), "cpu");
    assert_string_equal(compute_precision(&named, model), "bf16");
    assert_string_equal(compute_statistics_precision(&named, model), "bf16");
    assert_null(compute_statistics_precision(NULL, model));
    assert_ok(compute_open(NULL, model, &b));
    assert_string_equal(backend_name(b), "cpu");
    assert_string_equal(backend_precision(b), "f32");
    backend_close(b);
    const grail_compute wrong = {.backend = "ref", .precision = "bf16"};
    assert_fails(compute_open(&wrong, model, &b), GRAIL_ERROR_ARGUMENT,
                 "the backend 'ref' does not compute in 'bf16'; expected 'f64' or 'auto'");
}

/* Beside small products the work around them costs more than bf16 saves. */
TEST(small_networks_are_computed_in_f32_unless_asked)
{
    static const char *const models[] = {"llama3-bf16", "llama-mha", "llama3"};
    const grail_compute any = {.precision = "auto"};
    for (int i = 0; i < 3; i++) {
        OPENED(grail_model, model, grail_model_open(lab_golden(models[i]), &model));
        assert_null(compute_precision(&any, model));
        OPENED(backend, b, compute_open(&any, model, &b));
        assert_string_equal(backend_precision(b), "f32");
    }
}

/* The same network with shapes of millions of weights; nothing reads them. */
TEST(large_networks_take_what_is_faster)
{
    static const char *const names[] = {"llama3-bf16", "llama3"};
    const grail_compute any = {.precision = "auto"};
    const bool prefers = backend_prefers("cpu", "bf16");
    const bool prefers_parts = backend_prefers("cpu", "bf16x3");
    assert_false(backend_prefers("ref", "bf16"));
    assert_false(backend_prefers("torch:cpu", "bf16x3"));
    assert_int_equal(backend_prefers("cpu", "bf16"), prefers); /* asked once */
    for (int i = 0; i < 2; i++) {
        OPENED(grail_model, model, grail_model_open(lab_golden(names[i]), &model));
        for (int p = 0; p < model->graph->parameter_count; p++) {
            model->graph->parameters[p].shape[0] *= 1000;
        }
        const char *precision = compute_precision(&any, model);
        const char *expected = i == 0 && prefers ? "bf16" : i == 1 && prefers_parts ? "bf16x3" : "";
        assert_string_equal(precision == NULL ? "" : precision, expected);
        const char *of_statistics = compute_statistics_precision(&any, model);
        const bool rounds = strcmp(expected, "bf16") == 0 && backend_prefers("cpu", "bf16-gram");
        assert_string_equal(of_statistics == NULL ? "" : of_statistics,
                            rounds ? "bf16-gram" : expected);
        for (int p = 0; p < model->graph->parameter_count; p++) {
            model->graph->parameters[p].shape[0] /= 1000;
        }
    }
}
