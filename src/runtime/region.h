/* Regions: neighbouring nodes of an ONNX model that grail has no row for, of which ONNX Runtime
 * computes one value from up to eight others. What they are is not looked at. A region is used by
 * several threads. */
#ifndef GRAIL_RUNTIME_REGION_H
#define GRAIL_RUNTIME_REGION_H

#include "runtime/onnxruntime.h"
#include "runtime/region_model.h"
#include "tensor/tensor.h"

enum {
    REGION_MOST_INPUTS = 8,
    REGION_MOST_GIVEN = 256 /* of a network as a whole, for region_probe */
};

typedef struct region region;

/** Height and width of an image, 1 and 1 of [samples, channels]; their product are the positions of
 * tokens. */
typedef struct region_positions {
    int64_t height, width;
} region_positions;

/** `nodes`, in the order of the file, of which `first` is one that no row reads, for the reason
 * that it was refused with, and numbers that they read as constants. All are copied; `file`, which
 * lies at `path`, must outlive *out, which is owned: region_free. */
typedef struct region_parts {
    const onnx_file *file;
    const char *path;
    int64_t node_count, first;
    const int64_t *nodes;
    int64_t number_count;
    const region_numbers *numbers;
    const char *reason;
    int input_count;
    region_value inputs[REGION_MOST_GIVEN + 1], output;
    bool asks_size; /* the last input is the images, of which nodes read the size alone: it has no
                       values, and may be one more than the others */
    bool takes_one_sample; /* at a time */
    bool is_sequence;      /* the output has the positions of the network's input */
} region_parts;

grail_status region_create(const region_parts *parts, region **out) GRAIL_MUST_CHECK;
void region_free(region *r); /* NULL is allowed */

/** "node 'name' (Operator)" of its first node; and why it is in a region. */
const char *region_name(const region *r);
const char *region_reason(const region *r);
int64_t region_node_count(const region *r);
/** Channels of what it makes. */
int64_t region_width(const region *r);
int64_t region_input_width(const region *r, int input);
bool region_asks_size(const region *r);
/** The name of an input that is integers of the network, and their type; NULL: it is none. */
const char *region_ids_name(const region *r, int input, int *element);

/** GRAIL_ERROR_UNSUPPORTED where ONNX Runtime is missing or refuses the region: what a run asks
 * before it begins. */
grail_status region_start(region *r) GRAIL_MUST_CHECK;

/** The positions of its output, from those of its inputs, and of the network's behind them: where
 * it is no sequence, as the file declares them, or else of one sample of zeros. */
grail_status region_measure(region *r, const region_positions in[],
                            region_positions *out) GRAIL_MUST_CHECK;

/** out[samples x positions, width] <- what it makes of inputs in the same form, NULL of which the
 * size alone is read, but for integers of the network, which have the type that the file declares.
 * Other shapes than
 * `made`, which region_measure gave, are GRAIL_ERROR_SHAPE. */
grail_status region_run(region *r, int64_t samples, const region_positions in[],
                        const void *const inputs[], region_positions made,
                        float *out) GRAIL_MUST_CHECK;

/** out[count] <- what nodes of a file, in its order, make of constants, and of inputs of one sample
 * with these positions: values of the file, as F32 whose data is owned (memory_free), truths as 0
 * and 1, or no data where one is of another type or empty. */
grail_status region_values(const region_parts *parts, const region_positions in[],
                           const void *const inputs[], int64_t count, const int64_t values[],
                           tensor_view out[]) GRAIL_MUST_CHECK;

/** shapes[count] <- what a network makes of `samples` images of zeros, of these sizes for its
 * inputs: element and shape of each of these values; more[count]: the same of one image more, where
 * their number is open. The names in shapes are set. */
grail_status region_probe(const region_parts *network, int64_t samples, bool is_open,
                          const region_positions images[], int64_t count, const int64_t values[],
                          ort_tensor shapes[], ort_tensor more[]) GRAIL_MUST_CHECK;

#endif
