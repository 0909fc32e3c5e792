/* One family of networks: how its graph is built from a configuration, how a narrowed one is
 * described so that stock loaders accept it, and who those are. To add a family: one file that
 * fills this table, one line in registry.c. */
#ifndef GRAIL_ARCH_ARCHITECTURE_H
#define GRAIL_ARCH_ARCHITECTURE_H

#include "base/json.h"
#include "format/checkpoint.h"
#include "graph/graph.h"

enum { LOADER_REASON_SIZE = 200 };

/** Whether a stock loader opens the narrowed checkpoint, and why not or with what remark. */
typedef struct loader_verdict {
    const char *loader; /* static */
    bool loads;
    char reason[LOADER_REASON_SIZE];
} loader_verdict;

enum { LOADER_COUNT = 3 };

typedef struct architecture architecture;

struct architecture {
    const char *name;                    /* "model_type" of config.json */
    const struct decoder_family *family; /* the family's own table, for the slots below */
    /** Builds the finished graph. `source` names config.json in messages. */
    grail_status (*build)(const architecture *self, const char *source, const json_t *config,
                          graph **out);
    /** Edits `config`, that of the dense network, to say the shapes of `narrowed`. */
    grail_status (*describe_narrowed)(const graph *narrowed, json_t *config);
    /** Fills verdicts[LOADER_COUNT] for a configuration as written by describe_narrowed. */
    grail_status (*judge_loaders)(const json_t *config, const graph *narrowed,
                                  loader_verdict *verdicts);
    /** Positions that the configuration promises. */
    int64_t (*context)(const architecture *self, const json_t *config);
    /** Whether a tensor outside the graph may be there (old buffers): it is copied, not used. */
    bool (*is_ignorable)(const char *tensor);
};

/** GRAIL_ERROR_UNSUPPORTED lists the known families. */
grail_status architecture_find(const char *source, const json_t *config,
                               const architecture **out) GRAIL_MUST_CHECK;

extern const architecture architecture_llama;
extern const architecture architecture_mistral;
extern const architecture architecture_qwen2;
extern const architecture architecture_qwen3;

#endif
