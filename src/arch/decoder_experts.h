/* Decoders whose FFN is a mixture of experts, of which a router chooses some for each token:
 *   h += sum over the chosen e of share_e(router(m)) ffn_e(m) [+ sigmoid(gate(m)) shared_ffn(m)] */
#ifndef GRAIL_ARCH_DECODER_EXPERTS_H
#define GRAIL_ARCH_DECODER_EXPERTS_H

#include "arch/decoder.h"

enum { MOST_EXPERTS = 1 << 16 }; /* of all layers, as a graph has nodes for each */

/** What a family's config.json says of its experts. Layers may have a plain FFN in their place. */
struct decoder_mixture {
    const char *width;        /* key of the width of experts */
    const char *shared_width; /* of the expert that all tokens take; NULL: there is none, or */
    const char *shared_count; /* it is as wide as so many; it has no gate then */
    const char *first_dense;  /* layers from the first on that have a plain FFN; NULL: none */
    int64_t default_count, default_chosen, default_width, default_shared, default_dense;
    bool reads_norm;         /* "norm_topk_prob": shares sum to 1; otherwise they do */
    bool reads_dense_layers; /* "mlp_only_layers" and "decoder_sparse_step" */
    bool are_stacked;        /* in one tensor, so that all have one width */
    bool router_bias;
    bool chooses_groups; /* "n_group" and "topk_group", and a factor of shares */
    bool sigmoid;        /* scores of which, and biases of the choice */
};

/** What all layers have in common. Refuses what would change how experts are chosen. */
grail_status decoder_mixture_read(const char *source, const json_t *json,
                                  decoder_config *c) GRAIL_MUST_CHECK;
/** The key of the number of experts, which families and versions of transformers call differently.
 */
const char *decoder_experts_key(const json_t *config);
/** Whether all experts of a layer must be equally wide, and that of all tokens a multiple. */
bool decoder_experts_have_one_width(const decoder_family *family);
/** Whether layer `index` has experts. */
bool decoder_has_experts(const decoder_family *family, const json_t *json, int64_t index);
/** Number and widths of the experts of a layer; `own` is what config.json says of it alone. */
grail_status decoder_experts_read(const char *source, const json_t *json, const json_t *own,
                                  int64_t index, decoder_config *c) GRAIL_MUST_CHECK;

#endif
