#include "pipeline/request/rounded_types.h"

#include "base/name_list.h"
#include "base/option_values.h"
#include "format/weights/weights_format.h"
#include "graph/operators.h"
#include "pipeline/request/cuts.h"
#include "pipeline/request/options.h"
#include "tensor/groups.h"
#include "tensor/quantize.h"

#include <string.h>

enum { TYPE_NONE, TYPE_W4, TYPE_W8, FIRST_OF_FILE }; /* of rounded_type_names */

static const int bits_of[] = {[TYPE_W4] = 4, [TYPE_W8] = 8};

static grail_status refuse(const rounded_subject *s, const char *why)
{
    return error_about(error_set(GRAIL_ERROR_UNSUPPORTED, "%s: cannot be quantised in this run: %s",
                                 checkpoint_path(s->model->checkpoint), why),
                       "output.quantize");
}

static const char *misfit_of_site(const site *s, const plan_site *planned)
{
    if (s->kind == SITE_EXPERTS) {
        return "it has experts";
    }
    if (planned->kept < s->units && planned->selector->folds) {
        return "units are merged, whose producers are made after their turn; choose a selector "
               "that keeps units";
    }
    if (planned->kept < s->units && s->normed) {
        return "a norm runs over a width that is cut; cut other sites, such as ffn";
    }
    return planned->kept < s->units && s->consumer_count > 1
               ? "several matrices read a width that is cut"
               : NULL;
}

static const char *misfit_of_run(const rounded_subject *s)
{
    if (s->model->graph->input_kind != INPUT_TOKENS) {
        return "it reads images";
    }
    if (s->target == NULL && checkpoint_metadata(s->model->checkpoint) != NULL) {
        return "it is a GGUF file, and integers in groups stand in a directory; choose a type of "
               "GGUF files, such as q4_0, or give the directory that the file was made from";
    }
    if (s->target == NULL &&
        checkpoint_format(s->model->checkpoint) != &weights_format_safetensors) {
        return "its weights are files of torch, and quantised ones stand in safetensors; save them "
               "so first";
    }
    if (heals(s->heal) || s->plan->compensation.regional_training) {
        return "training would move the rounded weights";
    }
    if (s->plan->loop == LOOP_OPEN) {
        return "it is rounded by what the narrowed network reads, and an open loop observes the "
               "dense one alone";
    }
    return s->is_shared ? "rounding is not shared out over ranks" : NULL;
}

static grail_status check_run(const rounded_subject *s)
{
    const char *why = misfit_of_run(s);
    for (int i = 0; why == NULL && i < s->sites->count; i++) {
        why = misfit_of_site(&s->sites->sites[i], &s->plan->sites[i]);
    }
    return why == NULL ? GRAIL_OK : refuse(s, why);
}

/* -- matrices ---------------------------------------------------------------------------------- */

static bool is_of_block(const graph *g, const node *n)
{
    return node_is_linear(n) && n->block >= 0 && n->block < g->block_count;
}

static grail_status check_tensor(const rounded_subject *s, int parameter)
{
    const graph_parameter *p = &s->model->graph->parameters[parameter];
    const tensor_view *tensor = s->model->tensors[parameter];
    const bool is_gguf = checkpoint_metadata(s->model->checkpoint) != NULL;
    const bool is_unpacked = s->target != NULL && group_bits(tensor->dtype) > 0;
    if (is_gguf || is_unpacked ||
        (dtype_is_weight(tensor->dtype) && storage_is_plain(&p->map) && p->rank == 2 &&
         name_ends_with(tensor->name, ".weight"))) {
        return GRAIL_OK;
    }
    const grail_status status = error_set(
        GRAIL_ERROR_UNSUPPORTED,
        "%s: tensor '%s' (%s) cannot be quantised: only matrices in F32, F16 or BF16 that are "
        "tensors of their own, with rows of what they read, are",
        checkpoint_path(s->model->checkpoint), tensor->name, grail_dtype_name(tensor->dtype));
    return error_about(status, "output.quantize");
}

/* The nearest number of units from `kept` on, in steps of `step`, that fills groups; 0 if none of
 * 1 to `units` does. */
static int64_t nearest_fit(int64_t kept, int step, int64_t units, int64_t features)
{
    while (kept > 0 && kept <= units && kept * features % SMALLEST_GROUP != 0) {
        kept += step;
    }
    return kept <= units ? kept : 0;
}

