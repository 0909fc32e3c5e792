/* Which nodes of ONNX files are left to ONNX Runtime: networks whose files declare the shapes that
 * are asked for, so that no library is needed. */
#include "unit/arch/onnx_lab.h"

#include "support/json_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 3, CLASSES = 2, SIDE = 8, MOST_NODES = 12, MOST_DECLARED = 10 };

/* Nodes in front of a pool, which read `pixels`, the constants w (of a Conv) and v, and make b. */
typedef struct network {
    const char *nodes[MOST_NODES][3];    /* operator, inputs, outputs */
    const char *declared[MOST_DECLARED]; /* values of [N, 3, 8, 8] */
    const char *flat[2];                 /* of [N, 3, 64] */
    const char *captured;                /* by a subgraph of the last node */
    int64_t samples;                     /* 0: any number */
    bool is_all;                         /* the nodes make the network's output */
} network;

static const float zeros[WIDTH * WIDTH * WIDTH * WIDTH];

static void put_weights(buffer *out, const char *name, int rank, const int64_t shape[])
{
    int64_t elements = 0;
    assert_true(shape_elements(rank, shape, &elements));
    put_tensor(out, GRAPH_INITIALIZER, name, ONNX_FLOAT, rank, shape, zeros,
               (size_t)elements * sizeof zeros[0], NO_MORE);
}

/* An attribute with a graph of one node that reads the value. */
static void put_subgraph(buffer *out, const char *value)
{
    assert_ok(protobuf_put_string(out, ATTRIBUTE_NAME, "body"));
    const size_t begin = out->size;
    put_node(out, "Sin", value, "inner", NO_MORE);
    assert_ok(protobuf_end_message(out, ATTRIBUTE_GRAPH, begin, 0));
    assert_ok(protobuf_end_message(out, NODE_ATTRIBUTE, 0, 0));
}

static void put_nodes(buffer *out, const network *n)
{
    buffer subgraph;
    buffer_init(&subgraph, 4096);
    for (int i = 0; i < MOST_NODES && n->nodes[i][0] != NULL; i++) {
        const bool is_last = i + 1 == MOST_NODES || n->nodes[i + 1][0] == NULL;
        if (is_last && n->captured != NULL) {
            put_subgraph(&subgraph, n->captured);
        }
        put_node(out, n->nodes[i][0], n->nodes[i][1], n->nodes[i][2],
                 (more){subgraph.bytes == NULL ? (const unsigned char *)"" : subgraph.bytes,
                        subgraph.size});
    }
    buffer_fini(&subgraph);
}

static void put_rest(buffer *out)
{
    const onnx_attribute turned = {.name = "transB", .kind = ONNX_INTEGER, .integer = 1};
    buffer fields;
    buffer_init(&fields, 4096);
    assert_ok(onnx_put_attribute(&fields, &turned));
    put_node(out, "GlobalAveragePool", "b", "p", NO_MORE);
    put_node(out, "Flatten", "p", "f", NO_MORE);
    put_node(out, "Gemm", "f d", "logits", (more){fields.bytes, fields.size});
    buffer_fini(&fields);
}

static void put_network(buffer *out, const network *n)
{
    const int64_t samples = n->samples > 0 ? n->samples : ONNX_ANY_SIZE;
    const int64_t images[] = {samples, WIDTH, SIDE, SIDE};
    const int64_t flat[] = {samples, WIDTH, (int64_t)SIDE * SIDE};
    const int64_t classes[] = {samples, CLASSES};
    assert_ok(onnx_put_value(out, GRAPH_INPUT, "pixels", ONNX_FLOAT, 4, images));
    put_weights(out, "w", 4, (const int64_t[]){WIDTH, WIDTH, WIDTH, WIDTH});
    put_weights(out, "v", 1, (const int64_t[]){WIDTH});
    put_weights(out, "d", 2, (const int64_t[]){CLASSES, WIDTH});
    put_nodes(out, n);
    if (!n->is_all) {
        put_rest(out);
    }
    for (int i = 0; i < MOST_DECLARED && n->declared[i] != NULL; i++) {
        assert_ok(onnx_put_value(out, GRAPH_VALUE, n->declared[i], ONNX_FLOAT, 4, images));
    }
    for (int i = 0; i < 2 && n->flat[i] != NULL; i++) {
        assert_ok(onnx_put_value(out, GRAPH_VALUE, n->flat[i], ONNX_FLOAT, 3, flat));
    }
    assert_ok(onnx_put_value(out, GRAPH_OUTPUT, "logits", ONNX_FLOAT, 2, classes));
}

