#include "backend/cpu/reductions.h"

#include "backend/cpu/clones.h"
#include "backend/cpu/special.h"

/* Independent partial results, so that a compiler may keep them in vector registers. */
enum { LANES = 16, F32_LANES = 32 };

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

CPU_CLONES static double total(int64_t count, const float *x)
{
    double lanes[LANES] = {0.0};
    const int64_t vectors_end = count / LANES * LANES;
    for (int64_t i = 0; i < vectors_end; i += LANES) {
        for (int lane = 0; lane < LANES; lane++) {
            lanes[lane] += (double)x[i + lane];
        }
    }
    for (int64_t i = vectors_end; i < count; i++) {
        lanes[i - vectors_end] += (double)x[i];
    }
    double sum = 0.0;
    for (int lane = 0; lane < LANES; lane++) {
        sum += lanes[lane];
    }
    return sum;
}

CPU_CLONES static double squares(int64_t count, const float *x, double shift)
{
    double lanes[LANES] = {0.0};
    const int64_t vectors_end = count / LANES * LANES;
    for (int64_t i = 0; i < vectors_end; i += LANES) {
        for (int lane = 0; lane < LANES; lane++) {
            const double centred = (double)x[i + lane] - shift;
            lanes[lane] += centred * centred;
        }
    }
    for (int64_t i = vectors_end; i < count; i++) {
        lanes[i - vectors_end] += ((double)x[i] - shift) * ((double)x[i] - shift);
    }
    double sum = 0.0;
    for (int lane = 0; lane < LANES; lane++) {
        sum += lanes[lane];
    }
    return sum;
}

CPU_CLONES static double dot(int64_t count, const float *a, const float *b)
{
    double lanes[LANES] = {0.0};
    const int64_t vectors_end = count / LANES * LANES;
    for (int64_t i = 0; i < vectors_end; i += LANES) {
        for (int lane = 0; lane < LANES; lane++) {
            lanes[lane] += (double)a[i + lane] * (double)b[i + lane];
        }
    }
    for (int64_t i = vectors_end; i < count; i++) {
        lanes[i - vectors_end] += (double)a[i] * (double)b[i];
    }
    double sum = 0.0;
    for (int lane = 0; lane < LANES; lane++) {
        sum += lanes[lane];
    }
    return sum;
}

CPU_CLONES static double weighted_dot(int64_t count, const float *weight, const float *a,
                                      const float *b)
{
    double lanes[LANES] = {0.0};
    const int64_t vectors_end = count / LANES * LANES;
    for (int64_t i = 0; i < vectors_end; i += LANES) {
        for (int lane = 0; lane < LANES; lane++) {
            lanes[lane] += (double)weight[i + lane] * (double)a[i + lane] * (double)b[i + lane];
        }
    }
    for (int64_t i = vectors_end; i < count; i++) {
        lanes[i - vectors_end] += (double)weight[i] * (double)a[i] * (double)b[i];
    }
    double sum = 0.0;
    for (int lane = 0; lane < LANES; lane++) {
        sum += lanes[lane];
    }
    return sum;
}

CPU_CLONES static void exponentials(int64_t count, const float *x, float shift, float *out)
{
    for (int64_t i = 0; i < count; i++) {
        out[i] = exp_f32(x[i] - shift);
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
