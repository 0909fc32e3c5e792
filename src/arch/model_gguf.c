/* Writes a model as a GGUF file: its keys, then tensor by tensor. Sources: the conversion scripts
 * of llama.cpp (keys, names of tensors, rows of q and k, types), and the graphs that it builds. */
#include "arch/decoder_widths.h"
#include "arch/gguf_export.h"
#include "arch/gguf_family.h"
#include "arch/gguf_mixture.h"
#include "arch/gguf_tokenizer.h"
#include "base/file.h"
#include "base/option_values.h"
#include "base/output_file.h"
#include "format/gguf/gguf_write.h"
#include "tensor/quantize.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gguf_export {
    const grail_model *m;
    const gguf_family *family;
    decoder_config c; /* head_dim, which places need */
    gguf_mixture mixture;
    gguf_pairs pairs;
    tensor_view *tensors;  /* [count]: the parameters, and the table of divisors */
    decoder_place *places; /* [count], which own the names */
    int64_t count;
    float *divisors; /* [head_dim / 2], of rotary frequencies; NULL: none */
    int others;
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
        memory_free(e->tensors);
        memory_free(e->places);
        memory_free(e->divisors);
        memory_free(e->is_written);
        memory_free(e);
    }
}

/* -- what it becomes --------------------------------------------------------------------------- */

static grail_status refuse_shape(const grail_model *m, const char *why)
{
    return error_set(GRAIL_ERROR_UNSUPPORTED, "%s: no architecture of GGUF files holds it: %s",
                     checkpoint_path(m->checkpoint), why);
}

static grail_status choose_family(gguf_export *e)
{
    const graph *g = e->m->graph;
    const decoder_widths w = decoder_common_widths(g);
    const json_int_t hidden = json_integer_value(json_object_get(e->m->config, "hidden_size"));
    const char *lacks = gguf_family_lacks(g);
    if (lacks != NULL) {
        return refuse_shape(e->m, lacks);
    }
    e->family = gguf_family_for(e->m->architecture->name, decoder_is_uniform(g),
                                w.heads * decoder_head_dim(g) == hidden);
    return e->family != NULL ? GRAIL_OK
                             : refuse_shape(e->m, "the layers of a qwen3 have different widths");
}

static grail_status choose_types(const grail_gguf_options *options, gguf_export *e)
{
    const grail_dtype stored = model_usual_dtype(e->m);
    const grail_dtype usual = dtype_is_weight(stored) ? stored : GRAIL_DTYPE_F16;
    return gguf_mixture_read(options, usual, &e->mixture);
}

/* -- keys -------------------------------------------------------------------------------------- */

static grail_status put_integer(gguf_export *e, const char *name, int64_t value)
{
    char key[GGUF_KEY_SIZE];
    gguf_family_key(e->family, name, key);
    return gguf_put_integer(&e->pairs, key, GGUF_U32, value);
}

static grail_status put_real(gguf_export *e, const char *name, double value)
{
    char key[GGUF_KEY_SIZE];
    gguf_family_key(e->family, name, key);
    return gguf_put_real(&e->pairs, key, value);
}

/* The last part of the path. */
static grail_status put_name(gguf_export *e)
{
    char *path = NULL;
    CHECK(path_trim(&path, e->m->path));
    const char *slash = strrchr(path, '/');
    const grail_status status =
        gguf_put_text(&e->pairs, "general.name", slash == NULL ? path : slash + 1);
    memory_free(path);
    return status;
}

static const double *frequencies_of(const graph *g)
{
    for (int n = 0; n < g->node_count; n++) {
        if (g->nodes[n].kind == NODE_ROPE) {
            return g->nodes[n].rope.frequency;
        }
    }
    return NULL;
}

/* The scaling of llama3 is a table: what plain frequencies are divided by. */
static grail_status make_divisors(gguf_export *e, double theta)
{
    const double *scaled = frequencies_of(e->m->graph);
    const int64_t count = e->c.head_dim / 2;
    CHECK(memory_new(&e->divisors, (size_t)count, sizeof e->divisors[0]));
    for (int64_t k = 0; k < count; k++) {
        const double plain = pow(theta, -2.0 * (double)k / (double)e->c.head_dim);
        e->divisors[k] = scaled == NULL ? 1.0F : (float)((double)(float)plain / scaled[k]);
    }
    return GRAIL_OK;
}