/* Writes the network and opens it. */
static grail_status open_network(const char *directory, const network *n, grail_model **out)
{
    buffer body;
    buffer_init(&body, 1 << 16);
    put_network(&body, n);
    const grail_status status = open_onnx_graph(directory, &body, 17, NULL, out);
    buffer_fini(&body);
    return status;
}

typedef struct expected {
    const char *node; /* the first of the first region */
    int regions, inputs;
    int64_t nodes, channels;
} expected;

static void check_regions(const grail_model *m, const expected *e)
{
    int count = 0;
    const node *first = NULL;
    for (int i = 0; i < m->graph->node_count; i++) {
        const node *n = &m->graph->nodes[i];
        if (n->kind == NODE_OPAQUE) {
            first = first == NULL ? n : first;
            count++;
        }
    }
    assert_int_equal(count, e->regions);
    const grail_region_facts r = grail_model_region_at(m, 0);
    assert_string_equal(r.node, e->node);
    assert_int_equal(r.nodes, e->nodes);
    assert_int_equal(r.channels, e->channels);
    assert_int_equal(first->input_count, e->inputs);
    assert_null(grail_model_region_at(m, e->regions).node);
    assert_null(grail_model_region_at(m, -1).node);
}

/* Initializers of both, and of cases. */
#define SINE                                                                                       \
    {                                                                                              \
        .nodes = {{"Conv", "pixels w", "a"}, {"Sin", "a", "b"}}, .declared = { "b" }               \
    }
#define MIXED                                                                                      \
    {                                                                                              \
        .nodes = {{"Conv", "pixels w", "a"},                                                       \
                  {"Relu", "a", "r"},                                                              \
                  {"Sigmoid", "a", "s"},                                                           \
                  {"Relu", "a", "t"},                                                              \
                  {"Sigmoid", "a", "u"},                                                           \
                  {"Relu", "a", "j"},                                                              \
                  {"Sigmoid", "a", "k"},                                                           \
                  {"Relu", "a", "l"},                                                              \
                  {"Sigmoid", "a", "m"},                                                           \
                  {"Relu", "a", "n"},                                                              \
                  {"Mystery", "r s t u j k l m n", "b"}},                                          \
        .declared = {                                                                              \
            "b",                                                                                   \
            "r",                                                                                   \
            "s",                                                                                   \
            "t",                                                                                   \
            "u",                                                                                   \
            "j",                                                                                   \
            "k",                                                                                   \
            "l",                                                                                   \
            "m",                                                                                   \
            "n"                                                                                    \
        }                                                                                          \
    }
static const network sine = SINE;
static const network mixed = MIXED;

