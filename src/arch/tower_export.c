/* Describes a narrowed vision transformer, and judges which loaders accept it. Source: the classes
 * of the libraries that the verdicts name. */
#include "arch/loader_lines.h"
#include "arch/transformer_tower.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Widths common to all layers; 0 where layers differ. */
typedef struct tower_widths {
    int64_t width, ffn, heads, head_dim;
} tower_widths;

static void merge_width(int64_t found, bool first, int64_t *width)
{
    *width = first || *width == found ? found : 0;
}

static grail_status widths_of(const graph *g, tower_widths *out)
{
    grail_status status = GRAIL_OK;
    int64_t *widths = NULL;
    tower_widths w = {0};
    TRY(memory_new(&widths, (size_t)g->value_count, sizeof widths[0]));
    TRY(graph_widths(g, widths));
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        if (n->kind == NODE_ATTENTION) {
            w.head_dim = n->attention.head_dim;
            merge_width(widths[n->output] / n->attention.head_dim, n->block == 0, &w.heads);
        } else if (n->kind == NODE_ACTIVATION) {
            merge_width(widths[n->output], n->block == 0, &w.ffn);
        } else if (n->kind == NODE_POSITIONS) {
            w.width = widths[n->output];
        }
    }
    *out = w;
out:
    memory_free(widths);
    return status;
}

/* The shortest decimal r with (int)(width * r) == ffn, as the classes compute it. */
static void ratio_text(const tower_widths *w, char *text, size_t size)
{
    enum { DIGITS = 15 }; /* that JSON keeps */
    const double width = (double)w->width;
    for (int digits = 1; digits <= DIGITS; digits++) {
        snprintf(text, size, "%.*g", digits, (double)w->ffn / width);
        if ((int64_t)floor(width * strtod(text, NULL)) == w->ffn) {
            return;
        }
    }
    snprintf(text, size, "%.*g", DIGITS, ((double)w->ffn + 0.5) / width);
}

static bool is_of_timm(const json_t *config)
{
    const char *names = json_string_value(json_object_get(config, "names"));
    return names != NULL && strcmp(names, "timm") == 0 && timm_config_is(config);
}

grail_status tower_describe_narrowed(const architecture *self, const graph *narrowed,
                                     json_t *config)
{
    (void)self;
    tower_widths w;
    CHECK(widths_of(narrowed, &w));
    json_t *vision = json_object_get(config, "vision_config");
    json_t *section = json_is_object(vision) ? vision : config;
    if (json_object_get(config, "names") != NULL) { /* it is not Hugging Face's */
        char ratio[40];
        ratio_text(&w, ratio, sizeof ratio);
        CHECK(json_put(config, "head_dim", json_integer(w.head_dim)));
        json_object_del(config,
                        "num_attention_heads"); /* head_dim says it for any number of them */
        return is_of_timm(config) && w.ffn > 0  /* all layers have one width */
                   ? timm_config_set_argument(config, "mlp_ratio", json_real(strtod(ratio, NULL)))
                   : GRAIL_OK;
    }
    if (w.ffn > 0) {
        CHECK(json_put(section, "intermediate_size", json_integer(w.ffn)));
    }
    if (w.heads * w.head_dim != w.width) { /* head_dim no longer follows from the heads */
        CHECK(json_put(section, "head_dim", json_integer(w.head_dim)));
    }
    if (w.heads > 0) {
        CHECK(json_put(section, "num_attention_heads", json_integer(w.heads)));
    }
    return GRAIL_OK;
}

/* States the arguments with which the class of the convention builds these widths. */
grail_status tower_judge_loaders(const architecture *self, const json_t *config, const graph *dense,
                                 const graph *narrowed, loader_verdict *verdicts)
{
    (void)dense;
    char ratio[40];
    tower_widths w;
    loader_verdict *v = &verdicts[0];
    const tower_names *names = self->conventions;
    const char *key = json_string_value(json_object_get(config, "names"));
    while (names->key != NULL &&
           (key == NULL ? !names->configured : strcmp(names->key, key) != 0)) {
        names++;
    }
    names = names->key == NULL ? self->conventions : names;
    CHECK(widths_of(narrowed, &w));
    ratio_text(&w, ratio, sizeof ratio);
    judge_loaders_of_any_width(verdicts);
    *v = (loader_verdict){.loader = names->loader, .loads = w.ffn > 0 && w.heads > 0};
    if (!v->loads) {
        remark(v, "the layers have different widths; its class gives all layers the same");
    } else if (strcmp(names->key, "vit-pytorch") == 0) {
        remark(v, "SimpleViT(mlp_dim=%lld, heads=%lld, dim_head=%lld)", (long long)w.ffn,
               (long long)w.heads, (long long)w.head_dim);
    } else if (w.heads * w.head_dim != w.width) {
        refuse(v,
               "its attention must be as wide as the residual stream, but %lld heads of %lld are "
               "not %lld",
               (long long)w.heads, (long long)w.head_dim, (long long)w.width);
    } else if (names->configured) {
        remark(v, "intermediate_size %lld", (long long)w.ffn);
        loader_lines_saved_class(config, v);
    } else if (strcmp(names->key, "torchvision") == 0) {
        remark(v, "VisionTransformer(mlp_dim=%lld)", (long long)w.ffn);
    } else if (is_of_timm(config)) {
        remark(v, "create_model('local-dir:OUTPUT', pretrained=True); model_args has mlp_ratio %s",
               ratio);
        loader_lines_timm_directory(v);
    } else if (strcmp(names->key, "timm") == 0) {
        remark(v, "create_model(..., mlp_ratio=%s)", ratio);
    } else {
        remark(v, "with \"mlp_ratio\": %s in vision_cfg%s", ratio,
               w.ffn == 4 * w.width ? "" : "; OpenAI's own class fixes 4");
        if (json_is_true(json_object_get(config, TOWER_OPEN_CLIP_ARGUMENTS))) {
            loader_lines_open_clip(ratio, v);
        }
    }
    return GRAIL_OK;
}
