/* A family of networks: how its graph is built from a configuration, how a narrowed network is
 * described so that stock loaders accept it, and which loaders accept it. To add a family: one file
 * that fills this table, one line in architecture_list.h. */
#ifndef GRAIL_ARCH_ARCHITECTURE_H
#define GRAIL_ARCH_ARCHITECTURE_H

#include "base/buffer.h"
#include "base/json.h"
#include "format/weights/checkpoint.h"
#include "graph/graph.h"

enum { LOADER_REASON_SIZE = 320, LOADER_LINES_SIZE = 640 };

/** Whether a stock loader opens the narrowed checkpoint, and the reason or a remark. */
typedef struct loader_verdict {
    const char *loader; /* static */
    bool loads;
    char reason[LOADER_REASON_SIZE];
    char lines[LOADER_LINES_SIZE]; /* arch/loader_lines.h; "" where it cannot be said in general */
    bool lines_need_tensors;       /* of the weights file, in "tensors" */
    bool reads_names;              /* of tensors, which must be those of its class */
} loader_verdict;

enum { LOADER_COUNT = 3 };

/** How well a checkpoint without config.json fits a family: how many of the tensors that the family
 * needs are there, and the first that is missing. */
typedef struct recognition {
    int matched, wanted;
    char missing[160]; /* "" when matched == wanted */
} recognition;

/** Counts a tensor that is needed. */
void recognition_count(recognition *r, bool is_there, const char *name);

/** What is known of a checkpoint besides its tensors when it was recognised by them. */
typedef struct surroundings {
    const char *path;      /* what was opened */
    const char *directory; /* whose files belong to the weights, or NULL */
    const char *source;    /* path of the configuration, for messages; NULL without */
    const json_t *config;  /* which names no family, such as timm's; or NULL */
    const checkpoint *weights;
} surroundings;

/** A tensor outside the graph is refused, or copied without being read. Then it counts in the bytes
 * of the checkpoint, and as weights also in its parameters. */
typedef enum outside_part {
    OUTSIDE_REFUSED,
    OUTSIDE_BUFFER, /* old buffers, and what is stored twice */
    /* no weights of any network, by their names (outside_tensors.h): */
    OUTSIDE_PROFILER,
    OUTSIDE_AVERAGE,
    OUTSIDE_BATCHES,
    OUTSIDE_FLOAT_BATCHES,
    OUTSIDE_SPLIT_NORMS,
    OUTSIDE_POSITIONS,
    OUTSIDE_MASKS,
    OUTSIDE_LOSS,
    OUTSIDE_PREDICTIONS, /* of further tokens, by weights that results lack */
    OUTSIDE_WEIGHTS,     /* of a part that grail does not run, such as a text tower */
    OUTSIDE_PARTS
} outside_part;

enum { NOTICE_SIZE = 480 };

typedef struct architecture architecture;

