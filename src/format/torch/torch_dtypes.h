/* Element types as torch names them, in storage classes and as dtypes. */
#ifndef GRAIL_FORMAT_TORCH_TORCH_DTYPES_H
#define GRAIL_FORMAT_TORCH_TORCH_DTYPES_H

#include "format/torch/pickle.h"
#include "tensor/tensor.h"

typedef struct torch_dtype {
    grail_dtype dtype;         /* GRAIL_DTYPE_COUNT: has no counterpart here */
    const char *storage_class; /* "FloatStorage"; NULL: only untyped storages hold it */
    const char *name;          /* "float32"; NULL: not a dtype of its own */
    size_t element_size;       /* bytes */
} torch_dtype;

/** By the storage's class, a GLOBAL of torch; NULL when unknown. */
const torch_dtype *torch_dtype_of_storage(const pickle_value *class);
/** By the GLOBAL torch.float32 or the like; NULL when unknown. */
const torch_dtype *torch_dtype_of_name(const pickle_value *name);
/** The one to write `dtype` with; NULL when torch has none. */
const torch_dtype *torch_dtype_for(grail_dtype dtype);

#endif
