#include "backend/finite.h"
#include "backend/kind.h"
#include "backend/operations.h"

bool matrix_exists(matrix m)
{
    return m.owner != NULL;
}

bool matrix_is_packed(matrix m)
{
    return m.stride == m.columns || m.rows <= 1;
}

bool matrix_is_ordered(matrix m)
{
    return m.type == GRAIL_DTYPE_BF16 && m.owner->kind->weights != NULL;
}

int64_t matrix_count(matrix m)
{
    return m.rows * m.columns;
}

/* The address of an element, in the owner's address space. */
static void *address(matrix m, int64_t row, int64_t column)
{
    return (unsigned char *)m.memory + (size_t)(row * m.stride + column) * element_size(m.type);
}

static grail_status allocate(backend *b, grail_dtype type, int64_t rows, int64_t columns,
                             bool zeroed, matrix *out)
{
    size_t bytes = 0;
    void *memory = NULL;
    if (rows < 0 || columns < 0 || !size_multiply((size_t)rows, (size_t)columns, &bytes) ||
        !size_multiply(bytes, element_size(type), &bytes) || bytes > INT64_MAX) {
        return error_set(GRAIL_ERROR_MEMORY,
                         "a matrix of %lld rows and %lld columns is too large to address",
                         (long long)rows, (long long)columns);
    }
    if (element_size(type) == 2 && type != b->kind->type) {
        if (b->kind->weights == NULL || type != GRAIL_DTYPE_BF16) {
            return error_set(GRAIL_ERROR_INTERNAL, "the backend '%s' holds no weights of %s in %s",
                             b->kind->name, grail_dtype_name(type), b->kind->precision);
        }
        CHECK(b->kind->weights->bytes(rows, columns, &bytes));
    }
    CHECK(b->kind->allocate(b, bytes, zeroed, &memory));
    atomic_fetch_add(&b->bytes, (int64_t)bytes);
    *out = (matrix){.owner = b,
                    .memory = b->kind->address == NULL ? memory : b->kind->address(memory),
                    .type = type,
                    .rows = rows,
                    .columns = columns,
                    .stride = columns,
                    .allocation = memory,
                    .capacity = bytes};
    return GRAIL_OK;
}

grail_status matrix_new(backend *b, grail_dtype type, int64_t rows, int64_t columns, matrix *out)
{
    return allocate(b, type, rows, columns, false, out);
}

grail_status matrix_new_zero(backend *b, grail_dtype type, int64_t rows, int64_t columns,
                             matrix *out)
{
    return allocate(b, type, rows, columns, true, out);
}

void matrix_free(matrix *m)
{
    finite_forget();
    if (m->allocation != NULL) {
        atomic_fetch_sub(&m->owner->bytes, (int64_t)m->capacity);
        m->owner->kind->release(m->owner, m->allocation, m->capacity);
    }
    *m = (matrix){0};
}

grail_status matrix_import(backend *b, grail_dtype type, int64_t rows, int64_t columns,
                           int64_t stride, const void *values, matrix *out)
{
    grail_status status = GRAIL_OK;
    matrix copy = {0};
    const size_t row = (size_t)stride * element_size(type);
    if (b->kind->is_host) {
        *out = (matrix){.owner = b,
                        .memory = (void *)(uintptr_t)values,
                        .type = type,
                        .rows = rows,
                        .columns = columns,
                        .stride = stride};
        return GRAIL_OK;
    }
    TRY(matrix_new(b, type, rows, columns, &copy));
    if (stride == columns) {
        TRY(matrix_upload(copy, values));
    }
    for (int64_t r = 0; stride != columns && r < rows; r++) {
        TRY(matrix_upload(matrix_rows(copy, r, 1),
                          (const unsigned char *)values + (size_t)r * row));
    }
    *out = copy;
    copy = (matrix){0};
out:
    matrix_free(&copy);
    return status;
}

