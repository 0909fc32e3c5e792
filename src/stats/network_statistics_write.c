#include "stats/network_statistics_write.h"

#include "base/checksum.h"
#include "base/name_list.h"
#include "base/option_values.h"

#include <math.h>
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

/* Adds one of another file's tensors. */
static grail_status statistics_list_like(statistics_list *l, const tensor_view *t)
{
    return add(l, t->name, "", t->dtype, t->rank, t->shape);
}

/* -- the file ---------------------------------------------------------------------------------- */

grail_status statistics_file_lay_out(const char *path, const statistics_origin *origin,
                                     statistics_list *l, layout_start start, statistics_file *out)
{
    grail_status status = GRAIL_OK;
    gguf_pairs pairs = {0};
    gguf_pairs_init(&pairs);
    TRY(statistics_origin_put(origin, &pairs));
    for (int64_t i = 0; i < l->count; i++) {
        l->tensors[i].name = l->names[i];
    }
    TRY(gguf_writer_open(path, &pairs, l->count, l->tensors, start, &out->writer));
out:
    gguf_pairs_fini(&pairs);
    return status;
}

grail_status statistics_file_open(const char *path, const statistics_origin *origin,
                                  statistics_list *l, statistics_file *out)
{
    CHECK(output_file_open(path, false, &out->file));
    return statistics_file_lay_out(out->file.temporary, origin, l, LAYOUT_EMPTY, out);
}

static grail_status put(const statistics_file *f, const char *name, const char *ending,
                        const void *data, size_t bytes)
{
    char full[STATISTICS_NAME_SIZE];
    snprintf(full, sizeof full, "%.*s%s", STATISTICS_NAME_SIZE - 16, name, ending);
    CHECK(tensor_writer_put(f->writer, full, data, bytes));
    char text[CHECKSUM_TEXT_SIZE];
    return f->checksums == NULL
               ? GRAIL_OK
               : json_put(f->checksums, full, json_text(checksum_text(data, bytes, text)));
}

grail_status statistics_file_energy(const statistics_file *f, int64_t count, const double *energies)
{
    return put(f, STATISTICS_ENERGY_NAME, "", energies, (size_t)count * sizeof energies[0]);
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
    if (f->file.path != NULL) { /* else it holds no descriptor */
        output_file_fini(&f->file);
    }
    *f = (statistics_file){0};
}

/* -- adding files, one tensor after another ---------------------------------------------------- */

/* The files that are added. */
typedef struct addition {
    network_statistics **parts; /* [count], owned */
    int count;
} addition;

static grail_status open_parts(int count, const char *const paths[], addition *a)
{
    CHECK(memory_new(&a->parts, (size_t)count, sizeof a->parts[0]));
    for (a->count = 0; a->count < count; a->count++) {
        network_statistics **part = &a->parts[a->count];
        CHECK(option_given("paths", "path of a file", paths[a->count]));
        CHECK(network_statistics_open(paths[a->count], part));
        if (!(*part)->has_origin) {
            a->count++;
            return error_set(GRAIL_ERROR_ARGUMENT,
                             "'%s' does not say of which model and context it is, as files of "
                             "grail gram do; add files of another tool with that tool",
                             paths[a->count - 1]);
        }
    }
    return GRAIL_OK;
}

static grail_status check_tensors(const addition *a)
{
    const network_statistics *first = a->parts[0];
    for (int p = 1; p < a->count; p++) {
        for (int64_t i = 0; i < first->file->count; i++) {
            const tensor_view *t = &first->file->tensors[i];
            const tensor_view *found = tensor_file_find(a->parts[p]->file, t->name);
            const bool same = found != NULL && found->dtype == t->dtype && found->bytes == t->bytes;
            CHECK(same ? GRAIL_OK
                       : error_set(
                             GRAIL_ERROR_ARGUMENT,
                             "'%s' has a tensor '%s' that '%s' lacks or has in another size; take "
                             "all with the same options, whole Gram matrices for all or none",
                             first->path, t->name, a->parts[p]->path));
        }
        if (a->parts[p]->file->count > first->file->count) {
            return error_set(GRAIL_ERROR_ARGUMENT,
                             "'%s' has tensors that '%s' lacks; take all with the same options, "
                             "whole Gram matrices for all or none",
                             a->parts[p]->path, first->path);
        }
    }
    return GRAIL_OK;
}

/* -- sums -------------------------------------------------------------------------------------- */

static grail_status no_sum(const network_statistics *part, const tensor_view *t, int64_t i)
{
    return error_set(GRAIL_ERROR_NUMERIC,
                     "%s: tensor '%s' holds no finite sum at %lld; take the statistics again",
                     part->path, t->name, (long long)i);
}

/* sums[count] += the numbers of a tensor */
static grail_status add_reals(const network_statistics *part, const tensor_view *t, int64_t count,
                              double *sums)
{
    const unsigned char *bytes = t->data;
    const bool wide = t->dtype == GRAIL_DTYPE_F64;
    for (int64_t i = 0; i < count; i++) {
        float single = 0.0F;
        double value = 0.0;
        memcpy(wide ? (void *)&value : (void *)&single,
               bytes + (size_t)i * (wide ? sizeof value : sizeof single),
               wide ? sizeof value : sizeof single);
        sums[i] += wide ? value : (double)single;
        if (!isfinite(sums[i])) {
            return no_sum(part, t, i);
        }
    }
    return GRAIL_OK;
}

