#include "reduce/fold.h"

#include <string.h>

static double squared_norm(const float *x, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        sum += (double)x[i] * (double)x[i];
    }
    return sum;
}

void subunits_by_norm(int64_t units, int64_t subunits, int64_t features_per_unit, int64_t columns,
                      const float *in, int64_t *order)
{
    const int64_t block = features_per_unit / subunits * columns;
    for (int64_t j = 0; j < units; j++) {
        const float *unit = in + j * subunits * block;
        int64_t *own = order + j * subunits;
        for (int64_t s = 0; s < subunits; s++) {
            const double norm = squared_norm(unit + s * block, block);
            int64_t place = s;
            while (place > 0 && squared_norm(unit + own[place - 1] * block, block) < norm) {
                own[place] = own[place - 1];
                place--;
            }
            own[place] = s;
        }
    }
}

static void add_to_centroids(int64_t units, int64_t subunits, const int64_t *labels, int64_t block,
                             const float *in, const int64_t *order, const int64_t *members,
                             double *centroids)
{
    for (int64_t j = 0; j < units; j++) {
        double *centroid = centroids + labels[j] * subunits * block;
        for (int64_t s = 0; s < subunits; s++) {
            const float *from = in + (j * subunits + order[j * subunits + s]) * block;
            for (int64_t i = 0; i < block; i++) {
                centroid[s * block + i] += (double)from[i] / (double)members[labels[j]];
            }
        }
    }
}

static double squared_distance(const double *a, const float *b, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        const double d = a[i] - (double)b[i];
        sum += d * d;
    }
    return sum;
}

/* Greedy assignment by distance[place, block]: the closest free pair first. */
static void assign_closest(int64_t subunits, const double *distance, bool *place_taken,
                           bool *block_taken, int64_t *own)
{
    memset(place_taken, 0, (size_t)subunits * sizeof place_taken[0]);
    memset(block_taken, 0, (size_t)subunits * sizeof block_taken[0]);
    for (int64_t round = 0; round < subunits; round++) {
        int64_t best = -1;
        for (int64_t pair = 0; pair < subunits * subunits; pair++) {
            const bool is_free = !place_taken[pair / subunits] && !block_taken[pair % subunits];
            if (is_free && (best < 0 || distance[pair] < distance[best])) {
                best = pair;
            }
        }
        own[best / subunits] = best % subunits;
        place_taken[best / subunits] = true;
        block_taken[best % subunits] = true;
    }
}

grail_status subunits_to_centroid(int64_t units, int64_t subunits, int64_t clusters,
                                  const int64_t *labels, int64_t features_per_unit, int64_t columns,
                                  const float *in, int64_t *order)
{
    enum { ROUNDS = 8 };
    grail_status status = GRAIL_OK;
    const int64_t block = features_per_unit / subunits * columns;
    const size_t centroid_bytes = (size_t)(clusters * subunits * block) * sizeof(double);
    double *centroids = NULL; /* [clusters * subunits, block] */
    double *distance = NULL;  /* [subunits, subunits] */
    bool *taken = NULL;       /* [2 * subunits] */
    int64_t *members = NULL;  /* [clusters] */
    int64_t *fresh = NULL;    /* [subunits] */
    bool changed = true;
    TRY(memory_new(&centroids, (size_t)(clusters * subunits), (size_t)block * sizeof centroids[0]));
    TRY(memory_new(&distance, (size_t)(subunits * subunits), sizeof distance[0]));
    TRY(memory_new(&taken, (size_t)(2 * subunits), sizeof taken[0]));
    TRY(memory_new(&members, (size_t)clusters, sizeof members[0]));
    TRY(memory_new(&fresh, (size_t)subunits, sizeof fresh[0]));
    for (int64_t j = 0; j < units; j++) {
        members[labels[j]]++;
    }
    for (int round = 0; round < ROUNDS && changed; round++) {
        changed = false;
        memset(centroids, 0, centroid_bytes);
        add_to_centroids(units, subunits, labels, block, in, order, members, centroids);
        for (int64_t j = 0; j < units; j++) {
            const double *centroid = centroids + labels[j] * subunits * block;
            for (int64_t pair = 0; pair < subunits * subunits; pair++) {
                distance[pair] =
                    squared_distance(centroid + pair / subunits * block,
                                     in + (j * subunits + pair % subunits) * block, block);
            }
            assign_closest(subunits, distance, taken, taken + subunits, fresh);
            int64_t *own = order + j * subunits;
            const size_t bytes = (size_t)subunits * sizeof own[0];
            changed = changed || memcmp(own, fresh, bytes) != 0;
            memcpy(own, fresh, bytes);
        }
    }
out:
    memory_free(centroids);
    memory_free(distance);
    memory_free(taken);
    memory_free(members);
    memory_free(fresh);
    return status;
}

void subunits_apply_rows(int64_t units, int64_t subunits, const int64_t *order,
                         int64_t features_per_unit, int64_t columns, const float *in, float *out)
{
    const int64_t block = features_per_unit / subunits * columns;
    for (int64_t s = 0; s < units * subunits; s++) {
        const int64_t unit = s / subunits;
        memcpy(out + s * block, in + (unit * subunits + order[s]) * block,
               (size_t)block * sizeof out[0]);
    }
}

void subunits_apply_columns(int64_t units, int64_t subunits, const int64_t *order,
                            int64_t features_per_unit, int64_t rows, const float *in, float *out)
{
    for (int64_t r = 0; r < rows; r++) {
        subunits_apply_rows(units, subunits, order, features_per_unit, 1,
                            in + r * units * features_per_unit,
                            out + r * units * features_per_unit);
    }
}
