#include "build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add_parameter(graph *g, const char *name, const char *suffix, int rank, int64_t rows,
                         int64_t columns)
{
    char full[64];
    int index = 0;
    const int64_t shape[2] = {rows, columns};
    snprintf(full, sizeof full, "%s%s", name, suffix);
    assert_ok(graph_add_parameter(g, full, rank, shape, &index));
    return index;
}

static int add_node(graph *g, const node *n)
{
    int value = 0;
    assert_ok(graph_add_node(g, n, &value));
    return value;
}

int add_linear(graph *g, int block, const char *name, int64_t in, int64_t out, bool bias, int x)
{
    node n = node_of(NODE_LINEAR, block, x, GRAPH_NONE);
    n.weight = add_parameter(g, name, ".weight", 2, out, in);
    n.bias = bias ? add_parameter(g, name, ".bias", 1, out, 0) : GRAPH_NONE;
    return add_node(g, &n);
}

int add_norm(graph *g, int block, const char *name, int64_t width, int64_t group, int x)
{
    node n = node_of(NODE_RMS_NORM, block, x, GRAPH_NONE);
    n.weight = add_parameter(g, name, ".weight", 1, width, 0);
    n.norm.group = group;
    return add_node(g, &n);
}

int add_embedding(graph *g, const char *name, int64_t vocabulary, int64_t width)
{
    node n = node_of(NODE_EMBEDDING, GRAPH_NONE, g->input, GRAPH_NONE);
    n.weight = add_parameter(g, name, ".weight", 2, vocabulary, width);
    return add_node(g, &n);
}

int add_plain(graph *g, int block, node_kind kind, int left, int right)
{
    const node n = node_of(kind, block, left, right);
    return add_node(g, &n);
}

int add_route(graph *g, int block, int64_t chosen, int scores)
{
    node n = node_of(NODE_ROUTE, block, scores, GRAPH_NONE);
    n.route.chosen = chosen;
    return add_node(g, &n);
}

int add_take_rows(graph *g, int block, int64_t output, int shares, int x)
{
    node n = node_of(NODE_TAKE_ROWS, block, x, shares);
    n.share = output;
    return add_node(g, &n);
}

int add_put_rows(graph *g, int block, int64_t output, int shares, int rows, int sum)
{
    node n = node_of(NODE_PUT_ROWS, block, rows, shares);
    n.inputs[n.input_count++] = sum;
    n.share = output;
    return add_node(g, &n);
}

int add_attention(graph *g, int block, int64_t head_dim, int q, int k, int v)
{
    node n = node_of(NODE_ATTENTION, block, q, k);
    n.inputs[n.input_count++] = v;
    n.attention.head_dim = head_dim;
    return add_node(g, &n);
}

int add_conv(graph *g, int block, const char *name, int64_t in, int64_t out, int64_t kernel,
             int64_t stride, int x)
{
    node n = node_of(NODE_CONV2D, block, x, GRAPH_NONE);
    const int64_t shape[4] = {out, in, kernel, kernel};
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    assert_ok(graph_add_parameter(g, full, 4, shape, &n.weight));
    n.window = (window2d)WINDOW2D(kernel, kernel, stride, kernel / 2, 1);
    return add_node(g, &n);
}

int add_batch_norm(graph *g, int block, const char *name, int64_t width, int x)
{
    node n = node_of(NODE_BATCH_NORM, block, x, GRAPH_NONE);
    n.weight = add_parameter(g, name, ".weight", 1, width, 0);
    n.bias = add_parameter(g, name, ".bias", 1, width, 0);
    n.mean = add_parameter(g, name, ".mean", 1, width, 0);
    n.variance = add_parameter(g, name, ".variance", 1, width, 0);
    n.norm.epsilon = 1e-5;
    return add_node(g, &n);
}

int add_shortcut(graph *g, int block, int64_t pad, int x)
{
    node n = node_of(NODE_SHORTCUT, block, x, GRAPH_NONE);
    n.window = (window2d)WINDOW2D(1, 1, 2, 0, 1);
    n.pad = pad;
    return add_node(g, &n);
}

int add_concat(graph *g, int block, int first, int second, int third)
{
    node n = node_of(NODE_CONCAT, block, first, second);
    if (third != GRAPH_NONE) {
        n.inputs[n.input_count++] = third;
    }
    return add_node(g, &n);
}

int add_slice(graph *g, int block, int64_t first, int64_t length, int x)
{
    node n = node_of(NODE_SLICE, block, x, GRAPH_NONE);
    n.slice = (slice_attributes){.first = first, .length = length};
    return add_node(g, &n);
}

int add_zeros(graph *g, int block, int64_t channels, int x)
{
    node n = node_of(NODE_ZEROS, block, x, GRAPH_NONE);
    n.zeros = channels;
    return add_node(g, &n);
}

const site *find_site(const site_list *sites, const char *name)
{
    const int index = site_list_find(sites, name);
    assert_true(index >= 0);
    return &sites->sites[index];
}

static void write_ends(FILE *out, const graph *g, const site_end *ends, int count, int marked)
{
    for (int i = 0; i < count; i++) {
        const char *name = g->parameters[g->nodes[ends[i].node].weight].name;
        const char *suffix = strstr(name, ".weight");
        fprintf(out, " %.*s", (int)(suffix == NULL ? strlen(name) : (size_t)(suffix - name)), name);
        if (ends[i].features_per_unit > 1) {
            fprintf(out, "*%d", (int)ends[i].features_per_unit);
        }
        if (ends[i].first > 0) {
            fprintf(out, "@%d", (int)ends[i].first);
        }
        fprintf(out, "%s%s", ends[i].exchangeable ? "~" : "", i == marked ? "!" : "");
    }
}

static void write_site(FILE *out, const graph *g, const site *s)
{
    const int marked = s->kind == SITE_STREAM ? site_branch_producer(g, s) : GRAPH_NONE;
    fprintf(out, "%s %s %d, %d units", s->name, site_kind_name(s->kind), s->block, (int)s->units);
    if (s->groups > 1) {
        fprintf(out, " in %d groups", (int)s->groups);
    }
    if (s->subunits > 1) {
        fprintf(out, " of %d", (int)s->subunits);
    }
    fprintf(out, "%s%s, %d each:", s->normed ? " behind a norm" : "",
            site_spans_blocks(g, s) ? " across blocks" : "", (int)site_parameters_per_unit(g, s));
    write_ends(out, g, s->producers, s->producer_count, marked);
    fprintf(out, " >");
    write_ends(out, g, s->consumers, s->consumer_count, GRAPH_NONE);
    if (s->channel_count > 0) {
        fprintf(out, " with");
        write_ends(out, g, s->channels, s->channel_count, GRAPH_NONE);
    }
    fprintf(out, "\n");
}

void assert_sites(const graph *g, gqa_mode mode, const char *expected)
{
    char *text = NULL;
    size_t size = 0;
    OWNED(site_list) sites = {0};
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_ok(sites_derive(g, mode, &sites));
    for (int i = 0; i < sites.count; i++) {
        write_site(out, g, &sites.sites[i]);
    }
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, expected);
    free(text);
}

static grail_status derive_once(void *context)
{
    OWNED(site_list) sites = {0};
    return sites_derive(context, GQA_KV_GROUPS, &sites);
}

void assert_derivation_survives(graph *g)
{
    support_fail_each_allocation(derive_once, g);
}
