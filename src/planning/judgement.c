#include "planning/judgement.h"

#include "backend/operations.h"
#include "eval/comparison.h"
#include "graph/operators.h"
#include "heal/loss.h"
#include "pipeline/network/pass.h"

#include <math.h>

/* Rows whose outputs are computed at once: a large vocabulary takes much memory. And rows of a
 * text that are a part: neighbours are alike, so fewer would seem to say more than they do. */
enum { PANEL_ROWS = 256, PART_ROWS = 128 };

/* -- parts ------------------------------------------------------------------------------------- */

/* How many parts each sample of a batch has. */
static int64_t parts_of_samples(const compression_request *r, int64_t batch)
{
    const extent positions = calibration_shape(r->samples, batch).positions;
    const int64_t parts = positions.height * positions.width / PART_ROWS;
    return r->graph->input_kind == INPUT_IMAGES || parts < 1 ? 1 : parts;
}

/* Parts of the batches that judge in front of this one. */
static int64_t parts_before(const compression_request *r, int64_t batch)
{
    int64_t parts = 0;
    for (int64_t b = 0; b < batch; b++) {
        const int64_t samples = calibration_shape(r->samples, b).samples;
        parts += request_judges_batch(r, b) ? samples * parts_of_samples(r, b) : 0;
    }
    return parts;
}

grail_status divergence_init(const compression_request *request, divergence *out)
{
    const int64_t count = parts_before(request, request->samples->batch_count);
    *out = (divergence){.count = count};
    CHECK(memory_new(&out->losses, (size_t)count, 2 * sizeof out->losses[0]));
    out->weights = out->losses + count;
    return GRAIL_OK;
}

void divergence_fini(divergence *d)
{
    memory_free(d->losses);
    *d = (divergence){0};
}

static double sum_of(const double *x, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        sum += x[i];
    }
    return sum;
}

double divergence_mean(const divergence *d)
{
    const double weight = sum_of(d->weights, d->count);
    return weight > 0.0 ? sum_of(d->losses, d->count) / weight : (double)NAN;
}

lead divergence_lead(const divergence *own, const divergence *other)
{
    const double by = divergence_mean(other) - divergence_mean(own);
    const double weight = sum_of(own->weights, own->count);
    double squares = 0.0;
    int64_t parts = 0;
    for (int64_t i = 0; i < own->count; i++) {
        const double off = other->losses[i] - own->losses[i] - by * own->weights[i];
        squares += off * off;
        parts += own->weights[i] > 0.0 ? 1 : 0;
    }
    const double n = (double)parts;
    const double error = n > 1.0 ? sqrt(squares * n / (n - 1.0)) / weight : (double)INFINITY;
    return (lead){by, isfinite(by) ? error : (double)INFINITY};
}

bool divergence_leads(const divergence *own, const divergence *other, double errors)
{
    const lead l = divergence_lead(own, other);
    return l.by > errors * l.error ||
           (isfinite(divergence_mean(own)) && !isfinite(divergence_mean(other)));
}

/* -- the rows that are compared ---------------------------------------------------------------- */

typedef struct judgement {
    const calibration_network *network;
    const node *head;           /* a Linear that both networks end in, which is run here; or NULL */
    int value;                  /* the head's input, or the output */
    int64_t thin;               /* of so many rows of a part one is compared */
    const dense_record *record; /* or NULL */
    matrix *recorded;           /* [batch_count] what is recorded; NULL: networks are compared */
    bool is_mean;               /* divergences of logits are averaged */
    matrix part, total; /* [parts, 2] f64 of a chunk, and of all: losses and weights; owned */
    int64_t part_rows, total_rows;
} judgement;

/* Rows of one batch that run at once, and how they are divided: all samples alike. */
typedef struct division {
    int64_t samples, rows; /* of each sample */
    int64_t parts, thin;   /* of each sample */
    int64_t first;         /* the first part */
} division;

static division division_of(const judgement *j, int64_t rows)
{
    const sample_passes *p = &j->network->passes;
    const compression_request *r = j->network->request;
    const int64_t parts = parts_of_samples(r, p->at.batch);
    return (division){.samples = p->at.slice.count,
                      .rows = rows / p->at.slice.count,
                      .parts = parts,
                      .thin = j->thin,
                      .first = parts_before(r, p->at.batch) + p->at.slice.first * parts};
}

/* The first row of a part of a sample, and how many rows of it are compared. */
static int64_t begin_of_part(const division *d, int64_t part)
{
    return d->rows * part / d->parts;
}

static int64_t compared_of_part(const division *d, int64_t part)
{
    const int64_t rows = begin_of_part(d, part + 1) - begin_of_part(d, part);
    return (rows + d->thin - 1) / d->thin;
}

