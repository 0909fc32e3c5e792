/* What sentence-transformers keeps beside an encoder: modules.json, the list of what works on texts
 * and on the encoder's output, and the settings of these modules. */
#ifndef GRAIL_ARCH_SENTENCE_MODULES_H
#define GRAIL_ARCH_SENTENCE_MODULES_H

#include "base/json.h"

#include <stdbool.h>

/** *path is the file's, and *modules its list, NULL where the directory has none. Both are owned,
 * also after a failure: memory_free, json_decref. */
grail_status sentence_modules_read(const char *directory, char **path,
                                   json_t **modules) GRAIL_MUST_CHECK;

/** The folder of a module of the list in the file `path`, borrowed; NULL where it has none of its
 * own. GRAIL_ERROR_FORMAT where that is not the name of a folder beside the weights. */
grail_status sentence_module_folder(const char *path, const json_t *module,
                                    const char **out) GRAIL_MUST_CHECK;

/** The most tokens of a text, as sentence_bert_config.json says; 0 where it says nothing. */
grail_status sentence_length(const char *directory, int64_t *out) GRAIL_MUST_CHECK;

/** How the vector of a text is made of its hidden states. */
typedef struct sentence_pooling {
    bool first; /* the state of the first token; else the mean of all */
    /* Why that may be another vector than sentence-transformers gives, or "". */
    char notice[256];
} sentence_pooling;

/** "cls" or "mean". */
const char *sentence_pooling_name(const sentence_pooling *pooling);

/** What the settings of the pooling say; the mean where there are none. */
grail_status sentence_pooling_read(const char *directory, sentence_pooling *out) GRAIL_MUST_CHECK;

#endif
