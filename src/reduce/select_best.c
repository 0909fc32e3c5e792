/* best: several selectors decide, and the selection whose fit has the least error on rows that were
 * held out is taken. */
#include "backend/operations.h"
#include "reduce/selector.h"

#include <math.h>

/* On a tie the first one wins. */
static const selector *const candidates[] = {
    &selector_obs,      &selector_ziplm, &selector_gram_css,    &selector_slimgpt,
    &selector_leverage, &selector_wanda, &selector_magnitude_l2};

enum { CANDIDATES = sizeof candidates / sizeof candidates[0] };

/* Those that can decide where obs does, with statistics that are there then. */
static bool can_decide(const selector *rule, const site *s)
{
    const unsigned own = selector_needs(rule, s);
    const bool of_consumers = (own & NEEDS_OF_CONSUMERS) != 0;
    const bool of_all = (own & NEEDS_ALL_CONSUMERS) != 0;
    return selector_decides(rule, s->kind) && (own & NEEDS_INPUT_NORMS) == 0 &&
           (s->kind != SITE_STREAM || of_consumers == of_all);
}

static unsigned needs(const site *s)
{
    unsigned all = NEEDS_TRIALS;
    for (int i = 0; i < CANDIDATES; i++) {
        all |= can_decide(candidates[i], s) ? selector_needs(candidates[i], s) : 0;
    }
    return all;
}

static grail_status copy_matrix(matrix in, matrix *out)
{
    grail_status status = GRAIL_OK;
    if (matrix_exists(in)) {
        TRY(matrix_new(in.owner, in.type, in.rows, in.columns, out));
        TRY(matrix_copy(in, *out));
    }
out:
    return status;
}

static void free_copies(int count, input_statistics *inputs)
{
    for (int k = 0; inputs != NULL && k < count; k++) {
        matrix_free(&inputs[k].gram);
        matrix_free(&inputs[k].cross);
    }
    memory_free(inputs);
}

/* Inputs with matrices of their own, which a selector may overwrite. */
static grail_status copy_inputs(const site_view *v, input_statistics **out)
{
    grail_status status = GRAIL_OK;
    input_statistics *inputs = NULL;
    TRY(memory_new(&inputs, (size_t)v->input_count, sizeof inputs[0]));
    for (int k = 0; k < v->input_count; k++) {
        inputs[k] = v->inputs[k];
        inputs[k].gram = no_matrix;
        inputs[k].cross = no_matrix;
    }
    for (int k = 0; k < v->input_count; k++) {
        TRY(copy_matrix(v->inputs[k].gram, &inputs[k].gram));
        TRY(copy_matrix(v->inputs[k].cross, &inputs[k].cross));
    }
    *out = inputs;
    inputs = NULL;
out:
    free_copies(v->input_count, inputs);
    return status;
}

/* Lets a candidate decide and tries its selection. *out is owned. */
static grail_status try_candidate(const site_view *v, const selector *rule, grail_reducer **out,
                                  double *error)
{
    grail_status status = GRAIL_OK;
    site_view own = *v;
    grail_reducer *reducer = NULL;
    own.inputs = NULL;
    TRY(copy_inputs(v, &own.inputs));
    TRY(rule->decide(&own, &reducer));
    free_copies(v->input_count, own.inputs);
    own.inputs = NULL;
    TRY(v->trial.run(v->trial.context, reducer, error));
    reducer->rule = rule->name;
    *out = reducer;
    reducer = NULL;
out:
    free_copies(v->input_count, own.inputs);
    grail_reducer_free(reducer);
    return status;
}

static grail_status decide(const site_view *v, grail_reducer **out)
{
    grail_status status = GRAIL_OK;
    grail_reducer *best = NULL;
    grail_reducer *one = NULL;
    double least = (double)INFINITY;
    for (int i = 0; i < CANDIDATES; i++) {
        double error = 0.0;
        if (!can_decide(candidates[i], v->site)) {
            continue;
        }
        TRY(try_candidate(v, candidates[i], &one, &error));
        if (best == NULL || error < least) {
            grail_reducer_free(best);
            best = one;
            least = error;
        } else {
            grail_reducer_free(one);
        }
        one = NULL;
    }
    *out = best;
    best = NULL;
out:
    grail_reducer_free(best);
    grail_reducer_free(one);
    return status;
}

const selector selector_best = {
    .name = "best",
    .summary = "lets several of these decide, and keeps the units whose fit has the least error "
               "on rows held out",
    .uses_data = true,
    .needs = needs,
    .decide = decide,
};
