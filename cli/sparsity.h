/* The --sparsity argument: one fraction, or KEY=FRACTION pairs for kinds and single sites. */
#ifndef GRAIL_CLI_SPARSITY_H
#define GRAIL_CLI_SPARSITY_H

#include <grail/compress.h>

typedef struct sparsity_list {
    char *text; /* owned copy that the names point into */
    grail_site_sparsity *sites;
    int count;
} sparsity_list;

/** Fills in the options' sparsities. Returns EXIT_OK, or another exit code after a message on
 * stderr. `kinds` lists the kinds that a single fraction applies to. */
int sparsity_parse(const char *text, const char *kinds, grail_compress_options *options,
                   sparsity_list *list);
void sparsity_list_free(sparsity_list *list);

#endif
