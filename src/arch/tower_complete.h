/* Completes the configuration of a vision transformer that was recognised by its tensors, from what
 * lies around them: the slot `complete` of `architecture`. */
#ifndef GRAIL_ARCH_TOWER_COMPLETE_H
#define GRAIL_ARCH_TOWER_COMPLETE_H

#include "arch/transformer_tower.h"

/** CLIP: whether open_clip's network has GELU or QuickGELU, which its tensors do not show. */
grail_status clip_complete(const surroundings *around, json_t *config, char *notice);

/** ViT: heads and activation of the class that timm's config.json names. */
grail_status vit_complete(const surroundings *around, json_t *config, char *notice);

#endif
