#include "vision_sites.h"

#include "graph/operators.h"

#include <string.h>

const json_t *vision_reported_site(const json_t *report, const char *name)
{
    const json_t *list = json_object_get(report, "sites");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        if (strcmp(json_string_value(json_object_get(one, "site")), name) == 0) {
            return one;
        }
    }
    fail_msg("no site '%s' is reported", name);
    return NULL;
}

int vision_kept_units(const char *output, const char *site, int64_t *kept, int most)
{
    OWNED(json_t) *report = read_json(output, "report.json");
    const json_t *list = json_object_get(vision_reported_site(report, site), "kept_units");
    const int count = (int)json_array_size(list);
    assert_true(count <= most);
    for (int k = 0; k < count; k++) {
        kept[k] = json_integer_value(json_array_get(list, (size_t)k));
    }
    return count;
}

/* -- zero columns ----------------------------------------------------------------------------- */

static bool is_kept(const json_t *kept, int64_t unit)
{
    for (size_t i = 0; i < json_array_size(kept); i++) {
        if (json_integer_value(json_array_get(kept, i)) == unit) {
            return true;
        }
    }
    return false;
}

/* Each of `groups` equal runs of rows reads its own run of the units. */
static void zero_columns(vision_tensor *t, int64_t rows, int64_t groups, int64_t first,
                         int64_t units, int64_t block, const json_t *kept)
{
    const int64_t width = vision_elements(t) / rows;
    const int64_t own = units / groups;
    assert_true(first + own * block <= width);
    for (int64_t j = 0; j < units; j++) {
        const int64_t begin = j / own * (rows / groups);
        for (int64_t row = begin; row < begin + rows / groups && !is_kept(kept, j); row++) {
            memset(t->values + row * width + first + j % own * block, 0,
                   (size_t)block * sizeof t->values[0]);
        }
    }
}

static grail_site_list *sites_of(const grail_model *m)
{
    grail_site_list *sites = NULL;
    assert_ok(grail_model_sites(m, GRAIL_GQA_KV_GROUPS, &sites));
    assert_true(sites->list.count > 0);
    return sites;
}

static void zero_removed(vision_model *dense, const char *path, const char *output)
{
    OWNED(json_t) *report = read_json(output, "report.json");
    OWNED(grail_model) *m = vision_model_open(path);
    OWNED(grail_site_list) *sites = sites_of(m);
    for (int i = 0; i < sites->list.count; i++) {
        const site *s = &sites->list.sites[i];
        const json_t *kept = json_object_get(vision_reported_site(report, s->name), "kept_units");
        for (int k = 0; kept != NULL && k < s->consumer_count; k++) {
            const node *n = &m->graph->nodes[s->consumers[k].node];
            const graph_parameter *p = &m->graph->parameters[n->weight];
            assert_true(s->is_part || p->shape[1] * node_groups(n) ==
                                          s->units * s->consumers[k].features_per_unit);
            zero_columns(vision_find(dense, p->tensor), p->shape[0], node_groups(n),
                         s->consumers[k].first * weight_taps(p), s->units,
                         s->consumers[k].features_per_unit * weight_taps(p), kept);
        }
    }
}

void assert_pruned_is_zeroed(const vision_lab *v, vision_model *dense, const char *path,
                             const char *output)
{
    zero_removed(dense, path, output);
    vision_write(dense, vision_path(v, "zeroed"));
    assert_near(vision_difference(v, output, vision_path(v, "zeroed")), 0.0, 1e-5);
}

/* -- doubling --------------------------------------------------------------------------------- */

enum { MOST_FEATURES = 512 };

/* The change of one axis of a parameter: feature i of the result is `factor[i]` times feature
 * source[i]; count 0 where the axis stays. */
typedef struct axis_copy {
    int64_t count;
    int64_t source[MOST_FEATURES];
    float factor[MOST_FEATURES];
} axis_copy;

typedef struct parameter_copy {
    axis_copy rows, columns;
} parameter_copy;

typedef struct doubling {
    const graph *g;
    vision_doubling how;
    parameter_copy *copies; /* [parameter_count] */
} doubling;

/* unit[i] of the n that new unit i is a copy of, and whether it is the second one. */
typedef struct unit_copies {
    int64_t n;
    int64_t unit[MOST_FEATURES];
    bool second[MOST_FEATURES];
    float scale[MOST_FEATURES]; /* of the channel that the second copy carries */
} unit_copies;

static void draw_copies(int64_t n, uint64_t seed, unit_copies *c)
{
    random_state random;
    random_seed(&random, seed, 0);
    c->n = n;
    assert_true(2 * n <= MOST_FEATURES);
    random_permutation(&random, 2 * n, c->unit);
    for (int64_t i = 0; i < 2 * n; i++) {
        c->second[i] = c->unit[i] >= n;
        c->unit[i] %= n;
        c->scale[i] = (float)(0.5 + random_uniform(&random));
    }
}

/* An axis of u features per unit, with `first` and `second` times [scale] for the copies. */
static void copy_axis(axis_copy *a, const unit_copies *c, int64_t u, float first, float second,
                      bool scaled)
{
    assert_int_equal(a->count, 0);
    assert_true(2 * c->n * u <= MOST_FEATURES);
    a->count = 2 * c->n * u;
    for (int64_t i = 0; i < a->count; i++) {
        const int64_t j = i / u;
        a->source[i] = c->unit[j] * u + i % u;
        a->factor[i] = !c->second[j] ? first : second * (scaled ? c->scale[j] : 1.0F);
    }
}

static void copy_rows(doubling *d, int parameter, const unit_copies *c, int64_t u, float second,
                      bool scaled)
{
    if (parameter != GRAPH_NONE) {
        copy_axis(&d->copies[parameter].rows, c, u, 1.0F, second, scaled);
    }
}

