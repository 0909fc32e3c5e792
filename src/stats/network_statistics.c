#include "stats/network_statistics.h"

#include "arch/gguf_family.h"
#include "backend/operations.h"
#include "base/name_list.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* -- opening ----------------------------------------------------------------------------------- */

static grail_status wrong_shape(const tensor_view *t, const char *expected)
{
    char shape[64];
    return error_set(GRAIL_ERROR_FORMAT, "tensor '%s' is %s %s, expected %s", t->name,
                     grail_dtype_name(t->dtype), shape_text(t->rank, t->shape, shape, sizeof shape),
                     expected);
}

/* How many numbers a tensor has; its shape was checked when the file was opened. */
static int64_t count_of(const tensor_view *t)
{
    int64_t count = 0;
    return shape_elements(t->rank, t->shape, &count) ? count : 0;
}

static int64_t width_of(const tensor_view *t)
{
    return t->rank == 0 ? 1 : t->shape[t->rank - 1];
}

/* The tensor beside `t` with another ending, which has this type and count; NULL where there is
 * none and it is not `required`. */
static grail_status find_beside(const tensor_file *file, const tensor_view *t, const char *own,
                                const char *ending, grail_dtype dtype, int64_t count, bool required,
                                const tensor_view **out)
{
    char name[STATISTICS_NAME_SIZE];
    char expected[80];
    const int stem = (int)(strlen(t->name) - strlen(own));
    snprintf(name, sizeof name, "%.*s%s", stem, t->name, ending);
    *out = tensor_file_find(file, name);
    if (*out == NULL) {
        return required ? error_set(GRAIL_ERROR_FORMAT, "tensor '%s' is missing beside '%s'", name,
                                    t->name)
                        : GRAIL_OK;
    }
    snprintf(expected, sizeof expected, "%lld numbers of %s", (long long)count,
             grail_dtype_name(dtype));
    return (*out)->dtype == dtype && count_of(*out) == count ? GRAIL_OK
                                                             : wrong_shape(*out, expected);
}

static grail_status check_gram(const tensor_file *file, const tensor_view *t)
{
    static const struct {
        const char *ending;
        grail_dtype dtype;
        int rank; /* numbers: width to this power */
    } others[] = {
        {".gram_sum", GRAIL_DTYPE_F64, 1},   {".gram_count", GRAIL_DTYPE_I64, 0},
        {".held_gram", GRAIL_DTYPE_F64, 2},  {".held_sum", GRAIL_DTYPE_F64, 1},
        {".held_count", GRAIL_DTYPE_I64, 0},
    };
    const tensor_view *beside = NULL;
    const int64_t width = width_of(t);
    if (t->dtype != GRAIL_DTYPE_F64 || t->rank != 2 || t->shape[0] != width || width < 1) {
        return wrong_shape(t, "a square matrix of F64");
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const int64_t count = others[i].rank == 0 ? 1 : others[i].rank == 1 ? width : count_of(t);
        CHECK(find_beside(file, t, ".in_gram", others[i].ending, others[i].dtype, count, true,
                          &beside));
    }
    return GRAIL_OK;
}

static grail_status check_tensor(const tensor_file *file, const tensor_view *t)
{
    if (strlen(t->name) >= STATISTICS_NAME_SIZE) {
        return error_set(GRAIL_ERROR_FORMAT, "tensor '%s' has a name of more than %d characters",
                         t->name, STATISTICS_NAME_SIZE - 1);
    }
    if (name_ends_with(t->name, ".in_sum2")) {
        /* Sums of squares have counts of as many matrices beside them, and perhaps sums. */
        const tensor_view *beside = NULL;
        const int64_t width = width_of(t);
        if (t->dtype != GRAIL_DTYPE_F32 || width < 1) {
            return wrong_shape(t, "rows of F32");
        }
        CHECK(find_beside(file, t, ".in_sum2", ".counts", GRAIL_DTYPE_F32, count_of(t) / width,
                          true, &beside));
        return find_beside(file, t, ".in_sum2", ".in_sum", GRAIL_DTYPE_F32, count_of(t), false,
                           &beside);
    }
    if (name_ends_with(t->name, ".in_gram")) {
        return check_gram(file, t);
    }
    return GRAIL_OK;
}

static grail_status check_type(const gguf_metadata *m)
{
    grail_status status = GRAIL_OK;
    char *type = NULL;
    TRY(gguf_get_text(m, "general.type", &type));
    if (type == NULL || strcmp(type, "imatrix") != 0) {
        FAIL(GRAIL_ERROR_FORMAT,
             "this GGUF file holds no statistics: its general.type is '%s', expected 'imatrix'; "
             "make them with grail gram",
             type == NULL ? "missing" : type);
    }
out:
    memory_free(type);
    return status;
}

