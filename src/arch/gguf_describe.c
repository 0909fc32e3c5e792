/* The keys of a narrowed network. */
#include "arch/decoder_widths.h"
#include "arch/gguf_family.h"
#include "arch/gguf_mixture.h"

#include <stdio.h>
#include <string.h>

typedef enum width_kind { WIDTH_FEED_FORWARD, WIDTH_HEADS, WIDTH_KV_HEADS, WIDTH_KINDS } width_kind;

static const char *const width_names[WIDTH_KINDS] = {"feed_forward_length", "attention.head_count",
                                                     "attention.head_count_kv"};

static int64_t width_of(const decoder_widths *w, width_kind kind)
{
    return kind == WIDTH_FEED_FORWARD ? w->intermediate
           : kind == WIDTH_HEADS      ? w->heads
                                      : w->kv_heads;
}

/* Layers without anything are left out of the result. */
static grail_status put_array(const graph *g, const char *key, width_kind kind, gguf_pairs *out)
{
    const int left = decoder_count_layers(g, g->block_count);
    CHECK(gguf_put_array(out, key, GGUF_I32, (uint64_t)left));
    for (int layer = 0; layer < g->block_count; layer++) {
        const decoder_widths own = decoder_widths_of(g, layer);
        if (!decoder_widths_are_none(&own)) {
            CHECK(gguf_append_integer(out, GGUF_I32, width_of(&own, kind)));
        }
    }
    return GRAIL_OK;
}

static grail_status put_width(const graph *g, const char *key, width_kind kind, gguf_pairs *out)
{
    const decoder_widths common = decoder_common_widths(g);
    return decoder_is_uniform(g) ? gguf_put_integer(out, key, GGUF_U32, width_of(&common, kind))
                                 : put_array(g, key, kind, out);
}

grail_status gguf_put_widths(const graph *g, const gguf_family *family, gguf_pairs *out)
{
    char key[GGUF_KEY_SIZE];
    for (int kind = 0; kind < WIDTH_KINDS; kind++) {
        gguf_family_key(family, width_names[kind], key);
        CHECK(put_width(g, key, (width_kind)kind, out));
    }
    return GRAIL_OK;
}

/* -- a file that was read
 * -------------------------------------------------------------------------- */

typedef struct describing {
    const grail_model *model;
    const graph *narrowed;
    const gguf_family *before, *after;
} describing;

static bool is_cut(const describing *d)
{
    bool cut = false;
    for (int layer = 0; layer < d->narrowed->block_count && !cut; layer++) {
        const decoder_widths dense = decoder_widths_of(d->model->graph, layer);
        const decoder_widths own = decoder_widths_of(d->narrowed, layer);
        cut = !decoder_widths_are_same(&dense, &own);
    }
    return cut;
}

/* The name of a key behind that of the family; NULL for keys of no family. */
static const char *own_name(const gguf_family *family, const char *key)
{
    const size_t length = strlen(family->name);
    return strncmp(key, family->name, length) == 0 && key[length] == '.' ? key + length + 1 : NULL;
}

static grail_status put_own(const describing *d, const gguf_value *value, const char *name,
                            gguf_pairs *out)
{
    char key[GGUF_KEY_SIZE];
    gguf_family_key(d->after, name, key);
    if (strcmp(name, "block_count") == 0) {
        return gguf_put_integer(out, key, GGUF_U32,
                                decoder_count_layers(d->narrowed, d->narrowed->block_count));
    }
    for (int kind = 0; kind < WIDTH_KINDS; kind++) {
        if (strcmp(name, width_names[kind]) == 0) {
            return put_width(d->narrowed, key, (width_kind)kind, out);
        }
    }
    return gguf_put_value(out, key, value);
}

static grail_status put_one(const describing *d, const gguf_value *value, bool cut, gguf_pairs *out)
{
    const grail_dtype chosen = d->model->written_blocks;
    const char *name = own_name(d->before, value->key);
    if (strcmp(value->key, "general.file_type") == 0 && chosen != GRAIL_DTYPE_COUNT) {
        return gguf_put_integer(out, value->key, GGUF_U32, gguf_file_type(chosen));
    }
    if (strcmp(value->key, "general.architecture") == 0) {
        return gguf_put_text(out, value->key, d->after->name);
    }
    return cut && name != NULL ? put_own(d, value, name, out)
                               : gguf_put_value(out, value->key, value);
}

