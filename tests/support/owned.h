/* Variables of tests that are released where they leave their block, each type by its function:
 * `OWNED(graph) *g = ...;`, `OWNED(buffer) text = {0};`. A failed assertion jumps, and releases
 * nothing. */
#ifndef GRAIL_TESTS_OWNED_H
#define GRAIL_TESTS_OWNED_H

#include "base/memory.h"

#include <jansson.h>

#define OWNED(type) __attribute__((cleanup(own_##type), unused)) type

/** `type *name`, which the call fills: `OPENED(graph, g, graph_create(&g));`. */
#define OPENED(type, name, call)                                                                   \
    OWNED(type) *name = NULL;                                                                      \
    assert_ok(call)

/** Says how a variable of this type is released. */
#define OWNS(type, release)                                                                        \
    static inline void own_##type(type *owned)                                                     \
    {                                                                                              \
        release(owned);                                                                            \
    }
/** What a pointer to this type points to. */
#define OWNS_POINTER(type, release)                                                                \
    static inline void own_##type(type **owned)                                                    \
    {                                                                                              \
        release(*owned);                                                                           \
    }

/* Types of the library, whose headers need not be included here. */
#define OWNS_STRUCT(type, release)                                                                 \
    struct type;                                                                                   \
    void release(struct type *);                                                                   \
    static inline void own_##type(struct type *owned)                                              \
    {                                                                                              \
        release(owned);                                                                            \
    }
#define OWNS_OBJECT(type, release)                                                                 \
    struct type;                                                                                   \
    void release(struct type *);                                                                   \
    static inline void own_##type(struct type **owned)                                             \
    {                                                                                              \
        release(*owned);                                                                           \
    }

OWNS_POINTER(char, memory_free)
OWNS_POINTER(double, memory_free)
OWNS_POINTER(float, memory_free)
OWNS_POINTER(int32_t, memory_free)
OWNS_POINTER(int64_t, memory_free)
OWNS_POINTER(json_t, json_decref)
OWNS_OBJECT(backend, backend_close)
OWNS_OBJECT(calibration, calibration_release)
OWNS_OBJECT(chat_writer, chat_close)
OWNS_OBJECT(checkpoint, checkpoint_close)
OWNS_OBJECT(elimination, elimination_free)
OWNS_OBJECT(execution, execution_free)
OWNS_OBJECT(grail_compression, grail_compression_close)
OWNS_OBJECT(grail_drift, grail_drift_free)
OWNS_OBJECT(grail_images, image_set_close)
OWNS_OBJECT(grail_model, grail_model_close)
OWNS_OBJECT(grail_plan, grail_plan_free)
OWNS_OBJECT(grail_reducer, grail_reducer_free)
OWNS_OBJECT(grail_runner, grail_runner_close)
OWNS_OBJECT(grail_session, grail_session_close)
OWNS_OBJECT(grail_site_list, grail_site_list_free)
OWNS_OBJECT(grail_statistics, grail_statistics_free)
OWNS_OBJECT(graph, graph_free)
OWNS_OBJECT(image_loader, image_loader_close)
OWNS_OBJECT(matrix_pool, matrix_pool_free)
OWNS_OBJECT(network_statistics, network_statistics_close)
OWNS_OBJECT(onnx_writer, onnx_writer_free)
OWNS_OBJECT(parameter_store, parameter_store_free)
OWNS_OBJECT(pickle, pickle_close)
OWNS_OBJECT(region, region_free)
OWNS_OBJECT(run_record, record_close)
OWNS_OBJECT(tensor_file, tensor_file_close)
OWNS_OBJECT(tensor_writer, tensor_writer_close)
OWNS_OBJECT(tokenizer, tokenizer_close)
OWNS_STRUCT(buffer, buffer_fini)
OWNS_STRUCT(damped_gram, damped_fini)
OWNS_STRUCT(drift_sums, drift_sums_fini)
OWNS_STRUCT(file_map, file_map_close)
OWNS_STRUCT(forward_pass, forward_end)
OWNS_STRUCT(hash_set, hash_set_fini)
OWNS_STRUCT(host_view, host_view_drop)
OWNS_STRUCT(image, image_fini)
OWNS_STRUCT(image_folder, image_folder_close)
OWNS_STRUCT(matrix, matrix_free)
OWNS_STRUCT(plan, plan_fini)
OWNS_STRUCT(regression, regression_fini)
OWNS_STRUCT(removal, removal_fini)
OWNS_STRUCT(rotary, rotary_fini)
OWNS_STRUCT(sample_stream, sample_stream_fini)
OWNS_STRUCT(site_list, site_list_fini)
OWNS_STRUCT(storage_layout, storage_layout_fini)
OWNS_STRUCT(token_list, token_list_fini)
OWNS_STRUCT(token_windows, token_windows_fini)
OWNS_STRUCT(zip_layout, zip_layout_fini)

#endif
