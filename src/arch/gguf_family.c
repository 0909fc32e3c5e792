#include "arch/gguf_family.h"

#include "arch/decoder_widths.h"
#include "base/names.h"

#include <stdio.h>
#include <string.h>

/* mistral is written as llama. */
static const gguf_family families[] = {
    {"llama", "llama", true, false},
    {"deci", "llama", true, true},
    {"qwen2", "qwen2", false, false},
    {"qwen3", "qwen3", false, false},
};

enum { FAMILY_COUNT = sizeof families / sizeof families[0] };

static const char *name_at(const void *list, int i)
{
    (void)list;
    return i < FAMILY_COUNT ? families[i].name : NULL;
}

const gguf_family *gguf_family_named(const char *name)
{
    for (int i = 0; i < FAMILY_COUNT; i++) {
        if (strcmp(families[i].name, name) == 0) {
            return &families[i];
        }
    }
    return NULL;
}

const gguf_family *gguf_family_for(const char *model_type, bool uniform, bool heads_fill)
{
    static const char *const in_pairs[] = {"llama", "mistral", "qwen2"};
    if (uniform &&
        (strcmp(model_type, "qwen3") == 0 || (strcmp(model_type, "qwen2") == 0 && heads_fill))) {
        return gguf_family_named(model_type);
    }
    for (size_t i = 0; i < sizeof in_pairs / sizeof in_pairs[0]; i++) {
        if (strcmp(model_type, in_pairs[i]) == 0) {
            return gguf_family_named(uniform ? "llama" : "deci");
        }
    }
    return NULL;
}

const char *gguf_family_lacks(const graph *g)
{
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        if (n->kind == NODE_ROPE && n->rope.turned != n->rope.head_dim) {
            return "rotary positions turn only a part of each head";
        }
        if (n->kind == NODE_ACTIVATION && n->activation != ACTIVATION_SILU) {
            return "the activation of its FFNs is not silu";
        }
    }
    return decoder_lacks_sublayers(g) ? "layers lack their attention or FFN" : NULL;
}

grail_status gguf_family_find(const checkpoint *weights, const gguf_family **out)
{
    grail_status status = GRAIL_OK;
    char *name = NULL;
    TRY(error_in(gguf_get_text(checkpoint_metadata(weights), "general.architecture", &name), "%s",
                 checkpoint_path(weights)));
    *out = name == NULL ? NULL : gguf_family_named(name);
    if (*out == NULL) {
        status = error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "%s: unknown general.architecture \"%s\"; the decoders that grail reads from GGUF are",
            checkpoint_path(weights), name == NULL ? "(missing)" : name);
        error_append_names(NULL, name_at, NULL);
    }
out:
    memory_free(name);
    return status;
}

void gguf_family_key(const gguf_family *family, const char *name, char key[GGUF_KEY_SIZE])
{
    snprintf(key, GGUF_KEY_SIZE, "%s.%s", family->name, name);
}
