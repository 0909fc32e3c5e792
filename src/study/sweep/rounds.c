/* Cells on several ranks, which take them in rounds, one each; rank 0 writes the lines of a round.
 */
#include "study/sweep/sweep_state.h"

#include "study/results/line_text.h"
#include "study/sweep/rank_lines.h"

#include <grail/machine.h>

#include <stdio.h>

/* Writes the line of a cell, or of a dense network where `cell` is NULL. */
static grail_status write_text(sweep *s, const sweep_cell *cell, const buffer *text)
{
    grail_status status = GRAIL_OK;
    int64_t version = 0;
    json_t *document = NULL;
    sweep_outcome outcome = {.cell = cell};
    CHECK(sweep_results_append_text(&s->results, text));
    if (cell == NULL) {
        return GRAIL_OK;
    }
    TRY(line_parse_text("the line of a rank", (const char *)text->bytes, text->size - 1, &version,
                        &document));
    TRY(line_read("the line of a rank", document, &outcome.line));
    if (outcome.line.kind == LINE_FAILURE) {
        snprintf(outcome.error, sizeof outcome.error, "%s", outcome.line.error);
    }
    sweep_count_cell(s, &outcome, &outcome.line);
out:
    sweep_outcome_fini(&outcome);
    json_decref(document);
    return status;
}

grail_status sweep_write_round(sweep *s, const int64_t *chosen, const buffer *own)
{
    grail_status status = GRAIL_OK;
    const grail_comm *comm = s->options->comm;
    buffer *lines = NULL;
    TRY(memory_new(&lines, (size_t)comm_size(comm), sizeof lines[0]));
    for (int rank = 0; rank < comm_size(comm); rank++) {
        buffer_init(&lines[rank], LONGEST_LINE);
    }
    TRY(rank_lines_gather(comm, own, lines));
    for (int rank = 0; rank < comm_size(comm); rank++) {
        if (lines[rank].size > 0) {
            TRY(write_text(s, chosen == NULL ? NULL : &s->cells[chosen[rank]], &lines[rank]));
        }
    }
    status = s->status == GRAIL_OK ? GRAIL_OK : error_set(s->status, "%s", s->message);
    TRY(comm_settle(comm, status));
out:
    for (int rank = 0; lines != NULL && rank < comm_size(comm); rank++) {
        buffer_fini(&lines[rank]);
    }
    memory_free(lines);
    return status;
}

/* This rank's cell of a round. */
static grail_status measure_own(sweep *s, int64_t index, buffer *text)
{
    grail_status status = GRAIL_OK;
    sweep_outcome outcome = {.cell = &s->cells[index]};
    grail_memory_peak_begin();
    sweep_measure_cell(&s->workers[comm_rank(s->options->comm)], &outcome);
    if (outcome.status != GRAIL_ERROR_CANCELLED) {
        const result_line line = sweep_outcome_line(&outcome);
        TRY(sweep_results_text(&line, text));
    }
out:
    sweep_outcome_fini(&outcome);
    return status;
}

/* A cell for each rank, -1 for those that find none; whether there is any. All ranks choose alike.
 */
static bool choose_round(sweep *s, int64_t *chosen)
{
    bool waiting = false;
    bool any = false;
    for (int rank = 0; rank < s->worker_count; rank++) {
        chosen[rank] = sweep_choose_cell(&s->workers[rank], &waiting);
        if (chosen[rank] >= 0) {
            s->state[chosen[rank]] = CELL_DONE; /* when the round is */
            s->workers[rank].last = chosen[rank];
            any = true;
        }
    }
    return any;
}

grail_status sweep_run_rounds(sweep *s)
{
    grail_status status = GRAIL_OK;
    int64_t *chosen = NULL;
    buffer own = {0};
    const int rank = comm_rank(s->options->comm);
    buffer_init(&own, LONGEST_LINE);
    TRY(memory_new(&chosen, (size_t)s->worker_count, sizeof chosen[0]));
    for (int i = 0; i < s->worker_count; i++) {
        s->workers[i] = (worker){.sweep = s, .last = -1};
    }
    while (choose_round(s, chosen)) {
        own.size = 0;
        TRY(chosen[rank] < 0 ? GRAIL_OK : measure_own(s, chosen[rank], &own));
        TRY(sweep_write_round(s, chosen, &own));
    }
out:
    grail_session_close(s->workers[rank].session);
    buffer_fini(&own);
    memory_free(chosen);
    return status;
}
