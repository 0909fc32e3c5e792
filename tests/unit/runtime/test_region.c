/* Regions, with a library in ONNX Runtime's place that doubles its input and adds the number of the
 * channel (support/fake_onnxruntime.c). */
#include "unit/format/onnx_bytes.h"

#include "runtime/region.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHANNELS = 3, HEIGHT = 2, WIDTH = 2, SAMPLES = 5, ROWS = SAMPLES * HEIGHT * WIDTH };
enum { AS_IT_SHOULD, OTHER_CHANNELS, OTHER_TYPE, REFUSED };

static const region_positions square = {HEIGHT, WIDTH};

/* A model of one node between x [N, 3, 2, 2] and y, whose height and width may be declared. */
typedef struct lab {
    buffer model;
    onnx_file *file;
    int64_t node;
    region_parts parts;
} lab;

static void open_model(lab *l, const char *operator_name, more fields, bool declared)
{
    const int64_t shape[] = {ONNX_ANY_SIZE, CHANNELS, HEIGHT, WIDTH};
    buffer graph;
    buffer_init(&graph, 1 << 16);
    buffer_init(&l->model, 1 << 16);
    assert_ok(onnx_put_value(&graph, GRAPH_INPUT, "x", ONNX_FLOAT, 4, shape));
    put_node(&graph, operator_name, "x", "y", fields);
    assert_ok(onnx_put_value(&graph, GRAPH_OUTPUT, "y", ONNX_FLOAT, declared ? 4 : 0, shape));
    put_model(&l->model, &graph, 17, NO_MORE);
    assert_ok(onnx_file_open_bytes("net.onnx", l->model.bytes, l->model.size, &l->file));
    l->parts = (region_parts){.file = l->file,
                              .path = "net.onnx",
                              .node_count = 1,
                              .nodes = &l->node,
                              .reason = "no row",
                              .input_count = 1,
                              .inputs = {{onnx_file_find(l->file, "x"), 4, CHANNELS, 1, false}},
                              .output = {onnx_file_find(l->file, "y"), 4, CHANNELS, 1, false}};
    buffer_fini(&graph);
}

static void begin_lab(lab *l)
{
    *l = (lab){0};
    assert_int_equal(setenv("GRAIL_ONNXRUNTIME", FAKE_ONNXRUNTIME, 1), 0);
    open_model(l, "Mystery", NO_MORE, false);
}

static void end_lab(lab *l)
{
    onnx_file_close(l->file);
    buffer_fini(&l->model);
}

