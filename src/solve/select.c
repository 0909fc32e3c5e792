/* The public choice of units. */
#include "base/memory.h"
#include "base/names.h"
#include "base/option_values.h"
#include "reduce/selector.h"
#include "reduce/site_view.h"
#include "solve/given.h"

#include <grail/select.h>

#include <math.h>
#include <string.h>

/* A site of a caller's buffers, as selectors see one: a graph that has nothing but the site's ends:
 * parameters are the caller's arrays. It must not move. */
typedef struct given_site {
    graph graph;
    node *nodes;                 /* what is owned is these arrays */
    graph_parameter *parameters; /* [graph.parameter_count] */
    const float **values;        /* of the parameters; borrowed */
    site site;
    site_end *ends;     /* of producers, channels and consumers */
    routed_sum *routed; /* [units], or NULL */
    site_view view;     /* `inputs` are owned, [input_count] */
} given_site;

/* Works on a zeroed one. */
static void given_site_fini(given_site *s)
{
    memory_free(s->nodes);
    memory_free(s->parameters);
    memory_free(s->values);
    memory_free(s->ends);
    memory_free(s->routed);
    input_statistics_free(s->view.input_count, s->view.inputs);
    *s = (given_site){0};
}

static const char *kind_at(const void *list, int i)
{
    (void)list;
    return i < SITE_KINDS ? site_kind_name((site_kind)i) : NULL;
}

/* The kind of that name; GRAIL_ERROR_ARGUMENT lists the known ones. */
static grail_status given_site_kind(const char *name, site_kind *out)
{
    for (int i = 0; i < SITE_KINDS; i++) {
        if (strcmp(name, site_kind_name((site_kind)i)) == 0) {
            *out = (site_kind)i;
            return GRAIL_OK;
        }
    }
    error_set(GRAIL_ERROR_ARGUMENT, "unknown kind of site '%s'; expected one of", name);
    error_append_names(name, kind_at, NULL);
    return error_about(GRAIL_ERROR_ARGUMENT, "kind");
}

/* -- the ends ---------------------------------------------------------------------------------- */

/* What 0 stands for. */
static int64_t one_at_least(int64_t value)
{
    return value == 0 ? 1 : value;
}

/* Weights are looked at as often as a rule reads them, so they are checked here, once. */
static grail_status add_parameter(given_site *s, const char *what, int index, const float *values,
                                  graph_parameter shape, int *out)
{
    size_t count = 1;
    bool fits = true;
    *out = GRAPH_NONE;
    for (int d = 0; d < shape.rank; d++) {
        fits = fits && shape.shape[d] > 0 && size_multiply(count, (size_t)shape.shape[d], &count);
    }
    if (!fits || count > INT64_MAX / sizeof values[0]) {
        return error_about(error_set(GRAIL_ERROR_SHAPE,
                                     "the numbers of units, features, rows and columns of the "
                                     "%.*s %d of the site must be positive and fit memory",
                                     (int)strlen(what) - 1, what, index),
                           what);
    }
    for (size_t i = 0; values != NULL && i < count; i++) {
        if (!isfinite(values[i])) {
            return error_about(
                error_set(GRAIL_ERROR_NUMERIC,
                          "element %zu of the weights or biases of %.*s %d of the site "
                          "is not finite",
                          i, (int)strlen(what) - 1, what, index),
                what);
        }
    }
    if (values != NULL) {
        *out = s->graph.parameter_count++;
        s->parameters[*out] = shape;
        s->values[*out] = values;
    }
    return GRAIL_OK;
}

static site_end *add_end(given_site *s, int64_t features, int exchangeable)
{
    site_end *end = &s->ends[s->graph.node_count];
    *end = (site_end){.node = s->graph.node_count,
                      .features_per_unit = one_at_least(features),
                      .exchangeable = exchangeable != 0};
    s->nodes[s->graph.node_count++] =
        (node){.kind = NODE_LINEAR, .weight = GRAPH_NONE, .bias = GRAPH_NONE};
    return end;
}

