/* RoBERTa, and XLM-RoBERTa, which has its tensors. Source: configuration_roberta.py and
 * modeling_roberta.py of Hugging Face transformers. */
#include "arch/decoder.h"

/* Positions are counted from behind the id of padding. */
static grail_status read(const char *source, const json_t *json, decoder_config *c)
{
    const int64_t usual = c->family->spare_positions - 1;
    int64_t padding = usual;
    CHECK(json_get_integer(source, json, "pad_token_id", usual, &padding));
    if (padding != usual) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: \"pad_token_id\" is %lld, expected %lld: the first position is the "
                         "one behind it",
                         source, (long long)padding, (long long)usual);
    }
    return encoder_read(source, json, c);
}

static const decoder_family family = {
    ENCODER_LIKE_BERT,      .place = encoder_place,     .keys = &encoder_keys,
    .names = encoder_names, .layers = "encoder.layer.", .prefix = "roberta.",
    .read = read,           .spare_positions = 2,       .counts_spare = true,
    .token_types = true,
};

ENCODER(roberta, "roberta", family, encoder_settings);
ENCODER(xlm_roberta, "xlm-roberta", family, encoder_settings);
