/* Source of the rules: llama.cpp, src/llama-quant.cpp (llama_tensor_get_type_impl without an
 * importance matrix, tensor_type_fallback), where Q4_K is the type of files Q4_K_M. */
#include "arch/gguf_mixture.h"

#include "arch/gguf_family.h"
#include "base/buffer.h"
#include "base/option_values.h"
#include "base/options.h"

#include <string.h>

typedef struct file_type {
    grail_dtype dtype;
    int number; /* of enum llama_ftype */
} file_type;

static const char *const words[] = {"f32",  "f16",  "bf16", "q8_0", "q6_k",
                                    "q5_0", "q4_0", "q4_k", NULL};
static const file_type types[] = {
    /* in the order of the words */
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

static const char *word_of(grail_dtype dtype)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].dtype == dtype) {
            return words[i];
        }
    }
    return "f16";
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
        CHECK(OPTION_ROOM_OF(grail_gguf_options, options));
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

/* The type in a quantised file, before its blocks are compared with the width. */
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

/* Vectors are F32, as the runtime wants them. */
static grail_status choose(choosing *c, int parameter, grail_dtype *out)
{
    const graph_parameter *p = &c->g->parameters[parameter];
    const gguf_mixture *m = c->m;
    *out = GRAIL_DTYPE_F32;
    if (p->rank == 1) {
        return GRAIL_OK;
    }
    const int64_t width = p->shape[1];
    const matrix_kind kind = kind_of(c, parameter);
    if (kind <= MATRIX_HEAD && m->table != GRAIL_DTYPE_COUNT) {
        *out = m->table;
        return width % dtype_block(m->table) == 0
                   ? GRAIL_OK
                   : error_about(
                         error_set(
                             GRAIL_ERROR_SHAPE,
                             "rows of '%s' have %lld weights, which blocks of %s, of %lld, do "
                             "not fill; choose %s",
                             p->name, (long long)width, grail_dtype_name(m->table),
                             (long long)dtype_block(m->table),
                             width % dtype_block(GRAIL_DTYPE_Q8_0) == 0 ? "q8_0" : "f16"),
                         "table_type");
    }
    const grail_dtype type = dtype_block(m->type) > 1 ? wanted(c, kind, width) : m->type;
    *out = type;
    while (width % dtype_block(*out) != 0) {
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

/* -- what falls short -------------------------------------------------------------------------- */

enum { WIDTHS_NAMED = 4 };

/* It counts the matrices beside the head, and beside a table that has a type of its own. */
typedef struct shortfall {
    const gguf_mixture *m;
    int64_t block;                /* of the type that was asked for */
    int64_t widths[WIDTHS_NAMED]; /* that the blocks do not fill */
    int width_count;              /* of all; those behind WIDTHS_NAMED are not kept */
    int counts[GRAIL_DTYPE_COUNT], all, others;
    bool other_type_fits; /* the type that takes the place has blocks that one of them fills */
    bool alignment_helps; /* one of them was cut */
} shortfall;

static shortfall find_shortfall(const gguf_mixture *m, const graph *dense, const graph *g,
                                const grail_dtype dtypes[])
{
    const choosing c = {.m = m, .g = g, .head = gguf_head(g)};
    const int64_t other = dtype_block(fallback(m->type));
    shortfall s = {.m = m, .block = dtype_block(m->type)};
    for (int i = 0; i < g->parameter_count; i++) {
        const graph_parameter *before = &dense->parameters[i];
        const int64_t width = g->parameters[i].shape[1];
        int w = 0;
        if (g->parameters[i].rank == 1 || i == c.head ||
            (m->table != GRAIL_DTYPE_COUNT && kind_of(&c, i) == MATRIX_TABLE)) {
            continue;
        }
        s.counts[dtypes[i]]++;
        s.all++;
        if (width % s.block == 0) {
            continue;
        }
        while (w < s.width_count && w < WIDTHS_NAMED && s.widths[w] != width) {
            w++;
        }
        if (w == s.width_count || w == WIDTHS_NAMED) { /* it is a new one, or none that is kept */
            if (w < WIDTHS_NAMED) {
                s.widths[w] = width;
            }
            s.width_count++;
        }
        s.others++;
        s.other_type_fits = s.other_type_fits || (other > 1 && width % other == 0);
        /* Neurons alone are aligned: heads go whole. */
        s.alignment_helps =
            s.alignment_helps || (strcmp(gguf_part_of(before->name).part, "mlp.down_proj") == 0 &&
                                  width < before->shape[1] && before->shape[1] >= s.block);
    }
    return s;
}

/* "15 of 210 matrices are Q4_K, 15 Q6_K, 180 Q5_0, since 576 and 896 are no multiples of 256; use
 * q5_0", or as much as there is to say where no matrix has the type. */
static grail_status put_text(const shortfall *s, buffer *text)
{
    const grail_dtype type = s->m->type;
    const char *name = grail_dtype_name(type);
    const bool is_empty = s->block > 1 && s->counts[type] == 0;
    CHECK(is_empty
              ? buffer_format(text, "%s would hold no matrix: ", name)
              : buffer_format(text, "%d of %d matrices are %s", s->counts[type], s->all, name));
    for (int i = 0; i < GRAIL_DTYPE_COUNT && !is_empty; i++) {
        if (s->counts[i] > 0 && i != (int)type) {
            CHECK(buffer_format(text, ", %d %s", s->counts[i], grail_dtype_name((grail_dtype)i)));
        }
    }
    CHECK(buffer_format(text, "%s", is_empty ? "" : ", since "));
    const int named = s->width_count < WIDTHS_NAMED ? s->width_count : WIDTHS_NAMED;
    const bool more = s->width_count > named;
    for (int i = 0; i < named; i++) {
        CHECK(buffer_format(text, "%s%lld",
                            i == 0                  ? ""
                            : i + 1 < named || more ? ", "
                                                    : " and ",
                            (long long)s->widths[i]));
    }
    CHECK(buffer_format(text, "%s %s of %lld", more ? " and others" : "",
                        s->width_count == 1 ? "is no multiple" : "are no multiples",
                        (long long)s->block));
    if (s->other_type_fits) {
        CHECK(buffer_format(text, "; use %s", word_of(fallback(type))));
    } else if (s->counts[type] == 0 && !s->alignment_helps) {
        CHECK(buffer_format(text, "; use f16 (grail export)"));
    }
    return s->alignment_helps
               ? buffer_format(text, "%s align widths to %lld", s->other_type_fits ? ", or" : ";",
                               (long long)s->block)
               : GRAIL_OK;
}

grail_status gguf_mixture_judge(const gguf_mixture *m, const graph *dense, const graph *g,
                                const grail_dtype dtypes[], char text[GGUF_SHORTFALL_SIZE])
{
    grail_status status = GRAIL_OK;
    buffer said;
    const shortfall s = find_shortfall(m, dense, g, dtypes);
    const bool is_empty = s.block > 1 && s.counts[m->type] == 0;
    text[0] = 0;
    buffer_init(&said, SIZE_MAX / 4);
    if (s.others == 0) {
        goto out;
    }
    TRY(put_text(&s, &said));
    if (is_empty) {
        status = error_set(GRAIL_ERROR_SHAPE, "%s", (const char *)said.bytes);
        status = s.alignment_helps ? error_about(status, "cut.align") : status;
        goto out;
    }
    snprintf(text, GGUF_SHORTFALL_SIZE, "%s", (const char *)said.bytes);
out:
    buffer_fini(&said);
    return status;
}
