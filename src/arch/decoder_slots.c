/* The slots of `architecture` that all decoders fill alike. */
#include "arch/decoder.h"

#include <string.h>

/* The configuration of a decoder states all its widths. */
grail_status decoder_build(const architecture *self, const char *source, const json_t *config,
                           const checkpoint *weights, graph **out)
{
    (void)weights;
    decoder_config c = {0};
    grail_status status = decoder_config_read(self->family, source, config, &c);
    if (status == GRAIL_OK) {
        status = decoder_graph(source, &c, out);
    }
    decoder_config_fini(&c);
    return status;
}

int64_t decoder_context(const architecture *self, const json_t *config)
{
    const json_t *value = json_object_get(config, self->family->keys->context);
    return json_is_integer(value) ? (int64_t)json_integer_value(value)
                                  : self->family->default_context;
}

/* Old files store the rotary table as a buffer; networks with tied embeddings may store the head a
 * second time. */
outside_part decoder_outside(const char *tensor)
{
    return strstr(tensor, "rotary_emb.inv_freq") != NULL || strcmp(tensor, "lm_head.weight") == 0
               ? OUTSIDE_BUFFER
               : OUTSIDE_REFUSED;
}

/* Widths are not settings: the tensors determine them. */
const char *const decoder_usual_settings[] = {
    "hidden_act",     "rms_norm_eps",       "max_position_embeddings",
    "sliding_window", "use_sliding_window", NULL};
