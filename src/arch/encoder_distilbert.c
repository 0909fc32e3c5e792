/* DistilBERT: BERT without token types. Source: configuration_distilbert.py and
 * modeling_distilbert.py of Hugging Face transformers. */
#include "arch/decoder.h"

static const decoder_family family = {
    ENCODER_LIKE_BERT,
    .read = encoder_read,
    .keys = {.hidden = "dim",
             .layers = "n_layers",
             .heads = "n_heads",
             .head_dim = "head_dim",
             .intermediate = "hidden_dim",
             .context = "max_position_embeddings",
             .activation = "activation"},
    .names = {{"model.embed_tokens", "embeddings.word_embeddings"},
              {"model.embed_positions", "embeddings.position_embeddings"},
              {"model.embed_norm", "embeddings.LayerNorm"},
              {"self_attn.q_proj", "attention.q_lin"},
              {"self_attn.k_proj", "attention.k_lin"},
              {"self_attn.v_proj", "attention.v_lin"},
              {"self_attn.o_proj", "attention.out_lin"},
              {"self_attn.branch_norm", "sa_layer_norm"},
              {"mlp.up_proj", "ffn.lin1"},
              {"mlp.down_proj", "ffn.lin2"},
              {"mlp.branch_norm", "output_layer_norm"}},
    .layers = "transformer.layer.",
    .prefix = "distilbert.",
};

static const char *const settings[] = {"activation", "max_position_embeddings", NULL};

ENCODER(distilbert, "distilbert", family, settings);
