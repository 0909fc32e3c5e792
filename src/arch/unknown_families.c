/* Sources of the families: the modeling classes of Hugging Face transformers 5.23 that go by these
 * names. */
#include "arch/unknown_families.h"

#include "arch/refusals.h"
#include "base/status.h"

/* A key whose value switches something off says nothing. */
static bool is_switched_on(const json_t *value)
{
    return json_is_true(value) || json_is_object(value) ||
           (json_is_integer(value) && json_integer_value(value) > 1) ||
           (json_is_real(value) && json_real_value(value) != 1.0);
}

static void explain_by_keys(const json_t *refusals, const json_t *config)
{
    const char *key = NULL;
    json_t *reason = NULL;
    if (json_is_true(json_object_get(config, "is_encoder_decoder"))) {
        error_append("; \"is_encoder_decoder\" shows that it has an encoder and a decoder");
        return;
    }
    json_object_foreach (json_object_get(refusals, "keys"), key, reason) {
        if (is_switched_on(json_object_get(config, key))) {
            error_append("; \"%s\" shows that %s", key, json_string_value(reason));
            return;
        }
    }
}

void unknown_family_explain(const char *type, const json_t *config)
{
    json_t *refusals = refusals_read();
    const json_t *family = json_object_get(json_object_get(refusals, "families"), type);
    const char *nearest = json_string_value(json_array_get(family, 0));
    const char *reason = json_string_value(json_array_get(family, 1));
    if (family == NULL) {
        explain_by_keys(refusals, config);
    } else if (nearest == NULL) {
        error_append("; none is near: %s %s", type, reason);
    } else {
        error_append("; the nearest is %s, but %s %s", nearest, type, reason);
    }
    json_decref(refusals);
}
