#include "exec/sample_stream.h"

#include "backend/operations.h"
#include "exec/matrix_passing.h"

grail_status sample_stream_init(sample_stream *s, const graph *g, backend *b, int64_t batch_count)
{
    *s = (sample_stream){.graph = g, .backend = b, .batch_count = batch_count};
    return GRAIL_OK;
}

static void free_held(matrix *held, int64_t count)
{
    for (int64_t i = 0; held != NULL && i < count; i++) {
        matrix_free(&held[i]);
    }
    memory_free(held);
}

void sample_stream_fini(sample_stream *s)
{
    free_held(s->held, s->batch_count * s->live_count);
    free_held(s->next, s->batch_count * s->next_count);
    memory_free(s->live);
    memory_free(s->next_live);
    *s = (sample_stream){0};
}

static grail_status copy_held(matrix from, matrix *to)
{
    if (!matrix_exists(from)) { /* another rank holds the batch */
        return GRAIL_OK;
    }
    CHECK(matrix_new(from.owner, from.type, from.rows, from.columns, to));
    return matrix_copy(from, *to);
}

grail_status sample_stream_copy(const sample_stream *s, sample_stream *out)
{
    const int64_t count = s->batch_count * s->live_count;
    CHECK(sample_stream_init(out, s->graph, s->backend, s->batch_count));
    out->position = s->position;
    CHECK(memory_new(&out->live, (size_t)s->live_count, sizeof out->live[0]));
    CHECK(memory_new(&out->held, (size_t)count, sizeof out->held[0]));
    out->live_count = s->live_count;
    for (int i = 0; i < s->live_count; i++) {
        out->live[i] = s->live[i];
    }
    for (int64_t i = 0; i < count; i++) {
        CHECK(copy_held(s->held[i], &out->held[i]));
    }
    return GRAIL_OK;
}

grail_status sample_stream_move_begin(sample_stream *s, int position)
{
    grail_status status = GRAIL_OK;
    int *live = NULL;
    TRY(memory_new(&live, (size_t)s->graph->value_count, sizeof live[0]));
    int count = graph_live_values(s->graph, position, live);
    /* the network's input is not a value of the sample stream: ids are held by the caller */
    int kept = 0;
    for (int i = 0; i < count; i++) {
        if (live[i] != s->graph->input) {
            live[kept++] = live[i];
        }
    }
    TRY(memory_new(&s->next, (size_t)(s->batch_count * kept), sizeof s->next[0]));
    s->next_live = live;
    s->next_count = kept;
    s->position = position;
    live = NULL;
out:
    memory_free(live);
    return status;
}

static const batch_slice whole = {.first = 0, .count = 1, .all = 1};

grail_status sample_stream_peek_slice(const sample_stream *s, int64_t batch, batch_slice slice,
                                      execution *e)
{
    for (int i = 0; i < s->live_count; i++) {
        const matrix held = s->held[batch * s->live_count + i];
        const int64_t rows = held.rows / slice.all; /* of a sample */
        CHECK(execution_put(e, s->live[i],
                            slice.count == slice.all
                                ? held
                                : matrix_rows(held, slice.first * rows, slice.count * rows)));
    }
    return GRAIL_OK;
}

grail_status sample_stream_peek(const sample_stream *s, int64_t batch, execution *e)
{
    return sample_stream_peek_slice(s, batch, whole, e);
}

static bool all_ordered(const graph *g, const int *values, int count)
{
    int i = 0;
    while (i < count && g->routes[values[i]] == GRAPH_NONE) {
        i++;
    }
    return i == count;
}

bool sample_stream_has_slices(const sample_stream *s)
{
    return all_ordered(s->graph, s->live, s->live_count) &&
           all_ordered(s->graph, s->next_live, s->next_count);
}

static grail_status missing(const sample_stream *s)
{
    return error_set(GRAIL_ERROR_INTERNAL, "a live value is missing before node %d", s->position);
}

grail_status sample_stream_read(sample_stream *s, int64_t batch, execution *e)
{
    for (int i = 0; i < s->live_count; i++) {
        matrix *held = &s->held[batch * s->live_count + i];
        CHECK(matrix_exists(*held) ? GRAIL_OK : missing(s));
        execution_adopt(e, s->live[i], held);
    }
    return GRAIL_OK;
}