static grail_status check_content(network_statistics *s)
{
    const gguf_metadata *m = gguf_metadata_of(s->file);
    CHECK(check_type(m));
    s->has_origin = statistics_origin_exists(m);
    if (s->has_origin) {
        CHECK(statistics_origin_read(m, &s->origin));
    }
    for (int64_t i = 0; i < s->file->count; i++) {
        CHECK(check_tensor(s->file, &s->file->tensors[i]));
    }
    return GRAIL_OK;
}

/* Takes over the file. */
static grail_status take_file(const char *path, tensor_file *file, network_statistics **out)
{
    grail_status status = GRAIL_OK;
    network_statistics *s = NULL;
    TRY(memory_new(&s, 1, sizeof *s));
    s->file = file;
    file = NULL;
    TRY(memory_copy_string(&s->path, path));
    TRY(error_in(check_content(s), "%s", path));
    *out = s;
    s = NULL;
out:
    tensor_file_close(file);
    network_statistics_close(s);
    return status;
}

grail_status network_statistics_open(const char *path, network_statistics **out)
{
    tensor_file *file = NULL;
    file_identity identity = {0};
    CHECK(file_identify(path, &identity));
    CHECK(gguf_open(path, &file));
    CHECK(take_file(path, file, out));
    (*out)->identity = identity;
    return GRAIL_OK;
}

grail_status network_statistics_open_bytes(const char *name, const void *bytes, size_t size,
                                           network_statistics **out)
{
    tensor_file *file = NULL;
    CHECK(gguf_open_bytes(name, bytes, size, &file));
    return take_file(name, file, out);
}

void network_statistics_close(network_statistics *s)
{
    if (s != NULL) {
        tensor_file_close(s->file);
        statistics_origin_fini(&s->origin);
        memory_free(s->path);
        memory_free(s);
    }
}

/* -- what they are of -------------------------------------------------------------------------- */

void statistics_precision(const backend *b, char text[STATISTICS_NAME_SIZE])
{
    snprintf(text, STATISTICS_NAME_SIZE, "%s %s", backend_name(b), backend_precision(b));
}

grail_status network_statistics_check(const network_statistics *s, const grail_model *model,
                                      const backend *b)
{
    char hash[HASH_TEXT_SIZE];
    char precision[STATISTICS_NAME_SIZE];
    if (!s->has_origin) {
        return GRAIL_OK;
    }
    CHECK(statistics_hash_model(model, hash));
    if (strcmp(hash, s->origin.model) != 0) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "'%s' holds statistics of another model than '%s': weights or "
                         "configuration differ; take them with grail gram %s",
                         s->path, model->path, model->path);
    }
    statistics_precision(b, precision);
    if (strcmp(precision, s->origin.precision) != 0) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "'%s' was computed in %s, and this run computes in %s; choose the same "
                         "backend and precision for both",
                         s->path, s->origin.precision, precision);
    }
    return GRAIL_OK;
}

void statistics_name(const grail_model *model, int parameter, char name[STATISTICS_NAME_SIZE])
{
    char known[DECODER_NAME_SIZE];
    const char *own = model->graph->parameters[parameter].name;
    const bool is_known =
        model->graph->input_kind == INPUT_TOKENS && gguf_parameter_name(own, known);
    snprintf(name, STATISTICS_NAME_SIZE, "%s", is_known ? known : own);
}

bool network_statistics_has_grams(const network_statistics *s)
{
    return tensor_file_find(s->file, STATISTICS_ENERGY_NAME) != NULL;
}

/* -- reading ----------------------------------------------------------------------------------- */

static const tensor_view *find(const network_statistics *s, const char *name, const char *ending)
{
    char full[STATISTICS_NAME_SIZE];
    snprintf(full, sizeof full, "%.*s%s", (int)(sizeof full - 16), name, ending);
    return tensor_file_find(s->file, full);
}

static grail_status no_statistics(const network_statistics *s, const char *name, const char *what)
{
    return error_set(GRAIL_ERROR_ARGUMENT, "'%s' has no %s of what '%s' reads", s->path, what,
                     name);
}

static grail_status check_width(const network_statistics *s, const tensor_view *t, int64_t found,
                                int64_t width)
{
    return found == width
               ? GRAIL_OK
               : error_set(
                     GRAIL_ERROR_ARGUMENT,
                     "%s: tensor '%s' is of %lld features, but the run needs those of %lld; "
                     "take the statistics with this model, and convolutions fitted in the same way",
                     s->path, t->name, (long long)found, (long long)width);
}

static grail_status not_a_sum(const network_statistics *s, const tensor_view *t, int64_t i,
                              double value)
{
    return error_set(GRAIL_ERROR_NUMERIC,
                     "%s: tensor '%s' holds %g at %lld, which is no such sum; take the statistics "
                     "again",
                     s->path, t->name, value, (long long)i);
}

