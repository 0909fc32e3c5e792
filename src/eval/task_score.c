#include "eval/task_score.h"

#include <math.h>
#include <stdio.h>

/* The choice of a document with the largest likelihood, or likelihood per character; of equal ones
 * the first. */
static int64_t best_choice(const task_documents *d, const task_document *document,
                           const double *log_likelihoods, bool normalised)
{
    int64_t best = 0;
    double most = -(double)INFINITY;
    for (int64_t i = 0; i < document->count; i++) {
        const int64_t c = document->first + i;
        const double value =
            log_likelihoods[c] / (normalised ? (double)d->choices[c].characters : 1.0);
        if (value > most) {
            most = value;
            best = i;
        }
    }
    return best;
}

/* The share of documents whose best choice is right, and its standard error, of which the variance
 * has n - 1 in its denominator. */
static double share_of_right(const task_documents *d, const double *log_likelihoods,
                             bool normalised, double *error)
{
    const double n = (double)d->count;
    int64_t right = 0;
    for (int64_t i = 0; i < d->count; i++) {
        const task_document *document = &d->documents[i];
        right += best_choice(d, document, log_likelihoods, normalised) == document->gold ? 1 : 0;
    }
    const double share = (double)right / n;
    *error = d->count > 1 ? sqrt(share * (1.0 - share) / (n - 1.0)) : (double)NAN;
    return share;
}

void task_score_fill(const task_documents *d, const choice_rows *rows,
                     const double *log_likelihoods, grail_task_score *out)
{
    *out = (grail_task_score){.documents = d->count,
                              .choices = d->choice_count,
                              .shortened = rows->shortened,
                              .accuracy_norm = (double)NAN,
                              .accuracy_norm_error = (double)NAN};
    snprintf(out->name, sizeof out->name, "%s", d->name);
    snprintf(out->data_sha256, sizeof out->data_sha256, "%s", d->hash);
    out->accuracy = share_of_right(d, log_likelihoods, false, &out->accuracy_error);
    if (d->normalised) {
        out->accuracy_norm = share_of_right(d, log_likelihoods, true, &out->accuracy_norm_error);
    }
}
