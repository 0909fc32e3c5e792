#include "arch/activation_names.h"

#include <string.h>

/* Source: ACT2FN of Hugging Face transformers. grail writes the first name of a kind. */
static const struct {
    const char *name;
    activation_kind kind;
} known[] = {{"silu", ACTIVATION_SILU},          {"gelu", ACTIVATION_GELU},
             {"gelu_new", ACTIVATION_GELU_TANH}, {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
             {"relu", ACTIVATION_RELU},          {"quick_gelu", ACTIVATION_QUICK_GELU},
             {"swish", ACTIVATION_SILU}};

enum { KNOWN_COUNT = sizeof known / sizeof known[0] };

grail_status read_activation(const char *source, const json_t *object, const char *key,
                             activation_kind fallback, activation_kind *out)
{
    const char *name = NULL;
    grail_status status = json_get_string(source, object, key, activation_name(fallback), &name);
    if (status != GRAIL_OK) {
        return status;
    }
    for (int i = 0; i < KNOWN_COUNT; i++) {
        if (strcmp(known[i].name, name) == 0) {
            *out = known[i].kind;
            return GRAIL_OK;
        }
    }
    status =
        error_set(GRAIL_ERROR_UNSUPPORTED,
                  "%s: %s \"%s\" is not supported; the supported values are", source, key, name);
    for (int i = 0; i < KNOWN_COUNT; i++) {
        error_append("%s %s", i == 0 ? "" : ",", known[i].name);
    }
    return status;
}

const char *activation_name(activation_kind kind)
{
    static const char *const names[] = {
#define ACTIVATION(kind, name) [ACTIVATION_##kind] = #name,
#include "graph/activation_list.h"
#undef ACTIVATION
    };
    for (int i = 0; i < KNOWN_COUNT; i++) {
        if (known[i].kind == kind) {
            return known[i].name;
        }
    }
    return names[kind];
}