/* out[count] <- the numbers of an F32 tensor; those of squares are not below 0. */
static grail_status read_numbers(const network_statistics *s, const tensor_view *t, bool squares,
                                 double *out)
{
    const int64_t count = count_of(t);
    const unsigned char *bytes = t->data;
    for (int64_t i = 0; i < count; i++) {
        float value = 0.0F;
        memcpy(&value, bytes + (size_t)i * sizeof value, sizeof value);
        out[i] = (double)value;
        if (!isfinite(value) || (squares && value < 0.0F)) {
            return not_a_sum(s, t, i, (double)value);
        }
    }
    return GRAIL_OK;
}

grail_status network_statistics_vectors(const network_statistics *s, const char *name,
                                        int64_t width, double *squares, double *sums, double *count)
{
    const tensor_view *t = find(s, name, ".in_sum2");
    const tensor_view *sum = find(s, name, ".in_sum");
    const tensor_view *counts = find(s, name, ".counts");
    if (t == NULL) {
        return no_statistics(s, name, "sums of squares");
    }
    if (sums != NULL && sum == NULL) {
        return no_statistics(s, name, "sums (.in_sum), which this selector needs,");
    }
    CHECK(check_width(s, t, width_of(t), width));
    if (count_of(t) != width) { /* of experts, whose vectors lie behind each other */
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: tensor '%s' is of more than one matrix, which no run can take",
                         s->path, t->name);
    }
    CHECK(read_numbers(s, t, true, squares));
    if (sums != NULL) {
        CHECK(read_numbers(s, sum, false, sums));
    }
    return read_numbers(s, counts, true, count);
}

double network_statistics_rounding(double count)
{
    return sqrt(count < 1.0 ? 1.0 : count) * 0x1p-22;
}

/* *out[rows, columns] <- an F64 tensor, on the instance of `like`. */
static grail_status read_matrix(const network_statistics *s, const tensor_view *t, matrix like,
                                matrix *out)
{
    int64_t index = -1;
    CHECK(matrix_new(like.owner, GRAIL_DTYPE_F64, like.rows, like.columns, out));
    CHECK(matrix_upload(*out, t->data));
    tensor_file_release(s->file, t);
    CHECK(matrix_find_non_finite(false, *out, &index));
    return index < 0 ? GRAIL_OK : not_a_sum(s, t, index, (double)NAN);
}

/* fit += all - held, held += held */
static grail_status add_parts(const network_statistics *s, const tensor_view *all,
                              const tensor_view *held, matrix fit_sums, matrix held_sums)
{
    grail_status status = GRAIL_OK;
    matrix m = no_matrix;
    TRY(read_matrix(s, held, held_sums, &m));
    TRY(matrix_add_scaled(1.0, m, held_sums));
    TRY(matrix_add_scaled(-1.0, m, fit_sums));
    matrix_free(&m);
    TRY(read_matrix(s, all, fit_sums, &m));
    TRY(matrix_add_scaled(1.0, m, fit_sums));
out:
    matrix_free(&m);
    return status;
}

/* Rows of all and of those held out. */
static grail_status read_counts(const network_statistics *s, const char *name, int64_t *all,
                                int64_t *held)
{
    const tensor_view *t = find(s, name, ".gram_count");
    memcpy(all, t->data, sizeof *all);
    memcpy(held, find(s, name, ".held_count")->data, sizeof *held);
    return *held >= 0 && *all >= *held ? GRAIL_OK : not_a_sum(s, t, 0, (double)*all);
}

grail_status network_statistics_grams(const network_statistics *s, const char *name,
                                      grail_statistics *fit, grail_statistics *held)
{
    int64_t rows = 0;
    int64_t held_rows = 0;
    const tensor_view *t = find(s, name, ".in_gram");
    if (t == NULL) {
        return no_statistics(s, name,
                             "whole Gram matrix (.in_gram, which grail gram takes if asked)");
    }
    CHECK(check_width(s, t, width_of(t), fit->width));
    CHECK(read_counts(s, name, &rows, &held_rows));
    CHECK(add_parts(s, t, find(s, name, ".held_gram"), fit->gram, held->gram));
    CHECK(
        add_parts(s, find(s, name, ".gram_sum"), find(s, name, ".held_sum"), fit->sum, held->sum));
    fit->count += rows - held_rows;
    fit->weight += (double)(rows - held_rows);
    held->count += held_rows;
    held->weight += (double)held_rows;
    return GRAIL_OK;
}

grail_status network_statistics_energy(const network_statistics *s, int64_t count, double *energy)
{
    const tensor_view *t = tensor_file_find(s->file, STATISTICS_ENERGY_NAME);
    if (t == NULL) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "'%s' has no whole Gram matrices, from which widths are chosen; let grail "
                         "gram take them",
                         s->path);
    }
    if (t->dtype != GRAIL_DTYPE_F64 || count_of(t) != count) {
        return error_in(wrong_shape(t, "a number of F64 for each block"), "%s", s->path);
    }
    memcpy(energy, t->data, (size_t)count * sizeof energy[0]);
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(energy[i]) || energy[i] < 0.0) {
            return not_a_sum(s, t, i, energy[i]);
        }
    }
    return GRAIL_OK;
}
