/* Sources: the conversion scripts of llama.cpp (keys, names of tensors, rows of q and k, types),
 * and the graphs that it builds. */
#include "arch/gguf_target.h"

#include "arch/decoder_widths.h"
#include "arch/gguf_tokenizer.h"
#include "base/file.h"

#include <math.h>
#include <string.h>

typedef struct target_making {
    const grail_model *m;
    const graph *g;
    decoder_config c; /* head_dim, which places need */
    gguf_pairs *pairs;
    gguf_target *out;
} target_making;

void gguf_target_fini(gguf_target *t)
{
    memory_free(t->dtypes);
    memory_free(t->tensors);
    memory_free(t->places);
    memory_free(t->divisors);
    *t = (gguf_target){0};
}

/* -- what it becomes --------------------------------------------------------------------------- */

/* Another form holds what no architecture of GGUF files does. */
static grail_status with_remedy(const target_making *e, grail_status status)
{
    if (status == GRAIL_ERROR_UNSUPPORTED) {
        error_append(checkpoint_metadata(e->m->checkpoint) == NULL
                         ? "; a directory holds it, and the types w4a16 and w8a16 round it there"
                         : "; take the directory that the file was made from, and write another");
    }
    return status;
}

static grail_status refuse_shape(const grail_model *m, const char *why)
{
    return error_set(GRAIL_ERROR_UNSUPPORTED, "%s: no architecture of GGUF files holds it: %s",
                     checkpoint_path(m->checkpoint), why);
}

/* -- keys -------------------------------------------------------------------------------------- */

static grail_status put_integer(target_making *e, gguf_key_id id, int64_t value)
{
    return gguf_put_integer(e->pairs, gguf_key_of(e->out->family->name, id).text, GGUF_U32, value);
}

static grail_status put_text(target_making *e, gguf_key_id id, const char *text)
{
    return gguf_put_text(e->pairs, gguf_key_of(e->out->family->name, id).text, text);
}

static grail_status put_real(target_making *e, gguf_key_id id, double value)
{
    return gguf_put_real(e->pairs, gguf_key_of(e->out->family->name, id).text, value);
}

/* Linear scaling is a key, and that of llama3 a table: what plain frequencies are divided by. */
static grail_status put_scaling(target_making *e, double theta)
{
    const char *type = NULL;
    const json_t *scaling = rotary_scaling(e->m->config, &type);
    double factor = 1.0;
    if (strcmp(type, "llama3") == 0 && e->out->family->has_divisors) {
        const double *scaled = NULL;
        const int64_t count = e->c.head_dim / 2;
        for (int n = 0; n < e->g->node_count && scaled == NULL; n++) {
            scaled = e->g->nodes[n].kind == NODE_ROPE ? e->g->nodes[n].rope.frequency : NULL;
        }
        CHECK(memory_new(&e->out->divisors, (size_t)count, sizeof e->out->divisors[0]));
        for (int64_t k = 0; k < count; k++) {
            const double plain = pow(theta, -2.0 * (double)k / (double)e->c.head_dim);
            e->out->divisors[k] = scaled == NULL ? 1.0F : (float)((double)(float)plain / scaled[k]);
        }
        return GRAIL_OK;
    }
    if (strcmp(type, "default") == 0) {
        return GRAIL_OK;
    }
    if (strcmp(type, "linear") != 0) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: rotary scaling \"%s\" (rope_scaling) cannot be written as the "
                         "architecture %s of GGUF "
                         "files, only linear%s",
                         checkpoint_path(e->m->checkpoint), type, e->out->family->name,
                         e->out->family->has_divisors ? " and llama3" : "");
    }
    CHECK(json_get_real(e->m->path, scaling, "factor", 1.0, &factor));
    CHECK(put_text(e, GGUF_KEY_SCALING, type));
    return put_real(e, GGUF_KEY_FACTOR, factor);
}