/* Compared rows in front of a part, which counts through the samples. */
static int64_t compared_before(const division *d, int64_t part)
{
    int64_t rows = 0;
    for (int64_t i = 0; i < d->parts; i++) {
        const int64_t times = part / d->parts + (i < part % d->parts ? 1 : 0);
        rows += times * compared_of_part(d, i);
    }
    return rows;
}

/* out[compared rows, columns] <- those of x, the ones of a part after each other. */
static grail_status copy_compared(const division *d, matrix x, matrix out)
{
    for (int64_t i = 0; i < d->samples * d->parts; i++) {
        const int64_t part = i % d->parts;
        const int64_t begin = i / d->parts * d->rows + begin_of_part(d, part);
        const int64_t count = compared_of_part(d, part);
        if (count > 0) {
            CHECK(matrix_copy(matrix_rows(x, begin, count),
                              matrix_rows(out, compared_before(d, i), count)));
        }
    }
    return GRAIL_OK;
}

/* The same into *out, owned. */
static grail_status take_compared(const division *d, matrix x, matrix *out)
{
    const int64_t rows = compared_before(d, d->samples * d->parts);
    CHECK(matrix_new(x.owner, x.type, rows, x.columns, out));
    return copy_compared(d, x, *out);
}

/* -- comparing --------------------------------------------------------------------------------- */

static grail_status put_part(judgement *j, int64_t part, double loss, double weight)
{
    const double sums[] = {loss, weight};
    return matrix_upload(matrix_rows(j->part, part, 1), sums);
}

/* Sums over parts [begin, end) of the divergences of their rows, in this order. */
static grail_status add_divergences(judgement *j, const division *d, int64_t begin, int64_t end,
                                    matrix dense, matrix narrow)
{
    grail_status status = GRAIL_OK;
    matrix rows = {0};
    const int64_t first = compared_before(d, begin);
    TRY(matrix_new(dense.owner, GRAIL_DTYPE_F64, 1, dense.rows, &rows));
    TRY(matrix_divergence(dense, narrow, 0.0, no_matrix, rows));
    for (int64_t i = begin; i < end; i++) {
        const int64_t at = compared_before(d, i) - first;
        const int64_t count = compared_of_part(d, i % d->parts);
        if (count > 0) {
            TRY(put_part(j, d->first + i, 0.0, (double)count));
            TRY(matrix_add_products(matrix_columns(rows, at, count), no_matrix,
                                    matrix_columns(matrix_rows(j->part, d->first + i, 1), 0, 1)));
        }
    }
out:
    matrix_free(&rows);
    return status;
}

static grail_status add_distances(judgement *j, const division *d, int64_t begin, int64_t end,
                                  matrix dense, matrix narrow)
{
    const int64_t first = compared_before(d, begin);
    for (int64_t i = begin; i < end; i++) {
        comparison_sums s = {0};
        const int64_t at = compared_before(d, i) - first;
        const int64_t count = compared_of_part(d, i % d->parts);
        if (count > 0) {
            CHECK(
                comparison_add(matrix_rows(dense, at, count), matrix_rows(narrow, at, count), &s));
            CHECK(put_part(j, d->first + i, s.distance, s.energy));
        }
    }
    return GRAIL_OK;
}

/* The head's product for some rows of its input; *out is owned. */
static grail_status apply_head(const network_run *run, const node *head, matrix x, matrix *out)
{
    matrix weight = no_matrix;
    const parameter_entry *bias = NULL;
    backend *b = x.owner;
    CHECK(parameter_store_get_weight(run->parameters, head->weight, &weight));
    if (head->bias != GRAPH_NONE) {
        CHECK(parameter_store_get(run->parameters, head->bias, &bias));
    }
    CHECK(
        matrix_new(b, backend_type(b), x.rows, run->graph->parameters[head->weight].shape[0], out));
    return matrix_linear(x, weight, bias == NULL ? no_matrix : bias->values, *out);
}

/* Parts [begin, end), of which dense and narrow have all compared rows. */
static grail_status compare_parts(judgement *j, const division *d, int64_t begin, int64_t end,
                                  matrix dense, matrix narrow)
{
    grail_status status = GRAIL_OK;
    matrix left = {0};
    matrix right = {0};
    const int64_t first = compared_before(d, begin);
    const int64_t count = compared_before(d, end) - first;
    const matrix a = matrix_rows(dense, first, count);
    const matrix b = matrix_rows(narrow, first, count);
    if (j->head != NULL) {
        TRY(apply_head(&j->network->dense, j->head, a, &left));
        TRY(apply_head(&j->network->current, j->head, b, &right));
    }
    TRY((j->is_mean ? add_divergences : add_distances)(j, d, begin, end, j->head != NULL ? left : a,
                                                       j->head != NULL ? right : b));
out:
    matrix_free(&left);
    matrix_free(&right);
    return status;
}

