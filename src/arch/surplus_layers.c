#include "arch/surplus_layers.h"

#include "base/name_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether a parameter lies in a tensor whose name begins with these bytes and a number. */
static bool has_layers(const graph *g, const char *base, const char *begin, size_t length)
{
    for (int p = 0; p < g->parameter_count; p++) {
        const char *whole = g->parameters[p].tensor;
        const char *tensor = whole + (name_begins_with(whole, base) ? strlen(base) : 0);
        if (strncmp(tensor, begin, length) == 0 && tensor[length] >= '0' && tensor[length] <= '9') {
            return true;
        }
    }
    return false;
}

int64_t surplus_layer(const graph *g, const char *base, const char *name)
{
    const char *end = NULL;
    const char *digits = name_find_number(name, &end);
    const long long layer = digits == NULL ? -1 : strtoll(digits, NULL, 10);
    return layer >= g->block_count && has_layers(g, base, name, (size_t)(digits - name)) ? layer
                                                                                         : -1;
}

/* Its eh_proj joins the hidden state of a position with the embedding of the next token. Source:
 * deepseek_mtp.py of vLLM. */
bool surplus_layer_predicts(const checkpoint *weights, int64_t tensor)
{
    char joint[256];
    const char *end = NULL;
    const char *name = checkpoint_at(weights, tensor)->name;
    if (name_find_number(name + checkpoint_own_begin(weights, tensor), &end) == NULL) {
        return false;
    }
    const int length =
        snprintf(joint, sizeof joint, "%.*s.eh_proj.weight", (int)(end - name), name);
    return length > 0 && (size_t)length < sizeof joint && checkpoint_index_of(weights, joint) >= 0;
}
