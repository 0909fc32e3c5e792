#include "heal/optimizer.h"

#include "backend/operations.h"
#include "base/quantile.h"
#include "exec/matrix_passing.h"
#include "graph/operators.h"

#include <math.h>

static const double first_decay = 0.9;
static const double second_decay = 0.95;
/* Keeps parameters still whose gradients vanish; gradients are far larger otherwise. */
static const double least_gradient = 1e-12;

static void mark(const graph *g, int parameter, bool *trained)
{
    if (parameter != GRAPH_NONE) {
        trained[parameter] = !graph_is_table(g, parameter);
    }
}

void optimizer_mark_trainable(const graph *g, int begin, int end, bool *trained)
{
    for (int i = begin; i < end; i++) {
        const node *n = &g->nodes[i];
        mark(g, n->weight, trained);
        mark(g, operator_of(n)->axis == AXIS_HEADS ? GRAPH_NONE : n->bias, trained); /* of scores */
    }
}

/* -- sizes ------------------------------------------------------------------------------------- */

/* *out[m.rows]: |row|^2, owned even after a failure. */
static grail_status row_squares(matrix m, double **out)
{
    grail_status status = GRAIL_OK;
    matrix sums = {0};
    TRY(memory_new_unset(out, (size_t)m.rows, sizeof **out));
    TRY(matrix_new(m.owner, GRAIL_DTYPE_F64, 1, m.rows, &sums));
    TRY(matrix_row_dots(m, m, sums));
    TRY(matrix_download(sums, *out));
out:
    matrix_free(&sums);
    return status;
}

static grail_status root_mean_square(parameter_store *store, int parameter, double *out)
{
    grail_status status = GRAIL_OK;
    const parameter_entry *entry = NULL;
    double *squares = NULL;
    double sum = 0.0;
    *out = 0.0;
    if (parameter == GRAPH_NONE) {
        return GRAIL_OK;
    }
    TRY(parameter_store_get(store, parameter, &entry));
    const matrix m = entry->values;
    TRY(row_squares(m, &squares));
    for (int64_t r = 0; r < m.rows; r++) {
        sum += squares[r];
    }
    *out = matrix_count(m) > 0 ? sqrt(sum / (double)matrix_count(m)) : 0.0;
out:
    memory_free(squares);
    return status;
}

/* What nine tenths of the values exceed, without their signs. */
static grail_status lower_tenth(parameter_store *store, int parameter, double *out)
{
    grail_status status = GRAIL_OK;
    const parameter_entry *entry = NULL;
    double *squares = NULL;
    TRY(parameter_store_get(store, parameter, &entry));
    const int64_t count = matrix_count(entry->values);
    TRY(row_squares(matrix_reshape(entry->values, count, 1), &squares));
    TRY(quantile_of(0.1, count, squares, out));
    *out = sqrt(*out);
out:
    memory_free(squares);
    return status;
}

/* The size of a bias is at least a tenth of that of the weight which it stands by: many begin at
 * zero. The gains of a norm of rows can be uneven, so that steps by their root mean square
 * would be many times what most of them are. */
static grail_status size_of(const graph *g, parameter_store *store, int parameter, double *out)
{
    const double least_share = 0.1;
    double weight = 0.0;
    CHECK(root_mean_square(store, parameter, out));
    for (int i = 0; i < g->node_count; i++) {
        if (g->nodes[i].bias == parameter) {
            CHECK(root_mean_square(store, g->nodes[i].weight, &weight));
            *out = fmax(*out, least_share * weight);
        }
        if (g->nodes[i].weight == parameter && node_norms_rows(&g->nodes[i])) {
            CHECK(lower_tenth(store, parameter, out));
        }
    }
    return GRAIL_OK;
}

/* -- creation ---------------------------------------------------------------------------------- */

/* The store has its own entry of it. */
static grail_status add_parameter(const graph *g, optimizer *o, int parameter)
{
    trained_parameter *p = &o->of[o->count++];
    *p = (trained_parameter){.index = parameter};
    const matrix weight = o->parameters->entries[parameter].values;
    backend *b = weight.owner;
    CHECK(gradient_store_want(o->gradients, o->parameters, parameter));
    CHECK(size_of(g, o->parameters, parameter, &p->size));
    CHECK(matrix_new_zero(b, weight.type, weight.rows, weight.columns, &p->first));
    CHECK(matrix_new_zero(b, weight.type, weight.rows, weight.columns, &p->second));
    CHECK(matrix_new(b, weight.type, weight.rows, weight.columns, &p->best));
    CHECK(matrix_new(b, weight.type, weight.rows, weight.columns, &o->sums[o->count - 1]));
    return matrix_copy(weight, p->best);
}