static grail_status check_subunits(const given_site *s, const char *what, int index,
                                   const site_end *end)
{
    return !end->exchangeable || end->features_per_unit % s->site.subunits == 0
               ? GRAIL_OK
               : error_about(error_set(GRAIL_ERROR_SHAPE,
                                       "%lld features of each unit of %.*s %d of the site are not "
                                       "%lld equal blocks",
                                       (long long)end->features_per_unit, (int)strlen(what) - 1,
                                       what, index, (long long)s->site.subunits),
                             what);
}

static grail_status add_rows(given_site *s, const char *what, int index, const grail_unit_rows *r)
{
    const int64_t taps = one_at_least(r->positions);
    const int64_t columns = r->weight == NULL ? taps : r->columns;
    const site_end *end = add_end(s, r->features_per_unit, r->exchangeable);
    node *n = &s->nodes[end->node];
    int64_t rows = 0;
    CHECK(OPTION_ROOM_OF(grail_unit_rows, r));
    CHECK(check_subunits(s, what, index, end));
    if (taps < 0 || columns % taps != 0 || end->features_per_unit < 0 ||
        __builtin_mul_overflow(s->site.units, end->features_per_unit, &rows)) {
        return error_about(error_set(GRAIL_ERROR_SHAPE,
                                     "%.*s %d of the site has %lld features of each unit and %lld "
                                     "columns of %lld positions",
                                     (int)strlen(what) - 1, what, index,
                                     (long long)end->features_per_unit, (long long)columns,
                                     (long long)taps),
                           what);
    }
    CHECK(add_parameter(s, what, index, r->weight,
                        (graph_parameter){.rank = 4, .shape = {rows, columns / taps, 1, taps}},
                        &n->weight));
    return add_parameter(s, what, index, r->bias, (graph_parameter){.rank = 1, .shape = {rows}},
                         &n->bias);
}

static grail_status add_all_rows(given_site *s, const char *what, int count,
                                 const grail_unit_rows *rows, bool weighted)
{
    if (count < 0 || (count > 0 && rows == NULL)) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                     "the site has %d %s, but no array of them", count, what),
                           what);
    }
    for (int i = 0; i < count; i++) {
        if (rows[i].weight == NULL && (weighted || rows[i].bias == NULL)) {
            return error_about(error_set(GRAIL_ERROR_ARGUMENT, "%.*s %d of the site has no weights",
                                         (int)strlen(what) - 1, what, i),
                               what);
        }
        CHECK(add_rows(s, what, i, &rows[i]));
    }
    return GRAIL_OK;
}

static grail_status add_ends(const grail_site *given, given_site *s)
{
    const int64_t count =
        (int64_t)given->producer_count + given->channel_count + given->consumer_count;
    const size_t room = count > 0 ? (size_t)count : 1;
    CHECK(memory_new(&s->nodes, room, sizeof s->nodes[0]));
    CHECK(memory_new(&s->ends, room, sizeof s->ends[0]));
    CHECK(memory_new(&s->parameters, 2 * room, sizeof s->parameters[0]));
    CHECK(memory_new(&s->values, 2 * room, sizeof s->values[0]));
    s->graph.nodes = s->nodes;
    s->graph.parameters = s->parameters;
    s->site.producers = s->ends;
    CHECK(add_all_rows(s, "producers", given->producer_count, given->producers, true));
    s->site.producer_count = given->producer_count;
    s->site.channels = s->ends + s->graph.node_count;
    CHECK(add_all_rows(s, "channels", given->channel_count, given->channels, false));
    s->site.channel_count = given->channel_count;
    s->site.consumers = s->ends + s->graph.node_count;
    for (int k = 0; k < given->consumer_count; k++) {
        static const char what[] = "consumers";
        const site_end *end =
            add_end(s, given->consumers[k].features_per_unit, given->consumers[k].exchangeable);
        int64_t columns = 0;
        CHECK(OPTION_ROOM_OF(grail_unit_columns, &given->consumers[k]));
        CHECK(check_subunits(s, what, k, end));
        if (given->consumers[k].weight == NULL || end->features_per_unit < 0 ||
            __builtin_mul_overflow(s->site.units, end->features_per_unit, &columns)) {
            return error_about(error_set(GRAIL_ERROR_ARGUMENT, "%.*s %d of the site has no weights",
                                         (int)strlen(what) - 1, what, k),
                               what);
        }
        const int64_t taps = one_at_least(given->consumers[k].positions);
        CHECK(add_parameter(
            s, what, k, given->consumers[k].weight,
            (graph_parameter){.rank = 4, .shape = {given->consumers[k].outputs, columns, 1, taps}},
            &s->nodes[end->node].weight));
    }
    s->site.consumer_count = given->consumer_count;
    return GRAIL_OK;
}

