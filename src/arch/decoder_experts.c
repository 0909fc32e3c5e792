#include "arch/decoder_experts.h"

#include <string.h>

const char *decoder_experts_key(const json_t *config)
{
    static const char *const others[] = {"num_local_experts", "n_routed_experts"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (json_object_get(config, others[i]) != NULL) {
            return others[i];
        }
    }
    return "num_experts";
}

/* -- which layers have experts ----------------------------------------------------------------- */

static bool is_listed(const json_t *list, int64_t index)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (json_integer_value(json_array_get(list, i)) == index) {
            return true;
        }
    }
    return false;
}

bool decoder_has_experts(const decoder_family *family, const json_t *json, int64_t index)
{
    const decoder_mixture *m = &family->mixture;
    if (m->width == NULL) {
        return false;
    }
    const json_t *count = json_object_get(json, decoder_experts_key(json));
    const json_t *step = json_object_get(json, "decoder_sparse_step");
    const json_t *first = m->first_dense == NULL ? NULL : json_object_get(json, m->first_dense);
    if (m->first_dense != NULL &&
        index < (json_is_integer(first) ? json_integer_value(first) : m->default_dense)) {
        return false;
    }
    if (json_is_integer(count) && json_integer_value(count) == 0) {
        return false;
    }
    return !m->reads_dense_layers ||
           (!is_listed(json_object_get(json, "mlp_only_layers"), index) &&
            (!json_is_integer(step) || (index + 1) % json_integer_value(step) == 0));
}

static grail_status check_dense_layers(const char *source, const json_t *json,
                                       const decoder_config *c)
{
    int64_t step = 1;
    const json_t *list = json_object_get(json, "mlp_only_layers");
    CHECK(json_get_integer(source, json, "decoder_sparse_step", 1, &step));
    if (step < 1) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: \"decoder_sparse_step\" is %lld, expected 1 or more", source,
                         (long long)step);
    }
    if (list != NULL && !json_is_null(list) && !json_is_array(list)) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: \"mlp_only_layers\" is no list of the numbers of layers", source);
    }
    if ((int64_t)json_array_size(list) > c->layers) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: \"mlp_only_layers\" has %zu members, but there are %lld layers",
                         source, json_array_size(list), (long long)c->layers);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *layer = json_array_get(list, i);
        if (!json_is_integer(layer) || json_integer_value(layer) < 0 ||
            json_integer_value(layer) >= c->layers) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: \"mlp_only_layers\" has a member that is no number of one of the "
                             "%lld layers, which are counted from 0",
                             source, (long long)c->layers);
        }
    }
    return GRAIL_OK;
}

/* -- how they are chosen ----------------------------------------------------------------------- */

/* Keys of other mixtures. Where they say what all routers do here, they change nothing. */
static grail_status refuse_other_routers(const char *source, const json_t *json)
{
    static const char *const numbers[] = {"routed_scaling_factor", "n_group", "topk_group"};
    const char *scores = NULL;
    CHECK(json_get_string(source, json, "scoring_func", "softmax", &scores));
    if (strcmp(scores, "softmax") != 0) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: \"scoring_func\" is \"%s\", but the router of this family takes the "
                         "softmax of its scores",
                         source, scores);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        double value = 1.0;
        CHECK(json_get_real(source, json, numbers[i], 1.0, &value));
        if (value != 1.0) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "%s: \"%s\" is %g, but the router of this family has one group of "
                             "experts and no factor",
                             source, numbers[i], value);
        }
    }
    return decoder_refuse(source, json, "use_sliding_window",
                          "windows of attention in some layers beside experts");
}

/* DeepSeek's routers. */
static grail_status read_router(const char *source, const json_t *json, const decoder_mixture *m,
                                route_attributes *route)
{
    const char *method = NULL;
    bool sums_to_one = true;
    CHECK(
        json_get_string(source, json, "topk_method", m->sigmoid ? "noaux_tc" : "greedy", &method));
    if (strcmp(method, m->sigmoid ? "noaux_tc" : "group_limited_greedy") != 0 &&
        (m->sigmoid || strcmp(method, "greedy") != 0)) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: \"topk_method\" is \"%s\", which the router of this family lacks",
                         source, method);
    }
    CHECK(decoder_read_factor(source, json, "routed_scaling_factor", m->sigmoid ? 2.5 : 1.0,
                              &route->scale));
    CHECK(json_get_boolean(source, json, "norm_topk_prob", true, &sums_to_one));
    route->sigmoid = m->sigmoid;
    route->over_all = !m->sigmoid || !sums_to_one;
    if (strcmp(method, "greedy") == 0) {
        return GRAIL_OK;
    }
    /* Those groups of experts are chosen from whose best ones have the largest scores. */
    const json_t *groups = json_object_get(json, "n_group");
    route->best = m->sigmoid ? 2 : 1;
    if (groups != NULL && !json_is_null(groups)) {
        CHECK(decoder_read_size(source, json, "n_group", 1, 1, &route->groups));
        CHECK(decoder_read_size(source, json, "topk_group", 1, 1, &route->chosen_groups));
        route->groups = route->groups == 1 ? 0 : route->groups;
    }
    return GRAIL_OK;
}

