/* The losses of tokens through panels of the output head: as those through the complete head. */
#include "eval/token_losses.h"
#include "unit/pipeline/lab_model.h"

#include <grail/status.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VOCABULARY = 96, WIDTH = 64, ERROR_TEXT = 512 };

/* A model, windows of random ids and a store over the checkpoint. */
typedef struct fixture {
    grail_model *model;
    backend *backend;
    token_windows windows;
    parameter_store *store;
    int head; /* the parameter */
} fixture;

static void setup(fixture *f, const char *directory, backend *b, int64_t count, int64_t length)
{
    random_state random;
    *f = (fixture){.backend = b, .windows = {.count = count, .length = length}};
    assert_ok(grail_model_open(directory, &f->model));
    const graph *g = f->model->graph;
    f->head = g->nodes[g->node_count - 1].weight;
    assert_int_equal(g->parameters[f->head].shape[0], VOCABULARY);
    assert_int_equal(g->parameters[f->head].shape[1], WIDTH);
    assert_ok(memory_new(&f->windows.ids, (size_t)(count * length), sizeof f->windows.ids[0]));
    random_seed(&random, 1, 0);
    for (int64_t i = 0; i < count * length; i++) {
        f->windows.ids[i] = (int32_t)random_below(&random, VOCABULARY);
    }
    assert_ok(parameter_store_create(f->model, b, NULL, &f->store));
}

static void teardown(fixture *f)
{
    parameter_store_free(f->store);
    token_windows_fini(&f->windows);
    grail_model_close(f->model);
}

OWNS(fixture, teardown)

static int64_t bytes_of_rows(const backend *b, int64_t rows)
{
    return rows * WIDTH * (int64_t)backend_value_size(b);
}

/* Losses of the windows from `first` on with panels of `bytes`, 0 for the default. */
static grail_status measure(const fixture *f, parameter_store *store, int64_t first, int64_t bytes,
                            double *nll)
{
    grail_status status = GRAIL_OK;
    OWNED(forward_pass) pass = {0};
    entropy_sums *sums = NULL;
    const int64_t count = f->windows.count - first;
    const int64_t scored = count * (f->windows.length - 1);
    TRY(memory_new(&sums, (size_t)scored, sizeof sums[0]));
    TRY(forward_begin(&pass, f->model, store, &f->windows, first, count));
    TRY(token_losses(&pass, targets_of_windows(&f->windows), bytes, sums));
    for (int64_t i = 0; i < scored; i++) {
        nll[i] = entropy_of(&sums[i]);
    }
out:
    memory_free(sums);
    return status;
}

static bool head_is_held(const fixture *f)
{
    return matrix_exists(f->store->entries[f->head].values);
}

/* Whether a fresh store holds the head after a measurement in panels of so many rows. */
static bool measure_keeps_head(fixture *f, int64_t first, int64_t rows, double *nll)
{
    parameter_store_free(f->store);
    assert_ok(parameter_store_create(f->model, f->backend, NULL, &f->store));
    assert_ok(measure(f, f->store, first, bytes_of_rows(f->backend, rows), nll));
    return head_is_held(f);
}

static void assert_panels_agree(const char *golden, backend *b, int64_t count, int64_t length,
                                int64_t first)
{
    static const int64_t panels[] = {1, 7, 32, VOCABULARY - 1};
    const double tolerance = backend_type(b) == GRAIL_DTYPE_F64 ? 1e-12 : 1e-5;
    OWNED(fixture) f;
    OWNED(double) *whole = NULL;
    OWNED(double) *found = NULL;
    setup(&f, lab_golden(golden), b, count, length);
    const int64_t scored = (count - first) * (length - 1);
    assert_ok(memory_new(&whole, (size_t)scored, sizeof whole[0]));
    assert_ok(memory_new(&found, (size_t)scored, sizeof found[0]));
    assert_true(measure_keeps_head(&f, first, VOCABULARY, whole)); /* one product */
    for (size_t p = 0; p < sizeof panels / sizeof panels[0]; p++) {
        assert_false(measure_keeps_head(&f, first, panels[p], found));
        for (int64_t i = 0; i < scored; i++) {
            assert_near(found[i], whole[i], tolerance);
        }
    }
}

TEST(panels_give_the_losses_of_the_complete_head)
{
    backend *backends[] = {backend_host(), backend_reference(), NULL};
    const backend_options in_bf16 = {.precision = "bf16"};
    if (backend_open("cpu", &in_bf16, &backends[2]) != GRAIL_OK) {
        print_message("without bf16: %s\n", grail_error_message());
    }
    for (int i = 0; i < 3 && backends[i] != NULL; i++) {
        assert_panels_agree("llama3", backends[i], 3, 20, 0);      /* F32 */
        assert_panels_agree("llama3-bf16", backends[i], 3, 20, 1); /* BF16 */
        assert_panels_agree("llama-mha", backends[i], 3, 20, 0);   /* tied, F16 */
    }
    backend_close(backends[2]);
}

TEST(panels_take_windows_of_several_slices_and_batches)
{
    assert_panels_agree("qwen2", backend_host(), 10, 300, 1);
}

