/* Models written as ONNX: which operators and tensors the files have, and what is refused.
 * tests/loaders checks that ONNX Runtime computes the same from them. */
#include "tower_lab.h"

#include "support/onnx_reader.h"

#include <grail/onnx.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct fixture {
    char *directory;
    char path[512];
    grail_model *m;
} fixture;

static void setup(fixture *f, const char *golden, const char *setting)
{
    const grail_model_options options = {.settings = &setting, .setting_count = setting != NULL};
    *f = (fixture){.directory = support_temporary_directory()};
    snprintf(f->path, sizeof f->path, "%s/net.onnx", f->directory);
    assert_ok(grail_model_open_with(tower_golden(golden), &options, &f->m));
}

static void teardown(fixture *f)
{
    grail_model_close(f->m);
    support_remove_tree(f->directory);
    memory_free(f->directory);
}

/* Every input of every node is made before it: by a node, or it is a tensor or the input. */
static void assert_sorted(const onnx_file_read *r)
{
    for (int n = 0; n < r->node_count; n++) {
        for (int i = 0; i < r->nodes[n].input_count; i++) {
            const char *name = r->nodes[n].inputs[i];
            bool made = strcmp(name, r->input) == 0 || onnx_find_tensor(r, name) != NULL;
            for (int k = 0; k < n; k++) {
                made = made || strcmp(r->nodes[k].output, name) == 0;
            }
            if (!made) {
                fail_msg("'%s' is read before it is made", name);
            }
        }
    }
}

static void tensors_keep_the_names_and_values_of_the_checkpoint(void **state)
{
    (void)state;
    fixture f;
    grail_onnx_facts facts;
    setup(&f, "timm-vit", "head_dim=16");
    assert_ok(grail_onnx_write(f.m, f.path, NULL, &facts));
    assert_int_equal(facts.side, 24);
    assert_int_equal(facts.outputs, 7);
    assert_false(facts.split);
    assert_false(facts.converted);
    const onnx_file_read *r = onnx_read(f.path);
    assert_int_equal(facts.bytes, r->map.size);
    assert_sorted(r);
    for (int64_t i = 0; i < checkpoint_count(f.m->checkpoint); i++) {
        const tensor_view *view = checkpoint_at(f.m->checkpoint, i);
        const onnx_read_tensor *t = onnx_find_tensor(r, view->name);
        assert_non_null(t);
        assert_int_equal(t->rank, view->rank);
        assert_memory_equal(t->shape, view->shape, (size_t)view->rank * sizeof t->shape[0]);
        assert_int_equal(t->bytes, view->bytes);
        assert_memory_equal(t->raw, view->data, view->bytes);
    }
    teardown(&f);
}

static void the_input_is_a_batch_of_any_size(void **state)
{
    (void)state;
    fixture f;
    setup(&f, "timm-vit", "head_dim=16");
    assert_ok(grail_onnx_write(f.m, f.path, NULL, NULL));
    const onnx_file_read *r = onnx_read(f.path);
    static const int64_t pixels[] = {-1, 3, 24, 24};
    static const int64_t logits[] = {-1, 7};
    assert_string_equal(r->input, "pixels");
    assert_memory_equal(r->input_shape, pixels, sizeof pixels);
    assert_string_equal(r->output, "logits");
    assert_memory_equal(r->output_shape, logits, sizeof logits);
    teardown(&f);
}

