/* Source: transformers modeling_rope_utils.py. */
#include "arch/rotary.h"

#include "arch/rotary_scaling.h"
#include "base/memory.h"

#include <math.h>

static grail_status read_base(const char *name, const json_t *json, const json_t *parameters,
                              const rotary_source *from, double *theta, double *partial)
{
    CHECK(json_get_real(name, json, from->theta_key, from->theta, theta));
    CHECK(json_get_real(name, json, from->partial_key, from->partial, partial));
    if (json_is_object(parameters)) {
        CHECK(json_get_real(name, parameters, "rope_theta", *theta, theta));
        CHECK(json_get_real(name, parameters, "partial_rotary_factor", *partial, partial));
    }
    if (!(*theta > 0.0 && *partial > 0.0 && *partial <= 1.0)) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: rope_theta is %g and partial_rotary_factor is %g; rope_theta must be "
                         "above 0, and partial_rotary_factor above 0 and at most 1",
                         name, *theta, *partial);
    }
    return GRAIL_OK;
}

/* transformers v5 writes rope_parameters, which holds theta too, or an object with parameters for
 * each type of layers; v4 rope_theta and rope_scaling. */
static const json_t *parameters_of(const json_t *json, const rotary_source *from)
{
    const json_t *all = json_object_get(json, "rope_parameters");
    const json_t *own = from->layer_type == NULL ? NULL : json_object_get(all, from->layer_type);
    return json_is_object(own) ? own : all;
}

grail_status rotary_read(const char *name, const json_t *json, const rotary_source *from,
                         rotary *out)
{
    grail_status status = GRAIL_OK;
    rotary r = {.factor = 1.0};
    rotary_base b = {.name = name, .json = json, .context = from->context};
    double partial = 1.0;
    const json_t *parameters = parameters_of(json, from);
    const json_t *scaling = json_is_object(parameters) ? parameters
                            : from->unscaled           ? NULL
                                                       : json_object_get(json, "rope_scaling");
    TRY(read_base(name, json, parameters, from, &b.theta, &partial));
    b.size = (int64_t)((double)from->head_dim * partial);
    b.count = (b.size + 1) / 2;
    r.turned = 2 * b.count;
    if (b.size < 1 || r.turned > from->head_dim) {
        FAIL(GRAIL_ERROR_FORMAT,
             "%s: %g of head_dim %lld are turned by rotary positions, which need an even number of "
             "features",
             name, partial, (long long)from->head_dim);
    }
    TRY(memory_new(&r.frequency, (size_t)b.count, sizeof r.frequency[0]));
    for (int64_t k = 0; k < b.count; k++) {
        r.frequency[k] = pow(b.theta, -2.0 * (double)k / (double)b.size);
    }
    if (json_is_object(scaling)) {
        TRY(rotary_scale(&b, scaling, &r));
    }
    for (int64_t k = 0; k < b.count; k++) {
        r.frequency[k] = (double)(float)r.frequency[k]; /* the reference keeps them in f32 */
    }
    *out = r;
    r = (rotary){0};
out:
    rotary_fini(&r);
    return status;
}

const json_t *rotary_scaling(const json_t *config, const char **type)
{
    const json_t *parameters = json_object_get(config, "rope_parameters");
    const json_t *scaling =
        json_is_object(parameters) ? parameters : json_object_get(config, "rope_scaling");
    const char *old_name = json_string_value(json_object_get(scaling, "type"));
    const char *name = json_string_value(json_object_get(scaling, "rope_type"));
    *type = name != NULL ? name : old_name != NULL ? old_name : "default";
    return scaling;
}

void rotary_fini(rotary *r)
{
    memory_free(r->frequency);
    memory_free(r->long_frequency);
    *r = (rotary){0};
}
