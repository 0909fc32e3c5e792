/* Sources of the names: thop (profile.py), torch (BatchNorm, AveragedModel), timm
 * (SplitBatchNorm2d, and clean_checkpoint.py, which takes its auxiliary norms out), NVIDIA
 * Transformer Engine, and older classes of Hugging Face transformers. */
#include "arch/outside_tensors.h"

#include <string.h>

typedef enum kind_number {
    PROFILER,
    AVERAGE,
    BATCHES,
    FLOAT_BATCHES,
    SPLIT_NORMS,
    POSITIONS,
    MASKS,
    LOSS,
} kind_number;

static const outside_kind kinds[OUTSIDE_KINDS] = {
    [PROFILER] = {.what = "counters of a profiler (thop)", .is_left_out = true},
    [AVERAGE] = {.what = "counters of what was averaged, or states of a library"},
    [BATCHES] = {.what = "counters of batches", .is_unremarked = true},
    [FLOAT_BATCHES] = {.what = "counters of batches that are no integers"},
    [SPLIT_NORMS] = {.what = "norms of other splits of training batches (timm), which inference "
                             "does not run",
                     .is_left_out = true},
    [POSITIONS] = {.what = "numbers of positions or rotary frequencies, which follow from the "
                           "configuration"},
    [MASKS] = {.what = "masks of attention"},
    [LOSS] = {.what = "weights of a loss"},
};

const outside_kind *outside_kind_at(int kind)
{
    return &kinds[kind];
}

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

/* Whether the name ends with these complete components. */
static bool ends_with(const char *name, const char *ending)
{
    const size_t all = strlen(name);
    const size_t own = strlen(ending);
    return all >= own && strcmp(name + all - own, ending) == 0 &&
           (all == own || name[all - own - 1] == '.');
}

static const struct {
    const char *ending;
    bool (*fits)(const tensor_view *t);
    kind_number kind;
} endings[] = {
    {"total_ops", is_number, PROFILER},
    {"total_params", is_number, PROFILER},
    {"n_averaged", is_number, AVERAGE},
    {"_extra_state", is_any, AVERAGE},
    {"num_batches_tracked", is_integer, BATCHES},
    {"num_batches_tracked", is_number, FLOAT_BATCHES},
    {"position_ids", is_integer, POSITIONS},
    {"token_type_ids", is_integer, POSITIONS},
    {"inv_freq", is_any, POSITIONS},
    {"rope.freqs", is_any, POSITIONS},
    {"rope_freqs.weight", is_any, POSITIONS},
    {"attn.bias", is_mask, MASKS},
    {"attn.masked_bias", is_mask, MASKS},
    {"attention.bias", is_mask, MASKS},
    {"attention.masked_bias", is_mask, MASKS},
    {"attn_mask", is_mask, MASKS},
    {"attn.mask", is_mask, MASKS},
    {"causal_mask", is_mask, MASKS},
};

int outside_kind_of(const char *name, const tensor_view *tensor)
{
    static const char *const losses[] = {"criterion.", "loss.", "loss_fn.", "loss_func.",
                                         "loss_function."};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        if (ends_with(name, endings[i].ending) && endings[i].fits(tensor)) {
            return (int)endings[i].kind;
        }
    }
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
        if (strncmp(name, losses[i], strlen(losses[i])) == 0) {
            return LOSS;
        }
    }
    return strstr(name, ".aux_bn.") != NULL ? SPLIT_NORMS : -1;
}