grail_status matrix_shrink(matrix *m, int64_t rows, int64_t columns)
{
    backend *b = m->owner;
    const size_t bytes = (size_t)(rows * columns) * element_size(m->type);
    if (b->kind->resize != NULL && b->scratch == NULL && bytes < m->capacity) {
        CHECK(b->kind->resize(b, &m->allocation, bytes));
        atomic_fetch_sub(&b->bytes, (int64_t)(m->capacity - bytes));
        m->memory = m->allocation;
        m->capacity = bytes;
    }
    m->rows = rows;
    m->columns = columns;
    m->stride = columns;
    return GRAIL_OK;
}

static matrix view_of(matrix m, void *memory, int64_t rows, int64_t columns, int64_t stride)
{
    m.memory = memory;
    m.rows = rows;
    m.columns = columns;
    m.stride = stride;
    m.allocation = NULL;
    m.capacity = 0;
    return m;
}

matrix matrix_rows(matrix m, int64_t begin, int64_t count)
{
    return view_of(m, address(m, begin, 0), count, m.columns, m.stride);
}

matrix matrix_columns(matrix m, int64_t begin, int64_t count)
{
    return view_of(m, address(m, 0, begin), m.rows, count, m.stride);
}

matrix matrix_every_row(matrix m, int64_t step)
{
    return view_of(m, m.memory, (m.rows + step - 1) / step, m.columns, m.stride * step);
}

matrix matrix_repeat_row(matrix m, int64_t rows)
{
    return view_of(m, m.memory, rows, m.columns, 0);
}

matrix matrix_reshape(matrix m, int64_t rows, int64_t columns)
{
    return view_of(m, m.memory, rows, columns, columns);
}

grail_status matrix_upload(matrix m, const void *values)
{
    finite_forget();
    return matrix_count(m) == 0 ? GRAIL_OK : m.owner->kind->upload(m, values);
}

grail_status matrix_download(matrix m, void *values)
{
    return matrix_count(m) == 0 ? GRAIL_OK : m.owner->kind->download(m, values);
}

/* Between two types of matrices. */
static grail_status convert(grail_dtype from, grail_dtype to, int64_t count, const void *in,
                            void *out);

/* Between f64 and a type of 16 bits, by f32. */
static grail_status convert_by_f32(grail_dtype from, grail_dtype to, int64_t count, const void *in,
                                   void *out)
{
    enum { PIECE = 256 };
    float piece[PIECE];
    for (int64_t begin = 0; begin < count; begin += PIECE) {
        const int64_t n = begin + PIECE < count ? PIECE : count - begin;
        const unsigned char *here = (const unsigned char *)in + (size_t)begin * element_size(from);
        unsigned char *there = (unsigned char *)out + (size_t)begin * element_size(to);
        CHECK(convert(from, GRAIL_DTYPE_F32, n, here, piece));
        CHECK(convert(GRAIL_DTYPE_F32, to, n, piece, there));
    }
    return GRAIL_OK;
}

static grail_status convert(grail_dtype from, grail_dtype to, int64_t count, const void *in,
                            void *out)
{
    if (element_size(from) + element_size(to) == 10) {
        return convert_by_f32(from, to, count, in, out);
    }
    if (element_size(from) == 2) {
        return convert_to_f32(from, in, count, out);
    }
    if (element_size(to) == 2) {
        return convert_from_f32(to, in, count, out);
    }
    for (int64_t i = 0; i < count; i++) {
        if (to == GRAIL_DTYPE_F64) {
            ((double *)out)[i] = (double)((const float *)in)[i];
        } else {
            ((float *)out)[i] = (float)((const double *)in)[i];
        }
    }
    return GRAIL_OK;
}

/* Rows that are converted at once. */
static int64_t rows_at_once(matrix m)
{
    enum { ELEMENTS = 1 << 20 };
    const int64_t rows = m.columns > 0 && !matrix_is_ordered(m) ? ELEMENTS / m.columns : m.rows;
    return rows < 1 ? 1 : rows > m.rows ? m.rows : rows;
}

