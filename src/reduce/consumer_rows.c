#include "reduce/consumer_rows.h"

#include "backend/operations.h"
#include "base/memory.h"

grail_status consumer_rows_open(const site_view *v, int consumer, int64_t width, consumer_rows *out)
{
    CHECK(site_view_consumer(v, consumer, &out->weight));
    const int64_t all = v->site->units * out->weight.features;
    if (width <= 0 || all % width != 0) {
        return error_set(GRAIL_ERROR_INTERNAL, "statistics of %lld features for a consumer of %lld",
                         (long long)width, (long long)all);
    }
    out->positions = all / width;
    out->count = out->weight.others * out->positions;
    out->width = width;
    out->backend = v->backend;
    return GRAIL_OK;
}

void consumer_rows_fini(consumer_rows *r)
{
    unit_matrix_fini(&r->weight);
    *r = (consumer_rows){0};
}

/* Row o * positions + p is W[o, :, p]. */
static void take_row(const consumer_rows *r, int64_t row, float *out)
{
    const float *weight =
        r->weight.values + row / r->positions * r->width * r->positions + row % r->positions;
    for (int64_t j = 0; j < r->width; j++) {
        out[j] = weight[j * r->positions];
    }
}

void consumer_rows_copy(const consumer_rows *r, float *out)
{
    for (int64_t i = 0; i < r->count; i++) {
        take_row(r, i, out + i * r->width);
    }
}

grail_status consumer_rows_read(const consumer_rows *r, int64_t begin, matrix rows)
{
    grail_status status = GRAIL_OK;
    float *values = NULL;
    matrix narrow = no_matrix;
    TRY(memory_new_unset(&values, (size_t)rows.rows, (size_t)r->width * sizeof values[0]));
    for (int64_t i = 0; i < rows.rows; i++) {
        take_row(r, begin + i, values + i * r->width);
    }
    TRY(matrix_import(r->backend, GRAIL_DTYPE_F32, rows.rows, r->width, r->width, values, &narrow));
    TRY(matrix_copy(narrow, rows));
out:
    matrix_free(&narrow);
    memory_free(values);
    return status;
}
