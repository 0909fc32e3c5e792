/* Accuracy of a network made by hand on images of one colour, whose outputs are known. */
#include "unit/pipeline/lab_model.h"

#include "eval/accuracy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CLASSES = 7, HIDDEN = 4, IMAGES = 5, SIDE = 32, PLANE = SIDE * SIDE };

enum { RED, GREEN, BLUE };

typedef struct labelled {
    int colour, label;
} labelled;

/* Outputs for an image of colour c: 1 for class c, 0 for the other colours, then -1, -2, -3, -4. So
 * a red image ranks the classes in order, with classes 1 and 2 equal. */
static const labelled five[IMAGES] = {{RED, 0}, {GREEN, 1}, {BLUE, 0}, {RED, 4}, {RED, 5}};

typedef struct fixture {
    char *directory;
    image_set *set;
    grail_model model;
    tensor_view tensor;
    const tensor_view *tensors[4];
    parameter_store *store;
} fixture;

/* A CIFAR batch of images of one colour each. */
static void write_images(const char *directory, const labelled *images, int count)
{
    unsigned char *bytes = NULL;
    const size_t record = 1 + 3 * PLANE;
    assert_ok(memory_new(&bytes, (size_t)count * record, 1));
    for (int i = 0; i < count; i++) {
        unsigned char *r = bytes + (size_t)i * record;
        r[0] = (unsigned char)images[i].label;
        memset(r + 1 + images[i].colour * PLANE, 255, PLANE);
    }
    support_write_file(directory, "test_batch.bin", bytes, (size_t)count * record);
    memory_free(bytes);
}

static int add_linear(graph *g, const char *name, int input, int64_t out, int64_t in)
{
    char text[64];
    const int64_t shape[] = {out, in};
    node n = node_of(NODE_LINEAR, 0, input, GRAPH_NONE);
    int value = 0;
    snprintf(text, sizeof text, "%s.weight", name);
    assert_ok(graph_add_parameter(g, text, 2, shape, &n.weight));
    snprintf(text, sizeof text, "%s.bias", name);
    assert_ok(graph_add_parameter(g, text, 1, shape, &n.bias));
    assert_ok(graph_add_node(g, &n, &value));
    return value;
}

/* Mean colour -> HIDDEN -> CLASSES. */
static graph *colour_graph(int64_t classes)
{
    graph *g = NULL;
    int value = 0;
    assert_ok(graph_create(&g));
    g->input_kind = INPUT_IMAGES;
    g->block_count = 1;
    g->classes = classes;
    const node mean = node_of(NODE_MEAN, 0, g->input, GRAPH_NONE);
    assert_ok(graph_add_node(g, &mean, &value));
    value = add_linear(g, "hidden", value, HIDDEN, 3);
    assert_ok(graph_finish(g, add_linear(g, "head", value, classes, HIDDEN)));
    return g;
}

/* The three colours pass through `hidden` units, the first three; a fourth would be ignored. */
static void set_weights(parameter_store *store, int64_t hidden, int64_t classes)
{
    float first[HIDDEN * 3] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 5, 5, 5};
    const float first_bias[HIDDEN] = {0, 0, 0, 9};
    float head[CLASSES * HIDDEN] = {0};
    const float head_bias[CLASSES] = {0, 0, 0, -1, -2, -3, -4};
    for (int64_t c = 0; c < 3; c++) {
        head[c * hidden + c] = 1.0F;
    }
    assert_ok(parameter_store_set(store, 0, (int64_t[]){hidden, 3}, first));
    assert_ok(parameter_store_set(store, 1, (int64_t[]){hidden}, first_bias));
    assert_ok(parameter_store_set(store, 2, (int64_t[]){classes, hidden}, head));
    assert_ok(parameter_store_set(store, 3, (int64_t[]){classes}, head_bias));
}

static void open_images(fixture *f, const labelled *images, int count)
{
    f->directory = support_temporary_directory();
    write_images(f->directory, images, count);
    const grail_image_source source = {.path = f->directory, .preset = "cifar-plain"};
    assert_ok(image_set_open(&source, &f->set));
}

static void setup(fixture *f, backend *b, int64_t hidden, int64_t classes)
{
    static const architecture family = {.name = "colours"};
    static char path[] = "colours.pth";
    *f = (fixture){.tensor = {.dtype = GRAIL_DTYPE_F32}};
    for (int p = 0; p < 4; p++) {
        f->tensors[p] = &f->tensor;
    }
    f->model = (grail_model){.path = path,
                             .architecture = &family,
                             .graph = colour_graph(classes),
                             .tensors = f->tensors};
    assert_ok(parameter_store_create(&f->model, b, NULL, &f->store));
    set_weights(f->store, hidden, classes);
}

