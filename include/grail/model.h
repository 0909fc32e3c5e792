#ifndef GRAIL_MODEL_H
#define GRAIL_MODEL_H

#include <grail/status.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A network opened from a checkpoint: its graph, and the mapped parameters it names. */
typedef struct grail_model grail_model;

/**
 * Opens a model directory (config.json with safetensors or torch weights), or one weights file.
 * A weights file is read with the config.json beside it if it holds that directory's weights;
 * without a config.json the family is recognised from the tensors. Every tensor's shape is checked;
 * no weights are loaded yet. *out is owned: grail_model_close.
 */
GRAIL_API grail_status grail_model_open(const char *path, grail_model **out) GRAIL_MUST_CHECK;

/** Settings that a checkpoint without config.json does not contain, or that are to be changed:
 * "key=value" strings, such as "activation=quick_gelu", "normalize=true", "head_dim=64". Borrowed.
 */
typedef struct grail_model_options {
    const char *const *settings;
    int setting_count;
    const char *type; /* f32, f16 or bf16: how results hold weights that a GGUF file stores
                         quantised; NULL: they cannot be written. Without effect on other weights */
    GRAIL_ROOM(4);
} grail_model_options;
/** As grail_model_open; options may be NULL. */
GRAIL_API grail_status grail_model_open_with(const char *path, const grail_model_options *options,
                                             grail_model **out) GRAIL_MUST_CHECK;
GRAIL_API void grail_model_close(grail_model *model); /* NULL is allowed */

/** How grouped attention heads are cut. */
typedef enum grail_gqa_mode {
    GRAIL_GQA_KV_GROUPS,      /* a key/value head goes together with its query heads */
    GRAIL_GQA_QUERY_PER_GROUP /* the same number of query heads goes from every group; k and v stay
                               */
} grail_gqa_mode;

/** Facts of a model. Strings are borrowed from the model. */
typedef struct grail_model_facts {
    const char *directory;
    const char *architecture; /* such as "qwen2" */
    const char *dtype;        /* of the first weight, such as "BF16" */
    int64_t parameters;       /* of the whole checkpoint: elements of the tensors that grail runs,
                                 running statistics included, and of other parts' weights */
    int64_t bytes;            /* of all tensors of the checkpoint */
    int64_t
        macs_per_token; /* multiply-accumulates of all linear layers, without attention scores */
    int64_t kv_bytes_per_token; /* key and value cache of all blocks in the stored dtype */
    int64_t blocks, vocabulary, context;
    int reads_images;   /* 1: images, with macs_per_token counted per image */
    int64_t image_side; /* side that the network was made for, or its preset's; 0 = any; the height
                           of images that are not square */
    const char *preset; /* of image preprocessing, "checkpoint" where the checkpoint describes it
                           itself; NULL when it reads tokens, or what it describes cannot be used */
    int64_t classes;    /* outputs of a network that reads images; 0 without a head */
    int gives_features; /* 1: its outputs are features or hidden states, not logits */
    const char *activation;        /* such as "gelu" */
    const char *activation_notice; /* what was assumed of it, and the setting that decides; NULL */
    const char *const *notices; /* [notice_count]: what was taken of the checkpoint where it holds
                                   more than a network, and what is not read of it */
    int notice_count;
    int64_t outputs;  /* at least 1 */
    int64_t channels; /* of the images; 0 for text */
    int64_t image_width;
    int64_t inputs; /* that its file names and samples must give: grail_model_input; 0: the one */
    GRAIL_ROOM(4);
} grail_model_facts;

/** One of several inputs of a network, or of integers. */
typedef struct grail_input_facts {
    const char *name;      /* borrowed from the model */
    int64_t channels;      /* 0: integers [samples, positions], parts of one token id */
    int64_t height, width; /* of [samples, channels, height, width]; 1 and 1: [samples, channels] */
    int64_t rows;          /* of the tables that integers choose from; 0: none, and of token ids it
                              is a mask */
    int64_t dimensions;    /* of its arrays, that of the samples among them */
    int is_integer;
    GRAIL_ROOM(2);
} grail_input_facts;

/** One output of a network. */
typedef struct grail_output_facts {
    const char *name; /* in its file, borrowed from the model; NULL: it has none */
    int64_t width;    /* channels, classes or features */
    int64_t rows[2];  /* height and width of a map, for images of grail_model_facts.image_side; 1
                         and 1 of a row for each image or token */
    int is_logits;
    GRAIL_ROOM(4);
} grail_output_facts;

GRAIL_API grail_status grail_model_describe(const grail_model *model,
                                            grail_model_facts *out) GRAIL_MUST_CHECK;

/** i in 0 .. outputs - 1 of grail_model_facts. */
GRAIL_API grail_status grail_model_output(const grail_model *model, int i,
                                          grail_output_facts *out) GRAIL_MUST_CHECK;

/** i in 0 .. inputs - 1 of grail_model_facts. */
GRAIL_API grail_status grail_model_input(const grail_model *model, int i,
                                         grail_input_facts *out) GRAIL_MUST_CHECK;

/** A hash of names, types, shapes and the first and last bytes of all tensors, as 64 hex digits:
 * what tells two files apart wherever they lie. */
GRAIL_API grail_status grail_model_digest(const grail_model *model, char out[65]) GRAIL_MUST_CHECK;

/** One place where width can be cut. Strings are borrowed from the site list. */
typedef struct grail_site_facts {
    const char *name; /* such as "model.layers.0.mlp.down_proj" */
    const char
        *kind; /* "ffn", "heads", "conv", "stream", "experts", "latent", "values", "groups" */
    int block;
    int64_t units;               /* n */
    int64_t features_per_unit;   /* u at the consumer */
    int64_t width;               /* H = n u */
    int64_t groups;              /* every group keeps the same number of units; 1 = no groups */
    int64_t outputs;             /* O of the consumer */
    int64_t parameters_per_unit; /* in the rows and columns that go with one unit */
    GRAIL_ROOM(4);
} grail_site_facts;

/** i-th kind of sites, NULL beyond the last. */
GRAIL_API const char *grail_site_kind_at(int i);

typedef struct grail_site_list grail_site_list;

/** The sites of a model. *out is owned: grail_site_list_free. */
GRAIL_API grail_status grail_model_sites(const grail_model *model, grail_gqa_mode mode,
                                         grail_site_list **out) GRAIL_MUST_CHECK;
GRAIL_API void grail_site_list_free(grail_site_list *sites); /* NULL is allowed */
GRAIL_API int grail_site_list_count(const grail_site_list *sites);
/** i in 0..count-1. */
GRAIL_API grail_site_facts grail_site_list_at(const grail_site_list *sites, int i);

/** Nodes of an ONNX file that grail has no rows for: ONNX Runtime computes what they make. They
 * stay as they are in every result. Strings are borrowed from the model. */
typedef struct grail_region_facts {
    const char *node;   /* the first of them and its operator, such as "node 'sine' (Sin)" */
    const char *reason; /* why it could not be read */
    int64_t nodes;
    int64_t
        channels; /* that they read or make, which cannot be cut; those of images do not count */
    GRAIL_ROOM(4);
} grail_region_facts;

/** i-th region of a model; its node is NULL beyond the last. */
GRAIL_API grail_region_facts grail_model_region_at(const grail_model *model, int i);

/** i-th supported architecture name, NULL beyond the last. */
GRAIL_API const char *grail_architecture_at(int i);

#ifdef __cplusplus
}
#endif
#endif
