/* libtorch, found at run time: no header and no library of it are needed to build grail. Its
 * functions are C (torch/csrc/inductor/aoti_torch/c/shim.h, torch/csrc/stable/c/shim.h). */
#ifndef GRAIL_BACKEND_TORCH_LIBRARY_H
#define GRAIL_BACKEND_TORCH_LIBRARY_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct torch_handle *torch_tensor;
typedef uint64_t torch_value; /* an argument or result of an operator: a number or a handle */

/** FUNCTION(result, name, parameters) for each function that every release since 2.11 has; those
 * that return int return 0 on success. */
#define TORCH_FUNCTIONS(FUNCTION)                                                                  \
    FUNCTION(uint64_t, aoti_torch_abi_version, (void))                                             \
    FUNCTION(int, aoti_torch_call_dispatcher, (const char *, const char *, torch_value *))         \
    FUNCTION(int, aoti_torch_new_uninitialized_tensor, (torch_tensor *))                           \
    FUNCTION(int, aoti_torch_new_tensor_handle, (torch_tensor, torch_tensor *))                    \
    FUNCTION(int, aoti_torch_delete_tensor_object, (torch_tensor))                                 \
    FUNCTION(                                                                                      \
        int, aoti_torch_empty_strided,                                                             \
        (int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, torch_tensor *))    \
    FUNCTION(int, aoti_torch_create_tensor_from_blob_v2,                                           \
             (void *, int64_t, const int64_t *, const int64_t *, int64_t, int32_t, int32_t,        \
              int32_t, torch_tensor *, int32_t, const uint8_t *, int64_t))                         \
    FUNCTION(int, aoti_torch__reinterpret_tensor,                                                  \
             (torch_tensor, int64_t, const int64_t *, const int64_t *, int64_t, torch_tensor *))   \
    FUNCTION(int, aoti_torch_copy_, (torch_tensor, torch_tensor, int32_t))                         \
    FUNCTION(int, aoti_torch_zero_, (torch_tensor))                                                \
    FUNCTION(int, aoti_torch_get_data_ptr, (torch_tensor, void **))                                \
    FUNCTION(int, aoti_torch_get_sizes, (torch_tensor, int64_t **))                                \
    FUNCTION(int, aoti_torch_get_strides, (torch_tensor, int64_t **))                              \
    FUNCTION(int, aoti_torch_item_float64, (torch_tensor, double *))                               \
    FUNCTION(int, aoti_torch_scalar_to_tensor_float64, (double, torch_tensor *))                   \
    FUNCTION(int, aoti_torch_aten_subtract_Tensor,                                                 \
             (torch_tensor, torch_tensor, double, torch_tensor *))                                 \
    FUNCTION(int, aoti_torch_cpu_addmm_out,                                                        \
             (torch_tensor, torch_tensor, torch_tensor, torch_tensor, double, double))             \
    FUNCTION(int, aoti_torch_cpu_mul_Scalar, (torch_tensor, double, torch_tensor *))               \
    FUNCTION(int, aoti_torch_cpu_add_Scalar, (torch_tensor, double, double, torch_tensor *))       \
    FUNCTION(int, aoti_torch_cpu_fill__Scalar, (torch_tensor, double))                             \
    FUNCTION(int32_t, aoti_torch_device_type_cpu, (void))                                          \
    FUNCTION(int32_t, aoti_torch_device_type_cuda, (void))                                         \
    FUNCTION(int32_t, aoti_torch_dtype_uint8, (void))                                              \
    FUNCTION(int32_t, aoti_torch_dtype_int32, (void))                                              \
    FUNCTION(int32_t, aoti_torch_dtype_int64, (void))                                              \
    FUNCTION(int32_t, aoti_torch_dtype_bfloat16, (void))                                           \
    FUNCTION(int32_t, aoti_torch_dtype_float16, (void))                                            \
    FUNCTION(int32_t, aoti_torch_dtype_float32, (void))                                            \
    FUNCTION(int32_t, aoti_torch_dtype_float64, (void))                                            \
    FUNCTION(int32_t, aoti_torch_layout_strided, (void))                                           \
    FUNCTION(void, aoti_torch_grad_mode_set_enabled, (bool))                                       \
    FUNCTION(int, torch_new_list_reserve_size, (size_t, void **))                                  \
    FUNCTION(int, torch_list_push_back, (void *, torch_value))                                     \
    FUNCTION(int, torch_new_string_handle, (const char *, size_t, void **))                        \
    FUNCTION(void *, _Znwm, (size_t)) /* operator new of C++, for optional arguments */

/** Those that need not be there: of releases since 2.13, of C++, and of libraries for a device. */
#define TORCH_OPTIONAL_FUNCTIONS(FUNCTION)                                                         \
    FUNCTION(void, _ZN2at15set_num_threadsEi, (int)) /* at::set_num_threads */                     \
    FUNCTION(int, _ZN2at15get_num_threadsEv, (void))                                               \
    FUNCTION(const char *, torch_exception_get_what_without_backtrace, (void))                     \
    FUNCTION(int, aoti_torch_cuda_addmm_out,                                                       \
             (torch_tensor, torch_tensor, torch_tensor, torch_tensor, double, double))             \
    FUNCTION(int, aoti_torch_cuda_mul_Scalar, (torch_tensor, double, torch_tensor *))              \
    FUNCTION(int, aoti_torch_cuda_add_Scalar, (torch_tensor, double, double, torch_tensor *))      \
    FUNCTION(int, aoti_torch_cuda_fill__Scalar, (torch_tensor, double))                            \
    FUNCTION(                                                                                      \
        int, aoti_torch_empty_strided_pinned,                                                      \
        (int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, torch_tensor *))    \
    FUNCTION(int, cudaGetDeviceCount, (int *)) /* of the runtime that torch has loaded */          \
    FUNCTION(int, cudaGetDevice, (int *))                                                          \
    FUNCTION(int, cudaSetDevice, (int))                                                            \
    FUNCTION(int, cudaMemGetInfo, (size_t *, size_t *))                                            \
    FUNCTION(const char *, cudaGetErrorString, (int))

typedef struct torch_library {
#define FUNCTION(result, name, parameters) result(*name) parameters;
    TORCH_FUNCTIONS(FUNCTION)
    TORCH_OPTIONAL_FUNCTIONS(FUNCTION)
#undef FUNCTION
} torch_library;

/** The functions; valid after torch_library_load. */
extern torch_library torch;

/**
 * Loads the libraries once for the process: those that it has already, else of the directory that
 * GRAIL_TORCH names; `with_cuda` also the one for CUDA. GRAIL_ERROR_UNSUPPORTED says what was
 * looked for, what is missing, and what to do. Several threads may call it.
 */
grail_status torch_library_load(bool with_cuda) GRAIL_MUST_CHECK;

/** What the last failed function of this thread said, or where its text stands. */
const char *torch_library_failure(void);

#endif