static void nodes_become_operators(void **state)
{
    (void)state;
    fixture f;
    setup(&f, "model-soup", "head_dim=16");
    assert_ok(grail_onnx_write(f.m, f.path, NULL, NULL));
    const onnx_file_read *r = onnx_read(f.path);
    assert_int_equal(onnx_count_nodes(r, "Conv"), 1);
    assert_int_equal(onnx_count_nodes(r, "LayerNormalization"), 6); /* 2 per layer, and 2 */
    assert_int_equal(onnx_count_nodes(r, "Softmax"), 2);
    assert_int_equal(onnx_count_nodes(r, "Sigmoid"), 2);   /* QuickGELU */
    assert_int_equal(onnx_count_nodes(r, "Slice"), 2 * 6); /* q, k, v: weight and bias */
    assert_int_equal(onnx_count_nodes(r, "ReduceL2"), 1);
    assert_null(onnx_find_tensor(r, "model.token_embedding.weight")); /* not read, not written */
    teardown(&f);
    setup(&f, "simple-vit", NULL);
    assert_ok(grail_onnx_write(f.m, f.path, NULL, NULL));
    r = onnx_read(f.path);
    assert_int_equal(onnx_count_nodes(r, "Conv"), 0);
    assert_int_equal(onnx_count_nodes(r, "Erf"), 2);
    const onnx_read_tensor *table = onnx_find_tensor(r, "grail/positions");
    assert_int_equal(table->shape[0], 16);
    float first = -1.0F;
    memcpy(&first, table->raw + 8 * sizeof first, sizeof first);
    assert_near(first, 1.0, 0.0); /* cos 0 */
    teardown(&f);
}

/* Adds a node at place *at; *at is then behind it. */
static int insert(graph *g, int *at, node n)
{
    int value = -1;
    assert_ok(graph_add_node(g, &n, &value));
    const node added = g->nodes[g->node_count - 1];
    memmove(&g->nodes[*at + 1], &g->nodes[*at],
            (size_t)(g->node_count - 1 - *at) * sizeof g->nodes[0]);
    g->nodes[(*at)++] = added;
    return value;
}

static int insert_repeating(graph *g, int *at, node_kind kind, int left, int right)
{
    node n = node_of(kind, g->nodes[*at].block, left, right);
    n.repeats_second = true;
    return insert(g, at, n);
}

/* What reads a value from a place on reads another one instead. */
static void redirect(graph *g, int at, int from, int to)
{
    for (int i = at; i < g->node_count; i++) {
        for (int k = 0; k < g->nodes[i].input_count; k++) {
            int *input = &g->nodes[i].inputs[k];
            *input = *input == from ? to : *input;
        }
    }
}

/* x[N, width] -> one channel, by the first row of a tensor of the checkpoint. */
static int insert_gate(grail_model *m, int *at, const char *tensor, int64_t width, int x)
{
    node n = node_of(NODE_LINEAR, m->graph->nodes[*at].block, x, GRAPH_NONE);
    const storage_map first = storage_rows(0, 1);
    assert_ok(graph_add_stored(m->graph, "gate", tensor, &first, 2, (const int64_t[]){1, width},
                               &n.weight));
    assert_ok(memory_resize(&m->tensors, (size_t)m->graph->parameter_count, sizeof m->tensors[0]));
    const int64_t place = checkpoint_index_of(m->checkpoint, tensor);
    assert_true(place >= 0);
    m->tensors[n.weight] = checkpoint_at(m->checkpoint, place);
    return insert(m->graph, at, n);
}

/* Asserts that one value is reshaped so. */
static void assert_reshaped(const onnx_file_read *r, int count, const int64_t shape[])
{
    int found = 0;
    for (int i = 0; i < r->node_count; i++) {
        const onnx_read_tensor *t = strcmp(r->nodes[i].type, "Reshape") == 0
                                        ? onnx_find_tensor(r, r->nodes[i].inputs[1])
                                        : NULL;
        const size_t bytes = (size_t)count * sizeof shape[0];
        found += t != NULL && t->bytes == bytes && memcmp(t->raw, shape, bytes) == 0;
    }
    assert_int_equal(found, 1);
}

