/* Decoders whose FFN is a mixture of experts, of which a router chooses some for each token:
 *   h += sum over the chosen e of share_e(router(m)) ffn_e(m) [+ sigmoid(gate(m)) shared_ffn(m)] */
#ifndef GRAIL_ARCH_DECODER_EXPERTS_H
#define GRAIL_ARCH_DECODER_EXPERTS_H

#include "arch/decoder.h"

enum { MOST_EXPERTS = 1 << 16 }; /* of all layers, as a graph has nodes for each */

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