/* Widths that follow from others in the dense network, and do not any more. */
static grail_status put_missing(const describing *d, gguf_pairs *out)
{
    static const char *const names[] = {"attention.key_length", "attention.value_length"};
    const gguf_metadata *m = checkpoint_metadata(d->model->checkpoint);
    char key[GGUF_KEY_SIZE];
    for (size_t i = 0; i < sizeof names / sizeof names[0] && decoder_head_dim(d->narrowed) > 0;
         i++) {
        gguf_family_key(d->before, names[i], key);
        if (gguf_find(m, key) == NULL) {
            gguf_family_key(d->after, names[i], key);
            CHECK(gguf_put_integer(out, key, GGUF_U32, decoder_head_dim(d->narrowed)));
        }
    }
    gguf_family_key(d->before, width_names[WIDTH_KV_HEADS], key);
    if (gguf_find(m, key) == NULL) {
        gguf_family_key(d->after, width_names[WIDTH_KV_HEADS], key);
        CHECK(put_width(d->narrowed, key, WIDTH_KV_HEADS, out));
    }
    return GRAIL_OK;
}

/* Of the families whose rows lie in pairs only one has layers of different widths. */
static const gguf_family *family_after(const gguf_family *before, const graph *narrowed)
{
    return before->rows_in_pairs && !decoder_is_uniform(narrowed) ? gguf_family_named("deci")
                                                                  : before;
}

grail_status gguf_describe_narrowed(const grail_model *model, const graph *narrowed,
                                    gguf_pairs *out)
{
    const gguf_metadata *m = checkpoint_metadata(model->checkpoint);
    describing d = {.model = model, .narrowed = narrowed};
    CHECK(gguf_family_find(model->checkpoint, &d.before));
    const bool cut = is_cut(&d);
    d.after = cut ? family_after(d.before, narrowed) : d.before;
    for (int64_t i = 0; i < m->count; i++) {
        CHECK(put_one(&d, &m->values[i], cut, out));
    }
    return cut ? put_missing(&d, out) : GRAIL_OK;
}

/* -- loaders
 * ---------------------------------------------------------------------------------------- */

static void refuse(loader_verdict *v, const char *reason)
{
    v->loads = false;
    v->lines[0] = 0;
    snprintf(v->reason, sizeof v->reason, "%s", reason);
}

static void judge_file(const gguf_family *family, const graph *narrowed, bool heads_fill,
                       loader_verdict *v)
{
    v->loads = true;
    snprintf(v->reason, sizeof v->reason, "the file as it is, as %s", family->name);
    if (decoder_lacks_sublayers(narrowed)) {
        refuse(v, "layers lack their attention or FFN; its graphs give all layers both");
    } else if (!decoder_is_uniform(narrowed) && !family->differs_by_layer) {
        refuse(v, "the layers have different widths; its graph of the family gives all layers the "
                  "widths of layer 0");
    } else if (strcmp(family->name, "qwen2") == 0 && !heads_fill) {
        refuse(v, "its qwen2 graph needs heads * head_dim = hidden_size; cut ffn alone for it");
    }
}

grail_status gguf_family_of_narrowed(const grail_model *model, const graph *narrowed,
                                     const gguf_family **out)
{
    const gguf_family *before = NULL;
    CHECK(gguf_family_find(model->checkpoint, &before));
    *out = family_after(before, narrowed);
    return GRAIL_OK;
}

void gguf_judge_loaders(const gguf_family *family, const json_t *config, const graph *narrowed,
                        loader_verdict *verdicts)
{
    const json_int_t hidden = json_integer_value(json_object_get(config, "hidden_size"));
    const decoder_widths w = decoder_common_widths(narrowed);
    const bool heads_fill = w.heads * decoder_head_dim(narrowed) == hidden;
    loader_verdict *transformers = &verdicts[0];
    transformers->loads = true;
    transformers->lines[0] = 0;
    snprintf(transformers->reason, sizeof transformers->reason, "with gguf_file=, dequantised");
    if (!decoder_is_uniform(narrowed)) {
        refuse(transformers, "the layers have different widths; its reader of GGUF files has no "
                             "class for them");
    } else if (!heads_fill) {
        refuse(transformers,
               "its reader of GGUF files takes heads of hidden_size / heads features");
    }
    refuse(&verdicts[1], "it takes GGUF files only as an experiment");
    judge_file(family, narrowed, heads_fill, &verdicts[2]);
}
