/* The tensors of a mapped file, of any format. The reader of a format checks the file and adds each
 * tensor; tensor_writer.h writes such files. */
#ifndef GRAIL_FORMAT_TENSOR_FILE_H
#define GRAIL_FORMAT_TENSOR_FILE_H

#include "base/file.h"
#include "format/name_index.h"
#include "format/tensor_limits.h"
#include "tensor/tensor.h"

typedef struct tensor_file tensor_file;

struct tensor_file {
    file_map map; /* empty when the bytes are the caller's */
    const unsigned char *bytes;
    size_t size;
    tensor_view *tensors; /* in the order of the format; borrowed until close */
    int64_t count;
    name_index index;    /* no name occurs twice */
    char **names;        /* memory of the names, in the order in which they were added */
    const char *wrapper; /* key of the dictionary that holds the tensors; "" without one */
    const char *rival;   /* key of another one that could be the network's; "" without one */
    /* The format's own; load is NULL where every tensor is mapped, need and drop where data that is
     * there stays. */
    void *parts;
    void (*free_parts)(void *parts);
    grail_status (*load)(tensor_file *file);
    grail_status (*need)(const tensor_file *file, int64_t i);
    void (*drop)(const tensor_file *file, int64_t i);
};

/** Fills `tensors`, whose bytes are in `bytes`. Messages do not name the file. */
typedef grail_status (*tensor_reader)(tensor_file *file);

/** Maps and reads a file; *out is owned: tensor_file_close. Messages name file and tensor. */
grail_status tensor_file_open(const char *path, tensor_reader read,
                              tensor_file **out) GRAIL_MUST_CHECK;
/** Reads bytes in memory (for fuzzing and tests); `bytes` must outlive *out. */
grail_status tensor_file_open_bytes(const char *name, const void *bytes, size_t size,
                                    tensor_reader read, tensor_file **out) GRAIL_MUST_CHECK;
void tensor_file_close(tensor_file *file); /* NULL is allowed */

/** Adds a tensor of that name; *out, to be filled, is valid until the next one is added. */
grail_status tensor_file_add(tensor_file *file, const char *name,
                             tensor_view **out) GRAIL_MUST_CHECK;

/** view->bytes <- those of its dtype and shape; `fault` if a file cannot hold them. */
grail_status tensor_measure(tensor_view *view, grail_status fault) GRAIL_MUST_CHECK;

/** Copies the tensors that cannot be mapped (strided); their data is NULL until then.
 * Messages name the tensor, not the file. */
grail_status tensor_file_load(tensor_file *file) GRAIL_MUST_CHECK;

/** NULL when there is none of that name. */
const tensor_view *tensor_file_find(const tensor_file *file, const char *name);
/** Gives a tensor of this file its data, until it is released, where that is not there all the
 * time. Messages name the tensor and the file. */
grail_status tensor_file_need(const tensor_file *file, const tensor_view *tensor) GRAIL_MUST_CHECK;
/** Tells that a tensor's data is not needed for now: its pages go, or what need gave. */
void tensor_file_release(const tensor_file *file, const tensor_view *tensor);

#endif
