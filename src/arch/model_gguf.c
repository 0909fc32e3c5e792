/* Writes a model as a GGUF file: its keys, then tensor by tensor. Sources: the conversion scripts
 * of llama.cpp (keys, names of tensors, rows of q and k, types), and the graphs that it builds. */
#include "arch/decoder_widths.h"
#include "arch/gguf_family.h"
#include "arch/gguf_tokenizer.h"
#include "base/option_values.h"
#include "base/options.h"
#include "base/output_file.h"
#include "format/gguf/gguf_write.h"
#include "tensor/quantize.h"

#include <grail/gguf.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const type_names[] = {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_k", NULL};
static const grail_dtype types[] = {GRAIL_DTYPE_F32,  GRAIL_DTYPE_F16,  GRAIL_DTYPE_BF16,
                                    GRAIL_DTYPE_Q8_0, GRAIL_DTYPE_Q4_0, GRAIL_DTYPE_Q4_K};

/* A file that is being written. */
typedef struct exporting {
    const grail_model *m;
    const gguf_family *family;
    decoder_config c; /* head_dim, which places need */
    grail_dtype type;
    gguf_pairs pairs;
    tensor_view *tensors;  /* [count]: the parameters, and the table of divisors */
    decoder_place *places; /* [count], which own the names */
    int64_t count;
    float *divisors; /* [head_dim / 2], of rotary frequencies; NULL: none */
    int others;
} exporting;

static void exporting_fini(exporting *e)
{
    gguf_pairs_fini(&e->pairs);
    memory_free(e->tensors);
    memory_free(e->places);
    memory_free(e->divisors);
}

/* -- what it becomes --------------------------------------------------------------------------- */

static grail_status refuse_shape(const grail_model *m, const char *why)
{
    return error_set(GRAIL_ERROR_UNSUPPORTED, "%s: no architecture of GGUF files holds it: %s",
                     checkpoint_path(m->checkpoint), why);
}

static grail_status choose_family(exporting *e)
{
    const graph *g = e->m->graph;
    const decoder_widths w = decoder_common_widths(g);
    const json_int_t hidden = json_integer_value(json_object_get(e->m->config, "hidden_size"));
    if (decoder_lacks_sublayers(g)) {
        return refuse_shape(e->m, "layers lack their attention or FFN");
    }
    e->family = gguf_family_for(e->m->architecture->name, decoder_is_uniform(g),
                                w.heads * decoder_head_dim(g) == hidden);
    return e->family != NULL ? GRAIL_OK
                             : refuse_shape(e->m, "the layers of a qwen3 have different widths");
}

static grail_status choose_type(const grail_gguf_options *options, exporting *e)
{
    const grail_dtype stored = model_usual_dtype(e->m);
    int found = 0;
    e->type = dtype_is_weight(stored) ? stored : GRAIL_DTYPE_F16;
    if (options != NULL && options->type != NULL) {
        CHECK(error_about(option_find_word("type", options->type, type_names, &found), "type"));
        e->type = types[found];
    }
    return GRAIL_OK;
}

/* -- keys -------------------------------------------------------------------------------------- */

static grail_status put_integer(exporting *e, const char *name, int64_t value)
{
    char key[GGUF_KEY_SIZE];
    gguf_family_key(e->family, name, key);
    return gguf_put_integer(&e->pairs, key, GGUF_U32, value);
}

static grail_status put_real(exporting *e, const char *name, double value)
{
    char key[GGUF_KEY_SIZE];
    gguf_family_key(e->family, name, key);
    return gguf_put_real(&e->pairs, key, value);
}

/* The last part of the path. */
static grail_status put_name(exporting *e)
{
    grail_status status = GRAIL_OK;
    char *name = NULL;
    const char *path = e->m->path;
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') {
        length--;
    }
    size_t begin = length;
    while (begin > 0 && path[begin - 1] != '/') {
        begin--;
    }
    TRY(memory_format(&name, "%.*s", (int)(length - begin), path + begin));
    TRY(gguf_put_text(&e->pairs, "general.name", name));
out:
    memory_free(name);
    return status;
}

