/* An ONNX model as it lies in its file: what it declares, its nodes in order, and its constants.
 *
 * The file is mapped, and nothing of it is copied but names and lists of numbers. Every node and
 * tensor keeps the range of its bytes, so that onnx_edit.h writes what nobody changed as it was.
 * Fields and operators that are not known are kept that way. What a subgraph holds (If, Loop, Scan)
 * is not read but for the names of outer values in it.
 *
 * Checked, all when a file is opened: lengths and wire types; names are UTF-8 without NUL, each
 * value is made once, and not of itself; a tensor has as many values as its shape says; values in
 * other files lie in the directory of the model. Not checked: what operators ask of their inputs
 * and attributes. */
#ifndef GRAIL_FORMAT_ONNX_ONNX_FILE_H
#define GRAIL_FORMAT_ONNX_ONNX_FILE_H

#include "base/file.h"
#include "format/name_index.h"
#include "format/onnx/onnx_tensor.h"

/* Limits, in addition to that of names in format/tensor_limits.h; each of nodes, values and tensors
 * at most TENSOR_MOST_IN_FILE. */
enum {
    ONNX_OLDEST_OPSET = 7,
    ONNX_NEWEST_OPSET = 23,
    ONNX_MOST_ATTRIBUTES = 256, /* of a node */
    ONNX_DEEPEST_GRAPH = 32     /* subgraphs in subgraphs */
};

typedef struct onnx_value {
    const char *name;
    int64_t node;   /* that makes it, -1: an input or an initializer */
    int64_t tensor; /* its constant, -1 without: of an initializer, a Constant, or their Identity */
    bool is_input, is_output;
    /* As declared; element 0: not, or not as a tensor. */
    int element;
    int rank;                           /* -1: not declared */
    int64_t shape[ONNX_MAX_RANK];       /* ONNX_ANY_SIZE: not a number */
    const char *symbols[ONNX_MAX_RANK]; /* dim_param of such sizes, or NULL */
} onnx_value;

typedef struct onnx_file_node {
    onnx_node node;         /* the domain "ai.onnx" is "" */
    const int64_t *inputs;  /* values; -1: left out */
    const int64_t *outputs; /* likewise */
    /* Outer values that its subgraphs read, each perhaps several times. */
    int64_t *captures;
    int64_t capture_count;
    bool has_subgraph;
    byte_range field; /* its bytes, with the tag */
} onnx_file_node;

typedef struct onnx_import {
    const char *domain;
    int64_t version;
} onnx_import;

typedef struct onnx_entry {
    const char *key;
    byte_range value;
} onnx_entry;

typedef struct onnx_data_file {
    const char *location;
    file_map map;
} onnx_data_file;

typedef struct onnx_file {
    file_map map;     /* empty when the bytes are the caller's */
    char *directory;  /* of the file, NULL without */
    byte_range bytes; /* ModelProto */
    byte_range graph; /* GraphProto */
    int64_t ir_version, opset;
    const char *producer, *producer_version; /* "" without */
    onnx_import *imports;
    int64_t import_count;
    onnx_entry *metadata;
    int64_t metadata_count;
    onnx_value *values;
    int64_t value_count;
    int64_t *inputs, *outputs; /* values, as the graph lists them */
    int64_t input_count, output_count;
    onnx_file_node *nodes; /* each behind what it reads */
    int64_t node_count;
    int64_t *order;       /* the numbers of nodes as the file has them; NULL: it has them so, too */
    onnx_tensor *tensors; /* initializers as the graph lists them, then those of attributes */
    int64_t tensor_count, initializer_count;
    onnx_data_file *data_files;
    int64_t data_file_count;
    name_index index;     /* of values */
    struct chunk *chunks; /* memory of names and lists */
} onnx_file;

/** Maps and checks a model; *out is owned: onnx_file_close. Quantised operators, sparse
 * initializers, training graphs and other opsets are GRAIL_ERROR_UNSUPPORTED. Messages name the
 * file, and node, value or tensor. */
grail_status onnx_file_open(const char *path, onnx_file **out) GRAIL_MUST_CHECK;
/** Checks bytes in memory, which have no values in other files and must outlive *out. With a NULL
 * name messages name no file. */
grail_status onnx_file_open_bytes(const char *name, const void *bytes, size_t size,
                                  onnx_file **out) GRAIL_MUST_CHECK;
void onnx_file_close(onnx_file *file); /* NULL is allowed */

/** The number of the value of that name, or -1. */
int64_t onnx_file_find(const onnx_file *file, const char *name);
/** Whether it is this operator of ONNX itself. */
bool onnx_node_is(const onnx_file_node *node, const char *operator_name);
/** NULL where the node has none of that name. */
const onnx_attribute *onnx_node_attribute(const onnx_file_node *node, const char *name);

#endif