/* What stands for all positions gets axes of one position, which ONNX repeats. */
static void a_repeated_operand_has_the_axes_of_the_other(void **state)
{
    (void)state;
    enum { WIDTH = 32, SIDE = 3 }; /* of the convolution's output */
    fixture f;
    setup(&f, "hf-vit", NULL);
    graph *g = f.m->graph;
    int at = (int)(tower_node(f.m, NODE_CONV2D) - g->nodes) + 1;
    const int image = g->nodes[at - 1].output;
    const int block = g->nodes[at - 1].block;
    const int mean = insert(g, &at, node_of(NODE_MEAN, block, image, GRAPH_NONE));
    const int gate = insert_gate(f.m, &at, "classifier.weight", WIDTH, mean);
    node pool = node_of(NODE_MAX_POOL, block, image, GRAPH_NONE);
    pool.window.height.kernel = SIDE;
    pool.window.width.kernel = SIDE;
    const int largest = insert(g, &at, pool);
    const int both = insert_repeating(g, &at, NODE_ADD, mean, largest);
    const int gated = insert_repeating(g, &at, NODE_MULTIPLY, image, gate);
    const int made = insert_repeating(g, &at, NODE_MULTIPLY, gated, both);
    redirect(g, at, image, made);
    at = (int)(tower_node(f.m, NODE_CLASS_TOKEN) - g->nodes) + 1;
    const int tokens = g->nodes[at - 1].output;
    redirect(g, at + 1, tokens, insert_repeating(g, &at, NODE_ADD, tokens, both));
    assert_ok(graph_finish(g, g->output));
    assert_ok(grail_onnx_write(f.m, f.path, NULL, NULL));
    const onnx_file_read *r = onnx_read(f.path);
    assert_sorted(r);
    assert_reshaped(r, 2, (const int64_t[]){0, WIDTH});
    assert_reshaped(r, 4, (const int64_t[]){0, 1, 1, 1});
    assert_reshaped(r, 4, (const int64_t[]){0, WIDTH, 1, 1});
    assert_reshaped(r, 3, (const int64_t[]){0, 1, WIDTH});
    teardown(&f);
}

/* Kernel, strides and pads; whether padding counts; and for the second one how it rounds. */
static void means_over_windows_become_pools(void **state)
{
    (void)state;
    fixture f;
    setup(&f, "hf-vit", NULL);
    graph *g = f.m->graph;
    int at = (int)(tower_node(f.m, NODE_CONV2D) - g->nodes) + 1;
    const node convolution = g->nodes[at - 1];
    node pool = node_of(NODE_AVERAGE_POOL, convolution.block, convolution.output, GRAPH_NONE);
    pool.inputs[0] = insert(g, &at, pool);
    pool.window.rounds_up = true;
    const int made = insert(g, &at, pool);
    redirect(g, at, convolution.output, made);
    assert_ok(graph_finish(g, g->output));
    assert_ok(grail_onnx_write(f.m, f.path, NULL, NULL));
    const onnx_file_read *r = onnx_read(f.path);
    int pools = 0;
    assert_sorted(r);
    for (int i = 0; i < r->node_count; i++) {
        if (strcmp(r->nodes[i].type, "AveragePool") == 0) {
            assert_int_equal(r->nodes[i].attribute_count, 4 + pools++);
        }
    }
    assert_int_equal(pools, 2);
    teardown(&f);
}

/* Kernels per channel are as many groups; the vector that they read becomes an image. */
static void kernels_per_channel_become_groups(void **state)
{
    (void)state;
    enum { WIDTH = 32 };
    fixture f;
    setup(&f, "hf-vit", NULL);
    graph *g = f.m->graph;
    int at = (int)(tower_node(f.m, NODE_CONV2D) - g->nodes) + 1;
    const node convolution = g->nodes[at - 1];
    const int mean =
        insert(g, &at, node_of(NODE_MEAN, convolution.block, convolution.output, GRAPH_NONE));
    node d = node_of(NODE_DEPTHWISE, convolution.block, mean, GRAPH_NONE);
    d.weight = convolution.bias; /* 1 x 1 */
    const int gate = insert(g, &at, d);
    const int made = insert_repeating(g, &at, NODE_MULTIPLY, convolution.output, gate);
    redirect(g, at, convolution.output, made);
    assert_ok(graph_finish(g, g->output));
    assert_ok(grail_onnx_write(f.m, f.path, NULL, NULL));
    const onnx_file_read *r = onnx_read(f.path);
    assert_reshaped(r, 4, (const int64_t[]){0, WIDTH, 1, 1});
    int convolutions = 0;
    for (int i = 0; i < r->node_count; i++) {
        if (strcmp(r->nodes[i].type, "Conv") == 0) { /* a window, and groups for the second */
            assert_int_equal(r->nodes[i].attribute_count, 4 + convolutions++);
        }
    }
    assert_int_equal(convolutions, 2);
    teardown(&f);
}

