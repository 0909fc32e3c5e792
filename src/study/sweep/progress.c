/* What a sweep tells of itself, and whether it has to end. */
#include "study/sweep/sweep_state.h"

#include "study/results/line_text.h"

#include <math.h>
#include <stdio.h>

static double mean_seconds(const sweep *s, variant wanted)
{
    double sum = 0.0;
    int64_t count = 0;
    if (s->variant_done[wanted] > 0) {
        return s->variant_seconds[wanted] / (double)s->variant_done[wanted];
    }
    for (int v = 0; v < VARIANTS; v++) {
        sum += s->variant_seconds[v];
        count += s->variant_done[v];
    }
    return sum / (double)count; /* NaN before the first */
}

static double seconds_left(const sweep *s)
{
    double sum = 0.0;
    for (int64_t i = 0; i < s->count; i++) {
        sum += s->state[i] == CELL_DONE ? 0.0 : mean_seconds(s, s->cells[i].settings.variant);
    }
    return sum / (double)s->worker_count;
}

void sweep_stop(sweep *s, grail_status status, const char *message)
{
    if (s->status == GRAIL_OK) {
        s->status = status;
        snprintf(s->message, sizeof s->message, "%s", message);
    }
}

bool sweep_is_asked_for(const sweep *s, int64_t cell)
{
    return s->data[s->cells[cell].checkpoint].model != NULL;
}

int64_t sweep_count_cells(const sweep *s, bool found)
{
    int64_t count = 0;
    for (int64_t i = 0; s->data != NULL && i < s->count; i++) {
        count += sweep_is_asked_for(s, i) && (s->found[i] || !found) ? 1 : 0;
    }
    return count;
}

/* With the mutex held. `outcome` NULL: no cell has ended. */
static void tell(sweep *s, const sweep_outcome *outcome)
{
    char text[SWEEP_CELL_TEXT];
    char result[SWEEP_RESULT_TEXT];
    if (s->options->observer == NULL) {
        return;
    }
    const grail_sweep_progress progress = {
        .cells = sweep_count_cells(s, false),
        .found = sweep_count_cells(s, true),
        .done = s->done,
        .failed = s->failed,
        .seconds_left = seconds_left(s),
        .cell = outcome == NULL ? NULL : sweep_cell_text(outcome->cell, text),
        .error = outcome == NULL || outcome->error[0] == 0 ? NULL : outcome->error,
        .result = outcome == NULL || outcome->error[0] != 0
                      ? NULL
                      : sweep_result_text(&outcome->line, result),
    };
    if (s->options->observer(s->options->observer_user, &progress) != 0) {
        sweep_stop(s, GRAIL_ERROR_CANCELLED,
                   "cancelled; the results file keeps the finished cells");
    }
}

int sweep_should_stop(void *user)
{
    sweep *s = user;
    pthread_mutex_lock(&s->mutex);
    tell(s, NULL);
    const int stopped = s->status != GRAIL_OK;
    pthread_mutex_unlock(&s->mutex);
    return stopped;
}

void sweep_count_cell(sweep *s, const sweep_outcome *outcome, const result_line *line)
{
    s->done++;
    s->failed += outcome->error[0] == 0 ? 0 : 1;
    s->variant_seconds[line->settings.variant] += line->measures.seconds[SECONDS_TOTAL];
    s->variant_done[line->settings.variant]++;
    tell(s, outcome);
}
