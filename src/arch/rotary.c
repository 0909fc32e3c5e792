/* Source: transformers modeling_rope_utils.py. */
#include "arch/rotary.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

/* The frequencies of `count` pairs before they are scaled, theta^(-2k/size). */
typedef struct rotary_base {
    const char *name; /* of the configuration */
    const json_t *json;
    double theta;
    int64_t size, count, context;
} rotary_base;

/* -- how frequencies are changed for longer texts ---------------------------------------------- */

enum { MOST_POSITIONS = 1 << 30 };

static const double two_pi = 6.283185307179586477;

/* -- linear ------------------------------------------------------------------------------------ */

static grail_status scale_linear(const rotary_base *b, const json_t *scaling, rotary *r)
{
    double factor = 1.0;
    CHECK(json_get_real(b->name, scaling, "factor", 1.0, &factor));
    if (!(factor > 0.0)) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: the rotary scaling factor is %g; it must be above 0", b->name,
                         factor);
    }
    for (int64_t k = 0; k < b->count; k++) {
        r->frequency[k] /= factor;
    }
    return GRAIL_OK;
}

/* -- llama3 ------------------------------------------------------------------------------------ */

/* wavelength > original/low: slowed by `factor`; < original/high: kept; between: blended. */
static grail_status scale_llama3(const rotary_base *b, const json_t *scaling, rotary *r)
{
    double factor = 0.0;
    double low = 0.0;
    double high = 0.0;
    double original = 0.0;
    CHECK(json_get_real(b->name, scaling, "factor", 8.0, &factor));
    CHECK(json_get_real(b->name, scaling, "low_freq_factor", 1.0, &low));
    CHECK(json_get_real(b->name, scaling, "high_freq_factor", 4.0, &high));
    CHECK(json_get_real(b->name, scaling, "original_max_position_embeddings", 8192.0, &original));
    if (!(factor > 0.0 && low > 0.0 && high > low && original > 0.0)) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "%s: the llama3 rotary scaling has factor %g, low_freq_factor %g, high_freq_factor %g "
            "and original_max_position_embeddings %g; all must be above 0, and high_freq_factor "
            "above low_freq_factor",
            b->name, factor, low, high, original);
    }
    for (int64_t k = 0; k < b->count; k++) {
        const double frequency = r->frequency[k];
        const double wavelength = two_pi / frequency;
        const double blend = (original / wavelength - low) / (high - low);
        r->frequency[k] = wavelength > original / low ? frequency / factor
                          : wavelength < original / high
                              ? frequency
                              : frequency * ((1.0 - blend) / factor + blend);
    }
    return GRAIL_OK;
}

/* -- what yarn and longrope share -------------------------------------------------------------- */

/* The length that the network was trained with first, and how much longer texts may be now. Outside
 * the scaling it counts more. */
static grail_status read_lengths(const rotary_base *b, const json_t *scaling, double *original,
                                 double *factor)
{
    static const char key[] = "original_max_position_embeddings";
    CHECK(json_get_real(b->name, scaling, key, (double)b->context, original));
    CHECK(json_get_real(b->name, b->json, key, *original, original));
    CHECK(json_get_real(b->name, scaling, "factor", (double)b->context / *original, factor));
    if (!(*original > 1.0 && *original <= MOST_POSITIONS && *factor > 0.0)) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: the rotary scaling has %s %g and factor %g; expected 2 to %d, and "
                         "above 0",
                         b->name, key, *original, *factor, MOST_POSITIONS);
    }
    return GRAIL_OK;
}

/* A stated factor of what is turned takes the place of the one that follows from the lengths. */
static grail_status read_factor(const rotary_base *b, const json_t *scaling, double derived,
                                rotary *r)
{
    CHECK(json_get_real(b->name, scaling, "attention_factor", derived, &r->factor));
    if (!(r->factor > 0.0)) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: the rotary scaling has attention_factor %g; it must be above 0",
                         b->name, r->factor);
    }
    return GRAIL_OK;
}

/* -- yarn -------------------------------------------------------------------------------------- */

static double magnitude(double factor, double scale)
{
    return factor <= 1.0 ? 1.0 : 0.1 * scale * log(factor) + 1.0;
}

/* The pair that makes so many turns in the original length. */
static double pair_of_turns(const rotary_base *b, double turns, double original)
{
    return (double)b->size * log(original / (turns * two_pi)) / (2.0 * log(b->theta));
}

/* Pairs up to `low` keep their frequencies, those from `high` on are slowed by the factor; between
 * them both are blended. */
