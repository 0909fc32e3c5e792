#include "solve/drift.h"

#include "stats/constant_features.h"

grail_status drift_sums_create(backend *b, int64_t width, drift_sums *out)
{
    CHECK(statistics_create(b, width, width, &out->input));
    return matrix_new_zero(b, GRAIL_DTYPE_F64, width, width, &out->square);
}

void drift_sums_fini(drift_sums *s)
{
    grail_statistics_free(s->input);
    matrix_free(&s->square);
    *s = (drift_sums){0};
}

grail_status drift_sums_accumulate(drift_sums *s, matrix z, matrix x)
{
    CHECK(matrix_subtract(x, z, x));
    CHECK(statistics_accumulate(s->input, z, x));
    return matrix_gram(x, s->square);
}

chunk_sums drift_chunk_sums(drift_sums *part, drift_sums *total)
{
    chunk_sums s = chunk_sums_of_statistics(part->input, total->input);
    chunk_sums_append_triangle(&s, &part->square, &total->square);
    return s;
}

grail_status drift_sums_settle(drift_sums *s)
{
    int64_t index = -1;
    CHECK(statistics_settle(s->input));
    CHECK(matrix_find_non_finite(true, s->square, &index));
    if (index >= 0) {
        return error_set(GRAIL_ERROR_NUMERIC,
                         "drift: the sum of squares of feature %lld is not finite",
                         (long long)(index / s->square.columns));
    }
    CHECK(matrix_fill_upper(s->input->gram));
    return matrix_fill_upper(s->square);
}