/* Behind the convolution of an image, and among tokens. */
static void parts_of_values_are_slices_and_concatenations(void **state)
{
    (void)state;
    enum { WIDTH = 32, FIRST = 12 };
    fixture f;
    setup(&f, "hf-vit", NULL);
    assert_ok(grail_onnx_write(f.m, f.path, NULL, NULL));
    const int slices = onnx_count_nodes(onnx_read(f.path), "Slice");
    const int concats = onnx_count_nodes(onnx_read(f.path), "Concat");
    assert_int_equal(remove(f.path), 0);
    static const node_kind before[] = {NODE_CONV2D, NODE_CLASS_TOKEN};
    for (int i = 0; i < 2; i++) {
        graph *g = f.m->graph;
        int at = (int)(tower_node(f.m, before[i]) - g->nodes) + 1;
        const node last = g->nodes[at - 1];
        node left = node_of(NODE_SLICE, last.block, last.output, GRAPH_NONE);
        node right = left;
        left.slice = (slice_attributes){.length = FIRST};
        right.slice = (slice_attributes){.first = FIRST, .length = WIDTH - FIRST};
        const int x = insert(g, &at, left);
        const int y = insert(g, &at, right);
        redirect(g, at, last.output, insert(g, &at, node_of(NODE_CONCAT, last.block, x, y)));
        assert_ok(graph_finish(g, g->output));
    }
    assert_ok(grail_onnx_write(f.m, f.path, NULL, NULL));
    const onnx_file_read *r = onnx_read(f.path);
    assert_sorted(r);
    assert_int_equal(onnx_count_nodes(r, "Slice"), slices + 4);
    assert_int_equal(onnx_count_nodes(r, "Concat"), concats + 2);
    teardown(&f);
}

static void a_limit_moves_the_weights_to_a_second_file(void **state)
{
    (void)state;
    fixture f;
    grail_onnx_facts facts;
    const grail_onnx_options options = {.largest = 50000};
    setup(&f, "hf-clip", NULL);
    assert_ok(grail_onnx_write(f.m, f.path, &options, &facts));
    assert_true(facts.split);
    const onnx_read_tensor *t =
        onnx_find_tensor(onnx_read(f.path), "vision_model.encoder.layers.1.mlp.fc1.weight");
    assert_string_equal(t->location, "net.onnx.data");
    assert_int_equal(t->length, 4 * 48 * 32);
    teardown(&f);
}

static void weights_of_16_bits_become_f32(void **state)
{
    (void)state;
    tower_lab lab;
    grail_onnx_facts facts;
    char path[1200];
    tower_open(&lab, "hf-vit");
    for (int i = 0; i < lab.count; i++) {
        lab.views[i].dtype = GRAIL_DTYPE_BF16;
        lab.views[i].bytes /= 2;
    }
    grail_model *m = tower_model(&lab, NULL);
    snprintf(path, sizeof path, "%s/net.onnx", lab.directory);
    assert_ok(grail_onnx_write(m, path, NULL, &facts));
    assert_true(facts.converted);
    const onnx_read_tensor *t = onnx_find_tensor(onnx_read(path), "classifier.weight");
    assert_int_equal(t->type, 1);
    assert_int_equal(t->bytes, 4 * 7 * 32);
    grail_model_close(m);
    tower_close(&lab);
}

static void what_a_file_cannot_say_is_refused(void **state)
{
    (void)state;
    fixture f;
    const grail_onnx_options options = {.side = 32};
    setup(&f, "timm-vit", "head_dim=16");
    assert_fails(grail_onnx_write(f.m, f.path, &options, NULL), GRAIL_ERROR_SHAPE,
                 "pos_embed has 10 positions, but the input makes 17; use images of the size that "
                 "the network was trained on");
    assert_ok(grail_onnx_write(f.m, f.path, NULL, NULL));
    assert_fails(grail_onnx_write(f.m, f.path, NULL, NULL), GRAIL_ERROR_EXISTS, "exists");
    teardown(&f);
}