/* -- what a rule needs ------------------------------------------------------------------------- */

static grail_status missing(const selector *rule, const char *what, const char *field)
{
    return error_about(error_set(GRAIL_ERROR_ARGUMENT, "the selector '%s' needs %s of this site",
                                 rule->name, what),
                       field);
}

/* A site that is told of norms has one scored producer. */
static grail_status take_norms(const grail_site *given, const selector *rule, unsigned needs,
                               given_site *s)
{
    const bool by_norms = (needs & NEEDS_INPUT_NORMS) != 0;
    const int most = given->producer_count;
    const bool one = (by_norms || s->site.kind == SITE_STREAM) && most > 0;
    const int count = given->scored_count != 0 ? given->scored_count
                      : one                    ? 1
                                               : most - given->first_scored;
    if (given->first_scored < 0 || count < 0 || given->first_scored > most - count ||
        (by_norms && count != 1)) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                     "cannot score %d producers from number %d on of %d%s", count,
                                     given->first_scored, most,
                                     by_norms ? ", of which input norms tell but one" : ""),
                           "first_scored scored_count");
    }
    s->view.first_scored = given->first_scored;
    s->view.scored_producers = count;
    if (!by_norms) {
        return GRAIL_OK;
    }
    if (given->input_norms == NULL) {
        return missing(rule, "the norms of what the scored producer reads", "input_norms");
    }
    const grail_unit_rows *scored = &given->producers[given->first_scored];
    for (int64_t i = 0; i < scored->columns / one_at_least(scored->positions); i++) {
        CHECK(option_number("input_norms", "a norm of inputs", given->input_norms[i],
                            isfinite(given->input_norms[i]) && given->input_norms[i] >= 0.0,
                            "0 or more"));
    }
    s->view.input_norms = given->input_norms;
    return GRAIL_OK;
}

/* Statistics of consumer k, as its fit takes them. */
static grail_status take_sums(const grail_site *given, int k, unsigned needs, given_site *s,
                              input_statistics *out)
{
    grail_status status = GRAIL_OK;
    const grail_unit_columns *c = &given->consumers[k];
    const int64_t taps = one_at_least(c->positions);
    const int64_t all = s->parameters[s->nodes[s->site.consumers[k].node].weight].shape[1] * taps;
    given_sums sums = {0};
    consumer_rows rows = {0};
    float *weight = NULL;
    if (c->fit->width != all && c->fit->width != all / taps) {
        return error_about(
            error_set(GRAIL_ERROR_SHAPE,
                      "the statistics of consumer %d of the site have %lld features, "
                      "expected %lld%s",
                      k, (long long)c->fit->width, (long long)(all / taps),
                      taps > 1 ? ", or those of all kernel positions" : ""),
            "fit");
    }
    TRY(consumer_rows_open(&s->view, k, c->fit->width, &rows));
    if (given->target == GRAIL_FIT_MIXED && (needs & NEEDS_TARGET) != 0) {
        TRY(memory_new_unset(&weight, (size_t)(rows.count * rows.width), sizeof weight[0]));
        consumer_rows_copy(&rows, weight);
    }
    TRY(given_sums_take(c->fit, c->held, given->target, (needs & NEEDS_TARGET) != 0, rows.count,
                        weight, &sums));
    TRY(input_statistics_take(needs, sums.fit, sums.held, out));
    out->gradients = c->gradients;
out:
    given_sums_fini(&sums);
    consumer_rows_fini(&rows);
    memory_free(weight);
    return status;
}

