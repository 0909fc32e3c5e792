/* The keys of a narrowed network. */
#include "arch/decoder_widths.h"
#include "arch/gguf_family.h"
#include "arch/gguf_mixture.h"
#include "arch/loader_lines.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH_FEED_FORWARD, WIDTH_HEADS, WIDTH_KV_HEADS, WIDTH_KINDS };

static const gguf_key_id width_keys[WIDTH_KINDS] = {GGUF_KEY_FEED_FORWARD, GGUF_KEY_HEADS,
                                                    GGUF_KEY_KV_HEADS};

static int64_t width_of(const decoder_widths *w, int kind)
{
    return kind == WIDTH_FEED_FORWARD ? w->intermediate
           : kind == WIDTH_HEADS      ? w->heads
                                      : w->kv_heads;
}

/* Layers without anything are left out of the result. */
static grail_status put_width(const graph *g, const gguf_family *family, int kind, gguf_pairs *out)
{
    const gguf_key_name key = gguf_key_of(family->name, width_keys[kind]);
    const decoder_shape shape = decoder_shape_of(g);
    if (shape.uniform) {
        return gguf_put_integer(out, key.text, GGUF_U32, width_of(&shape.common, kind));
    }
    CHECK(gguf_put_array(out, key.text, GGUF_I32, (uint64_t)shape.layers));
    for (int layer = 0; layer < g->block_count; layer++) {
        const decoder_widths own = decoder_widths_of(g, layer);
        if (!decoder_widths_are_none(&own)) {
            CHECK(gguf_append_integer(out, GGUF_I32, width_of(&own, kind)));
        }
    }
    return GRAIL_OK;
}

grail_status gguf_put_widths(const graph *g, const gguf_family *family, gguf_pairs *out)
{
    for (int kind = 0; kind < WIDTH_KINDS; kind++) {
        CHECK(put_width(g, family, kind, out));
    }
    return GRAIL_OK;
}

/* -- a file that was read
 * -------------------------------------------------------------------------- */

typedef struct describing {
    const grail_model *model;
    const graph *narrowed;
    const gguf_family *before, *after;
    grail_dtype type; /* of the matrices, for the file's own; GRAIL_DTYPE_COUNT: as it was */
    bool cut;
} describing;

static bool is_cut(const grail_model *model, const graph *narrowed)
{
    bool cut = false;
    for (int layer = 0; layer < narrowed->block_count && !cut; layer++) {
        const decoder_widths dense = decoder_widths_of(model->graph, layer);
        const decoder_widths own = decoder_widths_of(narrowed, layer);
        cut = memcmp(dense.all, own.all, sizeof own.all) != 0 ||
              dense.experts_differ != own.experts_differ;
    }
    return cut;
}

static grail_status put_integer(const describing *d, gguf_key_id id, int64_t value, gguf_pairs *out)
{
    return gguf_put_integer(out, gguf_key_of(d->after->name, id).text, GGUF_U32, value);
}

/* A key of the family, under the name of the family of the result. Settings may have changed
 * numbers that the file states. */
static grail_status put_own(const describing *d, const gguf_value *value, gguf_pairs *out)
{
    const int left = decoder_count_layers(d->narrowed, d->narrowed->block_count);
    const double epsilon = gguf_family_epsilon(d->narrowed);
    int64_t stated_context = 0;
    double stated_epsilon = 0.0;
    char *key = NULL;
    if (gguf_key_is(d->before->name, GGUF_KEY_CONTEXT, value->key)) {
        CHECK(gguf_integer_at(value, 0, &stated_context));
        if (stated_context != d->model->context) {
            return put_integer(d, GGUF_KEY_CONTEXT, d->model->context, out);
        }
    }
    if (gguf_key_is(d->before->name, GGUF_KEY_EPSILON, value->key)) {
        CHECK(gguf_real_at(value, 0, &stated_epsilon));
        if (stated_epsilon != epsilon) {
            return gguf_put_real(out, gguf_key_of(d->after->name, GGUF_KEY_EPSILON).text, epsilon);
        }
    }
    if (d->cut && gguf_key_is(d->before->name, GGUF_KEY_BLOCK_COUNT, value->key)) {
        return put_integer(d, GGUF_KEY_BLOCK_COUNT, left, out);
    }
    for (int kind = 0; d->cut && kind < WIDTH_KINDS; kind++) {
        if (gguf_key_is(d->before->name, width_keys[kind], value->key)) {
            return put_width(d->narrowed, d->after, kind, out);
        }
    }
    CHECK(memory_format(&key, "%s%s", d->after->name, value->key + strlen(d->before->name)));
    const grail_status status = gguf_put_value(out, key, value);
    memory_free(key);
    return status;
}

static bool lacks(const describing *d, gguf_key_id id)
{
    const gguf_metadata *m = checkpoint_metadata(d->model->checkpoint);
    return gguf_find(m, gguf_key_of(d->before->name, id).text) == NULL;
}

/* Widths that follow from others in the dense network, and do not any more; and what is stated only
 * of some files. */
