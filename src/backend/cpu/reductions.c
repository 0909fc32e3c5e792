#include "backend/cpu/reductions.h"

#include "backend/cpu/lanes.h"
#include "backend/cpu/special.h"

enum { F32_LANES = 32 };

CPU_CLONES static float maximum(int64_t count, const float *x, float start)
{
    float lanes[F32_LANES];
    for (int lane = 0; lane < F32_LANES; lane++) {
        lanes[lane] = start;
    }
    const int64_t vectors_end = count / F32_LANES * F32_LANES;
    for (int64_t i = 0; i < vectors_end; i += F32_LANES) {
        for (int lane = 0; lane < F32_LANES; lane++) {
            lanes[lane] = x[i + lane] > lanes[lane] ? x[i + lane] : lanes[lane];
        }
    }
    for (int64_t i = vectors_end; i < count; i++) {
        lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
    }
    for (int lane = 1; lane < F32_LANES; lane++) {
        lanes[0] = lanes[lane] > lanes[0] ? lanes[lane] : lanes[0];
    }
    return lanes[0];
}

static inline double square(double x)
{
    return x * x;
}

LANE_SUM(total, (int64_t count, const float *x), (double)x[i])
LANE_SUM(squares, (int64_t count, const float *x, double shift), square((double)x[i] - shift))
LANE_SUM(dot, (int64_t count, const float *a, const float *b), (double)a[i] * (double)b[i])
LANE_SUM(weighted_dot, (int64_t count, const float *weight, const float *a, const float *b),
         (double)weight[i] * (double)a[i] * (double)b[i])

CPU_CLONES static void exponentials(int64_t count, const float *x, float shift, float *out)
{
    for (int64_t i = 0; i < count; i++) {
        out[i] = exp_f32(x[i] - shift);
    }
}

CPU_CLONES static void add_values(int64_t count, const float *x, double *sums)
{
    for (int64_t i = 0; i < count; i++) {
        sums[i] += (double)x[i];
    }
}

CPU_CLONES static void add_products(int64_t count, const float *a, const float *b, double *sums)
{
    for (int64_t i = 0; i < count; i++) {
        sums[i] += (double)a[i] * (double)b[i];
    }
}

/* Clones are static, since gcc would export their resolvers. */

float row_maximum(int64_t count, const float *x, float start)
{
    return maximum(count, x, start);
}

double row_sum(int64_t count, const float *x)
{
    return total(count, x);
}

double squares_of_row(int64_t count, const float *x, double shift)
{
    return squares(count, x, shift);
}

double row_dot(int64_t count, const float *a, const float *b)
{
    return dot(count, a, b);
}

double row_dot_weighted(int64_t count, const float *weight, const float *a, const float *b)
{
    return weighted_dot(count, weight, a, b);
}

void accumulate_row(int64_t count, const float *x, double *sums)
{
    add_values(count, x, sums);
}

void accumulate_products(int64_t count, const float *a, const float *b, double *sums)
{
    add_products(count, a, b, sums);
}

/* A block is exponentiated before it is summed: compilers make no vector code of both at once. */
double row_exponentials(int64_t count, const float *x, float shift)
{
    enum { BLOCK = 512 };
    float block[BLOCK];
    double sum = 0.0;
    for (int64_t i = 0; i < count; i += BLOCK) {
        const int64_t length = count - i < BLOCK ? count - i : BLOCK;
        exponentials(length, x + i, shift, block);
        sum += total(length, block);
    }
    return sum;
}