static grail_status scale_yarn(const rotary_base *b, const json_t *scaling, rotary *r)
{
    double original = 0.0;
    double factor = 0.0;
    double scale = 0.0;
    double all = 0.0;
    double fast = 0.0;
    double slow_turns = 0.0;
    bool truncate = true;
    CHECK(read_lengths(b, scaling, &original, &factor));
    CHECK(json_get_real(b->name, scaling, "mscale", 0.0, &scale));
    CHECK(json_get_real(b->name, scaling, "mscale_all_dim", 0.0, &all));
    CHECK(read_factor(b, scaling,
                      scale != 0.0 && all != 0.0 ? magnitude(factor, scale) / magnitude(factor, all)
                                                 : magnitude(factor, 1.0),
                      r));
    CHECK(json_get_real(b->name, scaling, "beta_fast", 32.0, &fast));
    CHECK(json_get_real(b->name, scaling, "beta_slow", 1.0, &slow_turns));
    CHECK(json_get_boolean(b->name, scaling, "truncate", true, &truncate));
    if (!(fast >= slow_turns && slow_turns > 0.0)) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: the yarn rotary scaling has beta_fast %g and beta_slow %g; both must "
                         "be above 0, and beta_fast not below beta_slow",
                         b->name, fast, slow_turns);
    }
    double low = pair_of_turns(b, fast, original);
    double high = pair_of_turns(b, slow_turns, original);
    low = fmax(truncate ? floor(low) : low, 0.0);
    high = fmin(truncate ? ceil(high) : high, (double)b->size - 1.0);
    high += high == low ? 0.001 : 0.0;
    for (int64_t k = 0; k < b->count; k++) {
        const double slowed = fmin(fmax(((double)k - low) / (high - low), 0.0), 1.0);
        r->frequency[k] *= slowed / factor + (1.0 - slowed);
    }
    return GRAIL_OK;
}

/* -- longrope ---------------------------------------------------------------------------------- */

/* out[k] = frequency[k] / list[k] */
static grail_status divide_by_list(const rotary_base *b, const json_t *scaling, const char *key,
                                   const double *frequency, double *out)
{
    const json_t *list = json_object_get(scaling, key);
    if (!json_is_array(list) || (int64_t)json_array_size(list) != b->count) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: \"%s\" of the rotary scaling has %lld numbers, expected one for each "
                         "of the %lld pairs of features that are turned",
                         b->name, key, (long long)json_array_size(list), (long long)b->count);
    }
    for (int64_t k = 0; k < b->count; k++) {
        const double divisor = json_number_value(json_array_get(list, (size_t)k));
        if (!(divisor > 0.0)) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: \"%s\" of the rotary scaling has %g at %lld; expected numbers "
                             "above 0",
                             b->name, key, divisor, (long long)k);
        }
        out[k] = (double)(float)(frequency[k] / divisor);
    }
    return GRAIL_OK;
}

static grail_status scale_longrope(const rotary_base *b, const json_t *scaling, rotary *r)
{
    double original = 0.0;
    double factor = 0.0;
    CHECK(read_lengths(b, scaling, &original, &factor));
    CHECK(
        read_factor(b, scaling, factor <= 1.0 ? 1.0 : sqrt(1.0 + log(factor) / log(original)), r));
    r->longest = (int64_t)original;
    CHECK(memory_new(&r->long_frequency, (size_t)b->count, sizeof r->long_frequency[0]));
    CHECK(divide_by_list(b, scaling, "long_factor", r->frequency, r->long_frequency));
    return divide_by_list(b, scaling, "short_factor", r->frequency, r->frequency);
}

/* -- all --------------------------------------------------------------------------------------- */

/* "dynamic" changes them in texts longer than the configuration allows, which are never run. */
static const struct {
    const char *type;
    grail_status (*scale)(const rotary_base *b, const json_t *scaling, rotary *r);
} types[] = {{"default", NULL},        {"linear", scale_linear}, {"dynamic", NULL},
             {"llama3", scale_llama3}, {"yarn", scale_yarn},     {"longrope", scale_longrope},
             {"su", scale_longrope}}; /* the older name of longrope */

enum { TYPE_COUNT = sizeof types / sizeof types[0] };

/* Changes r->frequency as `scaling`, an object with "rope_type" or "type", says, and sets the other
 * fields that follow from it. */
static grail_status scale(const rotary_base *b, const json_t *scaling, rotary *r)
{
    const char *old_name = NULL;
    const char *type = NULL;
    CHECK(json_get_string(b->name, scaling, "type", "default", &old_name)); /* before "rope_type" */
    CHECK(json_get_string(b->name, scaling, "rope_type", old_name, &type));
    for (int i = 0; i < TYPE_COUNT; i++) {
        if (strcmp(types[i].type, type) == 0) {
            return types[i].scale == NULL ? GRAIL_OK : types[i].scale(b, scaling, r);
        }
    }
    const grail_status status = error_set(
        GRAIL_ERROR_UNSUPPORTED,
        "%s: rotary scaling \"%s\" is not supported; the supported types are", b->name, type);
    for (int i = 0; i < TYPE_COUNT; i++) {
        error_append("%s %s", i == 0 ? "" : ",", types[i].type);
    }
    return status;
}

/* transformers v5 writes rope_parameters, which holds theta too, or an object with parameters for
 * each type of layers; v4 rope_theta and rope_scaling. */
static grail_status read_base(const char *name, const json_t *json, const rotary_source *from,
                              const json_t **scaling, double *theta, double *partial)
{
    const json_t *parameters = json_object_get(json, "rope_parameters");
    const json_t *own =
        from->layer_type == NULL ? NULL : json_object_get(parameters, from->layer_type);
    parameters = json_is_object(own) ? own : parameters;
    *scaling = json_is_object(parameters) ? parameters
               : from->unscaled           ? NULL
                                          : json_object_get(json, "rope_scaling");
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

grail_status rotary_read(const char *name, const json_t *json, const rotary_source *from,
                         rotary *out)
{
    grail_status status = GRAIL_OK;
    rotary r = {.factor = 1.0};
    rotary_base b = {.name = name, .json = json, .context = from->context};
    double partial = 1.0;
    const json_t *scaling = NULL;
    TRY(read_base(name, json, from, &scaling, &b.theta, &partial));
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
        TRY(scale(&b, scaling, &r));
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
