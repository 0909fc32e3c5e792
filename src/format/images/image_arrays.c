#include "format/images/image_arrays.h"

#include "base/name_list.h"

#include <math.h>
#include <string.h>

static bool is_array(const char *name)
{
    return name_is_of_kind(name, ".npy");
}

/* Whether the path is no file, and names those of several inputs. */
static bool image_arrays_are_named(const char *path)
{
    return strchr(path, '=') != NULL && !file_exists(path) && !file_is_directory(path);
}

grail_status image_arrays_recognise(const char *path, bool *out)
{
    name_list list = {0};
    if (image_arrays_are_named(path)) {
        *out = true;
        return GRAIL_OK;
    }
    if (!file_is_directory(path)) {
        *out = is_array(path);
        return GRAIL_OK;
    }
    const grail_status status = name_list_read(path, is_array, &list);
    *out = list.count > 0;
    name_list_fini(&list);
    return status;
}

static grail_status add_samples(image_arrays *a, array_file *f, int64_t count, int64_t channels,
                                int64_t height, int64_t width)
{
    if (a->count > 0 && (channels != a->channels || height != a->height || width != a->width)) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "%s: its samples are [%lld, %lld, %lld], those of the files before it "
                         "[%lld, %lld, %lld]; all must have one shape",
                         f->path, (long long)channels, (long long)height, (long long)width,
                         (long long)a->channels, (long long)a->height, (long long)a->width);
    }
    a->channels = channels;
    a->height = height;
    a->width = width;
    f->first = a->count;
    f->count = count;
    a->count += count;
    return GRAIL_OK;
}

/* Samples of arrays with an even number of dimensions are along the first; `in_row`: of three
 * dimensions, too, where one of two is one sample. */
static grail_status take_shape(image_arrays *a, bool in_row, array_file *f)
{
    const npy_array *n = &f->array;
    const int rank = n->rank;
    const bool is_row = in_row && (rank == 2 || rank == 3);
    const bool is_map = rank > 2;
    const int64_t *last = n->shape + rank;
    const int64_t channels = is_row ? last[-2] : is_map ? last[-3] : last[-1];
    const int64_t height = is_row ? last[-1] : is_map ? last[-2] : 1;
    const int64_t width = is_map && !is_row ? last[-1] : 1;
    const int64_t count = (rank % 2 == 0) != is_row ? n->shape[0] : 1;
    return add_samples(a, f, count, channels, height, width);
}

/* The same of one of several inputs, whose layout says what its dimensions are. */
static grail_status take_laid(image_arrays *a, array_file *f)
{
    const array_layout *l = &a->layout;
    const int rank = f->array.rank;
    const int64_t *sizes = f->array.shape + (rank == l->rank ? 1 : 0); /* of a sample */
    if (rank != l->rank && (rank != l->rank - 1 || rank == 0)) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "%s: has %d dimensions, but '%s' has %d, of which the "
                         "first is that of the samples",
                         f->path, rank, l->name, l->rank);
    }
    const int64_t count = rank == l->rank ? f->array.shape[0] : 1;
    return l->rank == 1   ? add_samples(a, f, count, 1, 1, 1)
           : l->rank == 2 ? add_samples(a, f, count, sizes[0], 1, 1)
           : l->rank == 4 ? add_samples(a, f, count, sizes[0], sizes[1], sizes[2])
                          : add_samples(a, f, count, sizes[l->channels_last ? 1 : 0],
                                        sizes[l->channels_last ? 0 : 1], 1);
}

/* Takes *path over, and leaves NULL. */
static grail_status add_file(image_arrays *a, char **path)
{
    CHECK(memory_reserve(&a->files, (size_t)a->file_count + 1, sizeof a->files[0]));
    array_file *f = &a->files[a->file_count++];
    *f = (array_file){.path = *path};
    *path = NULL;
    CHECK(file_map_open(&f->map, f->path));
    CHECK(error_in(npy_read_array(f->map.data, f->map.size, a->layout.of_integers, &f->array), "%s",
                   f->path));
    return a->layout.rank > 0 ? take_laid(a, f) : take_shape(a, false, f);
}

static void hash_files(image_arrays *a)
{
    hash_state state;
    hash_begin(&state);
    for (int64_t i = 0; i < a->file_count; i++) {
        const char *slash = strrchr(a->files[i].path, '/');
        const char *name = slash == NULL ? a->files[i].path : slash + 1;
        hash_add(&state, name, strlen(name) + 1);
        hash_add(&state, a->files[i].map.data, a->files[i].map.size);
    }
    hash_end(&state, a->hash);
}

