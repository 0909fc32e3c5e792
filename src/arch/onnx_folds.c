#include "arch/onnx_folds.h"

#include "format/onnx/onnx_edit.h"
#include "runtime/region.h"

#include <string.h>

/* Inputs of operators that rows read as weights. */
static const struct {
    const char *name;
    int first, last;
} weighted[] = {{"Conv", 1, 2},
                {"ConvTranspose", 1, 2},
                {"Gemm", 1, 2},
                {"MatMul", 0, 1},
                {"BatchNormalization", 1, 4},
                {"InstanceNormalization", 1, 2},
                {"GroupNormalization", 1, 2},
                {"LayerNormalization", 1, 2},
                {"PRelu", 1, 1}};

typedef struct folding {
    const onnx_file *file;
    bool *is_computed; /* of values: by nodes, from constants alone */
    bool *is_folded;   /* of values: a tensor in place of its node */
    bool *is_read;     /* of values: by a node that stays, or as an output */
    bool *are_scores;  /* of values: a Softmax reads them, or what is added to them */
    bool *goes;        /* of nodes: nothing that stays reads what it makes */
    bool *keeps;       /* of tensors: a node that stays reads it */
    bool *loses;       /* of tensors: a node that goes reads it */
    int64_t *nodes;    /* the needed ones */
    int64_t node_count;
    int64_t *values; /* the folded ones */
    tensor_view *made;
    int64_t count;
} folding;

static void folding_fini(folding *f)
{
    for (int64_t i = 0; f->made != NULL && i < f->count; i++) {
        memory_free((void *)(uintptr_t)f->made[i].data);
    }
    memory_free(f->is_computed);
    memory_free(f->is_folded);
    memory_free(f->is_read);
    memory_free(f->are_scores);
    memory_free(f->goes);
    memory_free(f->keeps);
    memory_free(f->loses);
    memory_free(f->nodes);
    memory_free(f->values);
    memory_free(f->made);
}

static grail_status folding_init(const onnx_file *file, folding *f)
{
    const size_t values = (size_t)file->value_count;
    const size_t nodes = (size_t)file->node_count;
    f->file = file;
    CHECK(memory_new(&f->is_computed, values, sizeof f->is_computed[0]));
    CHECK(memory_new(&f->is_folded, values, sizeof f->is_folded[0]));
    CHECK(memory_new(&f->is_read, values, sizeof f->is_read[0]));
    CHECK(memory_new(&f->are_scores, values, sizeof f->are_scores[0]));
    CHECK(memory_new(&f->goes, nodes, sizeof f->goes[0]));
    CHECK(memory_new(&f->keeps, (size_t)file->tensor_count, sizeof f->keeps[0]));
    CHECK(memory_new(&f->loses, (size_t)file->tensor_count, sizeof f->loses[0]));
    CHECK(memory_new(&f->nodes, nodes, sizeof f->nodes[0]));
    CHECK(memory_new(&f->values, values, sizeof f->values[0]));
    return memory_new(&f->made, values, sizeof f->made[0]);
}

/* -- which weights ----------------------------------------------------------------------------- */

static bool is_computed_node(const folding *f, const onnx_file_node *n)
{
    bool is_fixed = n->node.input_count > 0 && !n->has_subgraph && *n->node.domain == '\0';
    for (int k = 0; is_fixed && k < n->node.input_count; k++) {
        const int64_t v = n->inputs[k];
        is_fixed = v < 0 || f->file->values[v].tensor >= 0 || f->is_computed[v];
    }
    return is_fixed;
}

/* A matrix that a Transpose turns is read as it lies. */
static bool is_turned_matrix(const folding *f, const onnx_file_node *reader, int64_t value)
{
    const onnx_file_node *maker = &f->file->nodes[f->file->values[value].node];
    return (onnx_node_is(reader, "MatMul") || onnx_node_is(reader, "Gemm")) &&
           onnx_node_is(maker, "Transpose") && f->file->values[maker->inputs[0]].tensor >= 0;
}

/* Nothing but this output of its maker is read. */
static bool is_only_output(const folding *f, int64_t value)
{
    const onnx_file_node *maker = &f->file->nodes[f->file->values[value].node];
    bool is_only = true;
    for (int k = 0; k < maker->node.output_count; k++) {
        const int64_t v = maker->outputs[k];
        is_only = is_only && (v < 0 || v == value || !f->is_read[v]);
    }
    return is_only;
}

static void fold_run(folding *f, const onnx_file_node *n, int first, int last)
{
    for (int k = first; k <= last && k < n->node.input_count; k++) {
        const int64_t v = n->inputs[k];
        if (v >= 0 && f->is_computed[v] && !f->is_folded[v] && !is_turned_matrix(f, n, v) &&
            is_only_output(f, v)) {
            f->is_folded[v] = true;
            f->values[f->count++] = v;
        }
    }
}

