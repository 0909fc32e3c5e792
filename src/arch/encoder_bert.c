/* BERT. Source: configuration_bert.py and modeling_bert.py of Hugging Face transformers. */
#include "arch/decoder.h"

static const decoder_family family = {
    ENCODER_LIKE_BERT,     .read = encoder_read,   .place = encoder_place,
    .keys = &encoder_keys, .names = encoder_names, .layers = "encoder.layer.",
    .prefix = "bert.",     .token_types = true,
};

ENCODER(bert, "bert", family, encoder_settings);
