#include "eval/token_losses.h"

#include "graph/operators.h"

enum { PANEL_BYTES = 64 << 20 };

/* Some rows of the head's matrix, and room for what they make. */
typedef struct head_panel {
    const node *head;
    int64_t first, rows; /* of the matrix */
    matrix weight;       /* [most rows, width] */
    matrix ordered;      /* [rows, width], where products want their weights so */
    matrix bias;         /* [1, vocabulary], borrowed; may be missing */
    matrix logits;       /* FORWARD_ROWS rows of as many logits */
    int32_t *ids;        /* [most rows] */
} head_panel;

static void head_panel_fini(head_panel *p)
{
    matrix_free(&p->weight);
    matrix_free(&p->ordered);
    matrix_free(&p->logits);
    memory_free(p->ids);
}

/* Rows of the head's matrix that are read at once; 0 where the head is small, or its rows cannot be
 * read on their own, and the network runs to its end as it is. */
static int64_t rows_at_once(const forward_pass *f, int64_t panel)
{
    const graph *g = f->model->graph;
    const node *last = &g->nodes[g->node_count - 1];
    bool is_held = false;
    for (const parameter_store *s = f->store; s != NULL && node_is_linear(last); s = s->parent) {
        is_held = is_held || matrix_exists(s->entries[last->weight].values);
    }
    if (!node_is_linear(last) || is_held) {
        return 0;
    }
    const graph_parameter *p = &g->parameters[last->weight];
    const int64_t row = p->shape[1] * (int64_t)backend_value_size(f->backend);
    const int64_t rows = panel / row > 1 ? panel / row : 1;
    return storage_is_plain(&p->map) && rows < p->shape[0] ? rows : 0;
}

static grail_status open_panel(const forward_pass *f, int64_t most, head_panel *out)
{
    const graph *g = f->model->graph;
    const grail_dtype type = backend_type(f->backend);
    const parameter_entry *bias = NULL;
    *out = (head_panel){.head = &g->nodes[g->node_count - 1]};
    const int64_t width = g->parameters[out->head->weight].shape[1];
    CHECK(matrix_new(f->backend, type, most, width, &out->weight));
    CHECK(matrix_new(f->backend, type, FORWARD_ROWS, most, &out->logits));
    CHECK(memory_new_unset(&out->ids, (size_t)most, sizeof out->ids[0]));
    if (out->head->bias != GRAPH_NONE) {
        CHECK(parameter_store_get(f->store, out->head->bias, &bias));
        out->bias = bias->values;
    }
    return GRAIL_OK;
}

/* What was read is not kept in pages of the mapped file either. */
static grail_status read_panel(const forward_pass *f, int64_t first, int64_t rows, head_panel *p)
{
    grail_status status = GRAIL_OK;
    const int index = p->head->weight;
    const grail_dtype type = backend_weight_type(f->backend);
    p->first = first;
    p->rows = rows;
    for (int64_t r = 0; r < rows; r++) {
        p->ids[r] = (int32_t)(first + r);
    }
    TRY(parameter_store_gather_rows(f->store, index, p->ids, matrix_rows(p->weight, 0, rows)));
    matrix_free(&p->ordered);
    if (type != backend_type(f->backend)) { /* done once for all positions */
        TRY(matrix_new(f->backend, type, rows, p->weight.columns, &p->ordered));
        TRY(matrix_copy(matrix_rows(p->weight, 0, rows), p->ordered));
    }
out:
    checkpoint_release(f->model->checkpoint, f->model->tensors[index]);
    return status;
}

/* Adds the logits of some positions, of a panel or (NULL) of the complete head. Before the last
 * node nothing but its input is live. */
static grail_status add_positions(forward_pass *f, const head_panel *p, int64_t window,
                                  int64_t from, int64_t rows, const int32_t *targets,
                                  entropy_sums *out)
{
    matrix logits = {0};
    if (p == NULL) {
        CHECK(forward_logits(f, window, from, rows, &logits));
    } else {
        logits = matrix_reshape(p->logits, rows, p->rows);
        CHECK(matrix_linear(
            forward_rows(f, 0, window, from, rows),
            matrix_exists(p->ordered) ? p->ordered : matrix_rows(p->weight, 0, p->rows),
            matrix_exists(p->bias) ? matrix_columns(p->bias, p->first, p->rows) : no_matrix,
            logits));
        CHECK(backend_settle(f->backend,
                             execution_watch(f->model->graph, p->head, p->first, logits)));
    }
    return matrix_cross_entropy(logits, p == NULL ? 0 : p->first, targets, out);
}

static grail_status add_windows(forward_pass *f, const head_panel *p, token_targets targets,
                                entropy_sums *out)
{
    for (int64_t w = f->first; w < f->first + f->count; w++, out += targets.count) {
        const int32_t *ids = targets.ids + w * targets.stride;
        for (int64_t i = 0; i < targets.count; i += FORWARD_ROWS) {
            const int64_t left = targets.count - i;
            const int64_t rows = left < FORWARD_ROWS ? left : FORWARD_ROWS;
            CHECK(add_positions(f, p, w, targets.first + i, rows, ids + i, out + i));
        }
    }
    return GRAIL_OK;
}

static grail_status add_panels(forward_pass *f, int64_t most, token_targets targets,
                               entropy_sums *out)
{
    grail_status status = GRAIL_OK;
    head_panel p = {0};
    const int last = f->model->graph->node_count - 1;
    TRY(forward_advance(f, last));
    TRY(open_panel(f, most, &p));
    const int64_t vocabulary = f->model->graph->parameters[p.head->weight].shape[0];
    for (int64_t first = 0; first < vocabulary; first += most) {
        TRY(read_panel(f, first, vocabulary - first < most ? vocabulary - first : most, &p));
        TRY(add_windows(f, &p, targets, out));
    }
out:
    head_panel_fini(&p);
    return status;
}

token_targets targets_of_windows(const token_windows *windows)
{
    return (token_targets){
        .ids = windows->ids + 1, .stride = windows->length, .count = windows->length - 1};
}

grail_status token_losses(forward_pass *f, token_targets targets, int64_t panel, entropy_sums *out)
{
    const int64_t most = rows_at_once(f, panel == 0 ? PANEL_BYTES : panel);
    return most == 0 ? add_windows(f, NULL, targets, out) : add_panels(f, most, targets, out);
}
