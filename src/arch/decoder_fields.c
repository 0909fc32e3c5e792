/* Single fields of a decoder's config.json: numbers within bounds, and switches of what grail
 * lacks. */
#include "arch/decoder.h"

#include <math.h>

grail_status decoder_read_size(const char *source, const json_t *json, const char *key,
                               int64_t fallback, int64_t least, int64_t *out)
{
    grail_status status = json_get_integer(source, json, key, fallback, out);
    if (status == GRAIL_OK && (*out < least || *out > DECODER_MOST_WIDTH)) {
        status = error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is %lld, expected %lld to %d", source,
                           key, (long long)*out, (long long)least, DECODER_MOST_WIDTH);
    }
    return status;
}

static grail_status refuse_unless(const char *source, const json_t *json, const char *key,
                                  bool wanted, const char *what)
{
    bool found = wanted;
    const grail_status status = json_get_boolean(source, json, key, wanted, &found);
    if (status == GRAIL_OK && found != wanted) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "%s: \"%s\" is %s: %s, which grail lacks", source,
                         key, found ? "true" : "false", what);
    }
    return status;
}

grail_status decoder_refuse(const char *source, const json_t *json, const char *key,
                            const char *what)
{
    return refuse_unless(source, json, key, false, what);
}

grail_status decoder_require(const char *source, const json_t *json, const char *key,
                             const char *what)
{
    return refuse_unless(source, json, key, true, what);
}

grail_status decoder_read_factor(const char *source, const json_t *json, const char *key,
                                 double fallback, double *out)
{
    static const double most = 1e6;
    const grail_status status = json_get_real(source, json, key, fallback, out);
    if (status == GRAIL_OK && !(fabs(*out) <= most && fabs(*out) >= 1.0 / most)) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: \"%s\" is %g, expected a factor between %g and %g", source, key, *out,
                         1.0 / most, most);
    }
    return status;
}

grail_status decoder_read_multipliers(const char *source, const json_t *json, decoder_config *c)
{
    double divisor = 1.0;
    CHECK(decoder_read_factor(source, json, "embedding_multiplier", 1.0, &c->embedding_scale));
    CHECK(decoder_read_factor(source, json, "residual_multiplier", 1.0, &c->branch_scale));
    CHECK(decoder_read_factor(source, json, "attention_multiplier", 1.0, &c->score_scale));
    CHECK(decoder_read_factor(source, json, "logits_scaling", 1.0, &divisor));
    c->logit_scale = 1.0 / divisor;
    return GRAIL_OK;
}

grail_status decoder_refuse_clipping(const char *source, const json_t *json)
{
    const json_t *bound = json_object_get(json, "clip_qkv");
    if (bound == NULL || json_is_null(bound)) {
        return GRAIL_OK;
    }
    return error_set(GRAIL_ERROR_UNSUPPORTED,
                     "%s: \"clip_qkv\" is not null: queries, keys and values are clipped, which "
                     "grail lacks",
                     source);
}

grail_status decoder_read_cap(const char *source, const json_t *json, const char *key,
                              double fallback, double *out)
{
    *out = 0.0;
    if (json_is_null(json_object_get(json, key)) ||
        (fallback == 0.0 && json_object_get(json, key) == NULL)) {
        return GRAIL_OK;
    }
    CHECK(decoder_read_factor(source, json, key, fallback, out));
    *out = fabs(*out);
    return GRAIL_OK;
}

grail_status decoder_read_biases(const char *source, const json_t *json, const char *key,
                                 bool fallback, decoder_config *c)
{
    CHECK(json_get_boolean(source, json, key, fallback, &c->qkv_bias));
    c->output_bias = c->qkv_bias;
    c->mlp_bias = c->qkv_bias;
    return GRAIL_OK;
}
