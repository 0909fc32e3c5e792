/* Writes a model as a GGUF file, tensor by tensor. */
#include "arch/gguf_target.h"
#include "base/name_list.h"
#include "base/option_values.h"
#include "base/output_file.h"
#include "base/stop.h"
#include "tensor/quantize.h"

typedef struct gguf_export {
    const grail_model *m;
    gguf_target target;
    gguf_pairs pairs;
    output_file file;
    tensor_writer *writer;
} gguf_export;

static void export_fini(gguf_export *e)
{
    tensor_writer_close(e->writer);
    output_file_fini(&e->file);
    gguf_pairs_fini(&e->pairs);
    gguf_target_fini(&e->target);
}

static grail_status bytes_of(const gguf_export *e, int parameter, size_t *out)
{
    const int64_t count = model_parameter_elements(e->m, parameter);
    return dtype_bytes(e->target.dtypes[parameter], count, out)
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_SHAPE, "tensor '%s' is too large to address",
                           e->m->graph->parameters[parameter].name);
}

/* Writes a parameter: rows of the graph's order, in the dtype of the file. */
static grail_status put(const gguf_export *e, int parameter, const void *stored)
{
    grail_status status = GRAIL_OK;
    const int64_t rows = e->m->graph->parameters[parameter].shape[0];
    unsigned char *moved = NULL;
    size_t bytes = 0;
    TRY(bytes_of(e, parameter, &bytes));
    TRY(memory_new_unset(&moved, bytes, 1));
    gguf_move_rows(&e->target.places[parameter].map.rows, rows, bytes / (size_t)rows, false, stored,
                   moved);
    TRY(tensor_writer_put(e->writer, e->target.tensors[parameter].name, moved, bytes));
out:
    memory_free(moved);
    return status;
}

static grail_status put_f32(const gguf_export *e, int parameter, const float *values)
{
    grail_status status = GRAIL_OK;
    unsigned char *stored = NULL;
    size_t bytes = 0;
    const grail_dtype dtype = e->target.dtypes[parameter];
    const int64_t count = model_parameter_elements(e->m, parameter);
    TRY(bytes_of(e, parameter, &bytes));
    TRY(memory_new_unset(&stored, bytes, 1));
    status = dtype_is_quantiser(dtype)
                 ? blocks_from_f32(dtype, values, count / dtype_block(dtype), stored)
                 : convert_from_f32(dtype, values, count, stored);
    TRY(error_in(status, "%s: tensor '%s'", checkpoint_path(e->m->checkpoint),
                 e->m->graph->parameters[parameter].name));
    TRY(put(e, parameter, stored));
out:
    memory_free(stored);
    return status;
}

static grail_status put_from_model(const gguf_export *e, int parameter)
{
    grail_status status = GRAIL_OK;
    float *values = NULL;
    unsigned char *ordered = NULL;
    size_t bytes = 0;
    const graph_parameter *p = &e->m->graph->parameters[parameter];
    const tensor_view *from = e->m->tensors[parameter];
    TRY(memory_new_unset(&values, (size_t)model_parameter_elements(e->m, parameter),
                         sizeof values[0]));
    TRY(model_parameter_f32(e->m, parameter, values)); /* which finds what is not finite */
    if (checkpoint_metadata(e->m->checkpoint) == NULL || dtype_block(from->dtype) == 1 ||
        e->target.dtypes[parameter] != from->dtype) {
        TRY(put_f32(e, parameter, values));
        goto out;
    }
    /* The rows of a matrix of another GGUF file that has blocks of the type that is wanted. */
    TRY(bytes_of(e, parameter, &bytes));
    TRY(memory_new_unset(&ordered, bytes, 1));
    gguf_move_rows(&p->map.rows, p->shape[0], bytes / (size_t)p->shape[0], true, from->data,
                   ordered);
    TRY(put(e, parameter, ordered));
out:
    memory_free(ordered);
    memory_free(values);
    return status;
}

static grail_status put_all(gguf_export *e)
{
    const tensor_view *table = gguf_target_table(&e->target);
    for (int i = 0; i < e->m->graph->parameter_count; i++) {
        CHECK(stop_check());
        CHECK(put_from_model(e, i));
    }
    if (table != NULL) {
        CHECK(tensor_writer_put(e->writer, table->name, table->data, table->bytes));
    }
    CHECK(tensor_writer_seal(e->writer));
    return output_file_commit(&e->file);
}

grail_status grail_gguf_write(const grail_model *model, const char *path,
                              const grail_gguf_options *options, grail_gguf_facts *facts)
{
    grail_status status = GRAIL_OK;
    gguf_export e = {.m = model, .file.descriptor = -1};
    gguf_pairs_init(&e.pairs);
    TRY(option_given("path", "path", path));
    TRY(name_check_ending(path, "a GGUF file", ".gguf"));
    TRY(gguf_target_init(model, model->graph, options, &e.pairs, &e.target));
    TRY(output_file_open(path, false, &e.file));
    TRY(gguf_writer_open(e.file.temporary, &e.pairs, e.target.count, e.target.tensors, LAYOUT_EMPTY,
                         &e.writer));
    TRY(put_all(&e));
    if (facts != NULL) {
        *facts = gguf_target_facts(&e.target, model->graph, (int64_t)e.writer->layout.file_size);
    }
out:
    export_fini(&e);
    return status;
}