static grail_status put_reals(const addition *a, const tensor_view *t, const statistics_file *f)
{
    grail_status status = GRAIL_OK;
    double *sums = NULL;
    int64_t count = 0;
    if (!shape_elements(t->rank, t->shape, &count)) {
        FAIL(GRAIL_ERROR_FORMAT, "tensor '%s' is too large to address", t->name);
    }
    TRY(memory_new(&sums, (size_t)count, sizeof sums[0]));
    for (int p = 0; p < a->count; p++) {
        const tensor_view *part = tensor_file_find(a->parts[p]->file, t->name);
        TRY(add_reals(a->parts[p], part, count, sums));
        tensor_file_release(a->parts[p]->file, part);
    }
    if (t->dtype == GRAIL_DTYPE_F32) {
        /* each behind what was read */
        unsigned char *out = (unsigned char *)sums;
        for (int64_t i = 0; i < count; i++) {
            const float single = (float)sums[i];
            memcpy(out + (size_t)i * sizeof single, &single, sizeof single);
        }
    }
    TRY(tensor_writer_put(f->writer, t->name, sums, t->bytes));
out:
    memory_free(sums);
    return status;
}

static grail_status put_count(const addition *a, const tensor_view *t, const statistics_file *f)
{
    int64_t sum = 0;
    for (int p = 0; p < a->count; p++) {
        int64_t rows = 0;
        memcpy(&rows, tensor_file_find(a->parts[p]->file, t->name)->data, sizeof rows);
        if (rows < 0 || __builtin_add_overflow(sum, rows, &sum)) {
            return no_sum(a->parts[p], t, 0);
        }
    }
    return tensor_writer_put(f->writer, t->name, &sum, sizeof sum);
}

/* -- all --------------------------------------------------------------------------------------- */

static int64_t count_named(const tensor_file *file, const char *ending)
{
    int64_t count = 0;
    for (int64_t i = 0; i < file->count; i++) {
        count += name_ends_with(file->tensors[i].name, ending) ? 1 : 0;
    }
    return count;
}

grail_status grail_gram_add(int count, const char *const paths[], const grail_gram_options *options,
                            grail_gram_facts *facts)
{
    grail_status status = GRAIL_OK;
    addition a = {0};
    statistics_list list = {0};
    statistics_file f = {0};
    int64_t bytes = 0;
    TRY(OPTION_ROOM_OF(grail_gram_options, options));
    TRY(option_given("path", "path", options->path));
    TRY(name_check_ending(options->path, "a GGUF file of statistics", ".gguf"));
    TRY(option_given("paths", "list of files", paths));
    TRY(option_integer("count", "the number of files", count, 1));
    TRY(open_parts(count, paths, &a));
    for (int p = 1; p < a.count; p++) {
        TRY(statistics_origin_add(a.parts[0]->path, &a.parts[0]->origin, a.parts[p]->path,
                                  &a.parts[p]->origin));
    }
    TRY(check_tensors(&a));
    /* What grail gram does not write cannot be added. */
    for (int64_t i = 0; i < a.parts[0]->file->count; i++) {
        const tensor_view *t = &a.parts[0]->file->tensors[i];
        const bool is_count = t->dtype == GRAIL_DTYPE_I64 && t->bytes == sizeof(int64_t);
        if (!is_count && t->dtype != GRAIL_DTYPE_F32 && t->dtype != GRAIL_DTYPE_F64) {
            FAIL(GRAIL_ERROR_FORMAT, "%s: tensor '%s' is %s, and no sum", a.parts[0]->path, t->name,
                 grail_dtype_name(t->dtype));
        }
        TRY(statistics_list_like(&list, t));
    }
    TRY(statistics_file_open(options->path, &a.parts[0]->origin, &list, &f));
    const tensor_file *first = a.parts[0]->file;
    for (int64_t i = 0; i < first->count; i++) {
        const tensor_view *t = &first->tensors[i];
        TRY(t->dtype == GRAIL_DTYPE_I64 ? put_count(&a, t, &f) : put_reals(&a, t, &f));
    }
    TRY(statistics_file_commit(&f, &bytes));
    if (facts != NULL) {
        *facts = (grail_gram_facts){.matrices = count_named(a.parts[0]->file, ".in_sum2"),
                                    .grams = count_named(a.parts[0]->file, ".in_gram"),
                                    .samples = a.parts[0]->origin.samples,
                                    .context = a.parts[0]->origin.context,
                                    .bytes = bytes};
    }
out:
    statistics_file_fini(&f);
    statistics_list_fini(&list);
    for (int i = 0; a.parts != NULL && i < a.count; i++) {
        network_statistics_close(a.parts[i]);
    }
    memory_free(a.parts);
    return status;
}