/* A folder of other files beside arrays is none of both kinds. */
static grail_status add_folder(image_arrays *a, const char *directory)
{
    grail_status status = GRAIL_OK;
    name_list list = {0};
    char *path = NULL;
    TRY(name_list_read(directory, NULL, &list));
    for (size_t i = 0; i < list.count; i++) {
        if (!is_array(list.names[i])) {
            FAIL(GRAIL_ERROR_FORMAT,
                 "%s: holds .npy files, and '%s', which is none; give a folder of arrays alone",
                 directory, list.names[i]);
        }
        TRY(path_join(&path, directory, list.names[i]));
        TRY(add_file(a, &path));
    }
out:
    memory_free(path);
    name_list_fini(&list);
    return status;
}

static grail_status open_part(image_arrays *a, const char *path, const array_layout *layout)
{
    CHECK(memory_reserve(&a->parts, (size_t)a->part_count + 1, sizeof a->parts[0]));
    image_arrays *part = &a->parts[a->part_count++];
    CHECK(image_arrays_open_part(path, layout, part));
    if (part->count != a->parts[0].count) {
        return error_set(GRAIL_ERROR_SHAPE, "%s has %lld samples, but %s has %lld", path,
                         (long long)part->count, a->parts[0].files[0].path,
                         (long long)a->parts[0].count);
    }
    a->count = part->count;
    a->channels += part->channels * part->height * part->width;
    return GRAIL_OK;
}

/* NAME=PATH,NAME=PATH: each in its order. */
static grail_status open_parts(const char *names, const array_layout *layouts, image_arrays *a)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    hash_state state;
    hash_begin(&state);
    a->height = a->width = 1;
    for (const char *at = names; at != NULL;) {
        const size_t size = strcspn(at, ",");
        const char *sign = memchr(at, '=', size);
        if (sign == NULL) {
            FAIL(GRAIL_ERROR_ARGUMENT, "%s: '%.*s' names no input, expected NAME=PATH", names,
                 (int)size, at);
        }
        TRY(memory_format(&path, "%.*s", (int)(size - (size_t)(sign + 1 - at)), sign + 1));
        TRY(open_part(a, path, &layouts[a->part_count]));
        hash_add(&state, a->parts[a->part_count - 1].hash, HASH_TEXT_SIZE - 1);
        memory_free(path);
        path = NULL;
        at = at[size] == ',' ? at + size + 1 : NULL;
    }
    hash_end(&state, a->hash);
out:
    memory_free(path);
    return status;
}

grail_status image_arrays_open_part(const char *path, const array_layout *layout, image_arrays *out)
{
    grail_status status = GRAIL_OK;
    char *own = NULL;
    *out = (image_arrays){.layout = *layout};
    if (file_is_directory(path)) {
        TRY(add_folder(out, path));
    } else {
        TRY(memory_copy_string(&own, path));
        TRY(add_file(out, &own));
    }
    hash_files(out);
out:
    memory_free(own);
    return status;
}

grail_status image_arrays_open(const char *path, const array_layout *layouts, image_arrays *out)
{
    *out = (image_arrays){0};
    return layouts == NULL ? image_arrays_open_part(path, &(array_layout){0}, out)
                           : open_parts(path, layouts, out);
}

grail_status image_arrays_lay_in_row(image_arrays *arrays)
{
    arrays->count = 0;
    for (int64_t i = 0; i < arrays->file_count; i++) {
        CHECK(take_shape(arrays, true, &arrays->files[i]));
    }
    return GRAIL_OK;
}

void image_arrays_lay_last(image_arrays *arrays, int64_t channels)
{
    if (arrays->width == channels) {
        arrays->width = arrays->height;
        arrays->height = arrays->channels;
        arrays->channels = channels;
        arrays->layout.channels_last = true;
    }
}

void image_arrays_close(image_arrays *arrays)
{
    for (int64_t i = 0; i < arrays->file_count; i++) {
        file_map_close(&arrays->files[i].map);
        memory_free(arrays->files[i].path);
    }
    memory_free(arrays->files);
    for (int64_t i = 0; i < arrays->part_count; i++) {
        image_arrays_close(&arrays->parts[i]);
    }
    memory_free(arrays->parts);
    *arrays = (image_arrays){0};
}