static void teardown(fixture *f)
{
    parameter_store_free(f->store);
    graph_free(f->model.graph);
    image_set_close(f->set);
    if (f->directory != NULL) {
        support_remove_tree(f->directory);
        memory_free(f->directory);
    }
}

OWNS(fixture, teardown)

static void output_of(int colour, double out[CLASSES])
{
    for (int c = 0; c < CLASSES; c++) {
        out[c] = c < 3 ? (c == colour ? 1.0 : 0.0) : 2.0 - c;
    }
}

static double expected_nll(void)
{
    double sum = 0.0;
    for (int i = 0; i < IMAGES; i++) {
        double out[CLASSES];
        double total = 0.0;
        output_of(five[i].colour, out);
        for (int c = 0; c < CLASSES; c++) {
            total += exp(out[c]);
        }
        sum += log(total) - out[five[i].label];
    }
    return sum / IMAGES;
}

static grail_status measure_as(const fixture *f, accuracy_task task, grail_accuracy *out)
{
    task.set = f->set;
    return accuracy_measure(&f->model, f->store, &task, out);
}

static void assert_five(const grail_accuracy *a)
{
    assert_int_equal(a->images, IMAGES);
    assert_int_equal(a->classes, CLASSES);
    assert_int_equal(a->side, SIDE);
    assert_near(a->top1, 0.4, 1e-15); /* the first two */
    assert_near(a->top5, 0.8, 1e-15); /* all but the last, whose label comes sixth */
    assert_near(a->mean_nll, expected_nll(), 1e-6);
    assert_string_equal(a->preset, "cifar-plain");
    assert_string_equal(a->dtype, "F32");
    assert_int_equal(strlen(a->data_sha256), 64);
    assert_true(a->low < a->top1 && a->top1 < a->high);
    assert_near(a->interval, 0.5 * (a->high - a->low), 1e-15);
}

TEST(labels_are_found_among_the_largest_outputs)
{
    backend *const backends[] = {backend_host(), backend_reference()};
    for (int b = 0; b < 2; b++) {
        for (int64_t batch = 0; batch <= IMAGES; batch++) {
            OWNED(fixture) f;
            grail_accuracy a = {0};
            setup(&f, backends[b], HIDDEN, CLASSES);
            open_images(&f, five, IMAGES);
            assert_ok(measure_as(&f, (accuracy_task){.batch = batch}, &a));
            assert_five(&a);
        }
    }
}

TEST(a_store_of_narrower_shapes_is_run_as_it_is)
{
    OWNED(fixture) f;
    grail_accuracy a = {0};
    setup(&f, backend_host(), 3, CLASSES);
    open_images(&f, five, IMAGES);
    assert_ok(measure_as(&f, (accuracy_task){.batch = 2}, &a));
    assert_five(&a);
}

TEST(five_classes_have_no_top5)
{
    static const labelled images[] = {{RED, 0}, {BLUE, 2}};
    OWNED(fixture) f;
    grail_accuracy a = {0};
    setup(&f, backend_host(), HIDDEN, 5);
    open_images(&f, images, 2);
    assert_ok(measure_as(&f, (accuracy_task){0}, &a));
    assert_true(a.top1 == 1.0 && isnan(a.top5));
    assert_true(a.high == 1.0 && a.low > 0.0);
}

/* Three of the five images are red; of the three digests the last belongs to none. */
TEST(images_that_were_calibrated_on_are_counted)
{
    static const int64_t first_two[] = {0, 1};
    OWNED(fixture) f;
    OWNED(hash_set) calibrated = {0};
    setup(&f, backend_host(), HIDDEN, CLASSES);
    open_images(&f, five, IMAGES);
    assert_ok(hash_set_init(&calibrated));
    assert_ok(image_set_digests(f.set, 2, first_two, calibrated.hashes));
    calibrated.hashes[2] = calibrated.hashes[0] + 1;
    calibrated.count = 3;
    hash_set_settle(&calibrated);
    for (int64_t batch = 1; batch <= IMAGES; batch++) {
        grail_accuracy a = {0};
        assert_ok(measure_as(&f, (accuracy_task){.batch = batch, .calibrated = &calibrated}, &a));
        assert_int_equal(a.calibration_images, 3);
        assert_int_equal(a.calibration_found, 2);
        assert_int_equal(a.overlap_images, 4);
    }
}

/* -- fewer images ------------------------------------------------------------------------------ */

TEST(fewer_images_are_always_the_same_ones)
{
    OWNED(fixture) f;
    grail_accuracy one = {0};
    grail_accuracy other = {0};
    setup(&f, backend_host(), HIDDEN, CLASSES);
    open_images(&f, five, IMAGES);
    assert_ok(measure_as(&f, (accuracy_task){.images = 3, .batch = 1}, &one));
    assert_ok(measure_as(&f, (accuracy_task){.images = 3}, &other));
    assert_int_equal(one.images, 3);
    assert_true(one.mean_nll == other.mean_nll);
    assert_fails(measure_as(&f, (accuracy_task){.images = IMAGES + 1}, &one), GRAIL_ERROR_ARGUMENT,
                 "6 images were requested, but the data holds 5");
}