static bool is_wanted(const graph *g, const bool *trained, int parameter)
{
    return trained[parameter] && !graph_parameter_is_gone(&g->parameters[parameter]);
}

grail_status optimizer_create(const graph *g, parameter_store *parameters, const bool *trained,
                              optimizer **out)
{
    grail_status status = GRAIL_OK;
    optimizer *o = NULL;
    TRY(memory_new(&o, 1, sizeof *o));
    o->parameters = parameters;
    o->ordered = -1;
    TRY(gradient_store_create(g, parameters->backend, &o->gradients));
    TRY(memory_new(&o->of, (size_t)g->parameter_count, sizeof o->of[0]));
    TRY(memory_new(&o->sums, (size_t)g->parameter_count, sizeof o->sums[0]));
    for (int p = 0; p < g->parameter_count; p++) {
        if (is_wanted(g, trained, p)) {
            TRY(parameter_store_own(parameters, p));
        }
    }
    for (int p = 0; p < g->parameter_count; p++) {
        if (is_wanted(g, trained, p)) {
            TRY(add_parameter(g, o, p));
        }
    }
    *out = o;
    o = NULL;
out:
    optimizer_free(o);
    return status;
}

grail_status optimizer_order_weights(optimizer *o, const graph *g)
{
    for (int i = 0; o->ordered != o->changes && i < o->count; i++) {
        if (graph_is_linear_weight(g, o->of[i].index)) {
            CHECK(parameter_store_order(o->parameters, o->of[i].index));
        }
    }
    o->ordered = o->changes;
    return GRAIL_OK;
}

void optimizer_free(optimizer *o)
{
    if (o == NULL) {
        return;
    }
    for (int i = 0; i < o->count; i++) {
        parameter_store_forget_order(o->parameters, o->of[i].index);
        matrix_free(&o->of[i].first);
        matrix_free(&o->of[i].second);
        matrix_free(&o->of[i].best);
        matrix_free(&o->sums[i]);
    }
    memory_free(o->of);
    memory_free(o->sums);
    gradient_store_free(o->gradients);
    memory_free(o);
}

/* -- gradients of parts ------------------------------------------------------------------------ */

static void swap_with_sum(optimizer *o, int i)
{
    matrix *gradient = &o->gradients->gradients[o->of[i].index];
    const matrix sum = o->sums[i];
    o->sums[i] = *gradient;
    *gradient = sum;
}

/* The first part becomes the sums. */
static grail_status add_part(optimizer *o)
{
    for (int i = 0; i < o->count; i++) {
        if (o->parts == 0) {
            swap_with_sum(o, i);
        } else {
            CHECK(matrix_add(o->sums[i], gradient_of(o->gradients, o->of[i].index), o->sums[i]));
        }
    }
    o->parts++;
    return GRAIL_OK;
}

/* The gradients of all parameters, and room for their messages. */
typedef struct passed_gradients {
    matrix *of;
    void *room;
} passed_gradients;

static grail_status list_gradients(const optimizer *o, passed_gradients *g)
{
    size_t longest = 0;
    CHECK(memory_new(&g->of, (size_t)o->count, sizeof g->of[0]));
    for (int i = 0; i < o->count; i++) {
        const matrix m = gradient_of(o->gradients, o->of[i].index);
        const size_t row = (size_t)m.columns * element_size(m.type);
        longest = row > longest ? row : longest;
        g->of[i] = m;
    }
    char *room = NULL;
    CHECK(memory_new_unset(&room, matrices_room(longest), 1));
    g->room = room;
    return GRAIL_OK;
}

/* Where they lie changes with the first part. */
static grail_status receive_part(optimizer *o, const grail_comm *c, int rank, passed_gradients *g)
{
    for (int i = 0; i < o->count; i++) {
        g->of[i] = gradient_of(o->gradients, o->of[i].index);
    }
    CHECK(matrices_receive(c, rank, g->of, o->count, g->room));
    return add_part(o);
}