static const json_t *scaling_of(const grail_model *m, const char **type)
{
    const json_t *parameters = json_object_get(m->config, "rope_parameters");
    const json_t *scaling =
        json_is_object(parameters) ? parameters : json_object_get(m->config, "rope_scaling");
    const char *old_name = json_string_value(json_object_get(scaling, "type"));
    const char *name = json_string_value(json_object_get(scaling, "rope_type"));
    *type = name != NULL ? name : old_name != NULL ? old_name : "default";
    return scaling;
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
static grail_status make_divisors(exporting *e, double theta)
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
static grail_status put_scaling(exporting *e, double theta)
{
    const char *type = NULL;
    const json_t *scaling = scaling_of(e->m, &type);
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

static grail_status put_widths(exporting *e)
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

static grail_status put_keys(exporting *e)
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
    CHECK(gguf_put_integer(&e->pairs, "general.file_type", GGUF_U32, gguf_file_type(e->type)));
    CHECK(gguf_tokenizer_put(e->m->checkpoint, e->m->graph->vocabulary, &e->pairs));
    return gguf_put_integer(&e->pairs, "general.quantization_version", GGUF_U32, 2);
}

/* -- tensors ----------------------------------------------------------------------------------- */

static decoder_place place_of(const exporting *e, const char *name)
{
    const gguf_part p = gguf_part_of(name);
    return e->family->rows_in_pairs ? gguf_place_in_pairs(&e->c, p.layer, p.part, p.kind)
                                    : gguf_place(&e->c, p.layer, p.part, p.kind);
}

/* What takes the place of a type whose blocks a width does not fill; as in llama.cpp. */
static grail_dtype fallback(grail_dtype type)
{
    return type == GRAIL_DTYPE_Q4_K ? GRAIL_DTYPE_Q5_0 : GRAIL_DTYPE_F16;
}

/* Vectors are F32, as the runtime wants them. */
static grail_dtype dtype_of(exporting *e, const graph_parameter *p)
{
    if (p->rank == 1) {
        return GRAIL_DTYPE_F32;
    }
    grail_dtype type = e->type;
    while (p->shape[1] % dtype_block(type) != 0) {
        type = fallback(type);
    }
    e->others += type == e->type ? 0 : 1;
    return type;
}

static grail_status list_tensors(exporting *e)
{
    const graph *g = e->m->graph;
    const int64_t count = g->parameter_count + (e->divisors == NULL ? 0 : 1);
    CHECK(memory_new(&e->tensors, (size_t)count, sizeof e->tensors[0]));
    CHECK(memory_new(&e->places, (size_t)count, sizeof e->places[0]));
    e->count = count;
    for (int i = 0; i < g->parameter_count; i++) {
        const graph_parameter *p = &g->parameters[i];
        e->places[i] = place_of(e, p->name);
        e->tensors[i] =
            (tensor_view){.name = e->places[i].tensor, .dtype = dtype_of(e, p), .rank = p->rank};
        memcpy(e->tensors[i].shape, p->shape, (size_t)p->rank * sizeof p->shape[0]);
    }
    if (e->divisors != NULL) {
        e->tensors[count - 1] = (tensor_view){.name = "rope_freqs.weight",
                                              .dtype = GRAIL_DTYPE_F32,
                                              .rank = 1,
                                              .shape = {e->c.head_dim / 2}};
    }
    return GRAIL_OK;
}

static grail_status convert(grail_dtype dtype, const float *values, int64_t count, void *out)
{
    return dtype_is_quantiser(dtype)
               ? blocks_from_f32(dtype, values, count / dtype_block(dtype), out)
               : convert_from_f32(dtype, values, count, out);
}

/* rows[to(i)] <- row i */
static void move_rows(const storage_map *map, int64_t rows, int64_t columns, const float *values,
                      float *out)
{
    for (int64_t i = 0; i < rows; i++) {
        memcpy(out + storage_position(&map->rows, i) * columns, values + i * columns,
               (size_t)columns * sizeof out[0]);
    }
}

static grail_status write_parameter(const exporting *e, int index, tensor_writer *writer)
{
    grail_status status = GRAIL_OK;
    const tensor_view *view = &e->tensors[index];
    const graph_parameter *p = &e->m->graph->parameters[index];
    const int64_t count = model_parameter_elements(e->m, index);
    float *values = NULL;
    float *moved = NULL;
    void *stored = NULL;
    size_t bytes = 0;
    if (!dtype_bytes(view->dtype, count, &bytes)) {
        FAIL(GRAIL_ERROR_SHAPE, "tensor '%s' is too large to address", p->name);
    }
    TRY(memory_new_unset(&values, (size_t)count, sizeof values[0]));
    TRY(memory_new_unset(&moved, (size_t)count, sizeof moved[0]));
    TRY(memory_new_unset(&stored, bytes, 1));
    TRY(model_parameter_f32(e->m, index, values));
    move_rows(&e->places[index].map, p->shape[0], count / p->shape[0], values, moved);
    TRY(error_in(convert(view->dtype, moved, count, stored), "%s: tensor '%s'",
                 checkpoint_path(e->m->checkpoint), p->name));
    TRY(tensor_writer_put(writer, view->name, stored, bytes));
out:
    memory_free(values);
    memory_free(moved);
    memory_free(stored);
    return status;
}

static grail_status write_tensors(const exporting *e, tensor_writer *writer)
{
    for (int i = 0; i < e->m->graph->parameter_count; i++) {
        CHECK(write_parameter(e, i, writer));
    }
    if (e->divisors != NULL) {
        CHECK(tensor_writer_put(writer, "rope_freqs.weight", e->divisors,
                                (size_t)(e->c.head_dim / 2) * sizeof e->divisors[0]));
    }
    return tensor_writer_seal(writer);
}

static grail_status write_file(const exporting *e, const char *path, int64_t *bytes)
{
    grail_status status = GRAIL_OK;
    output_file file = {0};
    tensor_writer *writer = NULL;
    TRY(output_file_open(path, false, &file));
    TRY(gguf_writer_open(file.temporary, &e->pairs, e->count, e->tensors, LAYOUT_EMPTY, &writer));
    TRY(write_tensors(e, writer));
    *bytes = (int64_t)writer->layout.file_size;
    TRY(output_file_commit(&file));
out:
    tensor_writer_close(writer);
    output_file_fini(&file);
    return status;
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

grail_status grail_gguf_write(const grail_model *model, const char *path,
                              const grail_gguf_options *options, grail_gguf_facts *facts)
{
    grail_status status = GRAIL_OK;
    exporting e = {.m = model, .c = {.head_dim = decoder_head_dim(model->graph)}};
    int64_t bytes = 0;
    gguf_pairs_init(&e.pairs);
    TRY(option_given("path", "path", path));
    TRY(check_kind(model));
    TRY(choose_family(&e));
    TRY(choose_type(options, &e));
    TRY(put_keys(&e));
    TRY(list_tensors(&e));
    TRY(write_file(&e, path, &bytes));
    if (facts != NULL) {
        *facts = (grail_gguf_facts){.architecture = e.family->name,
                                    .type = grail_dtype_name(e.type),
                                    .tensors = e.count,
                                    .bytes = bytes,
                                    .others = e.others};
    }
out:
    exporting_fini(&e);
    return status;
}