/* Linear scaling is a key. */
static grail_status put_scaling(gguf_export *e, double theta)
{
    const char *type = NULL;
    const json_t *scaling = rotary_scaling(e->m->config, &type);
    char key[GGUF_KEY_SIZE];
    double factor = 1.0;
    if (strcmp(type, "llama3") == 0) {
        return make_divisors(e, theta);
    }
    if (strcmp(type, "default") == 0) {
        return GRAIL_OK;
    }
    if (strcmp(type, "linear") != 0) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "%s: rotary scaling \"%s\" cannot be written as GGUF, only linear and llama3",
            checkpoint_path(e->m->checkpoint), type);
    }
    CHECK(json_get_real(e->m->path, scaling, "factor", 1.0, &factor));
    gguf_family_key(e->family, "rope.scaling.type", key);
    CHECK(gguf_put_text(&e->pairs, key, type));
    return put_real(e, "rope.scaling.factor", factor);
}

static grail_status put_widths(gguf_export *e)
{
    const graph *g = e->m->graph;
    CHECK(put_integer(e, "block_count", g->block_count));
    CHECK(gguf_put_widths(g, e->family, &e->pairs));
    CHECK(put_integer(e, "attention.key_length", decoder_head_dim(g)));
    CHECK(put_integer(e, "attention.value_length", decoder_head_dim(g)));
    if (e->family->rows_in_pairs) {
        CHECK(put_integer(e, "vocab_size", g->vocabulary));
        CHECK(put_integer(e, "rope.dimension_count", decoder_head_dim(g)));
    }
    return GRAIL_OK;
}

static grail_status put_keys(gguf_export *e)
{
    const json_t *config = e->m->config;
    double theta = 0.0;
    double epsilon = 0.0;
    const json_t *parameters = json_object_get(config, "rope_parameters");
    CHECK(json_get_real(e->m->path, config, "rope_theta", 10000.0, &theta));
    CHECK(json_get_real(e->m->path, parameters, "rope_theta", theta, &theta));
    CHECK(json_get_real(e->m->path, config, "rms_norm_eps", 1e-6, &epsilon));
    CHECK(gguf_put_text(&e->pairs, "general.architecture", e->family->name));
    CHECK(gguf_put_text(&e->pairs, "general.type", "model"));
    CHECK(put_name(e));
    CHECK(put_integer(e, "context_length", e->m->context));
    CHECK(put_integer(e, "embedding_length",
                      json_integer_value(json_object_get(config, "hidden_size"))));
    CHECK(put_widths(e));
    CHECK(put_real(e, "rope.freq_base", theta));
    CHECK(put_scaling(e, theta));
    CHECK(put_real(e, "attention.layer_norm_rms_epsilon", epsilon));
    CHECK(gguf_put_integer(&e->pairs, "general.file_type", GGUF_U32,
                           gguf_file_type(e->mixture.type)));
    CHECK(gguf_tokenizer_put(e->m->checkpoint, e->m->graph->vocabulary, &e->pairs));
    return gguf_put_integer(&e->pairs, "general.quantization_version", GGUF_U32, 2);
}

/* -- tensors ----------------------------------------------------------------------------------- */

static decoder_place place_of(const gguf_export *e, const char *name)
{
    const gguf_part p = gguf_part_of(name);
    return e->family->rows_in_pairs ? gguf_place_in_pairs(&e->c, p.layer, p.part, p.kind)
                                    : gguf_place(&e->c, p.layer, p.part, p.kind);
}

static grail_status list_tensors(gguf_export *e)
{
    grail_status status = GRAIL_OK;
    const graph *g = e->m->graph;
    const int64_t count = g->parameter_count + (e->divisors == NULL ? 0 : 1);
    grail_dtype *dtypes = NULL;
    TRY(memory_new(&dtypes, (size_t)g->parameter_count, sizeof dtypes[0]));
    TRY(gguf_mixture_choose(&e->mixture, g, dtypes, &e->others));
    TRY(memory_new(&e->tensors, (size_t)count, sizeof e->tensors[0]));
    TRY(memory_new(&e->places, (size_t)count, sizeof e->places[0]));
    e->count = count;
    for (int i = 0; i < g->parameter_count; i++) {
        const graph_parameter *p = &g->parameters[i];
        e->places[i] = place_of(e, p->name);
        e->tensors[i] =
            (tensor_view){.name = e->places[i].tensor, .dtype = dtypes[i], .rank = p->rank};
        memcpy(e->tensors[i].shape, p->shape, (size_t)p->rank * sizeof p->shape[0]);
    }
    if (e->divisors != NULL) {
        e->tensors[count - 1] = (tensor_view){.name = "rope_freqs.weight",
                                              .dtype = GRAIL_DTYPE_F32,
                                              .rank = 1,
                                              .shape = {e->c.head_dim / 2}};
    }
out:
    memory_free(dtypes);
    return status;
}

