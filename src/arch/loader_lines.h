/* What is said of loaders, and the lines of Python with which a stock loader opens a result in the
 * directory DIR. They are printed for people to run, so nothing of a checkpoint gets into them but
 * plain names; where more were needed there are no lines. */
#ifndef GRAIL_ARCH_LOADER_LINES_H
#define GRAIL_ARCH_LOADER_LINES_H

#include "arch/architecture.h"

/** Fills the reason, or remark. */
void remark(loader_verdict *v, const char *format, ...) GRAIL_PRINTF(2, 3);
/** The same of a loader that does not open the result. */
void refuse(loader_verdict *v, const char *format, ...) GRAIL_PRINTF(2, 3);

/** from_pretrained of a class of transformers, or of one that comes with the result. */
void loader_lines_pretrained(const char *class_name, bool trusts, loader_verdict *v);

/** from_pretrained of the class that the configuration says has saved the network; none without. */
void loader_lines_saved_class(const json_t *config, loader_verdict *v);

/** create_model of a directory as timm saves one. */
void loader_lines_timm_directory(loader_verdict *v);

/** The class CLIP with the arguments of open_clip_config.json, which lies in DIR, and this ratio of
 * the widths in the layers of its visual tower. */
void loader_lines_open_clip(const char *mlp_ratio, loader_verdict *v);

/** `build` is the expression that builds the network in `module`; its tensors are those of the
 * weights file, which judge_weights_file completes. */
void loader_lines_build(const char *module, const char *build, loader_verdict *v);

/** What leaves the tensors of the weights file in "tensors", under the names of the network; none
 * for several files. */
void loader_lines_tensors(const checkpoint *weights, loader_verdict *v);

/** Puts the lines of the weights file before those that need its tensors. */
void loader_lines_complete(const loader_verdict *weights, loader_verdict *v);

/* timm's config.json, which names a function of timm and the arguments that it gets. Source: timm
 * 1.0.31, models/_hub.py and _factory.py. */

bool timm_config_is(const json_t *config);

/** An argument that create_model gives to the function when it opens the directory; `value` is
 * taken, also where this fails. */
grail_status timm_config_set_argument(json_t *config, const char *name,
                                      json_t *value) GRAIL_MUST_CHECK;

#endif