/* The same where a device converts, which it does at the speed of its memory. */
static grail_status transfer_converted(matrix m, grail_dtype type, bool up, void *values)
{
    grail_status status = GRAIL_OK;
    matrix piece = no_matrix;
    const int64_t step = rows_at_once(m);
    const size_t row = (size_t)m.columns * element_size(type);
    TRY(matrix_new(m.owner, type, step, m.columns, &piece));
    for (int64_t begin = 0; begin < m.rows; begin += step) {
        const int64_t rows = begin + step < m.rows ? step : m.rows - begin;
        const matrix part = matrix_rows(m, begin, rows);
        const matrix there = matrix_rows(piece, 0, rows);
        unsigned char *here = (unsigned char *)values + (size_t)begin * row;
        TRY(up ? matrix_upload(there, here) : matrix_copy(part, there));
        TRY(up ? matrix_copy(there, part) : matrix_download(there, here));
    }
out:
    matrix_free(&piece);
    return status;
}

/* Copies between packed host values of `type` and a matrix of another type, some rows at a time. A
 * device converts where fewer bytes pass then; what comes up into 16 bits is converted here, where
 * a number beyond their range is an error. */
static grail_status transfer(matrix m, grail_dtype type, bool up, void *values)
{
    grail_status status = GRAIL_OK;
    void *piece = NULL;
    if (!m.owner->kind->is_host && element_size(type) < element_size(m.type)) {
        return transfer_converted(m, type, up, values);
    }
    const int64_t step = rows_at_once(m);
    const size_t row = (size_t)m.columns * element_size(type);
    TRY(memory_new_unset(&piece, (size_t)(step * m.columns), element_size(m.type)));
    for (int64_t begin = 0; begin < m.rows; begin += step) {
        const int64_t rows = begin + step < m.rows ? step : m.rows - begin;
        const matrix part = matrix_rows(m, begin, rows);
        void *here = (unsigned char *)values + (size_t)begin * row;
        if (up) {
            TRY(convert(type, m.type, rows * m.columns, here, piece));
            TRY(matrix_upload(part, piece));
        } else {
            TRY(matrix_download(part, piece));
            TRY(convert(m.type, type, rows * m.columns, piece, here));
        }
    }
out:
    memory_free(piece);
    return status;
}

static bool is_mapped(matrix m)
{
    return m.owner->kind->is_host && matrix_is_packed(m) && !matrix_is_ordered(m);
}

static grail_status upload_as(matrix m, grail_dtype type, const void *values)
{
    if (type == m.type) {
        return matrix_upload(m, values);
    }
    if (is_mapped(m)) {
        return convert(type, m.type, matrix_count(m), values, m.memory);
    }
    return transfer(m, type, true, (void *)(uintptr_t)values);
}

static grail_status download_as(matrix m, grail_dtype type, void *values)
{
    if (type == m.type) {
        return matrix_download(m, values);
    }
    if (is_mapped(m)) {
        return convert(m.type, type, matrix_count(m), m.memory, values);
    }
    return transfer(m, type, false, values);
}

grail_status matrix_upload_f32(matrix m, const float *values)
{
    return upload_as(m, GRAIL_DTYPE_F32, values);
}

grail_status matrix_download_f32(matrix m, float *values)
{
    return download_as(m, GRAIL_DTYPE_F32, values);
}

grail_status host_view_open(matrix m, grail_dtype type, host_access access, host_view *out)
{
    grail_status status = GRAIL_OK;
    host_view v = {.of = m, .type = type, .access = access};
    if (matrix_is_ordered(m) && type != GRAIL_DTYPE_F32) {
        FAIL(GRAIL_ERROR_INTERNAL, "an ordered weight is seen as f32 alone");
    }
    if (m.type == type && is_mapped(m)) {
        v.values = m.memory;
    } else {
        TRY(memory_new_unset(&v.copy, (size_t)matrix_count(m), element_size(type)));
        v.values = v.copy;
        if (access != HOST_WRITES) {
            TRY(download_as(m, type, v.copy));
        }
    }
    *out = v;
    v.copy = NULL;
out:
    memory_free(v.copy);
    return status;
}

grail_status host_view_close(host_view *v)
{
    const bool writes = v->copy != NULL && v->access != HOST_READS;
    const grail_status status = writes ? upload_as(v->of, v->type, v->copy) : GRAIL_OK;
    host_view_drop(v);
    return status;
}

void host_view_drop(host_view *v)
{
    memory_free(v->copy);
    *v = (host_view){0};
}
