#include "format/images/cifar.h"

#include <stdio.h>
#include <string.h>

/* One label byte, then the pixels. */
enum { RECORD = 1 + CIFAR_BYTES, LONGEST_NAME = 32 };

/* A pickle of protocol 2 or later begins with this byte. A record begins with a label, which is
 * smaller. */
static const unsigned char pickle_mark = 0x80;

static grail_status set_label(cifar_batch *batch, int64_t i, int64_t label)
{
    if (label < 0 || label >= CIFAR_CLASSES) {
        return error_set(GRAIL_ERROR_FORMAT, "record %lld has label %lld, expected 0 to %d",
                         (long long)i, (long long)label, CIFAR_CLASSES - 1);
    }
    batch->labels[i] = (unsigned char)label;
    return GRAIL_OK;
}

static grail_status read_binary(cifar_batch *batch, const unsigned char *bytes, size_t size)
{
    if (size == 0 || size % RECORD != 0) {
        return error_set(GRAIL_ERROR_FORMAT, "has %zu bytes, expected a multiple of %d: truncated?",
                         size, RECORD);
    }
    batch->count = (int64_t)(size / RECORD);
    batch->pixels = bytes + 1;
    batch->stride = RECORD;
    CHECK(memory_new_unset(&batch->labels, size / RECORD, 1));
    for (int64_t i = 0; i < batch->count; i++) {
        CHECK(set_label(batch, i, bytes[i * RECORD]));
    }
    return GRAIL_OK;
}

/* {"data": uint8 [count, 3072], "labels": [count]}, in the Python version of the data set. */
static grail_status read_pickled(cifar_batch *batch, const unsigned char *bytes, size_t size)
{
    pickle_array data = {0};
    CHECK(pickle_read(bytes, size, &batch->document));
    const pickle_value *root = pickle_root(batch->document);
    if (pickle_find(root, "data") == NULL || pickle_find(root, "labels") == NULL) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "is not a CIFAR-10 batch: it holds %s without 'data' and 'labels'",
                         pickle_kind_text(root));
    }
    CHECK(pickle_read_array(pickle_find(root, "data"), &data));
    if (data.kind != 'u' || data.element_size != 1 || data.rank != 2 ||
        data.shape[1] != CIFAR_BYTES || data.shape[0] < 1) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "'data' is not an array of bytes with the shape [images, %d]",
                         CIFAR_BYTES);
    }
    batch->count = data.shape[0];
    batch->pixels = data.data;
    batch->stride = CIFAR_BYTES;
    const pickle_value *labels = pickle_find(root, "labels");
    if (pickle_count(labels) != batch->count) {
        return error_set(GRAIL_ERROR_FORMAT, "has %lld 'labels' for %lld images",
                         (long long)pickle_count(labels), (long long)batch->count);
    }
    CHECK(memory_new(&batch->labels, (size_t)batch->count, 1));
    for (int64_t i = 0; i < batch->count; i++) {
        int64_t label = 0;
        if (!pickle_integer(pickle_item(labels, i), &label)) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "'labels' holds %s at index %lld, expected an integer",
                             pickle_kind_text(pickle_item(labels, i)), (long long)i);
        }
        CHECK(set_label(batch, i, label));
    }
    return GRAIL_OK;
}

grail_status cifar_batch_read(const char *name, const void *bytes, size_t size, cifar_batch *out)
{
    grail_status status = GRAIL_OK;
    cifar_batch batch = {0};
    TRY(memory_copy_string(&batch.path, name));
    const bool pickled = size > 0 && *(const unsigned char *)bytes == pickle_mark;
    TRY(error_in(pickled ? read_pickled(&batch, bytes, size) : read_binary(&batch, bytes, size),
                 "%s", name));
    *out = batch;
    batch = (cifar_batch){0};
out:
    cifar_batch_close(&batch);
    return status;
}

