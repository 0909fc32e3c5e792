#include "shared_options.h"

#include <string.h>

grail_gqa_mode gqa_mode(const char *word)
{
    return word != NULL && strcmp(word, "query-per-group") == 0 ? GRAIL_GQA_QUERY_PER_GROUP
                                                                : GRAIL_GQA_KV_GROUPS;
}
