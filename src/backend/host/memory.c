#include "backend/host/host.h"

#include "base/scratch.h"

#include <string.h>

static bool goes_to_scratch(const backend *b, size_t bytes)
{
    enum { LEAST = 1 << 20 };
    return b->scratch != NULL && bytes >= LEAST;
}

grail_status host_allocate(backend *b, size_t bytes, bool zeroed, void **out)
{
    if (goes_to_scratch(b, bytes)) {
        return scratch_map(b->scratch, bytes, out);
    }
    return zeroed ? memory_new(out, bytes, 1) : memory_new_unset(out, bytes, 1);
}

grail_status host_resize(backend *b, void **memory, size_t bytes)
{
    (void)b;
    return memory_resize(memory, bytes, 1);
}

void host_release(backend *b, void *memory, size_t bytes)
{
    if (goes_to_scratch(b, bytes)) {
        scratch_unmap(memory, bytes);
    } else {
        memory_free(memory);
    }
}

matrix host_matrix(grail_dtype type, const void *memory, int64_t rows, int64_t columns)
{
    return (matrix){.memory = (void *)(uintptr_t)memory,
                    .type = type,
                    .rows = rows,
                    .columns = columns,
                    .stride = columns};
}

int64_t host_rows_grain(int64_t columns)
{
    enum { ELEMENTS = 1 << 15 };
    return columns > 0 && columns < ELEMENTS ? ELEMENTS / columns : 1;
}

grail_status host_over_rows(const operation *o, matrix rows, parallel_body body)
{
    parallel_for(rows.rows, host_rows_grain(rows.columns), body, (void *)(uintptr_t)o);
    return GRAIL_OK;
}

double host_number(matrix m, int64_t row, int64_t column)
{
    const void *element = host_element(m, row, column);
    return m.type == GRAIL_DTYPE_F64 ? *(const double *)element : (double)*(const float *)element;
}

grail_status host_upload(matrix m, const void *values)
{
    if (matrix_is_ordered(m)) {
        return m.owner->kind->weights->order(m.rows, m.columns, values, m.memory);
    }
    const size_t row = (size_t)m.columns * element_size(m.type);
    if (matrix_is_packed(m)) {
        memcpy(m.memory, values, (size_t)m.rows * row);
        return GRAIL_OK;
    }
    for (int64_t r = 0; r < m.rows; r++) {
        memcpy(host_row(m, r), (const unsigned char *)values + (size_t)r * row, row);
    }
    return GRAIL_OK;
}

grail_status host_download(matrix m, void *values)
{
    if (matrix_is_ordered(m)) {
        return m.owner->kind->weights->restore(m.rows, m.columns, m.memory, values);
    }
    const size_t row = (size_t)m.columns * element_size(m.type);
    if (matrix_is_packed(m)) {
        memcpy(values, m.memory, (size_t)m.rows * row);
        return GRAIL_OK;
    }
    for (int64_t r = 0; r < m.rows; r++) {
        memcpy((unsigned char *)values + (size_t)r * row, host_row(m, r), row);
    }
    return GRAIL_OK;
}