grail_status decoder_mixture_read(const char *source, const json_t *json, decoder_config *c)
{
    const decoder_mixture *m = &c->family->mixture;
    bool sums_to_one = false;
    if (m->width == NULL) {
        return GRAIL_OK;
    }
    const json_t *one = json_object_get(json, "num_experts");
    const json_t *other = json_object_get(json, "num_local_experts");
    if (one != NULL && other != NULL && !json_equal(one, other)) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "%s: \"num_experts\" and \"num_local_experts\" are not the same; remove one", source);
    }
    CHECK(decoder_read_size(source, json, "num_experts_per_tok", m->default_chosen, 1,
                            &c->route.chosen));
    if (m->chooses_groups) {
        return read_router(source, json, m, &c->route);
    }
    CHECK(refuse_other_routers(source, json));
    CHECK(json_get_boolean(source, json, "norm_topk_prob", false, &sums_to_one));
    c->route.over_all = m->reads_norm && !sums_to_one;
    return m->reads_dense_layers ? check_dense_layers(source, json, c) : GRAIL_OK;
}

/* -- widths ------------------------------------------------------------------------------------ */

bool decoder_experts_have_one_width(const decoder_family *family)
{
    const decoder_mixture *m = &family->mixture;
    return m->are_stacked || m->shared_count != NULL;
}

/* One width for all experts, or a list. */
static grail_status read_widths(const char *source, const json_t *object, int64_t common,
                                int64_t index, decoder_config *c)
{
    const decoder_mixture *m = &c->family->mixture;
    const char *key = m->width;
    decoder_layer *layer = &c->layer[index];
    const json_t *list = json_object_get(object, key);
    CHECK(memory_new(&layer->expert_width, (size_t)layer->experts, sizeof(int64_t)));
    if (!json_is_array(list)) {
        int64_t width = 0;
        CHECK(decoder_read_size(source, object, key, common, 1, &width));
        for (int64_t e = 0; e < layer->experts; e++) {
            layer->expert_width[e] = width;
        }
        return GRAIL_OK;
    }
    if ((int64_t)json_array_size(list) != layer->experts) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: layer %lld: \"%s\" has %zu members, but there are %lld experts",
                         source, (long long)index, key, json_array_size(list),
                         (long long)layer->experts);
    }
    if (m->are_stacked) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: layer %lld: \"%s\" is a list, but the experts of this family lie in "
                         "one tensor, which gives all of them one width",
                         source, (long long)index, key);
    }
    if (m->shared_count != NULL) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: layer %lld: \"%s\" is a list, but \"%s\" states the width of the "
                         "expert of all tokens as a multiple of the one width of the others; "
                         "write one number",
                         source, (long long)index, key, m->shared_count);
    }
    for (int64_t e = 0; e < layer->experts; e++) {
        layer->expert_width[e] = json_integer_value(json_array_get(list, (size_t)e));
        if (layer->expert_width[e] < 1 || layer->expert_width[e] > DECODER_MOST_WIDTH) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: layer %lld: member %lld of \"%s\" is no width, expected 1 to %d",
                             source, (long long)index, (long long)e, key, DECODER_MOST_WIDTH);
        }
    }
    return GRAIL_OK;
}

grail_status decoder_experts_read(const char *source, const json_t *json, const json_t *own,
                                  int64_t index, decoder_config *c)
{
    const decoder_mixture *m = &c->family->mixture;
    const char *key = decoder_experts_key(json);
    decoder_layer *layer = &c->layer[index];
    int64_t count = 0;
    int64_t width = 0;
    int64_t shared = 0;
    CHECK(decoder_read_size(source, json, key, m->default_count, 1, &count));
    CHECK(decoder_read_size(source, own, key, count, 1, &layer->experts));
    if (layer->experts > MOST_EXPERTS / c->layers) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: \"%s\" is %lld, expected 1 to %lld with %lld layers", source, key,
                         (long long)layer->experts, (long long)(MOST_EXPERTS / c->layers),
                         (long long)c->layers);
    }
    if (c->route.chosen > layer->experts) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: \"num_experts_per_tok\" is %lld, but layer %lld has %lld experts",
                         source, (long long)c->route.chosen, (long long)index,
                         (long long)layer->experts);
    }
    CHECK(decoder_read_size(source, json, m->width, m->default_width, 1, &width));
    CHECK(read_widths(source, own, width, index, c));
    if (m->shared_width != NULL) {
        CHECK(decoder_read_size(source, json, m->shared_width, m->default_shared, 0, &shared));
        CHECK(decoder_read_size(source, own, m->shared_width, shared, 0, &layer->shared));
    } else if (m->shared_count != NULL) {
        CHECK(decoder_read_size(source, json, m->shared_count, m->default_shared, 0, &shared));
        CHECK(decoder_read_size(source, own, m->shared_count, shared, 0, &shared));
        /* It is as wide as so many of the others, which have one width. */
        const int64_t most = DECODER_MOST_WIDTH / layer->expert_width[0];
        if (shared > most) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: layer %lld: \"%s\" is %lld, expected 0 to %lld where the other "
                             "experts are %lld wide",
                             source, (long long)index, m->shared_count, (long long)shared,
                             (long long)most, (long long)layer->expert_width[0]);
        }
        layer->shared = shared * layer->expert_width[0];
    }
    return GRAIL_OK;
}