static bool makes_scores(const folding *f, const onnx_file_node *n)
{
    return n->node.output_count > 0 && n->outputs[0] >= 0 && f->are_scores[n->outputs[0]];
}

/* Biases of attention count as weights. */
static void fold_inputs(folding *f, const onnx_file_node *n)
{
    for (size_t i = 0; i < sizeof weighted / sizeof weighted[0]; i++) {
        if (onnx_node_is(n, weighted[i].name)) {
            fold_run(f, n, weighted[i].first, weighted[i].last);
        }
    }
    if (onnx_node_is(n, "Add") && makes_scores(f, n)) {
        fold_run(f, n, 0, 1);
    }
}

static void find_scores(folding *f)
{
    for (int64_t i = f->file->node_count - 1; i >= 0; i--) {
        const onnx_file_node *n = &f->file->nodes[i];
        const bool goes_on = onnx_node_is(n, "Add") || onnx_node_is(n, "Reshape");
        if (onnx_node_is(n, "Softmax") || (goes_on && makes_scores(f, n))) {
            for (int k = 0; k < (onnx_node_is(n, "Add") ? 2 : 1); k++) {
                if (k < n->node.input_count && n->inputs[k] >= 0) {
                    f->are_scores[n->inputs[k]] = true;
                }
            }
        }
    }
}

static void mark_reads(folding *f, const onnx_file_node *n)
{
    for (int k = 0; k < n->node.input_count; k++) {
        if (n->inputs[k] >= 0) {
            f->is_read[n->inputs[k]] = true;
        }
    }
    for (int64_t k = 0; k < n->capture_count; k++) {
        f->is_read[n->captures[k]] = true;
    }
}

static void find_folded(folding *f)
{
    const onnx_file *file = f->file;
    for (int64_t i = 0; i < file->node_count; i++) {
        const onnx_file_node *n = &file->nodes[i];
        const bool is_computed = is_computed_node(f, n);
        mark_reads(f, n);
        for (int k = 0; is_computed && k < n->node.output_count; k++) {
            const int64_t v = n->outputs[k];
            if (v >= 0 && file->values[v].tensor < 0) {
                f->is_computed[v] = true;
            }
        }
    }
    for (int64_t i = 0; i < file->output_count; i++) {
        f->is_read[file->outputs[i]] = true;
    }
    for (int64_t i = 0; i < file->node_count; i++) {
        if (!is_computed_node(f, &file->nodes[i])) {
            fold_inputs(f, &file->nodes[i]);
        }
    }
}

/* The nodes that lead to what is folded. */
static grail_status find_needed(folding *f)
{
    grail_status status = GRAIL_OK;
    bool *is_wanted = NULL; /* of values */
    bool *leads = NULL;     /* of nodes */
    TRY(memory_new(&is_wanted, (size_t)f->file->value_count, sizeof is_wanted[0]));
    TRY(memory_new(&leads, (size_t)f->file->node_count, sizeof leads[0]));
    memcpy(is_wanted, f->is_folded, (size_t)f->file->value_count * sizeof is_wanted[0]);
    for (int64_t i = f->file->node_count - 1; i >= 0; i--) {
        const onnx_file_node *n = &f->file->nodes[i];
        for (int k = 0; k < n->node.output_count; k++) {
            leads[i] = leads[i] || (n->outputs[k] >= 0 && is_wanted[n->outputs[k]]);
        }
        for (int k = 0; leads[i] && k < n->node.input_count; k++) {
            if (n->inputs[k] >= 0) {
                is_wanted[n->inputs[k]] = true;
            }
        }
    }
    for (int64_t i = 0; i < f->file->node_count; i++) {
        if (leads[i]) {
            f->nodes[f->node_count++] = i;
        }
    }
out:
    memory_free(leads);
    memory_free(is_wanted);
    return status;
}

/* Has those values computed that they can be, and only these are folded then: none without ONNX
 * Runtime. What is no vector or more of numbers stays with its nodes. */
static grail_status compute_folded(folding *f)
{
    if (f->count == 0) {
        return GRAIL_OK;
    }
    CHECK(find_needed(f));
    const region_parts parts = {.file = f->file, .node_count = f->node_count, .nodes = f->nodes};
    const grail_status status = region_values(&parts, NULL, NULL, f->count, f->values, f->made);
    for (int64_t i = 0; i < f->count; i++) {
        f->is_folded[f->values[i]] = status == GRAIL_OK && f->made[i].data != NULL;
    }
    return status == GRAIL_ERROR_MEMORY ? status : GRAIL_OK;
}

