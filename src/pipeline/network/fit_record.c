#include "pipeline/network/fit_record.h"

#include "pipeline/network/site_result.h"

#include <string.h>

grail_status fit_to_json(const grail_fit *f, json_t *object)
{
    grail_status status = GRAIL_OK;
    TRY(json_put(object, "alpha", json_real_or_null(f->alpha)));
    TRY(json_put(object, "lambda", json_real_or_null(f->lambda)));
    TRY(json_put(object, "condition", json_real_or_null(f->condition)));
    TRY(json_put(object, "fallback", json_text(f->fallback)));
    TRY(json_put(object, "bias_fitted", json_boolean(f->bias)));
    TRY(json_put(object, "fit_error_before", json_real_or_null(f->fit_before)));
    TRY(json_put(object, "fit_error_after", json_real_or_null(f->fit_after)));
    TRY(json_put(object, "held_error_before", json_real_or_null(f->held_before)));
    TRY(json_put(object, "held_error_after", json_real_or_null(f->held_after)));
    TRY(json_put(object, "dense_share", json_real_or_null(f->dense_share)));
out:
    return status;
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
    grail_status status = GRAIL_OK;
    json_t *array = json_array();
    TRY(json_put(object, "refits", array));
    for (int i = 0; i < list->count; i++) {
        const refit *made = &list->made[i];
        if (!every && made->block != block) {
            continue;
        }
        json_t *one = json_object();
        TRY(json_push(array, one));
        TRY(json_put(one, "map", json_text(made->fit.consumer)));
        TRY(json_put(one, "block", json_integer(made->block)));
        TRY(fit_to_json(&made->fit, one));
    }
out:
    return status;
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
    grail_status status = GRAIL_OK;
    const json_t *array = json_object_get(record, "refits");
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *one = json_array_get(array, i);
        const char *name = json_string_value(json_object_get(one, "map"));
        grail_fit fit = fit_from_json(one);
        fit.consumer = known_map(request, list, name);
        if (fit.consumer == NULL) {
            FAIL(GRAIL_ERROR_FORMAT,
                 "the recorded state holds a refit of '%s', which is not asked for",
                 name == NULL ? "" : name);
        }
        TRY(refits_add(list, (int)json_integer_value(json_object_get(one, "block")), &fit));
    }
out:
    return status;
}
