#include "planning/cost_table.h"

#include "graph/operators.h"
#include "graph/sublayer.h"

/* What a table is made from. */
typedef struct counting {
    const grail_model *model;
    const graph *graph;
    const site_list *sites;
    const parameter_cut *cuts; /* of the table */
    int *sublayers;            /* [node_count]: the site with whose sublayer the node goes */
    int64_t *widths;           /* [value_count] */
    extent *extents;           /* [value_count] */
} counting;

static void counting_fini(counting *c)
{
    memory_free(c->sublayers);
    memory_free(c->widths);
    memory_free(c->extents);
}

/* The axes of all sites that may be cut, as a plan that cuts them has them. */
static grail_status map_cuts(const counting *c, const bool *may_cut, parameter_cut **out)
{
    grail_status status = GRAIL_OK;
    plan p = {.count = c->sites->count};
    TRY(memory_new(&p.sites, (size_t)p.count, sizeof p.sites[0]));
    for (int i = 0; i < p.count; i++) {
        const site *s = &c->sites->sites[i];
        const int64_t less = site_may_be_cut(s, may_cut) ? 1 : 0;
        p.sites[i] = (plan_site){.units = s->units, .kept = s->units - less};
    }
    TRY(cuts_map(c->graph, c->sites, &p, out));
out:
    memory_free(p.sites);
    return status;
}

static grail_status counting_init(counting *c)
{
    const graph *g = c->graph;
    const size_t values = (size_t)g->value_count;
    sublayer found;
    CHECK(memory_new(&c->sublayers, (size_t)g->node_count, sizeof c->sublayers[0]));
    for (int n = 0; n < g->node_count; n++) {
        c->sublayers[n] = GRAPH_NONE;
    }
    for (int i = 0; i < c->sites->count; i++) {
        const bool is_one = sublayer_of(g, &c->sites->sites[i], &found);
        for (int n = found.begin; is_one && n <= found.add; n++) {
            c->sublayers[n] = i;
        }
    }
    CHECK(memory_new(&c->widths, values, sizeof c->widths[0]));
    CHECK(memory_new(&c->extents, values, sizeof c->extents[0]));
    CHECK(graph_widths(g, c->widths));
    return graph_extents(g, model_usual_positions(c->model), c->extents);
}

static const cost_axis single = {.cut = {.site = GRAPH_NONE}, .length = 1};

/* Columns of a convolution include its taps, as in the cut of its columns. */
static cost_term term_of_parameter(const counting *c, int parameter, int goes_with)
{
    const graph_parameter *p = &c->graph->parameters[parameter];
    const parameter_cut *cut = &c->cuts[parameter];
    return (cost_term){.rows = {.cut = cut->rows, .length = p->shape[0]},
                       .columns = {.cut = cut->columns, .length = row_elements(p->rank, p->shape)},
                       .times = 1,
                       .sublayer = goes_with};
}

/* No node outside a sublayer reads the parameters of one inside. */
static void add_parameters(const counting *c, cost_table *t)
{
    const int first = t->count;
    for (int p = 0; p < c->graph->parameter_count; p++) {
        cost_term *term = &t->terms[t->count++];
        *term = term_of_parameter(c, p, GRAPH_NONE);
        term->dtype = model_written_dtype(c->model, c->model->tensors[p]);
    }
    for (int n = 0; n < c->graph->node_count; n++) {
        int parameters[NODE_MAX_PARAMETERS];
        const int count = node_parameters(&c->graph->nodes[n], parameters);
        for (int i = 0; i < count; i++) {
            t->terms[first + parameters[i]].sublayer = c->sublayers[n];
        }
    }
}

static void add_products(const counting *c, cost_table *t)
{
    for (int i = 0; i < c->graph->node_count; i++) {
        const node *n = &c->graph->nodes[i];
        const extent positions = c->extents[n->output];
        if (node_products(c->graph, n, positions) > 0) {
            cost_term *term = &t->terms[t->count++];
            *term = term_of_parameter(c, n->weight, c->sublayers[i]);
            term->times *= positions.height * positions.width;
            const node *router = node_router(c->graph, n, &term->outputs);
            term->chosen = router == NULL ? 0 : router->route.chosen;
        }
    }
}

