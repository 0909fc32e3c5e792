#include "stats/network_statistics_write.h"

#include <stdio.h>
#include <string.h>

/* -- the tensors ------------------------------------------------------------------------------- */

void statistics_list_fini(statistics_list *l)
{
    memory_free(l->tensors);
    memory_free(l->names);
    *l = (statistics_list){0};
}

static grail_status add(statistics_list *l, const char *name, const char *ending, grail_dtype dtype,
                        int rank, const int64_t *shape)
{
    const size_t count = (size_t)l->count + 1;
    CHECK(memory_reserve(&l->tensors, count, sizeof l->tensors[0]));
    CHECK(memory_reserve(&l->names, count, sizeof l->names[0]));
    snprintf(l->names[l->count], sizeof l->names[0], "%.*s%s", STATISTICS_NAME_SIZE - 16, name,
             ending);
    l->tensors[l->count] = (tensor_view){.dtype = dtype, .rank = rank};
    memcpy(l->tensors[l->count].shape, shape, (size_t)rank * sizeof shape[0]);
    l->count++;
    return GRAIL_OK;
}

grail_status statistics_list_vectors(statistics_list *l, const char *name, int64_t width)
{
    const int64_t one = 1;
    CHECK(add(l, name, ".in_sum2", GRAIL_DTYPE_F32, 1, &width));
    CHECK(add(l, name, ".in_sum", GRAIL_DTYPE_F32, 1, &width));
    return add(l, name, ".counts", GRAIL_DTYPE_F32, 1, &one);
}

grail_status statistics_list_grams(statistics_list *l, const char *name, int64_t width)
{
    const int64_t one = 1;
    const int64_t square[] = {width, width};
    CHECK(add(l, name, ".in_gram", GRAIL_DTYPE_F64, 2, square));
    CHECK(add(l, name, ".gram_sum", GRAIL_DTYPE_F64, 1, &width));
    CHECK(add(l, name, ".gram_count", GRAIL_DTYPE_I64, 1, &one));
    CHECK(add(l, name, ".held_gram", GRAIL_DTYPE_F64, 2, square));
    CHECK(add(l, name, ".held_sum", GRAIL_DTYPE_F64, 1, &width));
    return add(l, name, ".held_count", GRAIL_DTYPE_I64, 1, &one);
}

grail_status statistics_list_energy(statistics_list *l, int64_t count)
{
    return add(l, STATISTICS_ENERGY_NAME, "", GRAIL_DTYPE_F64, 1, &count);
}

grail_status statistics_list_like(statistics_list *l, const tensor_view *t)
{
    return add(l, t->name, "", t->dtype, t->rank, t->shape);
}

/* -- the file ---------------------------------------------------------------------------------- */

grail_status statistics_file_open(const char *path, const statistics_origin *origin,
                                  statistics_list *l, statistics_file *out)
{
    grail_status status = GRAIL_OK;
    gguf_pairs pairs = {0};
    gguf_pairs_init(&pairs);
    TRY(statistics_origin_put(origin, &pairs));
    for (int64_t i = 0; i < l->count; i++) {
        l->tensors[i].name = l->names[i];
    }
    TRY(output_file_open(path, false, &out->file));
    TRY(gguf_writer_open(out->file.temporary, &pairs, l->count, l->tensors, LAYOUT_EMPTY,
                         &out->writer));
out:
    gguf_pairs_fini(&pairs);
    return status;
}

static grail_status put(const statistics_file *f, const char *name, const char *ending,
                        const void *data, size_t bytes)
{
    char full[STATISTICS_NAME_SIZE];
    snprintf(full, sizeof full, "%.*s%s", STATISTICS_NAME_SIZE - 16, name, ending);
    return tensor_writer_put(f->writer, full, data, bytes);
}

/* Through f32, which llama.cpp's tools read. */
static grail_status put_f32(const statistics_file *f, const char *name, const char *ending,
                            int64_t count, const double *values)
{
    grail_status status = GRAIL_OK;
    float *singles = NULL;
    TRY(memory_new_unset(&singles, (size_t)count, sizeof singles[0]));
    for (int64_t i = 0; i < count; i++) {
        singles[i] = (float)values[i];
    }
    TRY(put(f, name, ending, singles, (size_t)count * sizeof singles[0]));
out:
    memory_free(singles);
    return status;
}

grail_status statistics_file_vectors(const statistics_file *f, const char *name, int64_t width,
                                     const double *squares, const double *sums, int64_t rows)
{
    const double count = (double)rows;
    CHECK(put_f32(f, name, ".in_sum2", width, squares));
    CHECK(put_f32(f, name, ".in_sum", width, sums));
    return put_f32(f, name, ".counts", 1, &count);
}

/* The lower triangle holds the sums; others read whole matrices. */
static void mirror(int64_t width, double *gram)
{
    for (int64_t i = 0; i < width; i++) {
        for (int64_t j = 0; j < i; j++) {
            gram[j * width + i] = gram[i * width + j];
        }
    }
}

/* Writes m + more, of which the second may be missing. */
static grail_status put_sums(const statistics_file *f, const char *name, const char *ending,
                             matrix m, matrix more)
{
    grail_status status = GRAIL_OK;
    matrix sums = no_matrix;
    host_view view = {0};
    TRY(matrix_new(m.owner, GRAIL_DTYPE_F64, m.rows, m.columns, &sums));
    TRY(matrix_copy(m, sums));
    if (matrix_exists(more)) {
        TRY(matrix_add_scaled(1.0, more, sums));
    }
    TRY(host_view_open(sums, GRAIL_DTYPE_F64, HOST_UPDATES, &view));
    if (m.rows > 1) {
        mirror(m.columns, view.values);
    }
    TRY(put(f, name, ending, view.values, (size_t)matrix_count(sums) * sizeof(double)));
out:
    host_view_drop(&view);
    matrix_free(&sums);
    return status;
}

grail_status statistics_file_grams(const statistics_file *f, const char *name,
                                   const grail_statistics *fit, const grail_statistics *held)
{
    const int64_t rows = fit->count + held->count;
    CHECK(statistics_check_finite(fit));
    CHECK(statistics_check_finite(held));
    CHECK(put_sums(f, name, ".in_gram", fit->gram, held->gram));
    CHECK(put_sums(f, name, ".gram_sum", fit->sum, held->sum));
    CHECK(put(f, name, ".gram_count", &rows, sizeof rows));
    CHECK(put_sums(f, name, ".held_gram", held->gram, no_matrix));
    CHECK(put_sums(f, name, ".held_sum", held->sum, no_matrix));
    return put(f, name, ".held_count", &held->count, sizeof held->count);
}

grail_status statistics_file_commit(statistics_file *f, int64_t *bytes)
{
    CHECK(tensor_writer_seal(f->writer));
    *bytes = (int64_t)f->writer->layout.file_size;
    return output_file_commit(&f->file);
}

void statistics_file_fini(statistics_file *f)
{
    tensor_writer_close(f->writer);
    output_file_fini(&f->file);
    *f = (statistics_file){0};
}