/* Panel by panel of whole parts. */
static grail_status compare_panels(judgement *j, const division *d, matrix dense, matrix narrow)
{
    const int64_t parts = d->samples * d->parts;
    for (int64_t begin = 0, end = 0; begin < parts; begin = end) {
        const int64_t first = compared_before(d, begin);
        end = begin + 1;
        while (end < parts && compared_before(d, end + 1) - first <= PANEL_ROWS) {
            end++;
        }
        CHECK(compare_parts(j, d, begin, end, dense, narrow));
    }
    return GRAIL_OK;
}

/* How far one output of one sample is from the dense one: what is 0 there counts as lost. */
static grail_status sample_distance(matrix dense, matrix narrow, bool is_logits, double *out)
{
    comparison_sums s = {0};
    CHECK(comparison_add(dense, narrow, &s));
    *out = is_logits          ? s.kl / (double)s.rows
           : s.energy > 0.0   ? s.distance / s.energy
           : s.distance > 0.0 ? 1.0
                              : 0.0;
    return GRAIL_OK;
}

/* The mean of several outputs, for each sample by itself. */
static grail_status add_outputs(judgement *j, const execution *dense, const execution *narrow)
{
    const graph *g = narrow->graph;
    const int64_t samples = narrow->shape.samples;
    const division d = division_of(j, samples);
    for (int64_t s = 0; s < samples; s++) {
        double mean = 0.0;
        for (int i = 0; i < g->output_count; i++) {
            const matrix a = execution_value(dense, g->outputs[i].value);
            const matrix b = execution_value(narrow, g->outputs[i].value);
            const int64_t rows = a.rows / samples;
            double distance = 0.0;
            CHECK(sample_distance(matrix_rows(a, s * rows, rows), matrix_rows(b, s * rows, rows),
                                  g->outputs[i].is_logits, &distance));
            mean += distance / g->output_count;
        }
        CHECK(put_part(j, d.first + s * d.parts, mean, 1.0));
    }
    j->part_rows += samples;
    return GRAIL_OK;
}

/* The rows of a batch that runs in part were recorded with the whole. */
static matrix recorded_rows(matrix all, const division *d, batch_slice slice)
{
    return matrix_rows(all, compared_before(d, slice.first * d->parts),
                       compared_before(d, d->samples * d->parts));
}

static grail_status add_batch(const execution *e, void *user)
{
    grail_status status = GRAIL_OK;
    judgement *j = user;
    const sample_passes *p = &j->network->passes;
    matrix dense = {0};
    matrix narrow = {0};
    if (e->graph->output_count > 1) {
        return add_outputs(j, j->network->dense.execution, e);
    }
    const matrix own = execution_value(e, j->value);
    const division d = division_of(j, own.rows);
    j->part_rows += own.rows;
    TRY(take_compared(&d, own, &narrow));
    if (j->record == NULL) {
        TRY(take_compared(&d, execution_value(j->network->dense.execution, j->value), &dense));
    }
    const matrix known =
        j->record == NULL ? dense : recorded_rows(j->record->rows[p->at.batch], &d, p->at.slice);
    TRY(compare_panels(j, &d, known, narrow));
out:
    matrix_free(&dense);
    matrix_free(&narrow);
    return status;
}

/* A record is no sum. */
static chunk_sums sums_of(void *user, bool held_out)
{
    judgement *j = user;
    chunk_sums sums = {.part_rows = &j->part_rows, .total_rows = &j->total_rows};
    (void)held_out;
    if (j->recorded == NULL) {
        chunk_sums_append_matrix(&sums, &j->part, &j->total);
    }
    return sums;
}

/* -- passes ------------------------------------------------------------------------------------ */

static double products_of(const graph *g, const node *n)
{
    double size = 1.0;
    for (int k = 0; n->weight != GRAPH_NONE && k < g->parameters[n->weight].rank; k++) {
        size *= (double)g->parameters[n->weight].shape[k];
    }
    return size;
}

/* A head of a large vocabulary would take most of a judgement's time, for both networks: both
 * together take at most about half of what all blocks do. */
static int64_t thinning(const graph *g, const node *head)
{
    static const double most = 4.0;
    double blocks = 0.0;
    for (int i = 0; i < g->node_count; i++) {
        blocks += node_is_linear(&g->nodes[i]) && &g->nodes[i] != head
                      ? products_of(g, &g->nodes[i])
                      : 0.0;
    }
    const double thin = ceil(most * products_of(g, head) / fmax(blocks, 1.0));
    return (int64_t)fmin(fmax(thin, 1.0), PART_ROWS / 8.0);
}