void cifar_batch_close(cifar_batch *batch)
{
    memory_free(batch->path);
    memory_free(batch->labels);
    pickle_close(batch->document);
    file_map_close(&batch->map);
    *batch = (cifar_batch){0};
}

/* The files of the data set: with the first ending in its binary version, with the second one in
 * its Python version. */
static const char *const endings[] = {".bin", ""};
static const struct {
    const char *split, *name;
} files[] = {{"train", "data_batch_1"}, {"train", "data_batch_2"}, {"train", "data_batch_3"},
             {"train", "data_batch_4"}, {"train", "data_batch_5"}, {"test", "test_batch"}};
enum { FILES = sizeof files / sizeof files[0], ENDINGS = sizeof endings / sizeof endings[0] };

/* *path is owned; NULL when the file does not exist. */
static grail_status find_file(const char *directory, size_t file, size_t ending, char **path)
{
    char name[LONGEST_NAME];
    snprintf(name, sizeof name, "%s%s", files[file].name, endings[ending]);
    return path_find(path, directory, name);
}

grail_status cifar_recognise(const char *path, bool *out)
{
    bool found = file_exists(path) && !file_is_directory(path);
    for (size_t i = 0; i < FILES * ENDINGS && !found; i++) {
        char *batch = NULL;
        CHECK(find_file(path, i % FILES, i / FILES, &batch));
        found = batch != NULL;
        memory_free(batch);
    }
    *out = found;
    return GRAIL_OK;
}

static grail_status add_batch(cifar_set *set, const char *path)
{
    cifar_batch *batch = &set->batches[set->batch_count];
    file_map map = {0};
    CHECK(file_map_open(&map, path));
    const grail_status status = cifar_batch_read(path, map.data, map.size, batch);
    if (status != GRAIL_OK) {
        file_map_close(&map);
        return status;
    }
    batch->map = map;
    set->batch_count++;
    set->count += batch->count;
    return GRAIL_OK;
}

/* Reads one version of the data set; the binary one if both exist. */
static grail_status open_split(cifar_set *set, const char *directory, const char *split)
{
    for (size_t k = 0; set->count == 0 && k < ENDINGS; k++) {
        for (size_t i = 0; i < FILES; i++) {
            char *path = NULL;
            if (strcmp(files[i].split, split) == 0) {
                CHECK(find_file(directory, i, k, &path));
            }
            const grail_status status = path == NULL ? GRAIL_OK : add_batch(set, path);
            memory_free(path);
            CHECK(status);
        }
    }
    return set->count > 0
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_IO,
                           "'%s' holds no batch of the split '%s'; try the split '%s'", directory,
                           split, strcmp(split, "train") == 0 ? "test" : "train");
}

grail_status cifar_open(const char *path, const char *split, cifar_set *out)
{
    grail_status status = GRAIL_OK;
    cifar_set set = {0};
    TRY(memory_new(&set.batches, FILES, sizeof set.batches[0]));
    if (file_is_directory(path)) {
        TRY(open_split(&set, path, split == NULL ? "test" : split));
    } else if (split == NULL) {
        TRY(add_batch(&set, path));
    } else {
        FAIL_ABOUT("split", GRAIL_ERROR_ARGUMENT,
                   "'%s' is a single batch, so it has no split '%s'; leave out the split", path,
                   split);
    }
    *out = set;
    set = (cifar_set){0};
out:
    cifar_close(&set);
    return status;
}

void cifar_close(cifar_set *set)
{
    for (int64_t b = 0; b < set->batch_count; b++) {
        cifar_batch_close(&set->batches[b]);
    }
    memory_free(set->batches);
    *set = (cifar_set){0};
}

const cifar_batch *cifar_find(const cifar_set *set, int64_t i, int64_t *index)
{
    const cifar_batch *batch = set->batches;
    while (i >= batch->count) {
        i -= batch->count;
        batch++;
    }
    *index = i;
    return batch;
}