/* The channels of a value, of which the site of the map before it has as many for each unit. */
static cost_axis channels_of(const counting *c, int value)
{
    cost_axis a = {.cut = {.site = GRAPH_NONE}, .length = c->widths[value]};
    int n = c->graph->value_source[value];
    while (n != GRAPH_NONE && !node_is_map(&c->graph->nodes[n])) {
        n = c->graph->value_source[c->graph->nodes[n].inputs[0]];
    }
    const int index = n == GRAPH_NONE ? n : c->cuts[c->graph->nodes[n].weight].rows.site;
    if (index != GRAPH_NONE) {
        a.cut = (cut_axis){.site = index, .features = a.length / c->sites->sites[index].units};
    }
    return a;
}

/* Keys and values of attention that looks back; what runs quantised weights keeps them in F16. */
static void add_caches(const counting *c, cost_table *t)
{
    const size_t bits = dtype_bits(model_first_dtype(c->model));
    for (int i = 0; i < c->graph->node_count; i++) {
        const node *n = &c->graph->nodes[i];
        const bool has_cache = operator_of(n)->axis == AXIS_HEADS && !n->attention.bidirectional;
        for (int k = 1; has_cache && k < n->input_count; k++) {
            const int value = n->inputs[k];
            t->terms[t->count++] = (cost_term){
                .rows = channels_of(c, value),
                .columns = single,
                .times = (int64_t)(bits == 0 ? 16 : bits) / 8,
                .sublayer = c->sublayers[i],
            };
        }
    }
}

grail_status cost_table_init(const grail_model *model, const site_list *sites, const bool *may_cut,
                             limit_kind limited, cost_table *t)
{
    grail_status status = GRAIL_OK;
    const graph *g = model->graph;
    counting c = {.model = model, .graph = g, .sites = sites};
    const size_t most = (size_t)g->parameter_count + NODE_MAX_INPUTS * (size_t)g->node_count;
    *t = (cost_table){.limited = limited, .sites = sites};
    TRY(map_cuts(&c, may_cut, &t->cuts));
    c.cuts = t->cuts;
    TRY(counting_init(&c));
    TRY(memory_new(&t->terms, most, sizeof t->terms[0]));
    switch (limited) {
    case LIMIT_MACS:
        add_products(&c, t);
        break;
    case LIMIT_KV_BYTES:
        add_caches(&c, t);
        break;
    default:
        t->outside = limited == LIMIT_BYTES ? model->outside_bytes : model->outside_parameters;
        add_parameters(&c, t);
    }
out:
    counting_fini(&c);
    return status;
}

void cost_table_fini(cost_table *t)
{
    memory_free(t->cuts);
    memory_free(t->terms);
    *t = (cost_table){0};
}

static int64_t length_of(const cost_table *t, const cost_axis *a, const int64_t *kept)
{
    int64_t length = a->length;
    for (const cut_axis *cut = &a->cut; cut != NULL && cut->site != GRAPH_NONE; cut = cut->next) {
        const int64_t less = t->sites->sites[cut->site].units - kept[cut->site];
        const int64_t groups = cut->groups > 1 ? cut->groups : 1;
        length -= kept[cut->site] > 0 ? less * cut->features / groups : 0;
    }
    return length;
}

double cost_table_read(const cost_table *t, const int64_t *kept)
{
    int64_t sum = t->outside;
    for (int i = 0; i < t->count; i++) {
        const cost_term *term = &t->terms[i];
        const bool gone = term->sublayer != GRAPH_NONE && kept[term->sublayer] == 0;
        const int64_t elements = gone ? 0
                                      : length_of(t, &term->rows, kept) *
                                            length_of(t, &term->columns, kept) * term->times;
        size_t bytes = 0;
        if (t->limited == LIMIT_BYTES) {
            (void)dtype_bytes(term->dtype, elements, &bytes);
            sum += (int64_t)bytes;
        } else {
            sum += term->chosen > 0 ? elements / term->outputs * term->chosen : elements;
        }
    }
    return (double)sum;
}
