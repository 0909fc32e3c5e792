/* Shared by the parts of the torch reader: the file being read, its storages, and the pickle's
 * descriptions of tensors. */
#ifndef GRAIL_FORMAT_TORCH_TORCH_INTERNAL_H
#define GRAIL_FORMAT_TORCH_TORCH_INTERNAL_H

#include "format/torch/torch_dtypes.h"
#include "format/torch/torch_file.h"
#include "format/torch/zip.h"

/** The end of messages about files that torch reads, and this does not. */
#define TORCH_REMEDY                                                                               \
    "; save it again in Python, torch.save(torch.load(PATH, \"cpu\", weights_only=True), "         \
    "\"checkpoint.pth\"), or open it with Model.from_torch_file of the Python package"

/* A reference to a storage, from a persistent value. Counts are in elements of its type. */
typedef struct torch_reference {
    pickle_span key;
    const torch_dtype *type;
    int64_t elements;
} torch_reference;

/* The pickle's description of a tensor: element [i0, i1, ...] is element offset + sum i_d stride_d
 * of the storage. */
typedef struct torch_layout {
    torch_reference storage;
    grail_dtype dtype;
    int rank;
    int64_t shape[TENSOR_MAX_RANK];
    int64_t stride[TENSOR_MAX_RANK];
    int64_t offset;
} torch_layout;

/* A tensor that tensor_file_load must gather by its strides. */
typedef struct torch_pending {
    int64_t tensor;
    const unsigned char *first; /* of its bytes */
    torch_layout layout;
} torch_pending;

/* What is kept beside the tensors. */
typedef struct torch_file {
    tensor_file *list; /* that it belongs to */
    zip_reader *zip;
    pickle *object;
    const char *root; /* the name of the folder in the archive, not terminated; borrowed */
    size_t root_length;
    torch_pending *pending;
    int64_t pending_count;
    void **owned; /* copies of strided tensors and of keys */
    int64_t owned_count;
    size_t copied; /* bytes of the copies */
} torch_file;

/** Makes `file` the owner of `block`, even on failure. */
grail_status torch_own(torch_file *file, void *block) GRAIL_MUST_CHECK;

/** The member <root>/<folder><name>; NULL where there is none. */
const zip_member *torch_find_member(const torch_file *file, const char *folder, pickle_span name);

/** Finds the tensors of the object and names them: fills tensors and wrapper of the list. */
grail_status torch_collect(torch_file *file) GRAIL_MUST_CHECK;

/** Whether the value is described as a tensor, even if it cannot be read. */
bool torch_is_tensor(const pickle_value *value);
grail_status torch_read_layout(const pickle_value *value, torch_layout *out) GRAIL_MUST_CHECK;

/** Fills dtype, shape, bytes and data of `view`, the tensor of the list that was added last. If the
 * tensor must be copied, data stays NULL until torch_load. */
grail_status torch_view(torch_file *file, const torch_layout *layout,
                        tensor_view *view) GRAIL_MUST_CHECK;
grail_status torch_load(tensor_file *list) GRAIL_MUST_CHECK;

#endif