/* Which site the columns of a parameter belong to, and how many of them a unit has. */
static int site_of_columns(const rounded_subject *s, int parameter, int64_t *features)
{
    for (int i = 0; i < s->sites->count; i++) {
        const site *one = &s->sites->sites[i];
        for (int k = 0; k < one->consumer_count; k++) {
            if (s->model->graph->nodes[one->consumers[k].node].weight == parameter) {
                *features = one->consumers[k].features_per_unit;
                return i;
            }
        }
    }
    return GRAPH_NONE;
}

static grail_status refuse_width(const rounded_subject *s, int parameter, int64_t width)
{
    int64_t features = 0;
    const int owner = site_of_columns(s, parameter, &features);
    const grail_status status =
        error_set(GRAIL_ERROR_SHAPE, "'%s' reads %lld features, which %s of %d weights do not fill",
                  s->model->graph->parameters[parameter].name, (long long)width,
                  s->target == NULL ? "groups" : "blocks", SMALLEST_GROUP);
    if (owner != GRAPH_NONE) {
        const plan_site *planned = &s->plan->sites[owner];
        const int64_t less = nearest_fit(planned->kept, -1, planned->units, features);
        const int64_t more = nearest_fit(planned->kept, 1, planned->units, features);
        error_append("; %lld of %lld units are kept there: keep", (long long)planned->kept,
                     (long long)planned->units);
        if (less > 0) {
            error_append(" %lld", (long long)less);
        }
        if (more > 0) {
            error_append("%s %lld", less > 0 ? " or" : "", (long long)more);
        }
        error_append(less > 0 || more > 0 ? "" : " none, since no number fits");
    }
    return error_about(status, "output.quantize");
}

/* -- groups of integers, in a directory -------------------------------------------------------- */

/* Marks the matrices, and takes the largest group that fills the rows of all. */
static grail_status find_matrices(const rounded_subject *s, bool *is_rounded, rounded_types *out)
{
    const graph *g = s->model->graph;
    out->group = LARGEST_GROUP;
    for (int n = 0; n < g->node_count; n++) {
        const int weight = g->nodes[n].weight;
        if (!is_of_block(g, &g->nodes[n]) ||
            graph_parameter_is_gone(&s->narrowed->parameters[weight])) {
            continue;
        }
        const int64_t width = s->narrowed->parameters[weight].shape[1];
        CHECK(check_tensor(s, weight));
        while (out->group > SMALLEST_GROUP && width % out->group != 0) {
            out->group /= 2;
        }
        if (width % out->group != 0) {
            return refuse_width(s, weight, width);
        }
        is_rounded[weight] = true;
    }
    return GRAIL_OK;
}

static grail_status set_dtypes(const graph *g, const bool *is_rounded, rounded_types *out)
{
    grail_dtype dtype = GRAIL_DTYPE_COUNT;
    if (!group_dtype(out->bits, out->group, &dtype)) {
        return error_set(GRAIL_ERROR_INTERNAL, "there is no group of %lld weights",
                         (long long)out->group);
    }
    CHECK(memory_new(&out->dtypes, (size_t)g->parameter_count, sizeof out->dtypes[0]));
    for (int p = 0; p < g->parameter_count; p++) {
        out->dtypes[p] = is_rounded[p] ? dtype : GRAIL_DTYPE_COUNT;
    }
    return GRAIL_OK;
}

/* All Linears but the head, which is outside the blocks, and what an encoder has there: a pooler,
 * or a head for some task. */
static grail_status describe(const rounded_types *r, bool encodes, json_t *config)
{
    static const char outside[] = "re:(?!.*layers?\\.[0-9]+\\.)";
    json_t *ignore = json_pack("[o]", json_text("lm_head"));
    json_t *weights = json_pack("{s:o, s:i, s:b, s:o, s:I}", "type", json_text("int"), "num_bits",
                                r->bits, "symmetric", 1, "strategy", json_text("group"),
                                "group_size", (json_int_t)r->group);
    json_t *group = json_pack("{s:[o], s:o, s:n, s:n}", "targets", json_text("Linear"), "weights",
                              weights, "input_activations", "output_activations");
    CHECK(json_put(config, "quantization_config",
                   json_pack("{s:o, s:o, s:o, s:{s:o}, s:o}", "quant_method",
                             json_text("compressed-tensors"), "format", json_text("pack-quantized"),
                             "quantization_status", json_text("compressed"), "config_groups",
                             "group_0", group, "ignore", ignore)));
    return encodes ? json_push(ignore, json_text(outside)) : GRAIL_OK;
}

static grail_status choose_groups(const rounded_subject *s, json_t *config, rounded_types *out)
{
    grail_status status = GRAIL_OK;
    bool *is_rounded = NULL;
    TRY(memory_new(&is_rounded, (size_t)s->model->graph->parameter_count, sizeof is_rounded[0]));
    TRY(find_matrices(s, is_rounded, out));
    TRY(set_dtypes(s->model->graph, is_rounded, out));
    TRY(describe(out, graph_gives_features(s->model->graph), config));
out:
    memory_free(is_rounded);
    return status;
}