static grail_status judgement_init(calibration_network *network, const dense_record *record,
                                   judgement *j)
{
    grail_model_facts facts = {0};
    const compression_request *r = network->request;
    const graph *g = r->graph;
    const node *last = &g->nodes[g->node_count - 1];
    CHECK(grail_model_describe(r->model, &facts));
    *j = (judgement){.network = network,
                     .value = g->output,
                     .thin = 1,
                     .is_mean = facts.gives_features == 0 || g->output_count > 1};
    const bool ends_in_head = node_is_linear(last) && g->output_count == 1;
    /* a head that was fitted to the dense network's output has been run by both */
    const bool is_run = ends_in_head && network->current.stream.position == g->node_count;
    j->record = is_run || record == NULL || record->rows == NULL ? NULL : record;
    if (ends_in_head && !is_run &&
        (j->record != NULL || network->dense.stream.position < g->node_count)) {
        j->head = last;
        j->value = last->inputs[0];
        j->thin = g->input_kind == INPUT_IMAGES ? 1 : thinning(g, last);
    }
    return GRAIL_OK;
}

/* A device is read once, behind all batches. */
static grail_status run_judgement(calibration_network *network, judgement *j, visitor v)
{
    const graph *g = network->request->graph;
    const int end = j->head != NULL ? g->node_count - 1 : g->node_count;
    v.node = end;
    v.user = j;
    const pass p = {.end = end,
                    .stays = true,
                    .in_order = true,
                    .judges = true,
                    .with_dense = j->record == NULL && j->recorded == NULL,
                    .dense_end = end,
                    .visitors = &v,
                    .visitor_count = 1};
    return pass_run(&network->passes, &p);
}

grail_status judge_divergence(calibration_network *network, const dense_record *record,
                              divergence *out)
{
    grail_status status = GRAIL_OK;
    judgement j = {0};
    double *sums = NULL;
    backend *b = network->request->backend;
    TRY(judgement_init(network, record, &j));
    TRY(matrix_new_zero(b, GRAIL_DTYPE_F64, out->count, 2, &j.part));
    TRY(matrix_new_zero(b, GRAIL_DTYPE_F64, out->count, 2, &j.total));
    TRY(memory_new(&sums, (size_t)out->count, 2 * sizeof sums[0]));
    TRY(run_judgement(network, &j, (visitor){.add = add_batch, .sums = sums_of}));
    TRY(matrix_download(j.total, sums));
    for (int64_t i = 0; i < out->count; i++) {
        out->losses[i] = sums[2 * i];
        out->weights[i] = sums[2 * i + 1];
    }
    if (j.is_mean && j.total_rows == 0) {
        FAIL(GRAIL_ERROR_NUMERIC, "no output of the narrowed network could be judged");
    }
out:
    matrix_free(&j.part);
    matrix_free(&j.total);
    memory_free(sums);
    return status;
}

/* -- the dense network ------------------------------------------------------------------------- */

static grail_status record_batch(const execution *e, void *user)
{
    const judgement *j = user;
    const matrix x = execution_value(e, j->value);
    const division d = division_of(j, x.rows);
    const batch_slice slice = j->network->passes.at.slice;
    matrix *rows = &j->recorded[j->network->passes.at.batch];
    if (!matrix_exists(*rows)) {
        const int64_t all = compared_before(&d, slice.all * d.parts);
        CHECK(matrix_new(x.owner, x.type, all, x.columns, rows));
    }
    return copy_compared(&d, x, recorded_rows(*rows, &d, slice));
}

grail_status dense_record_take(calibration_network *network, dense_record *out)
{
    judgement j = {0};
    if (network->request->graph->output_count > 1) {
        return GRAIL_OK;
    }
    CHECK(judgement_init(network, NULL, &j));
    if (j.head == NULL && network->request->graph->input_kind != INPUT_IMAGES) {
        return GRAIL_OK; /* logits of all tokens would fill the memory */
    }
    out->batch_count = network->request->samples->batch_count;
    CHECK(memory_new(&out->rows, (size_t)out->batch_count, sizeof out->rows[0]));
    j.recorded = out->rows;
    return run_judgement(network, &j, (visitor){.add = record_batch, .sums = sums_of});
}

void dense_record_fini(dense_record *r)
{
    for (int64_t i = 0; r->rows != NULL && i < r->batch_count; i++) {
        matrix_free(&r->rows[i]);
    }
    memory_free(r->rows);
    *r = (dense_record){0};
}