static void a_decoder_is_refused(void **state)
{
    (void)state;
    grail_model *m = NULL;
    assert_ok(grail_model_open(GRAIL_SOURCE_DIR "/tests/golden/models/llama3", &m));
    assert_fails(grail_onnx_write(m, "/tmp/never.onnx", NULL, NULL), GRAIL_ERROR_UNSUPPORTED,
                 "cannot write a decoder as ONNX, only a network that reads images; convert the "
                 "checkpoint with a tool for decoders");
    grail_model_close(m);
}

/* Lets a tensor of an open model have other values, which the caller owns. */
static void replace_values(grail_model *m, const char *name, const void *values)
{
    const int64_t place = checkpoint_index_of(m->checkpoint, name);
    assert_true(place >= 0);
    tensor_view *view = (tensor_view *)(uintptr_t)checkpoint_at(m->checkpoint, place);
    view->data = values;
}

/* 9000 x 32 values are more than are converted at once. */
static void a_large_tensor_comes_whole(void **state)
{
    (void)state;
    enum { CLASSES = 9000, COUNT = CLASSES * 32 };
    tower_lab lab;
    float *values = NULL;
    char path[1200];
    assert_ok(memory_new(&values, COUNT, sizeof values[0]));
    for (int i = 0; i < COUNT; i++) {
        values[i] = (float)i;
    }
    tower_open(&lab, "timm-vit");
    tower_tensor(&lab, "head.weight")->shape[0] = CLASSES;
    tower_tensor(&lab, "head.bias")->shape[0] = CLASSES;
    grail_model *m = tower_model(&lab, "head_dim=16");
    replace_values(m, "head.weight", values);
    snprintf(path, sizeof path, "%s/net.onnx", lab.directory);
    assert_ok(grail_onnx_write(m, path, NULL, NULL));
    const onnx_read_tensor *t = onnx_find_tensor(onnx_read(path), "head.weight");
    assert_int_equal(t->bytes, COUNT * sizeof values[0]);
    assert_memory_equal(t->raw, values, t->bytes);
    values[COUNT - 1] = NAN;
    assert_int_equal(remove(path), 0);
    assert_fails(grail_onnx_write(m, path, NULL, NULL), GRAIL_ERROR_NUMERIC, "at element 287999");
    grail_model_close(m);
    tower_close(&lab);
    memory_free(values);
}

static void a_damaged_weight_leaves_no_file(void **state)
{
    (void)state;
    static const float bias[7] = {NAN};
    fixture f;
    setup(&f, "timm-vit", "head_dim=16");
    replace_values(f.m, "head.bias", bias);
    assert_fails(grail_onnx_write(f.m, f.path, NULL, NULL), GRAIL_ERROR_NUMERIC,
                 "tensor 'head.bias' holds a NaN or infinity at element 0");
    assert_int_equal(rmdir(f.directory), 0); /* empty */
    grail_model_close(f.m);
    memory_free(f.directory);
}

static grail_status write_once(void *context)
{
    const fixture *f = context;
    remove(f->path);
    return grail_onnx_write(f->m, f->path, NULL, NULL);
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    fixture f;
    setup(&f, "simple-vit", NULL);
    support_fail_each_allocation(write_once, &f);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_keep_the_names_and_values_of_the_checkpoint),
        cmocka_unit_test(the_input_is_a_batch_of_any_size),
        cmocka_unit_test(nodes_become_operators),
        cmocka_unit_test(a_repeated_operand_has_the_axes_of_the_other),
        cmocka_unit_test(means_over_windows_become_pools),
        cmocka_unit_test(kernels_per_channel_become_groups),
        cmocka_unit_test(parts_of_values_are_slices_and_concatenations),
        cmocka_unit_test(a_limit_moves_the_weights_to_a_second_file),
        cmocka_unit_test(weights_of_16_bits_become_f32),
        cmocka_unit_test(what_a_file_cannot_say_is_refused),
        cmocka_unit_test(a_decoder_is_refused),
        cmocka_unit_test(a_large_tensor_comes_whole),
        cmocka_unit_test(a_damaged_weight_leaves_no_file),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
