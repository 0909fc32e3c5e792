/* Element types by the names of torch's storage classes and dtypes. */
#ifndef GRAIL_FORMAT_TORCH_TORCH_DTYPES_H
#define GRAIL_FORMAT_TORCH_TORCH_DTYPES_H

#include "format/torch/pickle.h"
#include "tensor/tensor.h"

typedef struct torch_dtype {
    grail_dtype dtype;         /* GRAIL_DTYPE_COUNT if grail does not have this type */
    const char *storage_class; /* "FloatStorage"; NULL: only untyped storages hold it */
    const char *name;          /* "float32"; NULL: not a dtype of its own */
    size_t element_size;       /* bytes */
} torch_dtype;

/** The type of a storage class, which is a GLOBAL of torch; NULL when unknown. */
const torch_dtype *torch_dtype_of_storage(const pickle_value *class);
/** The type of a dtype, which is a GLOBAL like torch.float32; NULL when unknown. */
const torch_dtype *torch_dtype_of_name(const pickle_value *name);
/** The type with which `dtype` is written; NULL when torch has none. */
const torch_dtype *torch_dtype_for(grail_dtype dtype);

#endif