static grail_status add_parts_of_ranks(optimizer *o, const grail_comm *c, int ranks,
                                       passed_gradients *g)
{
    if (comm_rank(c) > 0) {
        return comm_rank(c) < ranks ? matrices_send(c, 0, g->of, o->count, g->room) : GRAIL_OK;
    }
    CHECK(add_part(o));
    for (int rank = 1; rank < ranks; rank++) {
        CHECK(receive_part(o, c, rank, g));
    }
    return GRAIL_OK;
}

grail_status optimizer_add_parts(optimizer *o, const grail_comm *c, int ranks)
{
    grail_status status = GRAIL_OK;
    passed_gradients g = {0};
    TRY(gradient_store_settle(o->gradients));
    if (comm_is_shared(c)) {
        TRY(comm_settle(c, list_gradients(o, &g)));
    }
    TRY(add_parts_of_ranks(o, c, ranks, &g));
    TRY(gradient_store_clear(o->gradients));
out:
    memory_free(g.of);
    memory_free(g.room);
    return status;
}

grail_status optimizer_take_sums(optimizer *o, const grail_comm *c)
{
    CHECK(matrices_share(c, 0, o->sums, o->count));
    for (int i = 0; i < o->count; i++) {
        swap_with_sum(o, i);
        o->gradients->cleared[o->of[i].index] = false;
    }
    o->parts = 0;
    return GRAIL_OK;
}

grail_status optimizer_drop_parts(optimizer *o)
{
    o->parts = 0;
    return gradient_store_clear(o->gradients);
}

/* -- steps ------------------------------------------------------------------------------------- */

static matrix weight_of(const optimizer *o, int i)
{
    return o->parameters->entries[o->of[i].index].values;
}

grail_status optimizer_step(optimizer *o, double rate)
{
    o->steps++;
    o->changes++;
    descent step = {.first_decay = first_decay,
                    .second_decay = second_decay,
                    .first_share = 1.0 - pow(first_decay, (double)o->steps),
                    .second_share = 1.0 - pow(second_decay, (double)o->steps),
                    .steps = o->steps,
                    .epsilon = least_gradient};
    for (int i = 0; i < o->count; i++) {
        const trained_parameter *p = &o->of[i];
        step.rate = rate * p->size;
        CHECK(matrix_descend(&step, gradient_of(o->gradients, p->index), p->first, p->second,
                             weight_of(o, i)));
    }
    return gradient_store_clear(o->gradients);
}

/* -- judgement --------------------------------------------------------------------------------- */

/* The weights wait in the memory of the gradients. */
static void swap_with_gradient(optimizer *o, int i)
{
    const int index = o->of[i].index;
    const matrix weight = o->parameters->entries[index].values;
    o->parameters->entries[index].values = o->gradients->gradients[index];
    o->gradients->gradients[index] = weight;
}

grail_status optimizer_begin_judgement(optimizer *o)
{
    o->changes++;
    for (int i = 0; i < o->count; i++) {
        CHECK(matrix_copy(weight_of(o, i), gradient_of(o->gradients, o->of[i].index)));
        CHECK(parameter_store_round(o->parameters, o->of[i].index,
                                    gradient_of(o->gradients, o->of[i].index)));
    }
    for (int i = 0; i < o->count; i++) {
        swap_with_gradient(o, i);
    }
    return GRAIL_OK;
}

grail_status optimizer_end_judgement(optimizer *o, bool is_best)
{
    o->changes++;
    for (int i = 0; i < o->count; i++) {
        if (is_best) {
            CHECK(matrix_copy(weight_of(o, i), o->of[i].best));
        }
        swap_with_gradient(o, i);
    }
    return gradient_store_clear(o->gradients);
}

grail_status optimizer_finish(optimizer *o)
{
    o->changes++;
    for (int i = 0; i < o->count; i++) {
        CHECK(matrix_copy(o->of[i].best, weight_of(o, i)));
    }
    return GRAIL_OK;
}

grail_status optimizer_restart(optimizer *o)
{
    o->steps = 0;
    for (int i = 0; i < o->count; i++) {
        CHECK(matrix_zero(o->of[i].first));
        CHECK(matrix_zero(o->of[i].second));
    }
    CHECK(optimizer_drop_parts(o));
    return optimizer_finish(o);
}
