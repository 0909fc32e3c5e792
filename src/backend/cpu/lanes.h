/* Sums over a row in independent parts, which a compiler may keep in vector registers, in an order
 * that depends on the count alone. */
#ifndef GRAIL_BACKEND_CPU_LANES_H
#define GRAIL_BACKEND_CPU_LANES_H

#include "base/clones.h"

#include <stdint.h>

enum { LANES = 16 };

/** Defines the function NAME(parameters), one of which is `count`: the f64 sum of `term`, an
 * expression in i, over i < count. */
#define LANE_SUM(name, parameters, term)                                                           \
    CPU_CLONES static double name parameters                                                       \
    {                                                                                              \
        double lanes[LANES] = {0.0};                                                               \
        const int64_t vectors_end = count / LANES * LANES;                                         \
        for (int64_t first = 0; first < vectors_end; first += LANES) {                             \
            for (int lane = 0; lane < LANES; lane++) {                                             \
                const int64_t i = first + lane;                                                    \
                lanes[lane] += (term);                                                             \
            }                                                                                      \
        }                                                                                          \
        for (int64_t i = vectors_end; i < count; i++) {                                            \
            lanes[i - vectors_end] += (term);                                                      \
        }                                                                                          \
        double sum = 0.0;                                                                          \
        for (int lane = 0; lane < LANES; lane++) {                                                 \
            sum += lanes[lane];                                                                    \
        }                                                                                          \
        return sum;                                                                                \
    }

#endif