static grail_status put_missing(const describing *d, gguf_pairs *out)
{
    static const gguf_key_id lengths[] = {GGUF_KEY_KEY_LENGTH, GGUF_KEY_VALUE_LENGTH};
    const int64_t head_dim = decoder_shape_of(d->narrowed).head_dim;
    for (size_t i = 0; d->cut && i < sizeof lengths / sizeof lengths[0] && head_dim > 0; i++) {
        CHECK(lacks(d, lengths[i]) ? put_integer(d, lengths[i], head_dim, out) : GRAIL_OK);
    }
    if (d->cut && lacks(d, GGUF_KEY_KV_HEADS)) {
        CHECK(put_width(d->narrowed, d->after, WIDTH_KV_HEADS, out));
    }
    if (d->type != GRAIL_DTYPE_COUNT && lacks(d, GGUF_KEY_FILE_TYPE)) {
        CHECK(put_integer(d, GGUF_KEY_FILE_TYPE, gguf_file_type(d->type), out));
    }
    return dtype_block(d->type) > 1 && lacks(d, GGUF_KEY_QUANTIZATION)
               ? put_integer(d, GGUF_KEY_QUANTIZATION, GGUF_BLOCKS_VERSION, out)
               : GRAIL_OK;
}

grail_status gguf_family_of_narrowed(const grail_model *model, const graph *narrowed,
                                     const gguf_family **out)
{
    CHECK(gguf_family_find(model->checkpoint, out));
    if ((*out)->rows_in_pairs && is_cut(model, narrowed) && !decoder_shape_of(narrowed).uniform) {
        *out = gguf_family_named("deci"); /* the only one of them with layers of different widths */
    }
    return GRAIL_OK;
}

grail_status gguf_describe_as(const grail_model *model, const graph *narrowed,
                              const gguf_family *after, grail_dtype type, gguf_pairs *out)
{
    const gguf_metadata *m = checkpoint_metadata(model->checkpoint);
    describing d = {.model = model,
                    .narrowed = narrowed,
                    .after = after,
                    .type = type,
                    .cut = is_cut(model, narrowed)};
    char reason[LOADER_REASON_SIZE];
    CHECK(gguf_family_find(model->checkpoint, &d.before));
    if (gguf_family_lacks(narrowed, model->context, reason)) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: with these settings no architecture of GGUF files holds it: %s; "
                         "leave them out, or give the directory that the file was made from",
                         checkpoint_path(model->checkpoint), reason);
    }
    const size_t length = strlen(d.before->name);
    for (int64_t i = 0; i < m->count; i++) {
        const gguf_value *value = &m->values[i];
        if (gguf_key_is("", GGUF_KEY_FILE_TYPE, value->key) && type != GRAIL_DTYPE_COUNT) {
            CHECK(put_integer(&d, GGUF_KEY_FILE_TYPE, gguf_file_type(type), out));
        } else if (gguf_key_is("", GGUF_KEY_ARCHITECTURE, value->key)) {
            CHECK(gguf_put_text(out, value->key, after->name));
        } else if (strncmp(value->key, d.before->name, length) == 0 && value->key[length] == '.') {
            CHECK(put_own(&d, value, out));
        } else {
            CHECK(gguf_put_value(out, value->key, value));
        }
    }
    return put_missing(&d, out);
}

grail_status gguf_describe_narrowed(const grail_model *model, const graph *narrowed,
                                    gguf_pairs *out)
{
    const gguf_family *after = NULL;
    CHECK(gguf_family_of_narrowed(model, narrowed, &after));
    return gguf_describe_as(model, narrowed, after, model->written_blocks, out);
}

grail_status gguf_family_of_target(const grail_model *model, const graph *g,
                                   const gguf_family **out)
{
    const char *type = model->architecture->name;
    const json_int_t hidden = json_integer_value(json_object_get(model->config, "hidden_size"));
    const decoder_shape shape = decoder_shape_of(g);
    if (checkpoint_metadata(model->checkpoint) != NULL && !is_cut(model, g)) {
        return gguf_family_find(model->checkpoint, out);
    }
    *out = gguf_family_for(type, shape.uniform, shape.common.heads * shape.head_dim == hidden);
    return GRAIL_OK;
}

/* -- loaders
 * ---------------------------------------------------------------------------------------- */

void gguf_judge_loaders(const gguf_family *family, const json_t *config, const graph *narrowed,
                        loader_verdict *verdicts)
{
    const json_int_t hidden = json_integer_value(json_object_get(config, "hidden_size"));
    const decoder_shape shape = decoder_shape_of(narrowed);
    const bool heads_fill = shape.common.heads * shape.head_dim == hidden;
    loader_verdict *transformers = &verdicts[0];
    transformers->loads = true;
    transformers->lines[0] = 0;
    remark(transformers, "with gguf_file=, dequantised");
    if (!shape.uniform) {
        refuse(transformers,
               "the layers have different widths; its reader of GGUF files has no class for them");
    } else if (!heads_fill) {
        refuse(transformers,
               "its reader of GGUF files takes heads of hidden_size / heads features");
    }
    refuse(&verdicts[1], "it takes GGUF files only as an experiment");
    loader_verdict *v = &verdicts[2];
    v->loads = true;
    remark(v, "the file as it is, as %s", family->name);
    if (shape.lacks_sublayers) {
        refuse(v, "layers lack their attention or FFN; its graphs give all layers both");
    } else if (!shape.uniform && !family->differs_by_layer) {
        refuse(v, "the layers have different widths; its graph of the family gives all layers the "
                  "widths of layer 0");
    } else if (strcmp(family->name, "qwen2") == 0 && !heads_fill) {
        refuse(v, "its qwen2 graph needs heads * head_dim = hidden_size; cut ffn alone for it");
    }
}
