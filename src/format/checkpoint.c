/* Opening a model directory's tensors. As in transformers, model.safetensors is looked for first,
 * then the index of shards. The index is checked against the shards both ways, so that every tensor
 * has exactly one place. */
#include "format/checkpoint.h"

#include "base/file.h"
#include "base/json.h"
#include "format/name_index.h"

#include <dirent.h>
#include <string.h>

enum { LARGEST_INDEX = 100000000 };

typedef struct checkpoint_file {
    char *name; /* base name, owned */
    safetensors *tensors;
} checkpoint_file;

struct checkpoint {
    char *directory;
    bool sharded;
    checkpoint_file *files; /* in name order */
    int file_count;
    const tensor_view **tensors; /* file by file, in the order of the data */
    int *file_of;
    int64_t count;
    name_index index;
};

static grail_status add_file(checkpoint *c, const char *name)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    checkpoint_file *file = &c->files[c->file_count++];
    TRY(memory_copy_string(&file->name, name));
    TRY(path_join(&path, c->directory, name));
    if (c->sharded && !file_exists(path)) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: shard '%s' is missing, though %s lists it", c->directory,
             name, CHECKPOINT_INDEX_NAME);
    }
    TRY(safetensors_open(path, &file->tensors));
out:
    memory_free(path);
    return status;
}

static grail_status open_single(checkpoint *c)
{
    const grail_status status = memory_new(&c->files, 1, sizeof *c->files);
    return status == GRAIL_OK ? add_file(c, CHECKPOINT_SINGLE_NAME) : status;
}

static bool is_base_name(const char *name)
{
    return name[0] != 0 && strchr(name, '/') == NULL && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

/* File names of the weight map, one per tensor, borrowed from it. */
static grail_status list_places(json_t *weight_map, const char *places[])
{
    int64_t count = 0;
    const char *tensor = NULL;
    json_t *value = NULL;
    json_object_foreach (weight_map, tensor, value) {
        const char *file = json_string_value(value);
        if (file == NULL) {
            return error_set(GRAIL_ERROR_FORMAT, "the file of tensor '%s' is not a string", tensor);
        }
        if (!is_base_name(file)) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "the file of tensor '%s', '%s', is not a plain file name", tensor,
                             file);
        }
        places[count++] = file;
    }
    return GRAIL_OK;
}

/* Opens each file named in the weight map once, in name order. */
static grail_status open_shards(checkpoint *c, json_t *weight_map)
{
    grail_status status = GRAIL_OK;
    const char **places = NULL;
    name_index sorted = {0};
    const size_t count = json_object_size(weight_map);
    TRY(memory_new(&places, count, sizeof *places));
    status = list_places(weight_map, places);
    if (status != GRAIL_OK) {
        error_prefix("%s/%s", c->directory, CHECKPOINT_INDEX_NAME);
        goto out;
    }
    TRY(name_index_init(&sorted, (int64_t)count, places));
    TRY(memory_new(&c->files, count, sizeof *c->files));
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(sorted.entries[i].name, sorted.entries[i - 1].name) != 0) {
            TRY(add_file(c, sorted.entries[i].name));
        }
    }
out:
    name_index_fini(&sorted);
    memory_free(places);
    return status;
}

static grail_status read_weight_map(const char *path, json_t **out_document, json_t **out_map)
{
    grail_status status = GRAIL_OK;
    json_t *document = NULL;
    TRY(json_read_file(path, LARGEST_INDEX, &document));
    json_t *map = json_object_get(document, "weight_map");
    if (!json_is_object(map) || json_object_size(map) == 0) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"weight_map\" is missing, empty or not an object", path);
    }
    *out_map = map; /* borrowed from the document */
    *out_document = document;
    document = NULL;
out:
    json_decref(document);
    return status;
}

static grail_status gather_tensors(checkpoint *c)
{
    grail_status status = GRAIL_OK;
    const char **names = NULL;
    for (int f = 0; f < c->file_count; f++) {
        c->count += safetensors_count(c->files[f].tensors);
    }
    TRY(memory_new(&c->tensors, (size_t)c->count, sizeof *c->tensors));
    TRY(memory_new(&c->file_of, (size_t)c->count, sizeof *c->file_of));
    TRY(memory_new(&names, (size_t)c->count, sizeof *names));
    int64_t next = 0;
    for (int f = 0; f < c->file_count; f++) {
        for (int64_t i = 0; i < safetensors_count(c->files[f].tensors); i++) {
            c->tensors[next] = safetensors_at(c->files[f].tensors, i);
            c->file_of[next] = f;
            names[next] = c->tensors[next]->name;
            next++;
        }
    }
    TRY(name_index_init(&c->index, c->count, names));
out:
    memory_free(names);
    return status;
}

static const char *place_of(const checkpoint *c, int64_t i)
{
    return c->files[c->file_of[i]].name;
}

static grail_status check_single_places(const checkpoint *c)
{
    const int64_t twice = name_index_duplicate(&c->index);
    if (twice < 0) {
        return GRAIL_OK;
    }
    const name_entry *entries = &c->index.entries[twice];
    return error_set(GRAIL_ERROR_FORMAT, "%s: tensor '%s' is in both '%s' and '%s'", c->directory,
                     entries[0].name, place_of(c, entries[0].item), place_of(c, entries[1].item));
}

