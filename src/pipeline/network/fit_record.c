#include "pipeline/network/fit_record.h"

#include "pipeline/network/site_result.h"

#include <string.h>

grail_status fit_to_json(const grail_fit *f, json_t *object)
{
    CHECK(json_put(object, "alpha", json_real_or_null(f->alpha)));
    CHECK(json_put(object, "lambda", json_real_or_null(f->lambda)));
    CHECK(json_put(object, "condition", json_real_or_null(f->condition)));
    CHECK(json_put(object, "fallback", json_text(f->fallback)));
    CHECK(json_put(object, "bias_fitted", json_boolean(f->bias)));
    CHECK(json_put(object, "fit_error_before", json_real_or_null(f->fit_before)));
    CHECK(json_put(object, "fit_error_after", json_real_or_null(f->fit_after)));
    CHECK(json_put(object, "held_error_before", json_real_or_null(f->held_before)));
    CHECK(json_put(object, "held_error_after", json_real_or_null(f->held_after)));
    return json_put(object, "dense_share", json_real_or_null(f->dense_share));
}

grail_fit fit_from_json(const json_t *object)
{
    return (grail_fit){
        .alpha = json_real_or_nan(object, "alpha"),
        .lambda = json_real_or_nan(object, "lambda"),
        .condition = json_real_or_nan(object, "condition"),
        .fit_before = json_real_or_nan(object, "fit_error_before"),
        .fit_after = json_real_or_nan(object, "fit_error_after"),
        .held_before = json_real_or_nan(object, "held_error_before"),
        .held_after = json_real_or_nan(object, "held_error_after"),
        .dense_share = json_real_or_nan(object, "dense_share"),
        .fallback = site_fallback_name(json_string_value(json_object_get(object, "fallback"))),
        .bias = json_is_true(json_object_get(object, "bias_fitted")) ? 1 : 0,
    };
}

grail_status refits_to_json(const refit_list *list, int block, bool every, json_t *object)
{
    json_t *array = json_array();
    CHECK(json_put(object, "refits", array));
    for (int i = 0; i < list->count; i++) {
        const refit *made = &list->made[i];
        if (!every && made->block != block) {
            continue;
        }
        json_t *one = json_object();
        CHECK(json_push(array, one));
        CHECK(json_put(one, "map", json_text(made->fit.consumer)));
        CHECK(json_put(one, "block", json_integer(made->block)));
        CHECK(fit_to_json(&made->fit, one));
    }
    return GRAIL_OK;
}

/* The name of the weight of a map that is to be refitted; NULL when there is none of this name. */
static const char *known_map(const compression_request *request, const refit_list *list,
                             const char *name)
{
    const graph *g = request->graph;
    for (int i = 0; name != NULL && i < g->node_count; i++) {
        if (list->wanted[i] && strcmp(g->parameters[g->nodes[i].weight].name, name) == 0) {
            return g->parameters[g->nodes[i].weight].name;
        }
    }
    return NULL;
}

grail_status refits_restore(const compression_request *request, const json_t *record,
                            refit_list *list)
{
    const json_t *array = json_object_get(record, "refits");
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *one = json_array_get(array, i);
        const char *name = json_string_value(json_object_get(one, "map"));
        grail_fit fit = fit_from_json(one);
        fit.consumer = known_map(request, list, name);
        if (fit.consumer == NULL) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "the recorded state holds a refit of '%s', which is not asked for",
                             name == NULL ? "" : name);
        }
        CHECK(refits_add(list, (int)json_integer_value(json_object_get(one, "block")), &fit));
    }
    return GRAIL_OK;
}
