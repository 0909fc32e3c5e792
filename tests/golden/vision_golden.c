#include "vision_golden.h"

#include "exec/execution.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double tolerance = 1e-4; /* of an output, absolute */

/* Largest difference from `expected` over all outputs of one batch on a backend. */
static double largest_difference(const grail_model *m, backend *b, const tensor_view *pixels,
                                 const tensor_view *expected)
{
    const graph *g = m->graph;
    const batch_shape shape = {
        .samples = pixels->shape[0],
        .positions = {.height = pixels->shape[1], .width = pixels->shape[2]}};
    const int64_t count = expected->shape[0] * expected->shape[1];
    matrix_pool *pool = NULL;
    parameter_store *store = NULL;
    execution *e = NULL;
    float *input = NULL;
    float *found = NULL;
    double worst = 0.0;
    assert_ok(memory_new(&input, pixels->bytes / sizeof input[0], sizeof input[0]));
    memcpy(input, pixels->data, pixels->bytes);
    assert_ok(memory_new(&found, (size_t)count, sizeof found[0]));
    assert_ok(matrix_pool_create(b, &pool));
    assert_ok(parameter_store_create(m, b, NULL, &store));
    assert_ok(execution_create(g, b, pool, &e));
    assert_ok(execution_begin(e, shape, (batch_input){.pixels = input}));
    assert_ok(execution_run(e, store, 0, g->node_count));
    const matrix y = execution_value(e, g->output);
    assert_int_equal(y.rows, expected->shape[0]);
    assert_int_equal(y.columns, expected->shape[1]);
    assert_ok(matrix_download_f32(y, found));
    for (int64_t i = 0; i < count; i++) {
        float wanted = 0.0F;
        memcpy(&wanted, (const unsigned char *)expected->data + (size_t)i * sizeof wanted,
               sizeof wanted);
        const double difference = fabs((double)wanted - (double)found[i]);
        worst = difference <= worst ? worst : difference; /* NaN counts */
    }
    execution_free(e);
    parameter_store_free(store);
    matrix_pool_free(pool);
    memory_free(input);
    memory_free(found);
    return worst;
}

grail_status open_with_settings(const char *path, const char *settings, grail_model **out)
{
    enum { MOST = 4 };
    char text[256];
    const char *list[MOST];
    char *rest = NULL;
    int count = 0;
    snprintf(text, sizeof text, "%s", settings);
    for (char *s = strtok_r(text, " ", &rest); s != NULL; s = strtok_r(NULL, " ", &rest)) {
        assert_true(count < MOST);
        list[count++] = s;
    }
    const grail_model_options options = {.settings = list, .setting_count = count};
    return grail_model_open_with(path, &options, out);
}

void assert_vision_outputs(const char *path, const char *settings, const tensor_view *pixels,
                           const tensor_view *logits)
{
    assert_non_null(pixels);
    assert_non_null(logits);
    OPENED(grail_model, m, open_with_settings(path, settings, &m));
    static const char *const names[] = {"cpu", "ref"};
    for (int i = 0; i < 2; i++) {
        OPENED(backend, b, backend_open(names[i], NULL, &b));
        const double worst = largest_difference(m, b, pixels, logits);
        if (!(worst <= tolerance)) {
            print_error("%s on %s\n", path, backend_name(b));
        }
        assert_near(worst, 0.0, tolerance);
        assert_int_equal(backend_bytes(b), 0);
    }
}

void assert_vision_golden(const char *path, const char *settings, const char *golden)
{
    OPENED(tensor_file, file, safetensors_open(golden, &file));
    assert_vision_outputs(path, settings, tensor_file_find(file, "pixels"),
                          tensor_file_find(file, "logits"));
}

void assert_vision_directory(const char *name, const char *file, const char *settings)
{
    char path[1024];
    char golden[1024];
    snprintf(path, sizeof path, "%s/tests/golden/vision/%s%s%s", GRAIL_SOURCE_DIR, name,
             file[0] == 0 ? "" : "/", file);
    snprintf(golden, sizeof golden, "%s/tests/golden/vision/%s/golden.safetensors",
             GRAIL_SOURCE_DIR, name);
    assert_vision_golden(path, settings, golden);
}