static grail_status check_listed(const checkpoint *c, json_t *weight_map)
{
    const char *tensor = NULL;
    json_t *value = NULL;
    json_object_foreach (weight_map, tensor, value) {
        const char *listed = json_string_value(value);
        const int64_t i = name_index_find(&c->index, tensor);
        if (i < 0) {
            return error_set(GRAIL_ERROR_FORMAT, "%s: %s lists tensor '%s', but '%s' lacks it",
                             c->directory, CHECKPOINT_INDEX_NAME, tensor, listed);
        }
        if (strcmp(place_of(c, i), listed) != 0) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: %s lists tensor '%s' in '%s', but '%s' has it", c->directory,
                             CHECKPOINT_INDEX_NAME, tensor, listed, place_of(c, i));
        }
    }
    for (int64_t i = 0; i < c->count; i++) {
        if (json_object_get(weight_map, c->tensors[i]->name) == NULL) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: '%s' has tensor '%s', but %s does not list it", c->directory,
                             place_of(c, i), c->tensors[i]->name, CHECKPOINT_INDEX_NAME);
        }
    }
    return GRAIL_OK;
}

static grail_status open_sharded(checkpoint *c, const char *path)
{
    grail_status status = GRAIL_OK;
    json_t *document = NULL;
    json_t *weight_map = NULL;
    c->sharded = true;
    TRY(read_weight_map(path, &document, &weight_map));
    TRY(open_shards(c, weight_map));
    TRY(gather_tensors(c));
    TRY(check_single_places(c));
    TRY(check_listed(c, weight_map));
out:
    json_decref(document);
    return status;
}

static bool holds_torch_files(const char *path)
{
    static const char prefix[] = "pytorch_model";
    bool found = false;
    DIR *directory = opendir(path);
    if (directory == NULL) {
        return false;
    }
    for (const struct dirent *entry = readdir(directory); entry != NULL && !found;
         entry = readdir(directory)) {
        const size_t length = strlen(entry->d_name);
        found = strncmp(entry->d_name, prefix, sizeof prefix - 1) == 0 && length > 4 &&
                strcmp(entry->d_name + length - 4, ".bin") == 0;
    }
    closedir(directory);
    return found;
}

static grail_status nothing_found(const char *directory)
{
    if (!file_is_directory(directory)) {
        return error_set(GRAIL_ERROR_IO, "'%s' is not a directory", directory);
    }
    const grail_status status = error_set(GRAIL_ERROR_IO, "'%s' holds neither %s nor %s", directory,
                                          CHECKPOINT_SINGLE_NAME, CHECKPOINT_INDEX_NAME);
    if (holds_torch_files(directory)) {
        error_append("; its pytorch_model*.bin cannot be read yet: save a safetensors copy");
    }
    return status;
}

static grail_status open_files(checkpoint *c)
{
    grail_status status = GRAIL_OK;
    char *single = NULL;
    char *index = NULL;
    TRY(path_join(&single, c->directory, CHECKPOINT_SINGLE_NAME));
    TRY(path_join(&index, c->directory, CHECKPOINT_INDEX_NAME));
    if (file_exists(single)) {
        TRY(open_single(c));
        TRY(gather_tensors(c));
    } else if (file_exists(index)) {
        TRY(open_sharded(c, index));
    } else {
        TRY(nothing_found(c->directory));
    }
out:
    memory_free(single);
    memory_free(index);
    return status;
}

grail_status checkpoint_open(const char *directory, checkpoint **out)
{
    grail_status status = GRAIL_OK;
    checkpoint *c = NULL;
    TRY(memory_new(&c, 1, sizeof *c));
    TRY(memory_copy_string(&c->directory, directory));
    TRY(open_files(c));
    *out = c;
    c = NULL;
out:
    checkpoint_close(c);
    return status;
}

void checkpoint_close(checkpoint *c)
{
    if (c == NULL) {
        return;
    }
    for (int f = 0; f < c->file_count; f++) {
        safetensors_close(c->files[f].tensors);
        memory_free(c->files[f].name);
    }
    name_index_fini(&c->index);
    memory_free(c->files);
    memory_free(c->tensors);
    memory_free(c->file_of);
    memory_free(c->directory);
    memory_free(c);
}

const char *checkpoint_directory(const checkpoint *c)
{
    return c->directory;
}

int64_t checkpoint_count(const checkpoint *c)
{
    return c->count;
}

const tensor_view *checkpoint_at(const checkpoint *c, int64_t i)
{
    return i >= 0 && i < c->count ? c->tensors[i] : NULL;
}

int64_t checkpoint_index_of(const checkpoint *c, const char *name)
{
    return name_index_find(&c->index, name);
}

const tensor_view *checkpoint_find(const checkpoint *c, const char *name)
{
    return checkpoint_at(c, checkpoint_index_of(c, name));
}

void checkpoint_release(const checkpoint *c, const tensor_view *tensor)
{
    const int64_t i = checkpoint_index_of(c, tensor->name);
    if (i >= 0) {
        safetensors_release(c->files[c->file_of[i]].tensors, c->tensors[i]);
    }
}

int checkpoint_file_count(const checkpoint *c)
{
    return c->file_count;
}

const char *checkpoint_file_name(const checkpoint *c, int file)
{
    return file >= 0 && file < c->file_count ? c->files[file].name : NULL;
}

int checkpoint_file_of(const checkpoint *c, int64_t i)
{
    return i >= 0 && i < c->count ? c->file_of[i] : -1;
}

bool checkpoint_is_sharded(const checkpoint *c)
{
    return c->sharded;
}