/* A variable of the library. */
static _Atomic int *fake(const char *name)
{
    void *library = dlopen(FAKE_ONNXRUNTIME, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *found = dlsym(library, name);
    assert_non_null(found);
    return found;
}

static void check_run(region *r)
{
    float x[ROWS * CHANNELS];
    float y[ROWS * CHANNELS];
    const void *inputs[] = {x};
    support_fill_normal(x, ROWS * CHANNELS, 1);
    assert_ok(region_run(r, SAMPLES, &square, inputs, square, y));
    for (int i = 0; i < ROWS * CHANNELS; i++) {
        assert_true(y[i] == 2.0F * x[i] + (float)(i % CHANNELS));
    }
}

TEST_OF(lab, l, begin_lab, end_lab, rows_of_channels_become_images_and_back)
{
    region *r = NULL;
    assert_ok(region_create(&l->parts, &r));
    assert_string_equal(region_name(r), "node of 'y' (Mystery)");
    assert_string_equal(region_reason(r), "no row");
    const int sessions = *fake("fake_sessions");
    check_run(r);
    check_run(r);
    assert_int_equal(*fake("fake_samples"), SAMPLES);
    assert_int_equal(*fake("fake_sessions"), sessions + 1);
    region_free(r);
}

TEST_OF(lab, l, begin_lab, end_lab, a_model_of_one_image_gets_one_at_a_time)
{
    region *r = NULL;
    l->parts.takes_one_sample = true;
    assert_ok(region_create(&l->parts, &r));
    const int runs = *fake("fake_runs");
    check_run(r);
    assert_int_equal(*fake("fake_runs"), runs + SAMPLES);
    assert_int_equal(*fake("fake_samples"), 1);
    region_free(r);
}

TEST_OF(lab, l, begin_lab, end_lab, positions_are_asked_for_once)
{
    region *r = NULL;
    region_positions out = {0};
    assert_ok(region_create(&l->parts, &r));
    const int runs = *fake("fake_runs");
    for (int i = 0; i < 2; i++) {
        assert_ok(region_measure(r, &(region_positions){7, 4}, &out));
        assert_int_equal(out.height, 7);
        assert_int_equal(out.width, 4);
    }
    assert_int_equal(*fake("fake_runs"), runs + 1);
    assert_fails(region_measure(r, &(region_positions){INT64_MAX / 2, 4}, &out), GRAIL_ERROR_MEMORY,
                 "too large to address");
    region_free(r);
}

TEST_OF(lab, l, begin_lab, end_lab, positions_that_are_declared_are_not_asked_for)
{
    region *r = NULL;
    region_positions out = {0};
    end_lab(l);
    open_model(l, "Mystery", NO_MORE, true);
    assert_ok(region_create(&l->parts, &r));
    const int runs = *fake("fake_runs");
    assert_ok(region_measure(r, &square, &out));
    assert_int_equal(out.height, HEIGHT);
    assert_int_equal(*fake("fake_runs"), runs);
    assert_ok(region_measure(r, &(region_positions){6, 6}, &out));
    assert_int_equal(out.height, 6);
    assert_int_equal(*fake("fake_runs"), runs + 1);
    region_free(r);
}

TEST_OF(lab, l, begin_lab, end_lab, what_fails_names_file_and_node)
{
    region *r = NULL;
    float x[ROWS * CHANNELS] = {0};
    float y[ROWS * CHANNELS];
    const void *inputs[] = {x};
    region_positions out = {0};
    assert_ok(region_create(&l->parts, &r));
    assert_ok(region_start(r));
    *fake("fake_mode") = OTHER_CHANNELS;
    assert_fails(region_run(r, SAMPLES, &square, inputs, square, y), GRAIL_ERROR_SHAPE,
                 "net.onnx: node of 'y' (Mystery): ONNX Runtime made a value of type 1 and shape "
                 "[5, 4, 2, 2] of 'y', expected FLOAT [5, 3, 2, 2]");
    assert_fails(region_measure(r, &square, &out), GRAIL_ERROR_SHAPE,
                 "expected FLOAT [1, 3, 2, 2]");
    *fake("fake_mode") = OTHER_TYPE;
    assert_fails(region_run(r, SAMPLES, &square, inputs, square, y), GRAIL_ERROR_SHAPE,
                 "a value of type 7");
    *fake("fake_mode") = REFUSED;
    assert_fails(region_run(r, SAMPLES, &square, inputs, square, y), GRAIL_ERROR_UNSUPPORTED,
                 "net.onnx: node of 'y' (Mystery): ONNX Runtime: the fake refuses");
    *fake("fake_mode") = AS_IT_SHOULD;
    check_run(r);
    region_free(r);
}

TEST_OF(lab, l, begin_lab, end_lab, random_numbers_and_other_files_are_refused)
{
    static const char *const operators[] = {"RandomNormalLike", "If"};
    /* An attribute of a subgraph with an initializer whose values are in the file "f". */
    buffer attribute;
    buffer_init(&attribute, 4096);
    assert_ok(protobuf_put_string(&attribute, ATTRIBUTE_NAME, "then_branch"));
    assert_ok(onnx_put_location(&attribute, "f", 0, 4));
    assert_ok(protobuf_end_message(&attribute, GRAPH_INITIALIZER, 13, 0));
    assert_ok(protobuf_end_message(&attribute, ATTRIBUTE_GRAPH, 13, 0));
    assert_ok(protobuf_end_message(&attribute, NODE_ATTRIBUTE, 0, 0));
    for (int i = 0; i < 2; i++) {
        region *r = NULL;
        end_lab(l);
        open_model(l, operators[i], i == 0 ? NO_MORE : (more){attribute.bytes, attribute.size},
                   false);
        assert_ok(region_create(&l->parts, &r));
        assert_fails(region_start(r), GRAIL_ERROR_UNSUPPORTED,
                     i == 0 ? "it draws random numbers (RandomNormalLike)"
                            : "a constant of it has its values in another file");
        region_free(r);
    }
    buffer_fini(&attribute);
}

static void *run_often(void *r)
{
    for (int i = 0; i < 50; i++) {
        check_run(r);
    }
    return NULL;
}

TEST_OF(lab, l, begin_lab, end_lab, threads_share_a_region_and_forks_open_their_own)
{
    region *r = NULL;
    pthread_t threads[4];
    int code = -1;
    assert_ok(region_create(&l->parts, &r));
    const int sessions = *fake("fake_sessions");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, run_often, r), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(*fake("fake_sessions"), sessions + 1);
    const pid_t child = fork();
    if (child == 0) {
        _exit(region_start(r) == GRAIL_OK && *fake("fake_sessions") == sessions + 2 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    region_free(r);
}

TEST_OF(lab, l, begin_lab, end_lab, nothing_is_kept_of_what_is_closed)
{
    region *r = NULL;
    assert_ok(region_create(&l->parts, &r));
    check_run(r);
    region_free(r);
    const int alive = *fake("fake_alive");
    assert_ok(region_create(&l->parts, &r));
    check_run(r);
    region_free(r);
    assert_int_equal(*fake("fake_alive"), alive);
}

static grail_status run_all(void *context)
{
    grail_status status = GRAIL_OK;
    const lab *l = context;
    region *r = NULL;
    float x[ROWS * CHANNELS] = {0};
    float y[ROWS * CHANNELS];
    const void *inputs[] = {x};
    region_positions out;
    TRY(region_create(&l->parts, &r));
    TRY(region_measure(r, &square, &out));
    TRY(region_run(r, SAMPLES, &square, inputs, square, y));
out:
    region_free(r);
    return status;
}

TEST_OF(lab, l, begin_lab, end_lab, every_failing_allocation_is_survived)
{
    support_fail_each_allocation(run_all, l);
}
