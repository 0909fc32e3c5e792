/* The slots of `architecture` that all decoders fill alike. */
#include "arch/decoder.h"
#include "arch/gguf_family.h"
#include "base/name_list.h"

#include <string.h>

static bool has_old_norms(const checkpoint *weights)
{
    for (int64_t i = 0; i < checkpoint_count(weights); i++) {
        if (name_ends_with(checkpoint_plain_name(weights, i), ".LayerNorm.gamma")) {
            return true;
        }
    }
    return false;
}

/* The configuration of a decoder states all its widths; the tensors show how they are called, and
 * how a GGUF file stores them. */
grail_status decoder_build(const architecture *self, const char *source, const json_t *config,
                           const checkpoint *weights, graph **out)
{
    grail_status status = GRAIL_OK;
    decoder_config c = {0};
    TRY(decoder_config_read(self->family, source, config, &c));
    c.old_norm_names = self->family->encoder && weights != NULL && has_old_norms(weights);
    if (weights != NULL && checkpoint_metadata(weights) != NULL) {
        TRY(gguf_complete_config(weights, &c));
    }
    TRY(decoder_graph(source, &c, out));
out:
    decoder_config_fini(&c);
    return status;
}

const char *decoder_base(const architecture *self)
{
    const decoder_family *family = self->family;
    return family->prefix != NULL ? family->prefix : family->base != NULL ? family->base : "model.";
}

int64_t decoder_context(const architecture *self, const json_t *config)
{
    const decoder_family *family = self->family;
    const json_t *value = json_object_get(config, decoder_keys_of(family)->context);
    const int64_t stated =
        json_is_integer(value) ? (int64_t)json_integer_value(value) : family->default_context;
    return stated - (family->counts_spare ? family->spare_positions : 0);
}

/* Layers that predict further tokens may have names of their own, as those of qwen3_next, and a
 * trainer may add a head that tells the value of a text (trl). */
outside_part decoder_outside(const char *tensor)
{
    if (name_begins_with(tensor, "mtp.") || name_begins_with(tensor, "model.mtp.")) {
        return OUTSIDE_PREDICTIONS;
    }
    return name_begins_with(tensor, "v_head.") ? OUTSIDE_WEIGHTS : OUTSIDE_REFUSED;
}

/* Widths are not settings: the tensors determine them. */
const char *const decoder_usual_settings[] = {
    "hidden_act",     "rms_norm_eps",       "max_position_embeddings",
    "sliding_window", "use_sliding_window", NULL};