struct architecture {
    const char *name; /* "model_type" of config.json */
    /** The family's own row, for the slots below: of a language model, or of a tower. */
    const struct decoder_family *family;
    const struct tower_names *conventions; /* the last one has no key */
    /** Keys of the configuration that "key=value" settings may set, NULL at the end. */
    const char *const *settings;
    /** Whether other keys may be names that the network's file has for sizes which it leaves open:
     * these are in the object "sizes" of the configuration. */
    bool settings_name_sizes;
    /** Judges a checkpoint without config.json: fills `r` and, when all needed tensors are there,
     * sets *config (owned) to what `build` needs, including "model_type". NULL for a family that
     * always has a config.json. */
    grail_status (*recognise)(const architecture *self, const checkpoint *weights, recognition *r,
                              json_t **config);
    /** For families whose names begin with nothing in common: names of tensors in the first block
     * of their networks, at least one of which every network has, NULL at the end, */
    const char *const *anchors;
    /** and how many of the needed tensors are there behind the prefix that is set. */
    grail_status (*match)(const architecture *self, const checkpoint *weights, recognition *r);
    /** For the others: what all names begin with, but that of a head, such as "model.". */
    const char *(*base)(const architecture *self);
    /** Builds the finished graph from the configuration; families whose configuration has no widths
     * read the shapes in `weights`. `source` names config.json in messages. */
    grail_status (*build)(const architecture *self, const char *source, const json_t *config,
                          const checkpoint *weights, graph **out);
    /** Completes what `recognise` made by what lies around the tensors. Where an operator had to
     * be assumed, it writes into notice[NOTICE_SIZE] what, and the setting that decides. NULL:
     * nothing to complete. */
    grail_status (*complete)(const surroundings *around, json_t *config, char *notice);
    /** Hugging Face's image processor of the family, such as "ViT", where a file names none. */
    const char *image_processor;
    /** How the names of the classes of Hugging Face's library end whose checkpoints have all
     * tensors of the family, such as "ForCausalLM"; NULL: others have them, too. */
    const char *class_ending;
    /** The image preset that most networks of the family use, or NULL where none can be assumed;
     * the slot is NULL for networks that read no images. */
    const char *(*preset)(const json_t *config);
    /** Edits `config`, the configuration of the dense network, so that it describes `narrowed`,
     * whose blocks without nodes are left out. */
    grail_status (*describe_narrowed)(const architecture *self, const graph *narrowed,
                                      json_t *config);
    /** Fills verdicts[LOADER_COUNT] for a configuration as written by describe_narrowed, of `dense`
     * narrowed to `narrowed`; for a network that reads images all but the last, which is that of
     * the weights file. */
    grail_status (*judge_loaders)(const architecture *self, const json_t *config,
                                  const graph *dense, const graph *narrowed,
                                  loader_verdict *verdicts);
    /** What a loader needs of a result besides weights and configuration, as written by
     * describe_narrowed: the name of a file (static), and its content; *name stays NULL where none
     * does, and so may the slot. */
    grail_status (*loader_file)(const architecture *self, const json_t *config,
                                const graph *narrowed, const char **name, buffer *content);
    /** The name in the result of a tensor of the dense network where blocks are left out:
     * numbers[blocks] has the new number of each, GRAPH_NONE for one that is left out. *out is
     * owned; NULL: so is the tensor. The slot is NULL where checkpoints cannot describe a network
     * that lacks sublayers. */
    grail_status (*rename_tensor)(const char *tensor, int blocks, const int *numbers, char **out);
    /** The number of positions that the configuration allows; NULL for networks that read images.
     */
    int64_t (*context)(const architecture *self, const json_t *config);
    /** What a tensor outside the graph is; NULL: all are refused. */
    outside_part (*outside)(const char *tensor);
};

/** Finds the family of a checkpoint without config.json, sets the prefix of its network, and makes
 * its configuration (owned). When no family fits, this is GRAIL_ERROR_UNSUPPORTED; the message
 * names the nearest family and a tensor that it misses. */
grail_status architecture_recognise(checkpoint *weights, const architecture **out,
                                    json_t **config) GRAIL_MUST_CHECK;

/** The family of that name; NULL where there is none, or no text. */
const architecture *architecture_named(const json_t *name);

/** Finds a family by the configuration's "model_type". An unknown one is GRAIL_ERROR_UNSUPPORTED;
 * the message lists the known families, and says what sets it apart from the nearest one where that
 * is known. */
grail_status architecture_find(const char *source, const json_t *config,
                               const architecture **out) GRAIL_MUST_CHECK;

/** For a network that reads images: fills verdicts[1], for a loader that accepts any widths; the
 * last is that of the file. */
void judge_loaders_of_any_width(loader_verdict *verdicts);
/** Fills the last verdict: what reads the weights file that is written for `weights`, in the format
 * that they have. Lines of the others that need its tensors are completed. */
void judge_weights_file(const checkpoint *weights, loader_verdict *verdicts);
/** Changes the verdicts of a result whose network lies behind a prefix that its class has not. */
void judge_foreign_names(const char *prefix, loader_verdict *verdicts);
/** Changes the verdicts of a decoder's result whose weights are those of compressed-tensors. */
void judge_packed_weights(loader_verdict *verdicts);

#define ARCHITECTURE(name) extern const architecture architecture_##name;
#include "arch/architecture_list.h"
#undef ARCHITECTURE

#endif
