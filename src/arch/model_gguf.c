/* Writes a model as a GGUF file, tensor by tensor. */
#include "arch/gguf_export.h"
#include "arch/gguf_target.h"
#include "base/name_list.h"
#include "base/option_values.h"
#include "base/output_file.h"
#include "base/stop.h"
#include "tensor/quantize.h"

#include <string.h>

struct gguf_export {
    const grail_model *m;
    gguf_target target;
    gguf_pairs pairs;
    bool *is_written; /* [parameter_count] */
    output_file file;
    tensor_writer *writer;
};

void gguf_export_free(gguf_export *e)
{
    if (e != NULL) {
        tensor_writer_close(e->writer);
        output_file_fini(&e->file);
        gguf_pairs_fini(&e->pairs);
        gguf_target_fini(&e->target);
        memory_free(e->is_written);
        memory_free(e);
    }
}

const grail_dtype *gguf_export_dtypes(const gguf_export *e)
{
    return e->target.dtypes;
}

static grail_status bytes_of(const gguf_export *e, int parameter, size_t *out)
{
    const int64_t count = model_parameter_elements(e->m, parameter);
    return dtype_bytes(e->target.dtypes[parameter], count, out)
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_SHAPE, "tensor '%s' is too large to address",
                           e->m->graph->parameters[parameter].name);
}

grail_status gguf_export_put(gguf_export *e, int parameter, const void *stored)
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
    e->is_written[parameter] = true;
out:
    memory_free(moved);
    return status;
}

grail_status gguf_export_put_f32(gguf_export *e, int parameter, const float *values)
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
    TRY(gguf_export_put(e, parameter, stored));
out:
    memory_free(stored);
    return status;
}

static grail_status put_from_model(gguf_export *e, int parameter)
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
        TRY(gguf_export_put_f32(e, parameter, values));
        goto out;
    }
    /* The rows of a matrix of another GGUF file that has blocks of the type that is wanted. */
    TRY(bytes_of(e, parameter, &bytes));
    TRY(memory_new_unset(&ordered, bytes, 1));
    gguf_move_rows(&p->map.rows, p->shape[0], bytes / (size_t)p->shape[0], true, from->data,
                   ordered);
    TRY(gguf_export_put(e, parameter, ordered));
out:
    memory_free(ordered);
    memory_free(values);
    return status;
}

grail_status gguf_export_commit(gguf_export *e, grail_gguf_facts *facts)
{
    const gguf_target *t = &e->target;
    const tensor_view *table = gguf_target_table(t);
    for (int i = 0; i < e->m->graph->parameter_count; i++) {
        CHECK(stop_check());
        CHECK(e->is_written[i] ? GRAIL_OK : put_from_model(e, i));
    }
    if (table != NULL) {
        CHECK(tensor_writer_put(e->writer, table->name, table->data, table->bytes));
    }
    CHECK(tensor_writer_seal(e->writer));
    CHECK(output_file_commit(&e->file));
    if (facts != NULL) {
        *facts =
            (grail_gguf_facts){.architecture = t->family->name,
                               .type = grail_dtype_name(t->mixture.type),
                               .table = grail_dtype_name(t->tensors[gguf_head(e->m->graph)].dtype),
                               .tensors = t->count,
                               .bytes = (int64_t)e->writer->layout.file_size,
                               .others = t->others};
        memcpy(facts->shortfall, t->shortfall, sizeof facts->shortfall);
    }
    return GRAIL_OK;
}

grail_status gguf_export_open(const grail_model *model, const char *path,
                              const grail_gguf_options *options, gguf_export **out)
{
    CHECK(option_given("path", "path", path));
    CHECK(name_check_ending(path, "a GGUF file", ".gguf"));
    CHECK(memory_new(out, 1, sizeof **out));
    gguf_export *e = *out;
    e->m = model;
    e->file.descriptor = -1;
    gguf_pairs_init(&e->pairs);
    CHECK(gguf_target_init(model, model->graph, options, &e->pairs, &e->target));
    CHECK(
        memory_new(&e->is_written, (size_t)model->graph->parameter_count, sizeof e->is_written[0]));
    CHECK(output_file_open(path, false, &e->file));
    return gguf_writer_open(e->file.temporary, &e->pairs, e->target.count, e->target.tensors,
                            LAYOUT_EMPTY, &e->writer);
}

grail_status grail_gguf_write(const grail_model *model, const char *path,
                              const grail_gguf_options *options, grail_gguf_facts *facts)
{
    gguf_export *e = NULL;
    grail_status status = gguf_export_open(model, path, options, &e);
    if (status == GRAIL_OK) {
        status = gguf_export_commit(e, facts);
    }
    gguf_export_free(e);
    return status;
}