/* -- blocks, in a GGUF file -------------------------------------------------------------------- */

/* A matrix whose rows fill no block stays in 16 bits; where a cut has made it so, another cut will
 * do better. */
static grail_status check_blocks(const rounded_subject *s, int parameter)
{
    int64_t features = 0;
    const grail_dtype dtype = s->target->dtypes[parameter];
    const int owner = site_of_columns(s, parameter, &features);
    if (dtype_is_quantiser(dtype)) {
        return check_tensor(s, parameter);
    }
    return owner != GRAPH_NONE && site_is_cut(s->plan, owner)
               ? refuse_width(s, parameter, s->narrowed->parameters[parameter].shape[1])
               : GRAIL_OK;
}

static grail_status choose_blocks(const rounded_subject *s, rounded_types *out)
{
    const graph *g = s->model->graph;
    CHECK(memory_new(&out->dtypes, (size_t)g->parameter_count, sizeof out->dtypes[0]));
    for (int p = 0; p < g->parameter_count; p++) {
        out->dtypes[p] = s->target->dtypes[p];
    }
    for (int n = 0; n < g->node_count; n++) {
        CHECK(node_is_linear(&g->nodes[n]) ? check_blocks(s, g->nodes[n].weight) : GRAIL_OK);
    }
    return GRAIL_OK;
}

/* -- both -------------------------------------------------------------------------------------- */

static grail_status find_type(const char *type, int *out)
{
    *out = TYPE_NONE;
    return type == NULL ? GRAIL_OK
                        : error_about(option_find_word("type of quantised weights", type,
                                                       rounded_type_names, out),
                                      "output.quantize");
}

grail_status rounded_type_of_file(const char *type, const char **out)
{
    int found = 0;
    CHECK(find_type(type, &found));
    *out = found >= FIRST_OF_FILE ? rounded_type_names[found] : NULL;
    return GRAIL_OK;
}

grail_status rounded_types_choose(const char *type, const rounded_subject *subject, json_t *config,
                                  rounded_types *out)
{
    int found = 0;
    *out = (rounded_types){0};
    CHECK(find_type(type, &found));
    if (found == TYPE_NONE) {
        return GRAIL_OK;
    }
    CHECK(check_run(subject));
    if (found >= FIRST_OF_FILE) {
        CHECK(choose_blocks(subject, out));
    } else {
        out->bits = bits_of[found];
        CHECK(choose_groups(subject, config, out));
    }
    out->name = rounded_type_names[found];
    return GRAIL_OK;
}

void rounded_types_fini(rounded_types *r)
{
    memory_free(r->dtypes);
    *r = (rounded_types){0};
}

grail_dtype rounded_dtype(const rounded_types *r, int parameter)
{
    return r->name == NULL ? GRAIL_DTYPE_COUNT : r->dtypes[parameter];
}

bool parameter_is_rounded(const rounded_types *r, int parameter)
{
    const grail_dtype dtype = rounded_dtype(r, parameter);
    return dtype != GRAIL_DTYPE_COUNT && dtype_is_quantiser(dtype);
}

int rounded_types_count(const rounded_types *r, const graph *g)
{
    int count = 0;
    for (int p = 0; p < g->parameter_count; p++) {
        count += parameter_is_rounded(r, p) ? 1 : 0;
    }
    return count;
}

/* In bits; of groups without those that say how elements are rounded. */
static int64_t bits_stored(const rounded_types *r, grail_dtype before, int parameter,
                           int64_t elements)
{
    size_t bytes = 0;
    if (r->bits > 0) {
        return elements * r->bits + elements / r->group * (int64_t)dtype_bits(before);
    }
    return dtype_bytes(r->dtypes[parameter], elements, &bytes) ? 8 * (int64_t)bytes : 0;
}

int64_t rounded_types_saving(const rounded_types *r, const grail_model *model,
                             const graph *narrowed)
{
    int64_t saving = 0;
    for (int p = 0; r->name != NULL && p < narrowed->parameter_count; p++) {
        const graph_parameter *one = &narrowed->parameters[p];
        int64_t elements = 0;
        if (r->dtypes[p] != GRAIL_DTYPE_COUNT && shape_elements(one->rank, one->shape, &elements)) {
            const grail_dtype before = model_written_dtype(model, model->tensors[p]);
            saving +=
                (elements * (int64_t)dtype_bits(before) - bits_stored(r, before, p, elements)) / 8;
        }
    }
    return saving;
}