typedef struct watcher {
    int64_t calls, stop_at, done, total;
    double top1;
} watcher;

static int watch(void *user, const grail_eval_progress *p)
{
    watcher *w = user;
    w->calls++;
    w->done = p->done;
    w->total = p->total;
    w->top1 = p->so_far;
    return w->calls == w->stop_at;
}

TEST(an_observer_sees_every_batch_and_can_cancel)
{
    OWNED(fixture) f;
    grail_accuracy a = {0};
    watcher w = {0};
    setup(&f, backend_host(), HIDDEN, CLASSES);
    open_images(&f, five, IMAGES);
    assert_ok(measure_as(&f, (accuracy_task){.batch = 2, .observer = watch, .user = &w}, &a));
    assert_true(w.calls == 3 && w.done == IMAGES && w.total == IMAGES && w.top1 == a.top1);
    w = (watcher){.stop_at = 2};
    assert_fails(measure_as(&f, (accuracy_task){.batch = 2, .observer = watch, .user = &w}, &a),
                 GRAIL_ERROR_CANCELLED, "cancelled after 4 of 5 images");
}

/* -- what cannot be measured ------------------------------------------------------------------- */

TEST(a_label_without_an_output_names_the_image)
{
    static const labelled images[] = {{RED, 0}, {RED, 9}};
    OWNED(fixture) f;
    grail_accuracy a = {.images = -1};
    setup(&f, backend_host(), HIDDEN, CLASSES);
    open_images(&f, images, 2);
    assert_fails(measure_as(&f, (accuracy_task){0}, &a), GRAIL_ERROR_ARGUMENT,
                 "image 1 has label 9, but the network has only 7 classes");
    assert_int_equal(a.images, -1);
}

TEST(a_model_of_text_is_told_from_one_of_images)
{
    grail_accuracy a = {0};
    grail_images *images = NULL;
    const grail_image_source source = {.path = "images"};
    OPENED(grail_model, model, grail_model_open(lab_golden("llama3"), &model));
    assert_fails(grail_images_open(model, &source, &images), GRAIL_ERROR_ARGUMENT,
                 "reads text, not images");
    assert_null(images);
    assert_fails(grail_accuracy_measure(model, images, 0, NULL, NULL, NULL, &a),
                 GRAIL_ERROR_ARGUMENT, "reads text, not images; measure its perplexity");
}

TEST(features_are_not_classes)
{
    OWNED(fixture) f;
    setup(&f, backend_host(), HIDDEN, CLASSES);
    assert_ok(accuracy_check_model(&f.model));
    f.model.graph->classes = 0;
    assert_fails(accuracy_check_model(&f.model), GRAIL_ERROR_ARGUMENT,
                 "'colours.pth' gives features, not classes");
}

TEST(outputs_that_are_no_numbers_are_an_error)
{
    OWNED(fixture) f;
    grail_accuracy a = {0};
    setup(&f, backend_reference(), HIDDEN, CLASSES);
    open_images(&f, five, IMAGES);
    host_view bias = {0};
    assert_ok(host_view_open(f.store->entries[3].values, GRAIL_DTYPE_F64, HOST_UPDATES, &bias));
    ((double *)bias.values)[2] = (double)NAN;
    assert_ok(host_view_close(&bias));
    assert_fails(measure_as(&f, (accuracy_task){0}, &a), GRAIL_ERROR_NUMERIC, "head.weight");
}

static grail_status measure(void *context)
{
    fixture *f = context;
    grail_accuracy a = {0};
    return measure_as(f, (accuracy_task){.batch = 2}, &a);
}

TEST(every_failing_allocation_is_survived)
{
    OWNED(fixture) f;
    setup(&f, backend_reference(), HIDDEN, CLASSES);
    open_images(&f, five, IMAGES);
    support_fail_each_allocation(measure, &f);
}

TEST(outputs_that_are_no_numbers_are_no_hit)
{
    const int32_t labels[2] = {0, 1};
    const float outputs[2][3] = {{1.0F, 0.0F, 0.0F}, {0.0F, (float)NAN, 0.0F}};
    accuracy_sums sums = {0};
    double hits[2] = {0.0, 0.0};
    matrix logits = {0};
    assert_ok(matrix_import(backend_host(), GRAIL_DTYPE_F32, 2, 3, 3, outputs, &logits));
    assert_fails(accuracy_add(logits, labels, 40, &sums, hits), GRAIL_ERROR_NUMERIC,
                 "the outputs of image 41 are NaN or infinite");
}