static grail_status put_keys(target_making *e)
{
    const graph *g = e->g;
    const json_t *config = e->m->config;
    const json_t *parameters = json_object_get(config, "rope_parameters");
    double theta = 0.0;
    char *path = NULL;
    CHECK(json_get_real(e->m->path, config, "rope_theta", 10000.0, &theta));
    CHECK(json_get_real(e->m->path, parameters, "rope_theta", theta, &theta));
    CHECK(put_text(e, GGUF_KEY_ARCHITECTURE, e->out->family->name));
    CHECK(put_text(e, GGUF_KEY_TYPE, "model"));
    CHECK(path_trim(&path, e->m->path));
    const char *slash = strrchr(path, '/');
    const grail_status status = put_text(e, GGUF_KEY_NAME, slash == NULL ? path : slash + 1);
    memory_free(path);
    CHECK(status);
    CHECK(put_integer(e, GGUF_KEY_CONTEXT, e->m->context));
    CHECK(put_integer(e, GGUF_KEY_HIDDEN,
                      json_integer_value(json_object_get(config, "hidden_size"))));
    CHECK(put_integer(e, GGUF_KEY_BLOCK_COUNT, g->block_count));
    CHECK(gguf_put_widths(g, e->out->family, e->pairs));
    CHECK(put_integer(e, GGUF_KEY_KEY_LENGTH, e->c.head_dim));
    CHECK(put_integer(e, GGUF_KEY_VALUE_LENGTH, e->c.head_dim));
    if (e->out->family->rows_in_pairs) {
        CHECK(put_integer(e, GGUF_KEY_VOCABULARY, g->vocabulary));
        CHECK(put_integer(e, GGUF_KEY_TURNED, e->c.head_dim));
    }
    CHECK(put_real(e, GGUF_KEY_THETA, theta));
    CHECK(with_remedy(e, put_scaling(e, theta)));
    CHECK(put_real(e, GGUF_KEY_EPSILON, gguf_family_epsilon(g)));
    CHECK(put_integer(e, GGUF_KEY_FILE_TYPE, gguf_file_type(e->out->mixture.type)));
    CHECK(gguf_tokenizer_put(e->m->checkpoint, g->vocabulary, e->pairs));
    return put_integer(e, GGUF_KEY_QUANTIZATION, GGUF_BLOCKS_VERSION);
}

/* Copies the keys of a GGUF file, with its table of divisors. */
static grail_status copy_keys(target_making *e)
{
    const int64_t count = e->c.head_dim / 2;
    const tensor_view *table = checkpoint_find(e->m->checkpoint, GGUF_DIVISORS);
    CHECK(gguf_describe_as(e->m, e->g, e->out->family, e->out->mixture.type, e->pairs));
    if (table == NULL) {
        return GRAIL_OK;
    }
    CHECK(memory_new(&e->out->divisors, (size_t)count, sizeof e->out->divisors[0]));
    return convert_to_f32(table->dtype, table->data, count, e->out->divisors);
}

/* -- tensors ----------------------------------------------------------------------------------- */

static grail_status list_tensors(const target_making *e)
{
    const graph *g = e->g;
    gguf_target *out = e->out;
    const int64_t count = g->parameter_count + (out->divisors == NULL ? 0 : 1);
    CHECK(memory_new(&out->dtypes, (size_t)g->parameter_count, sizeof out->dtypes[0]));
    CHECK(memory_new(&out->tensors, (size_t)count, sizeof out->tensors[0]));
    CHECK(memory_new(&out->places, (size_t)count, sizeof out->places[0]));
    CHECK(gguf_mixture_choose(&out->mixture, g, out->dtypes, &out->others));
    out->parameters = g->parameter_count;
    out->count = count;
    for (int i = 0; i < g->parameter_count; i++) {
        const graph_parameter *p = &g->parameters[i];
        const gguf_part part = gguf_part_of(p->name);
        tensor_view *tensor = &out->tensors[i];
        if (graph_parameter_is_gone(p)) {
            return refuse_shape(e->m, "whole layers are dropped, and the others would be numbered "
                                      "anew; write a directory, and round that (grail quantize)");
        }
        out->places[i] = (out->family->rows_in_pairs ? gguf_place_in_pairs : gguf_place)(
            &e->c, part.layer, part.part, part.kind);
        *tensor =
            (tensor_view){.name = out->places[i].tensor, .dtype = out->dtypes[i], .rank = p->rank};
        memcpy(tensor->shape, p->shape, (size_t)p->rank * sizeof p->shape[0]);
    }
    if (out->divisors != NULL) {
        const int64_t pairs = e->c.head_dim / 2;
        out->tensors[count - 1] = (tensor_view){.name = GGUF_DIVISORS,
                                                .dtype = GRAIL_DTYPE_F32,
                                                .rank = 1,
                                                .shape = {pairs},
                                                .data = out->divisors,
                                                .bytes = (size_t)pairs * sizeof(float)};
    }
    return error_in(gguf_mixture_judge(&out->mixture, e->m->graph, g, out->dtypes, out->shortfall),
                    "%s", checkpoint_path(e->m->checkpoint));
}