static grail_status take_inputs(const grail_site *given, const selector *rule, unsigned needs,
                                given_site *s)
{
    const int count = (needs & NEEDS_OF_CONSUMERS) == 0    ? 0
                      : (needs & NEEDS_ALL_CONSUMERS) != 0 ? given->consumer_count
                                                           : 1;
    if (count > given->consumer_count || (count == 0 && (needs & NEEDS_OF_CONSUMERS) != 0)) {
        return missing(rule, "a consumer with statistics", "consumers");
    }
    if (count == 0) {
        return GRAIL_OK;
    }
    CHECK(memory_new(&s->view.inputs, (size_t)count, sizeof s->view.inputs[0]));
    s->view.input_count = count;
    for (int k = 0; k < count; k++) {
        const grail_unit_columns *c = &given->consumers[k];
        if (c->fit == NULL) {
            return missing(rule,
                           count > 1 ? "statistics of every consumer's input"
                                     : "statistics of the consumer's input",
                           "fit");
        }
        if ((needs & NEEDS_GRADIENTS) != 0 && c->gradients == NULL) {
            return missing(rule, "gradients of the consumer's weights", "gradients");
        }
        s->view.backend = c->fit->owner;
        CHECK(take_sums(given, k, needs, s, &s->view.inputs[k]));
    }
    return GRAIL_OK;
}

/* -- the whole --------------------------------------------------------------------------------- */

static grail_status borrow(void *context, int parameter, const float **out, float **owned)
{
    const given_site *s = context;
    *owned = NULL;
    *out = s->values[parameter];
    return GRAIL_OK;
}

/* Makes a site of what was given, for a decision of `rule` that keeps `kept` units, after checks:
 * shapes fit, and nothing is missing that the rule needs. given_site_fini frees, even after a
 * failure. */
static grail_status given_site_init(const grail_site *given, const selector *rule, int64_t kept,
                                    given_site *out)
{
    site_kind kind = SITE_FFN;
    CHECK(given_site_kind(given->kind == NULL ? site_kind_name(SITE_FFN) : given->kind, &kind));
    const int64_t groups = one_at_least(given->groups);
    CHECK(OPTION_ROOM_OF(grail_site, given));
    CHECK(option_integer("units", "the number of units", given->units, 1));
    CHECK(option_integer("groups", "the number of groups", groups, 1));
    CHECK(option_integer("subunits", "the number of blocks of a unit",
                         one_at_least(given->subunits), 1));
    CHECK(option_flag("bias", "the fit has a bias", given->bias));
    if (kept <= 0 || kept > given->units || given->units % groups != 0 || kept % groups != 0) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                     "cannot keep %lld of %lld units evenly in %lld groups; keep "
                                     "at least one unit and at most all",
                                     (long long)kept, (long long)given->units, (long long)groups),
                           "kept");
    }
    if (given->consumer_count < 0 || (given->consumer_count > 0 && given->consumers == NULL)) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                     "the site has %d consumers, but no array of them",
                                     given->consumer_count),
                           "consumers");
    }
    out->site = (site){.kind = kind,
                       .units = given->units,
                       .groups = one_at_least(given->groups),
                       .subunits = one_at_least(given->subunits)};
    out->view = (site_view){.graph = &out->graph,
                            .site = &out->site,
                            .kept = kept,
                            .backend = backend_host(),
                            .weights = {.borrow = borrow, .context = out},
                            .seed = given->seed,
                            .stream = given->stream,
                            .fits_bias = given->bias != 0};
    const unsigned needs = selector_needs(rule, &out->site);
    CHECK(add_ends(given, out));
    CHECK(take_norms(given, rule, needs, out));
    if ((needs & NEEDS_ROUTED) != 0) {
        if (given->routed_norms == NULL || given->routed_rows == NULL) {
            return missing(rule, "what its experts made of the rows that were routed to them",
                           "routed_norms routed_rows");
        }
        CHECK(memory_new(&out->routed, (size_t)given->units, sizeof out->routed[0]));
        for (int64_t e = 0; e < given->units; e++) {
            out->routed[e] = (routed_sum){given->routed_norms[e], given->routed_rows[e]};
        }
        out->view.routed = out->routed;
    }
    return take_inputs(given, rule, needs, out);
}