TEST(windows_of_several_batches_are_told_apart)
{
    enum { COUNT = 10, LENGTH = 300, SCORED = LENGTH - 1 }; /* batches of 6 windows */
    OWNED(fixture) f;
    OWNED(double) *all = NULL;
    double alone[SCORED];
    setup(&f, lab_golden("qwen2"), backend_host(), COUNT, LENGTH);
    const int64_t bytes = bytes_of_rows(f.backend, 32);
    assert_ok(memory_new(&all, COUNT * SCORED, sizeof all[0]));
    assert_ok(measure(&f, f.store, 0, bytes, all));
    for (int64_t w = COUNT - 1; w >= 0; w -= 3) {
        f.windows.count = w + 1;
        assert_ok(measure(&f, f.store, w, bytes, alone));
        for (int t = 0; t < SCORED; t++) {
            assert_near(all[w * SCORED + t], alone[t], 1e-5);
        }
    }
}

/* No family has one: a bias is put into the graph, with values in the store. */
TEST(a_bias_of_the_head_is_added)
{
    backend *const backends[] = {backend_host(), backend_reference()};
    const int64_t shape[] = {VOCABULARY};
    float bias[VOCABULARY];
    for (int i = 0; i < VOCABULARY; i++) {
        bias[i] = 0.1F * (float)(i % 11);
    }
    for (int i = 0; i < 2; i++) {
        OWNED(fixture) f;
        int index = 0;
        double without[19];
        double whole[19];
        double found[19];
        setup(&f, lab_golden("llama3"), backends[i], 1, 20);
        graph *g = f.model->graph;
        assert_ok(measure(&f, f.store, 0, 0, without));
        parameter_store_free(f.store);
        assert_ok(graph_add_parameter(g, "lm_head.bias", 1, shape, &index));
        assert_ok(memory_resize(&f.model->tensors, (size_t)g->parameter_count,
                                sizeof f.model->tensors[0]));
        f.model->tensors[index] = f.model->tensors[f.head]; /* for its dtype */
        g->nodes[g->node_count - 1].bias = index;
        assert_ok(parameter_store_create(f.model, backends[i], NULL, &f.store));
        assert_ok(parameter_store_set(f.store, index, shape, bias));
        assert_ok(measure(&f, f.store, 0, bytes_of_rows(backends[i], 7), found));
        assert_false(head_is_held(&f));
        assert_ok(measure(&f, f.store, 0, 0, whole));
        for (int t = 0; t < 19; t++) {
            assert_near(found[t], whole[t], 1e-5);
            assert_true(fabs(whole[t] - without[t]) > 1e-3);
        }
    }
}

/* A thin store's own head is what counts, not the one in the checkpoint. */
TEST(a_head_that_is_in_memory_is_used_as_it_is)
{
    OWNED(fixture) f;
    double dense[19];
    double whole[19];
    double found[19];
    float values[VOCABULARY * WIDTH];
    setup(&f, lab_golden("llama3"), backend_host(), 1, 20);
    assert_ok(measure(&f, f.store, 0, 0, dense));
    support_fill_normal(values, VOCABULARY * WIDTH, 3);
    OPENED(parameter_store, thin, parameter_store_create(f.model, f.backend, f.store, &thin));
    assert_ok(parameter_store_set(thin, f.head, f.model->graph->parameters[f.head].shape, values));
    assert_ok(measure(&f, thin, 0, bytes_of_rows(f.backend, 7), found));
    assert_ok(measure(&f, thin, 0, 0, whole));
    assert_memory_equal(found, whole, sizeof whole);
    assert_true(found[0] != dense[0]);
}

/* Stores llama3 with `value` all over one row of its head; measures with and without panels. */
static void assert_both_fail(float value, const char *text, char messages[2][ERROR_TEXT])
{
    lab_model m;
    OWNED(fixture) f;
    double nll[2 * 19];
    char path[LAB_PATH];
    OWNED(temporary) directory = support_temporary_directory();
    snprintf(path, sizeof path, "%s/model", directory);
    lab_read(&m, lab_golden("llama3"));
    for (int i = 0; i < m.count; i++) {
        for (int c = 0; strcmp(m.tensors[i].name, "lm_head.weight") == 0 && c < WIDTH; c++) {
            m.tensors[i].values[50 * WIDTH + c] = value;
        }
    }
    lab_write(&m, path, GRAIL_DTYPE_F32);
    lab_fini(&m);
    setup(&f, path, backend_host(), 2, 20);
    for (int i = 0; i < 2; i++) {
        const int64_t bytes = i == 0 ? bytes_of_rows(f.backend, 7) : 0;
        assert_fails(measure(&f, f.store, 0, bytes, nll), GRAIL_ERROR_NUMERIC, text);
        snprintf(messages[i], ERROR_TEXT, "%s", grail_error_message());
    }
}

TEST(logits_that_are_not_finite_are_named_as_without_panels)
{
    char messages[2][ERROR_TEXT];
    assert_both_fail(
        3e38F, "the output of 'lm_head.weight' is NaN or infinite at row 0, feature 50", messages);
    assert_string_equal(messages[0], messages[1]);
    assert_both_fail(NAN, "'lm_head.weight' holds a NaN or infinity", messages);
}

static grail_status measure_once(void *context)
{
    fixture *f = context;
    OWNED(parameter_store) *store = NULL;
    double nll[2 * 3];
    grail_status status = parameter_store_create(f->model, f->backend, NULL, &store);
    if (status == GRAIL_OK) {
        status = measure(f, store, 0, bytes_of_rows(f->backend, 50), nll);
    }
    return status;
}

TEST(every_failing_allocation_is_survived)
{
    OWNED(fixture) f;
    setup(&f, lab_golden("llama3"), backend_reference(), 2, 4);
    support_fail_each_allocation(measure_once, &f);
}
