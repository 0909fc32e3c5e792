/* Sources of the names: thop (profile.py), torch (BatchNorm, AveragedModel), timm
 * (SplitBatchNorm2d, and clean_checkpoint.py, which takes its auxiliary norms out), NVIDIA
 * Transformer Engine, and older classes of Hugging Face transformers. */
#include "arch/outside_tensors.h"

#include "base/name_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const outside_kind outside_kinds[OUTSIDE_PARTS] = {
    [OUTSIDE_PROFILER] = {.what = "counters of a profiler (thop)", .is_left_out = true},
    [OUTSIDE_AVERAGE] = {.what = "counters of what was averaged, or states of a library"},
    [OUTSIDE_FLOAT_BATCHES] = {.what = "counters of batches that are no integers"},
    [OUTSIDE_SPLIT_NORMS] =
        {.what = "norms of other splits of training batches (timm), which inference "
                 "does not run",
         .is_left_out = true},
    [OUTSIDE_POSITIONS] = {.what =
                               "numbers of positions or rotary frequencies, which follow from the "
                               "configuration"},
    [OUTSIDE_MASKS] = {.what = "masks of attention"},
    [OUTSIDE_LOSS] = {.what = "weights of a loss"},
    [OUTSIDE_PREDICTIONS] = {.what = "layers that predict further tokens", .is_left_out = true},
    [OUTSIDE_WEIGHTS] = {.what = "a head beside that of the language model"},
};

static bool is_integer(const tensor_view *t)
{
    return t->dtype == GRAIL_DTYPE_I64 || t->dtype == GRAIL_DTYPE_I32;
}

static int64_t elements_of(const tensor_view *t)
{
    int64_t elements = 0;
    return shape_elements(t->rank, t->shape, &elements) ? elements : INT64_MAX;
}

/* A bias has one dimension. */
static bool is_mask(const tensor_view *t)
{
    return t->rank >= 2 || elements_of(t) == 1;
}

static bool is_number(const tensor_view *t)
{
    return elements_of(t) == 1;
}

static bool is_any(const tensor_view *t)
{
    (void)t;
    return true;
}

static const struct {
    const char *ending;
    bool (*fits)(const tensor_view *t);
    outside_part part;
} endings[] = {
    {"total_ops", is_number, OUTSIDE_PROFILER},
    {"total_params", is_number, OUTSIDE_PROFILER},
    {"n_averaged", is_number, OUTSIDE_AVERAGE},
    {"_extra_state", is_any, OUTSIDE_AVERAGE},
    {"num_batches_tracked", is_integer, OUTSIDE_BATCHES},
    {"num_batches_tracked", is_number, OUTSIDE_FLOAT_BATCHES},
    {"position_ids", is_integer, OUTSIDE_POSITIONS},
    {"token_type_ids", is_integer, OUTSIDE_POSITIONS},
    {"inv_freq", is_any, OUTSIDE_POSITIONS},
    {"rope.freqs", is_any, OUTSIDE_POSITIONS},
    {"rope_freqs.weight", is_any, OUTSIDE_POSITIONS},
    {"attn.bias", is_mask, OUTSIDE_MASKS},
    {"attn.masked_bias", is_mask, OUTSIDE_MASKS},
    {"attention.bias", is_mask, OUTSIDE_MASKS},
    {"attention.masked_bias", is_mask, OUTSIDE_MASKS},
    {"attn_mask", is_mask, OUTSIDE_MASKS},
    {"attn.mask", is_mask, OUTSIDE_MASKS},
    {"causal_mask", is_mask, OUTSIDE_MASKS},
};

outside_part outside_part_of(const char *name, const tensor_view *tensor)
{
    static const char *const losses[] = {"criterion.", "loss.", "loss_fn.", "loss_func.",
                                         "loss_function."};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        const char *ending = endings[i].ending; /* complete components */
        const size_t before = strlen(name) - (name_ends_with(name, ending) ? strlen(ending) : 0);
        if (name_ends_with(name, ending) && (before == 0 || name[before - 1] == '.') &&
            endings[i].fits(tensor)) {
            return endings[i].part;
        }
    }
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
        if (strncmp(name, losses[i], strlen(losses[i])) == 0) {
            return OUTSIDE_LOSS;
        }
    }
    return strstr(name, ".aux_bn.") != NULL ? OUTSIDE_SPLIT_NORMS : OUTSIDE_REFUSED;
}

/* -- layers beyond the number that a network is described with --------------------------------- */

int64_t surplus_layer(const graph *g, const char *base, const char *name)
{
    const char *end = NULL;
    const char *digits = name_find_number(name, &end);
    const long long layer = digits == NULL ? -1 : strtoll(digits, NULL, 10);
    const size_t length = digits == NULL ? 0 : (size_t)(digits - name);
    for (int p = 0; p < g->parameter_count && layer >= g->block_count; p++) {
        const char *whole = g->parameters[p].tensor;
        const char *tensor = whole + (name_begins_with(whole, base) ? strlen(base) : 0);
        if (strncmp(tensor, name, length) == 0 && tensor[length] >= '0' && tensor[length] <= '9') {
            return layer;
        }
    }
    return -1;
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
