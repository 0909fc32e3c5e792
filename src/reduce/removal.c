#include "reduce/removal.h"

#include "base/memory.h"
#include "reduce/plan.h"

#include <math.h>
#include <string.h>

const compensation removal_update = {
    .enabled = true,
    .target = TARGET_LOCAL,
    .bias = BIAS_OFF,
    .conv_fit = CONV_FIT_CHANNEL,
    .ridge = RIDGE_PRIOR,
    .ridge_of = RIDGE_OF_ALL,
    .alpha = {GRAIL_NUMBER_GIVEN, 1e-2},
};

grail_status removal_values(removal *r, double *values)
{
    memset(values, 0, (size_t)r->units * sizeof values[0]);
    for (int i = 0; i < r->count; i++) {
        CHECK(elimination_add_values(r->parts[i], values));
    }
    return GRAIL_OK;
}

int64_t batch_of_one(int64_t wanted, int64_t done)
{
    (void)wanted;
    (void)done;
    return 1;
}

static int64_t next_size(int64_t size)
{
    enum { LESS = 512 };
    return (size - LESS) / 2;
}

int64_t batch_shrinking(int64_t wanted, int64_t done)
{
    enum { FEWEST = 64, MOST = 1024 };
    int64_t size = next_size(wanted);
    for (int64_t taken = 0;; size = next_size(size)) {
        const int64_t batch = size < FEWEST ? FEWEST : size > MOST ? MOST : size;
        taken += batch;
        if (taken > done) {
            return batch;
        }
    }
}

/* The runs of units from which the same number is taken. */
typedef struct taking {
    removal *removal;
    int64_t per_group; /* units of a group */
    int64_t *open;     /* [groups]: how many are still to be taken */
    bool largest;
} taking;

/* The next unit by value among those whose group is open; -1 when there is none. */
static int64_t best_unit(const taking *t, const double *values)
{
    int64_t best = -1;
    const bool *taken = t->removal->taken;
    for (int64_t begin = 0; begin < t->removal->units; begin += t->per_group) {
        const int64_t end = t->open[begin / t->per_group] > 0 ? begin + t->per_group : begin;
        for (int64_t j = begin; j < end; j++) {
            if (!taken[j] &&
                (best < 0 || (t->largest ? values[j] > values[best] : values[j] < values[best]))) {
                best = j;
            }
        }
    }
    return best;
}

static grail_status take_unit(const taking *t, int64_t unit)
{
    removal *r = t->removal;
    for (int i = 0; i < r->count; i++) {
        CHECK(elimination_take(r->parts[i], unit));
    }
    r->taken[unit] = true;
    t->open[unit / t->per_group]--;
    return GRAIL_OK;
}

static grail_status check_values(const removal *r, const double *values)
{
    for (int64_t j = 0; j < r->units; j++) {
        if (!isfinite(values[j])) {
            return error_set(
                GRAIL_ERROR_NUMERIC,
                "the value of unit %lld is not finite; look for NaN or infinity in the "
                "weights and activations",
                (long long)j);
        }
    }
    return GRAIL_OK;
}

static grail_status check_count(const removal *r, int64_t groups, int64_t count)
{
    bool fits = groups > 0 && r->units % groups == 0 && count % groups == 0;
    for (int64_t g = 0; fits && g < groups; g++) {
        int64_t left = 0;
        for (int64_t j = 0; j < r->units / groups; j++) {
            left += r->taken[g * (r->units / groups) + j] ? 0 : 1;
        }
        fits = left >= count / groups;
    }
    return fits ? GRAIL_OK
                : error_set(GRAIL_ERROR_ARGUMENT,
                            "cannot take %lld of %lld units evenly from %lld groups",
                            (long long)count, (long long)r->units, (long long)groups);
}

grail_status removal_take(removal *r, int64_t groups, int64_t count, bool largest, batch_rule batch,
                          double *values_at)
{
    grail_status status = GRAIL_OK;
    double *values = NULL;
    taking t = {.removal = r, .largest = largest};
    TRY(check_count(r, groups, count));
    t.per_group = r->units / groups;
    TRY(memory_new_unset(&values, (size_t)r->units, sizeof values[0]));
    TRY(memory_new_unset(&t.open, (size_t)groups, sizeof t.open[0]));
    for (int64_t g = 0; g < groups; g++) {
        t.open[g] = count / groups;
    }
    for (int64_t done = 0; done < count;) {
        const int64_t left = count - done;
        const int64_t size = batch(count, done);
        TRY(removal_values(r, values));
        TRY(check_values(r, values));
        for (int64_t i = 0; i < (size < left ? size : left); i++) {
            const int64_t unit = best_unit(&t, values);
            TRY(take_unit(&t, unit));
            if (values_at != NULL) {
                values_at[done] = values[unit];
            }
            done++;
        }
    }
out:
    memory_free(values);
    memory_free(t.open);
    return status;
}

grail_status removal_reducer(const removal *r, bool keeps_taken, grail_reducer **out)
{
    grail_status status = GRAIL_OK;
    int64_t *kept = NULL;
    int64_t count = 0;
    TRY(memory_new_unset(&kept, (size_t)r->units, sizeof kept[0]));
    for (int64_t j = 0; j < r->units; j++) {
        if (r->taken[j] == keeps_taken) {
            kept[count++] = j;
        }
    }
    TRY(grail_reducer_from_selection(r->units, count, kept, out));
out:
    memory_free(kept);
    return status;
}

grail_status removal_losses(removal *r, int64_t groups, double *losses)
{
    grail_status status = GRAIL_OK;
    double *costs = NULL;
    double sum = 0.0;
    TRY(memory_new(&costs, (size_t)groups, sizeof costs[0]));
    losses[r->units] = 0.0;
    for (int64_t kept = r->units - groups; kept >= 0; kept -= groups) {
        TRY(removal_take(r, groups, groups, false, batch_of_one, costs));
        for (int64_t g = 0; g < groups; g++) {
            sum += costs[g];
        }
        for (int64_t g = 0; g < groups; g++) {
            losses[kept + g] = sum;
        }
    }
out:
    memory_free(costs);
    return status;
}

grail_status removal_decide(const site_view *v, const removal_options *options, batch_rule batch,
                            grail_reducer **out)
{
    grail_status status = GRAIL_OK;
    removal r = {0};
    TRY(removal_of_costs(v, options, &r));
    TRY(removal_take(&r, v->site->groups, v->site->units - v->kept, false, batch, NULL));
    TRY(removal_reducer(&r, false, out));
out:
    removal_fini(&r);
    return status;
}
