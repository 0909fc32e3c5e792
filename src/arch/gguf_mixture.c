/* Source of the rules: llama.cpp, src/llama-quant.cpp (llama_tensor_get_type_impl without an
 * importance matrix, tensor_type_fallback), where Q4_K is the type of files Q4_K_M. */
#include "arch/gguf_mixture.h"

#include "arch/gguf_family.h"
#include "base/options.h"

#include <string.h>

typedef struct file_type {
    grail_dtype dtype;
    int number; /* of enum llama_ftype */
} file_type;

static const char *const words[] = {"f32",  "f16",  "bf16", "q8_0", "q6_k",
                                    "q5_0", "q4_0", "q4_k", NULL};
static const file_type types[] = {
    {GRAIL_DTYPE_F32, 0},   {GRAIL_DTYPE_F16, 1},  {GRAIL_DTYPE_BF16, 32}, {GRAIL_DTYPE_Q8_0, 7},
    {GRAIL_DTYPE_Q6_K, 18}, {GRAIL_DTYPE_Q5_0, 8}, {GRAIL_DTYPE_Q4_0, 2},  {GRAIL_DTYPE_Q4_K, 15},
};

int64_t gguf_file_type(grail_dtype dtype)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].dtype == dtype) {
            return types[i].number;
        }
    }
    return 0;
}

static grail_status read_word(const char *field, const char *word, grail_dtype *out)
{
    int found = 0;
    if (word != NULL) {
        CHECK(error_about(option_find_word(field, word, words, &found), field));
        *out = types[found].dtype;
    }
    return GRAIL_OK;
}

grail_status gguf_mixture_read(const grail_gguf_options *options, grail_dtype usual,
                               gguf_mixture *out)
{
    *out = (gguf_mixture){.type = usual, .table = GRAIL_DTYPE_COUNT};
    if (options != NULL) {
        CHECK(read_word("type", options->type, &out->type));
        CHECK(read_word("table_type", options->table_type, &out->table));
    }
    return GRAIL_OK;
}

/* -- rules ------------------------------------------------------------------------------------- */

typedef enum matrix_kind {
    MATRIX_TABLE, /* of embeddings; not the head */
    MATRIX_HEAD,
    MATRIX_VALUES,
    MATRIX_DOWN,
    MATRIX_OTHER,
    MATRIX_KINDS
} matrix_kind;

typedef struct choosing {
    const gguf_mixture *m;
    const graph *g;
    int head;                 /* the parameter that makes logits */
    int values;               /* how many matrices of values there are */
    int passed[MATRIX_KINDS]; /* so many of the kind came before */
    int others;
} choosing;

int gguf_head(const graph *g)
{
    const int own = graph_find_parameter(g, "lm_head.weight");
    return own != GRAPH_NONE ? own : graph_find_parameter(g, "model.embed_tokens.weight");
}

static matrix_kind kind_of(const choosing *c, int parameter)
{
    const gguf_part p = gguf_part_of(c->g->parameters[parameter].name);
    return parameter == c->head                        ? MATRIX_HEAD
           : strcmp(p.part, "model.embed_tokens") == 0 ? MATRIX_TABLE
           : strcmp(p.part, "self_attn.v_proj") == 0   ? MATRIX_VALUES
           : strcmp(p.part, "mlp.down_proj") == 0      ? MATRIX_DOWN
                                                       : MATRIX_OTHER;
}

/* The first and last eighth, and every third between them. */
static bool has_more_bits(int place, int count)
{
    return place < count / 8 || place >= 7 * count / 8 || (place - count / 8) % 3 == 2;
}

/* Of a quantised file, before its blocks are compared with the width. */
static grail_dtype wanted(const choosing *c, matrix_kind kind, int64_t width)
{
    const int place = c->passed[kind];
    if (kind == MATRIX_HEAD) {
        return c->m->type == GRAIL_DTYPE_Q8_0 || width % dtype_block(c->m->type) != 0
                   ? GRAIL_DTYPE_Q8_0
                   : GRAIL_DTYPE_Q6_K;
    }
    if (c->m->type == GRAIL_DTYPE_Q4_K &&
        ((kind == MATRIX_VALUES && has_more_bits(place, c->values)) ||
         (kind == MATRIX_DOWN && has_more_bits(place, c->g->block_count)))) {
        return GRAIL_DTYPE_Q6_K;
    }
    return c->m->type;
}

/* What takes the place of a type whose blocks a width does not fill. */
static grail_dtype fallback(grail_dtype type)
{
    return type == GRAIL_DTYPE_Q4_K   ? GRAIL_DTYPE_Q5_0
           : type == GRAIL_DTYPE_Q6_K ? GRAIL_DTYPE_Q8_0
                                      : GRAIL_DTYPE_F16;
}

static grail_status use_table_type(const gguf_mixture *m, const graph_parameter *p,
                                   grail_dtype *out)
{
    const int64_t block = dtype_block(m->table);
    *out = m->table;
    if (p->shape[1] % block == 0) {
        return GRAIL_OK;
    }
    return error_about(
        error_set(GRAIL_ERROR_SHAPE,
                  "rows of '%s' have %lld weights, which blocks of %s, of %lld, do not fill; "
                  "choose %s",
                  p->name, (long long)p->shape[1], grail_dtype_name(m->table), (long long)block,
                  p->shape[1] % dtype_block(GRAIL_DTYPE_Q8_0) == 0 ? "q8_0" : "f16"),
        "table_type");
}

/* Vectors are F32, as the runtime wants them. */
static grail_status choose(choosing *c, int parameter, grail_dtype *out)
{
    const graph_parameter *p = &c->g->parameters[parameter];
    *out = GRAIL_DTYPE_F32;
    if (p->rank == 1) {
        return GRAIL_OK;
    }
    const matrix_kind kind = kind_of(c, parameter);
    if (kind <= MATRIX_HEAD && c->m->table != GRAIL_DTYPE_COUNT) {
        return use_table_type(c->m, p, out);
    }
    const bool is_quantised = dtype_block(c->m->type) > 1;
    const grail_dtype type = is_quantised ? wanted(c, kind, p->shape[1]) : c->m->type;
    *out = type;
    while (p->shape[1] % dtype_block(*out) != 0) {
        *out = fallback(*out);
    }
    c->passed[kind]++;
    c->others += *out == type || kind == MATRIX_HEAD ? 0 : 1;
    return GRAIL_OK;
}

grail_status gguf_mixture_choose(const gguf_mixture *m, const graph *g, grail_dtype dtypes[],
                                 int *others)
{
    choosing c = {.m = m, .g = g, .head = gguf_head(g)};
    for (int i = 0; i < g->parameter_count; i++) {
        c.values += g->parameters[i].rank > 1 && kind_of(&c, i) == MATRIX_VALUES ? 1 : 0;
    }
    for (int i = 0; i < g->parameter_count; i++) {
        CHECK(choose(&c, i, &dtypes[i]));
    }
    *others = c.others;
    return GRAIL_OK;
}