static const array_file *file_of(const image_arrays *a, int64_t i)
{
    const array_file *f = a->files;
    while (i >= f->first + f->count) {
        f++;
    }
    return f;
}

/* The bytes of sample i, *size of them. */
static const unsigned char *bytes_of(const image_arrays *a, int64_t i, size_t *size)
{
    const array_file *f = file_of(a, i);
    *size = 0;
    (void)dtype_bytes(f->array.dtype, a->channels * a->height * a->width, size);
    return f->array.data + (size_t)(i - f->first) * *size;
}

static grail_status load_parts(const image_arrays *a, int64_t i, float *out)
{
    for (int64_t k = 0; k < a->part_count; k++) {
        const image_arrays *part = &a->parts[k];
        CHECK(error_in(image_arrays_load(part, i, out), "%s", part->files[0].path));
        out += part->channels * part->height * part->width;
    }
    return GRAIL_OK;
}

/* Integers that F32 holds exactly. */
static grail_status load_integers(const image_arrays *a, int64_t i, float *out)
{
    const array_file *f = file_of(a, i);
    const array_layout *l = &a->layout;
    const int64_t count = a->channels * a->height * a->width;
    for (int64_t k = 0; k < count; k++) {
        const int64_t value = npy_integer_at(&f->array, (i - f->first) * count + k);
        if (value < l->least || value > l->most) {
            return error_set(GRAIL_ERROR_NUMERIC,
                             "sample %lld has %lld at position %lld of '%s', expected %lld to %lld",
                             (long long)(i - f->first), (long long)value, (long long)k, l->name,
                             (long long)l->least, (long long)l->most);
        }
        out[k] = (float)value;
    }
    return GRAIL_OK;
}

grail_status image_arrays_load(const image_arrays *arrays, int64_t i, float *out)
{
    grail_status status = GRAIL_OK;
    if (arrays->part_count > 0) {
        return load_parts(arrays, i, out);
    }
    if (arrays->layout.of_integers) {
        return load_integers(arrays, i, out);
    }
    const array_file *f = file_of(arrays, i);
    const int64_t channels = arrays->channels;
    const int64_t plane = arrays->height * arrays->width;
    size_t size = 0;
    const unsigned char *bytes = bytes_of(arrays, i, &size);
    float *planes = NULL;
    TRY(memory_new_unset(&planes, (size_t)(channels * plane), sizeof planes[0]));
    if (f->array.dtype == GRAIL_DTYPE_U8) {
        for (int64_t v = 0; v < channels * plane; v++) {
            planes[v] = (float)bytes[v];
        }
    } else if (f->array.dtype == GRAIL_DTYPE_F64) {
        for (int64_t v = 0; v < channels * plane; v++) {
            double value = 0.0;
            memcpy(&value, bytes + (size_t)v * sizeof value, sizeof value);
            planes[v] = (float)value;
        }
    } else {
        TRY(convert_to_f32(f->array.dtype, bytes, channels * plane, planes));
    }
    const int64_t bad = find_non_finite(planes, channels * plane);
    if (bad >= 0) {
        FAIL(GRAIL_ERROR_NUMERIC, "holds %s at element %lld",
             isnan(planes[bad]) ? "NaN" : "infinity", (long long)bad);
    }
    const bool is_turned = !arrays->layout.channels_last;
    for (int64_t at = 0; at < plane; at++) {
        for (int64_t c = 0; c < channels; c++) {
            out[at * channels + c] = planes[is_turned ? c * plane + at : at * channels + c];
        }
    }
out:
    memory_free(planes);
    return status;
}

uint64_t image_arrays_digest(const image_arrays *arrays, int64_t i)
{
    size_t size = 0;
    uint64_t digest = 0;
    for (int64_t k = 0; k < arrays->part_count; k++) {
        const uint64_t both[] = {digest, image_arrays_digest(&arrays->parts[k], i)};
        digest = hash_short(both, sizeof both);
    }
    const unsigned char *bytes = arrays->part_count > 0 ? NULL : bytes_of(arrays, i, &size);
    return bytes == NULL ? digest : hash_short(bytes, size);
}

const char *image_arrays_place(const image_arrays *arrays, int64_t i, int64_t *index)
{
    const array_file *f = file_of(arrays->part_count > 0 ? &arrays->parts[0] : arrays, i);
    *index = i - f->first;
    return f->path;
}
