#include "base/parallel.h"

#include <omp.h>

int parallel_threads(void)
{
    return omp_get_max_threads();
}

void parallel_set_threads(int threads)
{
    omp_set_num_threads(threads > 0 ? threads : 1);
}

void parallel_for(int64_t count, int64_t grain, parallel_body body, void *context)
{
    const int64_t step = grain > 0 ? grain : 1;
    if (count <= step || omp_in_parallel()) {
        if (count > 0) {
            body(0, count, context);
        }
        return;
    }
    const int64_t pieces = (count + step - 1) / step;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t p = 0; p < pieces; p++) {
        const int64_t begin = p * step;
        const int64_t end = begin + step < count ? begin + step : count;
        body(begin, end, context);
    }
}