void grail_site_init(grail_site *given)
{
    *given = (grail_site){.kind = "ffn", .groups = 1, .subunits = 1};
}

/* -- the choice -------------------------------------------------------------------------------- */

/* The rule of that name for sites of this kind. */
static grail_status find_rule(const char *name, const grail_site *given, const selector **out)
{
    const selector *rule = NULL;
    site_kind kind = SITE_FFN;
    CHECK(option_given("selector", "name of a selector", name));
    CHECK(option_given("site", "site", given));
    CHECK(option_about("selector", selector_from_name(name, &rule)));
    if (given->kind != NULL) {
        CHECK(given_site_kind(given->kind, &kind));
    }
    rule = selector_for(rule, kind);
    if (!selector_decides(rule, kind)) {
        return error_about(error_set(GRAIL_ERROR_UNSUPPORTED,
                                     "the selector '%s' has no rule for sites of kind '%s'", name,
                                     site_kind_name(kind)),
                           "selector");
    }
    *out = rule;
    return GRAIL_OK;
}

grail_status grail_select(const char *selector_name, const grail_site *given, int64_t kept,
                          grail_reducer **out)
{
    grail_status status = GRAIL_OK;
    given_site s = {0};
    const selector *rule = NULL;
    CHECK(option_given("out", "place for the reducer", out));
    TRY(find_rule(selector_name, given, &rule));
    TRY(given_site_init(given, rule, kept, &s));
    TRY(selector_choose(rule, &s.view, out));
out:
    given_site_fini(&s);
    return status;
}

/* values[count] of a function of the view, which begin as zeros. */
static grail_status evaluate(const selector *rule, const grail_site *given,
                             grail_status (*of)(const site_view *view, double *values),
                             int64_t count, double *out)
{
    grail_status status = GRAIL_OK;
    given_site s = {0};
    double *values = NULL;
    TRY(given_site_init(given, rule, given->units, &s));
    TRY(memory_new(&values, (size_t)count, sizeof values[0]));
    TRY(of(&s.view, values));
    memcpy(out, values, (size_t)count * sizeof out[0]);
out:
    given_site_fini(&s);
    memory_free(values);
    return status;
}

static grail_status has_none(const selector *rule, const char *what)
{
    return error_about(
        error_set(GRAIL_ERROR_UNSUPPORTED, "the selector '%s' has no %s", rule->name, what),
        "selector");
}

grail_status grail_select_scores(const char *selector_name, const grail_site *given, double *scores)
{
    const selector *rule = NULL;
    CHECK(option_given("scores", "array for the scores", scores));
    CHECK(find_rule(selector_name, given, &rule));
    return rule->score == NULL ? has_none(rule, "scores of single units")
                               : evaluate(rule, given, rule->score, given->units, scores);
}

grail_status grail_select_losses(const char *selector_name, const grail_site *given, double *losses)
{
    const selector *rule = NULL;
    CHECK(option_given("losses", "array for the losses", losses));
    CHECK(find_rule(selector_name, given, &rule));
    return rule->losses == NULL ? has_none(rule, "losses by the number of units")
                                : evaluate(rule, given, rule->losses, given->units + 1, losses);
}