DIRECTORY_TEST(nodes_without_a_row_become_regions)
{
    static const struct {
        network n;
        expected e;
    } cases[] = {
        {SINE, {"node of 'b' (Sin)", 1, 1, 1, 6}},
        /* tokens are values as well, on which rows work */
        {{.nodes = {{"Conv", "pixels w", "a"},
                    {"Mystery", "a", "m"},
                    {"Relu", "m", "q"},
                    {"Riddle", "q", "b"}},
          .declared = {"b"},
          .flat = {"m", "q"}},
         {"node of 'm' (Mystery)", 2, 1, 1, WIDTH + SIDE * SIDE}},
        /* two values are two regions */
        {{.nodes = {{"Conv", "pixels w", "a"}, {"Mystery", "a", "h k"}, {"Add", "h k", "b"}},
          .declared = {"h", "k"}},
         {"node of 'h' (Mystery)", 2, 1, 1, 6}},
        /* nine values: two of their nodes are taken in */
        {MIXED, {"node of 'm' (Sigmoid)", 1, 8, 3, 27}},
        /* a constant that such a node reads is no weight */
        {{.nodes = {{"Conv", "pixels w", "a"}, {"Mystery", "a w", "b"}}, .declared = {"a", "b"}},
         {"node of 'a' (Conv)", 1, 1, 2, 3}},
        {{.nodes = {{"Conv", "pixels w", "a"}, {"Mystery", "_", "b"}},
          .declared = {"b"},
          .captured = "a"},
         {"node of 'b' (Mystery)", 1, 1, 1, 6}},
        /* of the images the size alone is read, which holds them nowhere; but where nothing else is
         * read they are an input */
        {{.nodes = {{"Conv", "pixels w", "a"}, {"Shape", "pixels", "s"}, {"Mystery", "a s", "b"}},
          .declared = {"b"}},
         {"node of 'b' (Mystery)", 1, 1, 2, 6}},
        {{.nodes = {{"Shape", "pixels", "s"}, {"Mystery", "s", "b"}}, .declared = {"b"}},
         {"node of 'b' (Mystery)", 1, 1, 2, 3}},
        /* weights that nodes compute, where no library does */
        {{.nodes = {{"Mul", "w w", "c"}, {"Conv", "pixels c", "b"}}, .declared = {"b"}},
         {"node of 'c' (Mul)", 1, 1, 2, 3}},
        {{.nodes = {{"Mystery", "pixels v", "logits"}}, .is_all = true},
         {"node of 'logits' (Mystery)", 1, 1, 1, CLASSES}},
    };
    assert_int_equal(unsetenv("GRAIL_ONNXRUNTIME"), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        grail_model *m = NULL;
        assert_ok(open_network(directory, &cases[i].n, &m));
        check_regions(m, &cases[i].e);
        assert_int_equal(m->graph->classes, CLASSES);
        grail_model_close(m);
    }
}

DIRECTORY_TEST(a_region_pins_what_it_reads_and_makes)
{
    grail_model *m = NULL;
    grail_site_list *sites = NULL;
    assert_ok(open_network(directory, &sine, &m));
    assert_ok(grail_model_sites(m, GRAIL_GQA_KV_GROUPS, &sites));
    assert_int_equal(grail_site_list_count(sites), 0);
    assert_string_equal(grail_model_region_at(m, 0).reason, "grail has no row for this operator");
    assert_non_null(strstr(m->notices[0], "6 channels that are read or made there stay"));
    grail_site_list_free(sites);
    grail_model_close(m);
}

DIRECTORY_TEST(what_no_library_could_run_either_is_refused)
{
    grail_model *m = NULL;
    network n = sine;
    n.declared[0] = NULL;
    assert_int_equal(unsetenv("GRAIL_ONNXRUNTIME"), 0);
    assert_fails(open_network(directory, &n, &m), GRAIL_ERROR_UNSUPPORTED,
                 "the file does not declare the shape of 'b', and it cannot be "
                 "found out: ONNX Runtime was not found: GRAIL_ONNXRUNTIME is not set");
    n = sine;
    n.samples = 4;
    assert_fails(open_network(directory, &n, &m), GRAIL_ERROR_UNSUPPORTED,
                 "and this one takes 4 at a time");
    n = sine;
    n.nodes[1][0] = "BatchNormalization";
    n.nodes[1][1] = "a v v v v";
    n.nodes[1][2] = "b mean";
    assert_fails(open_network(directory, &n, &m), GRAIL_ERROR_FORMAT, "is of training");
}

typedef struct opening {
    const char *directory;
} opening;

static grail_status open_mixed(void *context)
{
    grail_model *m = NULL;
    const opening *o = context;
    char path[512];
    snprintf(path, sizeof path, "%s/net.onnx", o->directory);
    const grail_status status = grail_model_open(path, &m);
    grail_model_close(m);
    return status;
}

DIRECTORY_TEST(every_failing_allocation_is_survived)
{
    grail_model *m = NULL;
    opening o = {directory};
    assert_ok(open_network(directory, &mixed, &m));
    grail_model_close(m);
    support_fail_each_allocation(open_mixed, &o);
}

CMFixtureFunction support_setup = json_memory_use;