/* -- all --------------------------------------------------------------------------------------- */

static grail_status choose_family(target_making *e)
{
    char lacks[LOADER_REASON_SIZE];
    if (decoder_shape_of(e->g).lacks_sublayers) {
        return refuse_shape(e->m, "layers lack their attention or FFN");
    }
    if (gguf_family_lacks(e->g, e->m->context, lacks)) {
        return refuse_shape(e->m, lacks);
    }
    CHECK(gguf_family_of_target(e->m, e->g, &e->out->family));
    if (e->out->family == NULL) {
        return refuse_shape(e->m, "the layers of a qwen3 have different widths");
    }
    return error_in(gguf_family_check_biases(e->out->family, e->g), "%s",
                    checkpoint_path(e->m->checkpoint));
}

grail_status gguf_target_init(const grail_model *model, const graph *g,
                              const grail_gguf_options *options, gguf_pairs *pairs,
                              gguf_target *out)
{
    target_making e = {.m = model, .g = g, .pairs = pairs, .out = out};
    const char *path = checkpoint_path(model->checkpoint);
    const grail_dtype stored = model_usual_dtype(model);
    const grail_dtype usual = dtype_is_weight(stored)     ? stored
                              : stored == GRAIL_DTYPE_F64 ? GRAIL_DTYPE_F32
                                                          : GRAIL_DTYPE_F16;
    *out = (gguf_target){0};
    e.c.head_dim = decoder_shape_of(g).head_dim;
    if (model->graph->input_kind != INPUT_TOKENS) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: reads images, and only language models are written as GGUF; write it "
                         "as ONNX",
                         path);
    }
    if (gguf_family_for(model->architecture->name, true, true) == NULL) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "%s: a %s is not written as GGUF, only llama, mistral, qwen2 and qwen3; use "
            "llama.cpp's converter",
            path, model->architecture->name);
    }
    CHECK(with_remedy(&e, choose_family(&e)));
    CHECK(gguf_mixture_read(options, usual, &out->mixture));
    CHECK(checkpoint_metadata(model->checkpoint) == NULL ? put_keys(&e) : copy_keys(&e));
    return list_tensors(&e);
}

/* -- what its users ask ------------------------------------------------------------------------ */

const tensor_view *gguf_target_table(const gguf_target *t)
{
    return t->divisors == NULL ? NULL : &t->tensors[t->parameters];
}

grail_gguf_facts gguf_target_facts(const gguf_target *t, const graph *g, int64_t bytes)
{
    grail_gguf_facts facts = {.architecture = t->family->name,
                              .type = grail_dtype_name(t->mixture.type),
                              .table = grail_dtype_name(t->tensors[gguf_head(g)].dtype),
                              .tensors = t->count,
                              .bytes = bytes,
                              .others = t->others};
    memcpy(facts.shortfall, t->shortfall, sizeof facts.shortfall);
    return facts;
}

void gguf_move_rows(const storage_axis *axis, int64_t rows, size_t bytes, bool back,
                    const void *from, void *to)
{
    for (int64_t i = 0; i < rows; i++) {
        const int64_t place = storage_position(axis, i);
        memcpy((unsigned char *)to + (size_t)(back ? i : place) * bytes,
               (const unsigned char *)from + (size_t)(back ? place : i) * bytes, bytes);
    }
}