void sample_stream_drop(sample_stream *s, int64_t batch)
{
    for (int i = 0; i < s->live_count; i++) {
        matrix_free(&s->held[batch * s->live_count + i]);
    }
}

/* -- picking samples --------------------------------------------------------------------------- */

int64_t batch_of_sample(const int64_t *firsts, int64_t batch_count, int64_t sample)
{
    int64_t low = 0;
    int64_t high = batch_count;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (firsts[middle] <= sample) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static int64_t batch_of(const sample_stream *s, const sample_pick *p, int64_t sample)
{
    return p->firsts == NULL ? sample : batch_of_sample(p->firsts, s->batch_count, sample);
}

static int holder_of(const sample_stream *s, const sample_pick *p, int64_t sample)
{
    return comm_is_shared(p->comm) ? p->holders[batch_of(s, p, sample)] : 0;
}

static int runner_of(const sample_pick *p)
{
    return comm_is_shared(p->comm) ? p->runner : 0;
}

/* The rows of a sample in the value that is held of its batch, on the rank that holds it. */
static matrix held_rows(const sample_stream *s, int live, const sample_pick *p, int64_t sample)
{
    const int64_t batch = batch_of(s, p, sample);
    const matrix held = s->held[batch * s->live_count + live];
    if (p->firsts == NULL) {
        return held;
    }
    const int64_t rows = held.rows / (p->firsts[batch + 1] - p->firsts[batch]);
    return matrix_rows(held, (sample - p->firsts[batch]) * rows, rows);
}

static grail_status take_sample(const sample_stream *s, int live, const sample_pick *p,
                                int64_t sample, matrix place, void *room)
{
    const int holder = holder_of(s, p, sample);
    return holder == runner_of(p) ? matrix_copy(held_rows(s, live, p, sample), place)
                                  : matrices_receive(p->comm, holder, &place, 1, room);
}

/* Columns of a value, which a rank that holds no batch does not see. */
static int64_t width_of(const sample_stream *s, int live, const sample_pick *p)
{
    const int64_t batch = batch_of(s, p, p->samples[0]);
    return comm_is_shared(p->comm) ? p->widths[live]
                                   : s->held[batch * s->live_count + live].columns;
}

/* What can fail on one rank: the places of all values, and room for what passes between ranks. */
static grail_status make_places(const sample_stream *s, const sample_pick *p, execution *e,
                                char **room)
{
    int64_t widest = 0;
    for (int i = 0; i < s->live_count; i++) {
        const int value = s->live[i];
        matrix place = {0};
        if (s->graph->routes[value] != GRAPH_NONE) {
            return error_set(
                GRAIL_ERROR_UNSUPPORTED,
                "samples cannot be picked from rows that a router chose, which are not ordered by "
                "sample; train blocks that put them back before their end");
        }
        if (comm_rank(p->comm) == runner_of(p)) {
            CHECK(execution_make(e, value, width_of(s, i, p), &place));
        }
        widest = width_of(s, i, p) > widest ? width_of(s, i, p) : widest;
    }
    return comm_is_shared(p->comm)
               ? memory_new_unset(room, matrices_room((size_t)widest * sizeof(double)), 1)
               : GRAIL_OK;
}

/* The rows of one live value of some samples, one sample after the other. */
static grail_status pick_value(const sample_stream *s, int live, const sample_pick *p,
                               const execution *e, void *room)
{
    const bool runs = comm_rank(p->comm) == runner_of(p);
    const matrix place = runs ? execution_value(e, s->live[live]) : no_matrix;
    const int64_t rows = place.rows / p->count;
    for (int64_t i = 0; i < p->count; i++) {
        const int64_t sample = p->samples[i];
        if (runs) {
            CHECK(take_sample(s, live, p, sample, matrix_rows(place, i * rows, rows), room));
        } else if (comm_rank(p->comm) == holder_of(s, p, sample)) {
            const matrix held = held_rows(s, live, p, sample);
            CHECK(matrices_send(p->comm, p->runner, &held, 1, room));
        }
    }
    return GRAIL_OK;
}

grail_status sample_stream_pick(const sample_stream *s, const sample_pick *pick, execution *e)
{
    grail_status status = GRAIL_OK;
    char *room = NULL;
    TRY(comm_settle(pick->comm, make_places(s, pick, e, &room)));
    for (int i = 0; i < s->live_count; i++) {
        TRY(pick_value(s, i, pick, e, room));
    }
out:
    memory_free(room);
    return status;
}

/* Whether the value may be moved in place of copied: memory that fits it, on the host, where
 * that costs the clearing of new pages. */
static bool may_be_moved(matrix value)
{
    const size_t bytes = (size_t)matrix_count(value) * element_size(value.type);
    return backend_is_host(value.owner) && value.allocation != NULL &&
           value.capacity <= bytes + bytes / 8;
}

/* What is there is kept for the other samples. */
grail_status sample_stream_write_slice(sample_stream *s, int64_t batch, batch_slice slice,
                                       execution *e)
{
    for (int i = 0; i < s->next_count; i++) {
        matrix *to = &s->next[batch * s->next_count + i];
        const matrix from = execution_value(e, s->next_live[i]);
        const int64_t rows = from.rows / slice.count; /* of a sample */
        CHECK(matrix_exists(from) ? GRAIL_OK : missing(s));
        if (slice.count == slice.all && may_be_moved(from)) {
            matrix_free(to);
            execution_take(e, s->next_live[i], to);
            continue;
        }
        if (!matrix_exists(*to)) {
            CHECK(matrix_new(s->backend, from.type,
                             slice.count == slice.all ? from.rows : rows * slice.all, from.columns,
                             to));
        }
        CHECK(matrix_copy(from, matrix_rows(*to, slice.first * rows, from.rows)));
    }
    return GRAIL_OK;
}

grail_status sample_stream_write(sample_stream *s, int64_t batch, execution *e)
{
    return sample_stream_write_slice(s, batch, whole, e);
}

grail_status sample_stream_keep(sample_stream *s, int64_t batch, const execution *e, int64_t sample)
{
    for (int i = 0; i < s->live_count; i++) {
        matrix *to = &s->held[batch * s->live_count + i];
        const matrix all = execution_value(e, s->live[i]);
        const int64_t rows = all.rows / e->shape.samples;
        CHECK(matrix_exists(all) ? GRAIL_OK : missing(s));
        CHECK(matrix_new(s->backend, all.type, rows, all.columns, to));
        CHECK(matrix_copy(matrix_rows(all, sample * rows, rows), *to));
    }
    return GRAIL_OK;
}

bool sample_stream_holds(const sample_stream *s, int64_t batch)
{
    return s->live_count == 0 || matrix_exists(s->held[(batch + 1) * s->live_count - 1]);
}

static grail_status gather_columns(matrix index, matrix *m)
{
    grail_status status = GRAIL_OK;
    matrix narrow = {0};
    TRY(matrix_new(m->owner, m->type, m->rows, index.columns, &narrow));
    TRY(matrix_take_columns(index, *m, narrow));
    matrix_free(m);
    *m = narrow;
    narrow = (matrix){0};
out:
    matrix_free(&narrow);
    return status;
}

/* A list of columns on the instance. */
static grail_status place_list(backend *b, int64_t count, const int64_t *list, matrix *out)
{
    grail_status status = GRAIL_OK;
    double *index = NULL;
    TRY(memory_new_unset(&index, (size_t)count, sizeof index[0]));
    for (int64_t j = 0; j < count; j++) {
        index[j] = (double)list[j];
    }
    TRY(matrix_new(b, GRAIL_DTYPE_F64, 1, count, out));
    TRY(matrix_upload(*out, index));
out:
    memory_free(index);
    return status;
}

grail_status sample_stream_gather(sample_stream *s, int value, int64_t columns, const int64_t *kept)
{
    grail_status status = GRAIL_OK;
    matrix index = {0};
    TRY(place_list(s->backend, columns, kept, &index));
    for (int64_t i = 0; i < s->batch_count * s->live_count; i++) {
        if (s->live[i % s->live_count] == value && matrix_exists(s->held[i])) {
            TRY(gather_columns(index, &s->held[i]));
        }
    }
out:
    matrix_free(&index);
    return status;
}

void sample_stream_move_end(sample_stream *s)
{
    free_held(s->held, s->batch_count * s->live_count);
    memory_free(s->live);
    s->held = s->next;
    s->live = s->next_live;
    s->live_count = s->next_count;
    s->next = NULL;
    s->next_live = NULL;
    s->next_count = 0;
}