/* -- the folded model -------------------------------------------------------------------------- */

/* Node i goes with the last one that reads it; by then the ones behind it are decided. */
static void decide_node(folding *f, int64_t i)
{
    const onnx_file_node *n = &f->file->nodes[i];
    f->goes[i] = true;
    for (int k = 0; k < n->node.output_count; k++) {
        const int64_t v = n->outputs[k];
        f->goes[i] = f->goes[i] && (v < 0 || f->is_folded[v] || !f->is_read[v]);
    }
    if (!f->goes[i]) {
        mark_reads(f, n);
    }
    bool *reads = f->goes[i] ? f->loses : f->keeps;
    for (int k = 0; k < n->node.input_count; k++) {
        const onnx_value *v = n->inputs[k] < 0 ? NULL : &f->file->values[n->inputs[k]];
        if (v != NULL && v->node < 0 && v->tensor >= 0) {
            reads[v->tensor] = true;
        }
    }
}

static void decide_nodes(folding *f)
{
    const onnx_file *file = f->file;
    memset(f->is_read, 0, (size_t)file->value_count * sizeof f->is_read[0]);
    for (int64_t i = 0; i < file->output_count; i++) {
        f->is_read[file->outputs[i]] = true;
    }
    for (int64_t i = file->node_count - 1; i >= 0; i--) {
        decide_node(f, i);
    }
    for (int64_t v = 0; v < file->value_count; v++) { /* subgraphs and outputs have read it */
        if (f->is_read[v] && file->values[v].node < 0 && file->values[v].tensor >= 0) {
            f->keeps[file->values[v].tensor] = true;
        }
    }
}

static grail_status write_folded(const folding *f, unsigned char **bytes, size_t *size)
{
    grail_status status = GRAIL_OK;
    onnx_edit *edit = NULL;
    TRY(onnx_edit_create(f->file, &edit));
    for (int64_t i = 0; i < f->file->node_count; i++) {
        if (f->goes[i]) {
            onnx_edit_remove(edit, i);
        }
    }
    for (int64_t i = 0; i < f->file->initializer_count; i++) {
        if (f->loses[i] && !f->keeps[i]) {
            onnx_edit_drop(edit, i);
        }
    }
    for (int64_t i = 0; i < f->count; i++) {
        TRY(f->made[i].data == NULL ? GRAIL_OK : onnx_edit_add_values(edit, &f->made[i]));
    }
    TRY(onnx_edit_gather(edit, bytes, size));
out:
    onnx_edit_free(edit);
    return status;
}

/* *useless <- how many nodes go though they lead to nothing that is folded, but for those that
 * compute numbers of sizes and constants alone, which no cut changes. */
static grail_status count_useless(const folding *f, int64_t *useless)
{
    grail_status status = GRAIL_OK;
    bool *is_number = NULL; /* of values: of sizes and constants alone */
    TRY(memory_new(&is_number, (size_t)f->file->value_count, sizeof is_number[0]));
    *useless = 0;
    for (int64_t i = 0; i < f->file->node_count; i++) {
        const onnx_file_node *n = &f->file->nodes[i];
        bool makes_numbers = n->capture_count == 0;
        for (int k = 0; k < n->node.input_count; k++) {
            const int64_t v = n->inputs[k];
            makes_numbers =
                makes_numbers && (v < 0 || f->file->values[v].tensor >= 0 || is_number[v]);
        }
        makes_numbers = makes_numbers || onnx_node_is(n, "Shape");
        for (int k = 0; makes_numbers && k < n->node.output_count; k++) {
            if (n->outputs[k] >= 0) {
                is_number[n->outputs[k]] = true;
            }
        }
        *useless += f->goes[i] && !makes_numbers ? 1 : 0;
    }
out:
    memory_free(is_number);
    return status;
}

grail_status onnx_fold_nodes(checkpoint *c, int64_t *useless)
{
    grail_status status = GRAIL_OK;
    folding f = {0};
    unsigned char *bytes = NULL;
    size_t size = 0;
    bool folds = false;
    *useless = 0;
    if (checkpoint_onnx(c) == NULL) {
        return GRAIL_OK;
    }
    TRY(folding_init(checkpoint_onnx(c), &f));
    find_scores(&f);
    find_folded(&f);
    TRY(compute_folded(&f));
    decide_nodes(&f);
    TRY(count_useless(&f, useless));
    for (int64_t i = 0; i < f.count; i++) {
        folds = folds || f.made[i].data != NULL;
    }
    if (folds || *useless > 0) {
        TRY(write_folded(&f, &bytes, &size));
        TRY(checkpoint_fold_onnx(c, bytes, size));
    }
out:
    folding_fini(&f);
    return status;
}
