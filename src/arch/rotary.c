/* Rotary position frequencies: plain, linear and llama3 scaling. Source: transformers
 * modeling_rope_utils.py. */
#include "arch/decoder.h"

#include <math.h>
#include <string.h>

typedef struct llama3_scaling {
    double factor, low, high, original;
} llama3_scaling;

/* wavelength > original/low: slowed by `factor`; < original/high: kept; between: blended. */
static double scale_llama3(const llama3_scaling *s, double frequency)
{
    const double two_pi = 6.283185307179586477;
    const double wavelength = two_pi / frequency;
    if (wavelength > s->original / s->low) {
        return frequency / s->factor;
    }
    if (wavelength < s->original / s->high) {
        return frequency;
    }
    const double blend = (s->original / wavelength - s->low) / (s->high - s->low);
    return frequency * ((1.0 - blend) / s->factor + blend);
}

static grail_status read_llama3(const char *source, const json_t *scaling, llama3_scaling *s)
{
    CHECK(json_get_real(source, scaling, "factor", 8.0, &s->factor));
    CHECK(json_get_real(source, scaling, "low_freq_factor", 1.0, &s->low));
    CHECK(json_get_real(source, scaling, "high_freq_factor", 4.0, &s->high));
    CHECK(json_get_real(source, scaling, "original_max_position_embeddings", 8192.0, &s->original));
    if (!(s->factor > 0.0 && s->low > 0.0 && s->high > s->low && s->original > 0.0)) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "%s: the llama3 rotary scaling has factor %g, low_freq_factor %g, high_freq_factor %g "
            "and original_max_position_embeddings %g; all must be above 0, and high_freq_factor "
            "above low_freq_factor",
            source, s->factor, s->low, s->high, s->original);
    }
    return GRAIL_OK;
}

static grail_status scale_frequencies(const char *source, const json_t *scaling, int64_t count,
                                      double *frequency)
{
    const char *old_name = NULL;
    const char *type = NULL;
    CHECK(json_get_string(source, scaling, "type", "default", &old_name)); /* before "rope_type" */
    CHECK(json_get_string(source, scaling, "rope_type", old_name, &type));
    if (strcmp(type, "default") == 0) {
        return GRAIL_OK;
    }
    if (strcmp(type, "linear") == 0) {
        double factor = 1.0;
        CHECK(json_get_real(source, scaling, "factor", 1.0, &factor));
        if (!(factor > 0.0)) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: the rotary scaling factor is %g; it must be above 0", source,
                             factor);
        }
        for (int64_t k = 0; k < count; k++) {
            frequency[k] /= factor;
        }
    } else if (strcmp(type, "llama3") == 0) {
        llama3_scaling s = {0};
        CHECK(read_llama3(source, scaling, &s));
        for (int64_t k = 0; k < count; k++) {
            frequency[k] = scale_llama3(&s, frequency[k]);
        }
    } else {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "%s: rotary scaling \"%s\" is not supported; the supported types are default, linear "
            "and llama3",
            source, type);
    }
    return GRAIL_OK;
}

grail_status rotary_frequencies(const char *source, const json_t *json, int64_t head_dim,
                                double *frequency)
{
    double theta = 0.0;
    double partial = 1.0;
    /* transformers v5 writes rope_parameters, which holds theta too; v4 rope_theta, rope_scaling */
    const json_t *parameters = json_object_get(json, "rope_parameters");
    const json_t *scaling =
        json_is_object(parameters) ? parameters : json_object_get(json, "rope_scaling");
    CHECK(json_get_real(source, json, "rope_theta", 10000.0, &theta));
    if (json_is_object(parameters)) {
        CHECK(json_get_real(source, parameters, "rope_theta", theta, &theta));
        CHECK(json_get_real(source, parameters, "partial_rotary_factor", 1.0, &partial));
    }
    CHECK(json_get_real(source, json, "partial_rotary_factor", partial, &partial));
    if (!(theta > 0.0) || partial < 1.0 || partial > 1.0) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "%s: rope_theta is %g and partial_rotary_factor is %g; rope_theta must be above 0 and "
            "partial_rotary_factor 1",
            source, theta, partial);
    }
    const int64_t count = head_dim / 2;
    for (int64_t k = 0; k < count; k++) {
        frequency[k] = pow(theta, -2.0 * (double)k / (double)head_dim);
    }
    if (json_is_object(scaling)) {
        CHECK(scale_frequencies(source, scaling, count, frequency));
    }
    for (int64_t k = 0; k < count; k++) {
        frequency[k] = (double)(float)frequency[k]; /* the reference keeps them in f32 */
    }
    return GRAIL_OK;
}