static grail_status convert(grail_dtype dtype, const float *values, int64_t count, void *out)
{
    return dtype_is_quantiser(dtype)
               ? blocks_from_f32(dtype, values, count / dtype_block(dtype), out)
               : convert_from_f32(dtype, values, count, out);
}

/* rows[to(i)] <- row i, of so many bytes */
static void move_rows(const storage_map *map, int64_t rows, size_t bytes, const unsigned char *from,
                      unsigned char *to)
{
    for (int64_t i = 0; i < rows; i++) {
        memcpy(to + (size_t)storage_position(&map->rows, i) * bytes, from + (size_t)i * bytes,
               bytes);
    }
}

grail_dtype gguf_export_dtype(const gguf_export *e, int parameter)
{
    return e->tensors[parameter].dtype;
}

static grail_status bytes_of(const gguf_export *e, int parameter, size_t *out)
{
    const int64_t count = model_parameter_elements(e->m, parameter);
    return dtype_bytes(e->tensors[parameter].dtype, count, out)
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
    move_rows(&e->places[parameter].map, rows, bytes / (size_t)rows, stored, moved);
    TRY(tensor_writer_put(e->writer, e->tensors[parameter].name, moved, bytes));
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
    TRY(bytes_of(e, parameter, &bytes));
    TRY(memory_new_unset(&stored, bytes, 1));
    TRY(error_in(convert(e->tensors[parameter].dtype, values,
                         model_parameter_elements(e->m, parameter), stored),
                 "%s: tensor '%s'", checkpoint_path(e->m->checkpoint),
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
    TRY(memory_new_unset(&values, (size_t)model_parameter_elements(e->m, parameter),
                         sizeof values[0]));
    TRY(model_parameter_f32(e->m, parameter, values));
    TRY(gguf_export_put_f32(e, parameter, values));
out:
    memory_free(values);
    return status;
}

grail_status gguf_export_commit(gguf_export *e, grail_gguf_facts *facts)
{
    for (int i = 0; i < e->m->graph->parameter_count; i++) {
        CHECK(e->is_written[i] ? GRAIL_OK : put_from_model(e, i));
    }
    if (e->divisors != NULL) {
        CHECK(tensor_writer_put(e->writer, "rope_freqs.weight", e->divisors,
                                (size_t)(e->c.head_dim / 2) * sizeof e->divisors[0]));
    }
    CHECK(tensor_writer_seal(e->writer));
    CHECK(output_file_commit(&e->file));
    if (facts != NULL) {
        *facts =
            (grail_gguf_facts){.architecture = e->family->name,
                               .type = grail_dtype_name(e->mixture.type),
                               .table = grail_dtype_name(e->tensors[gguf_head(e->m->graph)].dtype),
                               .tensors = e->count,
                               .bytes = (int64_t)e->writer->layout.file_size,
                               .others = e->others};
    }
    return GRAIL_OK;
}

/* -- all --------------------------------------------------------------------------------------- */

static grail_status check_kind(const grail_model *m)
{
    if (m->graph->input_kind != INPUT_TOKENS) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: reads images, and only language models are written as GGUF; write it "
                         "as ONNX",
                         checkpoint_path(m->checkpoint));
    }
    if (gguf_family_for(m->architecture->name, true, true) == NULL) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "%s: a %s is not written as GGUF, only llama, mistral, qwen2 and qwen3; use "
            "llama.cpp's converter",
            checkpoint_path(m->checkpoint), m->architecture->name);
    }
    if (checkpoint_metadata(m->checkpoint) != NULL) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: is a GGUF file already; only Hugging Face directories are written as "
                         "one",
                         checkpoint_path(m->checkpoint));
    }
    return GRAIL_OK;
}

static grail_status begin_file(gguf_export *e, const char *path)
{
    CHECK(
        memory_new(&e->is_written, (size_t)e->m->graph->parameter_count, sizeof e->is_written[0]));
    CHECK(output_file_open(path, false, &e->file));
    return gguf_writer_open(e->file.temporary, &e->pairs, e->count, e->tensors, LAYOUT_EMPTY,
                            &e->writer);
}

grail_status gguf_export_open(const grail_model *model, const char *path,
                              const grail_gguf_options *options, gguf_export **out)
{
    CHECK(option_given("path", "path", path));
    CHECK(check_kind(model));
    CHECK(memory_new(out, 1, sizeof **out));
    gguf_export *e = *out;
    e->m = model;
    e->c.head_dim = decoder_head_dim(model->graph);
    e->file.descriptor = -1;
    gguf_pairs_init(&e->pairs);
    CHECK(choose_family(e));
    CHECK(choose_types(options, e));
    CHECK(put_keys(e));
    CHECK(list_tensors(e));
    return begin_file(e, path);
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
