/* What families of encoders share. */
#include "arch/decoder.h"

#include <string.h>

grail_status encoder_read(const char *source, const json_t *json, decoder_config *c)
{
    const char *type = NULL;
    CHECK(json_get_string(source, json, "position_embedding_type", "absolute", &type));
    if (strcmp(type, "absolute") != 0) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: \"position_embedding_type\" is \"%s\": scores that depend on the "
                         "distance of positions, which grail lacks; it has \"absolute\"",
                         source, type);
    }
    CHECK(decoder_refuse(source, json, "is_decoder", "each row sees those before it alone"));
    CHECK(decoder_refuse(source, json, "add_cross_attention",
                         "layers also attend to the output of another network"));
    if (!c->family->token_types) {
        return GRAIL_OK;
    }
    return decoder_read_size(source, json, "type_vocab_size", 2, 1, &c->token_types);
}

/* What reads the hidden states stays right whatever is cut: a pooler, a classifier, the head of a
 * masked language model. An unknown part of embeddings or layers would not. */
outside_part encoder_outside(const char *tensor)
{
    static const char *const inside[] = {"embeddings", "encoder.", "layer.", "layers."};
    for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++) {
        if (strstr(tensor, inside[i]) != NULL) {
            return OUTSIDE_REFUSED;
        }
    }
    return OUTSIDE_WEIGHTS;
}
