#include "exec/sample_stream.h"

#include <string.h>

grail_status sample_stream_init(sample_stream *s, const graph *g, const backend *b,
                                int64_t batch_count)
{
    *s = (sample_stream){.graph = g, .backend = b, .batch_count = batch_count};
    return GRAIL_OK;
}

static void free_held(matrix *held, int64_t count)
{
    for (int64_t i = 0; held != NULL && i < count; i++) {
        memory_free(held[i].data);
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

static grail_status copy_in(const sample_stream *s, execution *e, int value, const matrix *m)
{
    void *place = NULL;
    const grail_status status = execution_make(e, value, m->width, &place);
    if (status == GRAIL_OK) {
        memcpy(place, m->data, (size_t)(m->rows * m->width) * s->backend->element_size);
    }
    return status;
}

grail_status sample_stream_peek(const sample_stream *s, int64_t batch, execution *e)
{
    grail_status status = GRAIL_OK;
    for (int i = 0; i < s->live_count; i++) {
        TRY(copy_in(s, e, s->live[i], &s->held[batch * s->live_count + i]));
    }
out:
    return status;
}

grail_status sample_stream_read(sample_stream *s, int64_t batch, execution *e)
{
    grail_status status = GRAIL_OK;
    TRY(sample_stream_peek(s, batch, e));
    for (int i = 0; i < s->live_count; i++) {
        matrix *m = &s->held[batch * s->live_count + i];
        memory_free(m->data);
        m->data = NULL;
    }
out:
    return status;
}

grail_status sample_stream_write(sample_stream *s, int64_t batch, const execution *e)
{
    grail_status status = GRAIL_OK;
    for (int i = 0; i < s->next_count; i++) {
        const matrix *from = execution_value(e, s->next_live[i]);
        matrix *to = &s->next[batch * s->next_count + i];
        const size_t count = (size_t)(from->rows * from->width);
        if (from->data == NULL) {
            FAIL(GRAIL_ERROR_INTERNAL, "a live value is missing before node %d", s->position);
        }
        TRY(memory_new_unset(&to->data, count, s->backend->element_size));
        memcpy(to->data, from->data, count * s->backend->element_size);
        to->rows = from->rows;
        to->width = from->width;
    }
out:
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
