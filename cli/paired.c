#include "paired.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool window_losses_take(window_losses *l, const grail_eval_progress *p)
{
    if (p->count == 0 || p->results == NULL) {
        return true;
    }
    double *means = realloc(l->means, (size_t)(l->count + p->count) * sizeof means[0]);
    if (means == NULL) {
        return false;
    }
    memcpy(means + l->count, p->results, (size_t)p->count * sizeof means[0]);
    l->means = means;
    l->count += p->count;
    return true;
}

void window_losses_fini(window_losses *l)
{
    free(l->means);
    *l = (window_losses){0};
}

paired_difference paired_difference_of(const window_losses *of, const window_losses *from)
{
    const double n = (double)of->count;
    double sum = 0.0;
    double square = 0.0;
    for (int64_t i = 0; i < of->count; i++) {
        sum += of->means[i] - from->means[i];
    }
    for (int64_t i = 0; i < of->count; i++) {
        const double off = of->means[i] - from->means[i] - sum / n;
        square += off * off;
    }
    return (paired_difference){sum / n, of->count > 1 ? sqrt(square / (n - 1.0) / n) : (double)NAN};
}
