#include "arch/gguf_family.h"

#include "arch/decoder_widths.h"
#include "base/names.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* mistral is written as llama. */
static const gguf_family families[] = {
    {"llama", "llama", true, false, true, "self_attn.|mlp."},
    {"deci", "llama", true, true, true, "self_attn.|mlp."},
    {"qwen2", "qwen2", false, false, false, "self_attn.q_proj|self_attn.k_proj|self_attn.v_proj"},
    {"qwen3", "qwen3", false, false, false, ""},
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

/* -- what none of them computes ---------------------------------------------------------------- */

static const char *attention_lacks(const attention_attributes *a)
{
    static const double tolerance = 1e-6;
    const double usual = 1.0 / sqrt((double)a->head_dim);
    return a->bidirectional                             ? "rows see those behind them"
           : a->cap != 0.0                              ? "scores have a soft cap"
           : fabs(a->scale - usual) > tolerance * usual ? "scores have a factor of their own"
                                                        : NULL;
}

/* What the graph of every family is made of, and nothing else. */
static const char *node_lacks(const node *n, double epsilon)
{
    switch (n->kind) {
    case NODE_EMBEDDING:
    case NODE_LINEAR:
    case NODE_MULTIPLY:
    case NODE_ADD:
        return NULL;
    case NODE_ATTENTION:
        return attention_lacks(&n->attention);
    case NODE_RMS_NORM:
        return n->norm.epsilon == epsilon ? NULL : "norms have different epsilons";
    case NODE_ROPE:
        return n->rope.turned != n->rope.head_dim
                   ? "rotary positions turn only a part of each head (partial_rotary_factor)"
               : n->rope.factor != 1.0 || n->rope.long_frequency != NULL
                   ? "rotary scaling multiplies what is turned, or depends on the length "
                     "(rope_scaling)"
                   : NULL;
    case NODE_ACTIVATION:
        return n->activation == ACTIVATION_SILU
                   ? NULL
                   : "the activation of its FFNs is not silu (hidden_act)";
    default:
        return "it has layers of another kind";
    }
}

double gguf_family_epsilon(const graph *g)
{
    for (int i = 0; i < g->node_count; i++) {
        if (g->nodes[i].kind == NODE_RMS_NORM) {
            return g->nodes[i].norm.epsilon;
        }
    }
    return 0.0;
}

bool gguf_family_lacks(const graph *g, int64_t context, char reason[LOADER_REASON_SIZE])
{
    const double epsilon = gguf_family_epsilon(g);
    const char *lacks = NULL;
    int64_t window = 0;
    int windows = 0;
    for (int i = 0; i < g->node_count && lacks == NULL; i++) {
        const node *n = &g->nodes[i];
        if (n->kind == NODE_ATTENTION && n->attention.window > 0 && n->attention.window < context) {
            window = n->attention.window;
            windows++;
        }
        lacks = node_lacks(n, epsilon);
    }
    if (lacks != NULL) {
        snprintf(reason, LOADER_REASON_SIZE, "%s", lacks);
    } else if (windows > 0) {
        snprintf(
            reason, LOADER_REASON_SIZE,
            "%d of %d layers attend to a window of %lld positions (sliding_window) in texts of "
            "up to %lld; for texts below the window set sliding_window=null",
            windows, g->block_count, (long long)window, (long long)context);
    }
    return lacks != NULL || windows > 0;
}

grail_status gguf_family_find(const checkpoint *weights, const gguf_family **out)
{
    grail_status status = GRAIL_OK;
    char *name = NULL;
    const gguf_key_name key = gguf_key_of("", GGUF_KEY_ARCHITECTURE);
    TRY(error_in(gguf_get_text(checkpoint_metadata(weights), key.text, &name), "%s",
                 checkpoint_path(weights)));
    *out = name == NULL ? NULL : gguf_family_named(name);
    if (*out == NULL) {
        status = error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "%s: unknown general.architecture \"%s\"; the decoders that grail reads from GGUF are",
            checkpoint_path(weights), name == NULL ? "(missing)" : name);
        error_append_names(NULL, name_at, NULL);
        error_append("; give the directory that the file was made from, which more families are "
                     "read from");
    }
out:
    memory_free(name);
    return status;
}