static const float tiny = 1.0F / 64.0F;

static void double_producers(doubling *d, const site *s, const unit_copies *c)
{
    for (int p = 0; p < s->producer_count; p++) {
        const node *n = &d->g->nodes[s->producers[p].node];
        const bool small = d->how == VISION_SCALED && n->kind == NODE_CONV2D;
        const int64_t u = s->producers[p].features_per_unit;
        copy_rows(d, n->weight, c, u, small ? tiny : 1.0F, false);
        copy_rows(d, n->bias, c, u, small ? tiny : 1.0F, false);
    }
    for (int k = 0; k < s->channel_count; k++) {
        const node *n = &d->g->nodes[s->channels[k].node];
        const bool scaled = d->how == VISION_SCALED;
        copy_rows(d, n->weight, c, 1, scaled ? 1.0F / tiny : 1.0F, scaled);
        copy_rows(d, n->bias, c, 1, 1.0F, scaled);
        copy_rows(d, n->mean, c, 1, scaled ? tiny : 1.0F, false);
        copy_rows(d, n->variance, c, 1, 1.0F, false);
    }
}

static void double_site(doubling *d, const site *s, uint64_t seed)
{
    static unit_copies c;
    draw_copies(s->units, seed, &c);
    double_producers(d, s, &c);
    const bool scaled = d->how == VISION_SCALED;
    for (int k = 0; k < s->consumer_count; k++) {
        const node *n = &d->g->nodes[s->consumers[k].node];
        const float second = scaled && (s->kind == SITE_FFN || s->kind == SITE_HEADS) ? tiny : 0.5F;
        copy_axis(&d->copies[n->weight].columns, &c, s->consumers[k].features_per_unit,
                  scaled ? 1.0F : 0.5F, second, false);
    }
}

/* Values of one parameter after the change behind those already in out; returns their rows. */
static int64_t append_copy(const parameter_copy *c, const graph_parameter *p, const float *in,
                           float *out)
{
    const int64_t taps = weight_taps(p);
    const int64_t width = p->rank == 1 ? 1 : p->shape[1];
    const int64_t rows = c->rows.count > 0 ? c->rows.count : p->shape[0];
    const int64_t columns = c->columns.count > 0 ? c->columns.count : width;
    for (int64_t i = 0; i < rows * columns * taps; i++) {
        const int64_t row = i / (columns * taps);
        const int64_t column = i / taps % columns;
        const int64_t from_row = c->rows.count > 0 ? c->rows.source[row] : row;
        const int64_t from = c->columns.count > 0 ? c->columns.source[column] : column;
        float value = in[(from_row * width + from) * taps + i % taps];
        value *= c->rows.count > 0 ? c->rows.factor[row] : 1.0F;
        value *= c->columns.count > 0 ? c->columns.factor[column] : 1.0F;
        out[i] = value;
    }
    return rows;
}

/* All parts of one tensor, in the order of their rows. */
static void rewrite_tensor(const doubling *d, vision_tensor *t)
{
    const int64_t most = 4 * vision_elements(t);
    float *values = NULL;
    int64_t rows = 0;
    int64_t next = 0;
    assert_ok(memory_new(&values, (size_t)most, sizeof values[0]));
    int64_t begin = 0;
    for (int p = 0; p < d->g->parameter_count; p++) {
        const graph_parameter *own = &d->g->parameters[p];
        if (strcmp(own->tensor, t->shape.name) != 0) {
            continue;
        }
        const int leading = t->shape.rank - own->rank;
        assert_int_equal(own->map.rows.first, next); /* the graph lists parts in their order */
        const int64_t width = own->rank == 1 ? 1 : own->shape[1] * weight_taps(own);
        const int64_t added =
            append_copy(&d->copies[p], own, t->values + next * width, values + begin);
        const int64_t columns =
            d->copies[p].columns.count > 0 ? d->copies[p].columns.count * weight_taps(own) : width;
        next += own->shape[0];
        rows += added;
        begin += added * columns;
        t->shape.shape[leading] = rows;
        if (own->rank > 1 && d->copies[p].columns.count > 0) {
            t->shape.shape[leading + 1] = d->copies[p].columns.count;
        }
    }
    if (rows > 0) {
        memory_free(t->values);
        t->values = values;
    } else {
        memory_free(values);
    }
}

static void tell_config(vision_model *m)
{
    if (m->config != NULL) {
        static const char *const doubled[] = {"intermediate_size", "num_attention_heads"};
        for (size_t i = 0; i < sizeof doubled / sizeof doubled[0]; i++) {
            const json_int_t old = json_integer_value(json_object_get(m->config, doubled[i]));
            assert_ok(json_put(m->config, doubled[i], json_integer(2 * old)));
        }
        assert_ok(json_put(m->config, "head_dim", json_integer(VISION_HEAD_DIM)));
    }
}

void vision_double(vision_model *m, const char *path, vision_doubling how)
{
    OWNED(grail_model) *model = vision_model_open(path);
    OWNED(grail_site_list) *sites = sites_of(model);
    doubling d = {.g = model->graph, .how = how};
    assert_ok(memory_new(&d.copies, (size_t)d.g->parameter_count, sizeof d.copies[0]));
    for (int i = 0; i < sites->list.count; i++) {
        double_site(&d, &sites->list.sites[i], 100 + (uint64_t)i);
    }
    for (int i = 0; i < m->count; i++) {
        if (m->tensors[i].values != NULL) {
            rewrite_tensor(&d, &m->tensors[i]);
        }
    }
    tell_config(m);
    memory_free(d.copies);
}
