/* Opens a model's tensors. The index and the shards must list the same tensors, so that every
 * tensor has exactly one place. */
#include "format/weights/checkpoint.h"

#include "base/file.h"
#include "base/json.h"
#include "base/name_list.h"
#include "format/torch/torch_file.h"
#include "format/weights/checkpoint_locate.h"
#include "format/weights/foreign_file.h"
#include "format/weights/packed_groups.h"
#include "format/weights/packed_pairs.h"
#include "format/weights/tensor_names.h"
#include "format/weights/weights_format.h"

#include <string.h>

static const char weight_map_key[] = "weight_map";

typedef struct checkpoint_file {
    char *name; /* base name, owned */
    tensor_file *tensors;
} checkpoint_file;

/* A matrix that three tensors hold (packed_groups.h). */
typedef struct packed_matrix {
    char *name; /* owned, as are the blocks that `whole` has once they are loaded */
    tensor_view whole;
    tensor_view parts[PACKED_PARTS];
} packed_matrix;

struct checkpoint {
    char *path;
    char *directory;
    char *index_name;       /* base name of the index of shards; NULL for one file */
    checkpoint_file *files; /* in name order */
    int file_count;
    const tensor_view **tensors; /* file by file, in the order of the data */
    int *file_of;
    int64_t count;
    packed_matrix *groups; /* [group_count]; `tensors` has these instead of their parts */
    int64_t group_count;
    tensor_names names;
    packed_pairs packed;
    memory_documents documents; /* of a model in memory, which has no directory */
};

static grail_status open_torch(const char *path, tensor_file **out)
{
    const grail_status status = torch_file_open(path, out);
    if (status == GRAIL_ERROR_FORMAT && !checkpoint_is_torch_name(path)) {
        error_append(" (the name of a safetensors file must end in .safetensors)");
    }
    return status;
}

static grail_status open_tensors(const char *path, const char *name, tensor_file **out)
{
    return checkpoint_is_safetensors_name(name) ? safetensors_open(path, out)
           : checkpoint_is_gguf_name(name)      ? gguf_open(path, out)
                                                : open_torch(path, out);
}

static grail_status add_file(checkpoint *c, const char *name)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    checkpoint_file *file = &c->files[c->file_count++];
    TRY(memory_copy_string(&file->name, name));
    TRY(path_join(&path, c->directory, name));
    if (c->index_name != NULL && !file_exists(path)) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: shard '%s' is missing, but %s lists it", c->directory, name,
             c->index_name);
    }
    TRY(foreign_file_refuse(path));
    TRY(open_tensors(path, name, &file->tensors));
out:
    memory_free(path);
    return status;
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
    TRY(error_in(list_places(weight_map, places), "%s/%s", c->directory, c->index_name));
    TRY(name_index_init(&sorted, (int64_t)count, places, sizeof places[0]));
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

/* The document of an index; it has a weight map. */
static grail_status read_index(const char *path, json_t **out)
{
    grail_status status = GRAIL_OK;
    json_t *document = NULL;
    TRY(json_read_file(path, CHECKPOINT_LARGEST_INDEX, &document));
    if (json_object_size(json_object_get(document, weight_map_key)) == 0) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"%s\" is missing, empty or not an object", path,
             weight_map_key);
    }
    *out = document;
    document = NULL;
out:
    json_decref(document);
    return status;
}

static grail_status index_tensors(checkpoint *c)
{
    const char **names = NULL;
    tensor_names_fini(&c->names);
    CHECK(memory_new(&names, (size_t)c->count, sizeof *names));
    for (int64_t i = 0; i < c->count; i++) {
        names[i] = c->tensors[i]->name;
    }
    return tensor_names_init(c->count, names, &c->names);
}

static grail_status gather_tensors(checkpoint *c)
{
    for (int f = 0; f < c->file_count; f++) {
        c->count += c->files[f].tensors->count;
    }
    CHECK(memory_new(&c->tensors, (size_t)c->count, sizeof *c->tensors));
    CHECK(memory_new(&c->file_of, (size_t)c->count, sizeof *c->file_of));
    int64_t next = 0;
    for (int f = 0; f < c->file_count; f++) {
        for (int64_t i = 0; i < c->files[f].tensors->count; i++) {
            c->tensors[next] = &c->files[f].tensors->tensors[i];
            c->file_of[next] = f;
            next++;
        }
    }
    return index_tensors(c);
}

/* -- groups of integers ---------------------------------------------------------------------------
 */

static const char packed_ending[] = ".weight_packed";

static grail_status find_part(checkpoint *c, const char *base, const char *suffix, bool *is_part,
                              tensor_view *out)
{
    grail_status status = GRAIL_OK;
    char *name = NULL;
    TRY(memory_format(&name, "%s%s", base, suffix));
    const int64_t i = name_index_find(&c->names.stored, name);
    if (i < 0) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: tensor '%s' is missing beside '%s%s'", c->path, name, base,
             packed_groups_suffixes[0]);
    }
    is_part[i] = true;
    TRY(checkpoint_need(c, c->tensors[i])); /* and it is kept, as it leaves the list */
    *out = *c->tensors[i];
out:
    memory_free(name);
    return status;
}

static grail_status refuse_part(const checkpoint *c, const char *base, const char *suffix,
                                const char *why)
{
    grail_status status = GRAIL_OK;
    char *name = NULL;
    TRY(memory_format(&name, "%s%s", base, suffix));
    if (name_index_find(&c->names.stored, name) >= 0) {
        FAIL(GRAIL_ERROR_UNSUPPORTED, "%s: tensor '%s' is there, %s", c->path, name, why);
    }
out:
    memory_free(name);
    return status;
}

static grail_status describe_group(checkpoint *c, const char *codes, bool *is_part,
                                   packed_matrix *p)
{
    const int length = (int)(strlen(codes) - strlen(packed_groups_suffixes[0]));
    CHECK(memory_format(&p->name, "%.*s", length, codes));
    CHECK(refuse_part(c, p->name, "", "and its packed form, too"));
    CHECK(refuse_part(c, p->name, "_zero_point",
                      "but grail reads groups without zero points (symmetric) alone"));
    CHECK(refuse_part(c, p->name, "_g_idx", "but grail reads groups of neighbours alone"));
    for (int i = 0; i < PACKED_PARTS; i++) {
        CHECK(find_part(c, p->name, packed_groups_suffixes[i], is_part, &p->parts[i]));
    }
    p->whole.name = p->name;
    return error_in(packed_groups_describe(p->parts, &p->whole), "%s", c->path);
}

/* The matrices take the places of their codes; the other parts go. */
static void replace_parts(checkpoint *c, const bool *is_part)
{
    int64_t left = 0;
    int64_t next = 0;
    for (int64_t i = 0; i < c->count; i++) {
        const bool begins = is_part[i] && name_ends_with(c->tensors[i]->name, packed_ending);
        if (begins || !is_part[i]) {
            c->tensors[left] = begins ? &c->groups[next++].whole : c->tensors[i];
            c->file_of[left++] = c->file_of[i];
        }
    }
    c->count = left;
}

static grail_status join_groups(checkpoint *c)
{
    grail_status status = GRAIL_OK;
    bool *is_part = NULL;
    int64_t count = 0;
    for (int64_t i = 0; i < c->count; i++) {
        count += name_ends_with(c->tensors[i]->name, packed_ending) ? 1 : 0;
    }
    if (count == 0 || checkpoint_format(c) != &weights_format_safetensors) {
        return GRAIL_OK;
    }
    TRY(memory_new(&is_part, (size_t)c->count, sizeof is_part[0]));
    TRY(memory_new(&c->groups, (size_t)count, sizeof c->groups[0]));
    c->group_count = count;
    for (int64_t i = 0, next = 0; i < c->count; i++) {
        if (name_ends_with(c->tensors[i]->name, packed_ending)) {
            TRY(describe_group(c, c->tensors[i]->name, is_part, &c->groups[next++]));
        }
    }
    replace_parts(c, is_part);
    TRY(index_tensors(c));
out:
    memory_free(is_part);
    return status;
}

static grail_status load_groups(const checkpoint *c)
{
    for (int64_t i = 0; i < c->group_count; i++) {
        packed_matrix *p = &c->groups[i];
        void *blocks = NULL;
        if (p->whole.data == NULL) {
            CHECK(memory_new_unset(&blocks, p->whole.bytes, 1));
            packed_groups_join(p->parts, &p->whole, blocks);
            p->whole.data = blocks;
        }
    }
    return GRAIL_OK;
}

static void free_groups(checkpoint *c)
{
    for (int64_t i = 0; i < c->group_count; i++) {
        memory_free((void *)(uintptr_t)c->groups[i].whole.data);
        memory_free(c->groups[i].name);
    }
    memory_free(c->groups);
}

/* -- opening ----------------------------------------------------------------------------------- */

static const char *place_of(const checkpoint *c, int64_t i)
{
    return c->files[c->file_of[i]].name;
}

static grail_status check_single_places(const checkpoint *c)
{
    const int64_t twice = name_index_duplicate(&c->names.stored);
    if (twice < 0) {
        return GRAIL_OK;
    }
    const name_entry *entries = &c->names.stored.entries[twice];
    return error_set(GRAIL_ERROR_FORMAT, "%s: tensor '%s' is in both '%s' and '%s'", c->directory,
                     entries[0].name, place_of(c, entries[0].item), place_of(c, entries[1].item));
}

static grail_status check_listed(const checkpoint *c, json_t *weight_map)
{
    const char *tensor = NULL;
    json_t *value = NULL;
    json_object_foreach (weight_map, tensor, value) {
        const char *listed = json_string_value(value);
        const int64_t i = name_index_find(&c->names.stored, tensor);
        if (i < 0) {
            return error_set(GRAIL_ERROR_FORMAT, "%s: %s lists tensor '%s', but '%s' lacks it",
                             c->directory, c->index_name, tensor, listed);
        }
        if (strcmp(place_of(c, i), listed) != 0) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: %s lists tensor '%s' in '%s', but '%s' has it", c->directory,
                             c->index_name, tensor, listed, place_of(c, i));
        }
    }
    for (int64_t i = 0; i < c->count; i++) {
        if (json_object_get(weight_map, c->tensors[i]->name) == NULL) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: '%s' has tensor '%s', but %s does not list it", c->directory,
                             place_of(c, i), c->tensors[i]->name, c->index_name);
        }
    }
    return GRAIL_OK;
}

static grail_status open_sharded(checkpoint *c)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    json_t *document = NULL;
    TRY(path_join(&path, c->directory, c->index_name));
    TRY(read_index(path, &document));
    json_t *weight_map = json_object_get(document, weight_map_key);
    TRY(open_shards(c, weight_map));
    TRY(gather_tensors(c));
    TRY(check_single_places(c));
    TRY(check_listed(c, weight_map));
out:
    json_decref(document);
    memory_free(path);
    return status;
}

static grail_status join_packed(checkpoint *c)
{
    CHECK(
        error_in(packed_pairs_join(&c->names.stored, c->tensors, c->file_of, &c->count, &c->packed),
                 "%s", c->path));
    if (c->packed.count == 0) {
        return GRAIL_OK;
    }
    return index_tensors(c);
}

static grail_status open_single(checkpoint *c, const char *name)
{
    CHECK(memory_new(&c->files, 1, sizeof *c->files));
    CHECK(add_file(c, name));
    return gather_tensors(c);
}

static grail_status open_directory(checkpoint *c)
{
    grail_status status = GRAIL_OK;
    char *name = NULL;
    bool is_index = false;
    TRY(memory_copy_string(&c->directory, c->path));
    TRY(checkpoint_locate(c->directory, &name, &is_index));
    if (is_index) {
        c->index_name = name;
        name = NULL;
        TRY(open_sharded(c));
    } else {
        TRY(open_single(c, name));
    }
out:
    memory_free(name);
    return status;
}

/* Whether an index of the directory, which need not be there, lists the file. */
static grail_status is_listed(const checkpoint *c, const char *index, const char *name, bool *out)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    json_t *document = NULL;
    const char *tensor = NULL;
    json_t *file = NULL;
    TRY(path_find(&path, c->directory, index));
    if (path != NULL) {
        TRY(read_index(path, &document));
    }
    json_t *weight_map = json_object_get(document, weight_map_key);
    json_object_foreach (weight_map, tensor, file) {
        *out = *out || (json_is_string(file) && strcmp(json_string_value(file), name) == 0);
    }
out:
    json_decref(document);
    memory_free(path);
    return status;
}

/* Refuses a shard here, since opening it alone would only report that some tensor is missing. */
static grail_status refuse_shard(const checkpoint *c, const char *name)
{
    static const char *const indexes[] = {CHECKPOINT_INDEX_NAME, CHECKPOINT_TORCH_INDEX_NAME};
    for (size_t i = 0; i < sizeof indexes / sizeof indexes[0]; i++) {
        bool listed = false;
        CHECK(is_listed(c, indexes[i], name, &listed));
        if (listed) {
            return error_set(GRAIL_ERROR_ARGUMENT,
                             "'%s' is one of the shards that %s lists; give the directory '%s'",
                             c->path, indexes[i], c->directory);
        }
    }
    return GRAIL_OK;
}

static grail_status check_name(const checkpoint *c, const char *name)
{
    if (checkpoint_is_index_name(name)) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "'%s' is an index of shards; give the directory '%s'", c->path,
                         c->directory);
    }
    return checkpoint_is_usual_name(name) ? GRAIL_OK : refuse_shard(c, name);
}

static grail_status open_file(checkpoint *c)
{
    const char *slash = strrchr(c->path, '/');
    const char *name = slash == NULL ? c->path : slash + 1;
    if (slash == NULL) {
        CHECK(memory_copy_string(&c->directory, "."));
    } else {
        const int length = slash == c->path ? 1 : (int)(slash - c->path);
        CHECK(memory_format(&c->directory, "%.*s", length, c->path));
    }
    CHECK(check_name(c, name));
    return open_single(c, name);
}

grail_status checkpoint_open(const char *path, checkpoint **out)
{
    grail_status status = GRAIL_OK;
    checkpoint *c = NULL;
    TRY(memory_new(&c, 1, sizeof *c));
    TRY(memory_copy_string(&c->path, path));
    if (file_is_directory(path)) {
        TRY(open_directory(c));
    } else {
        TRY(open_file(c));
    }
    TRY(join_packed(c));
    TRY(join_groups(c));
    *out = c;
    c = NULL;
out:
    checkpoint_close(c);
    return status;
}

/* What may be one of several tensors that hold a matrix (packed_pairs.h). */
static bool may_be_part(const tensor_view *tensor)
{
    return tensor->dtype == GRAIL_DTYPE_U8;
}

static grail_status open_memory(const grail_memory_model *memory, checkpoint *c)
{
    CHECK(memory_new(&c->files, 1, sizeof *c->files));
    c->file_count = 1;
    CHECK(memory_copy_string(&c->files[0].name, CHECKPOINT_SINGLE_NAME));
    CHECK(memory_file_open(memory, &c->files[0].tensors));
    CHECK(gather_tensors(c));
    for (int64_t i = 0; i < c->count; i++) {
        CHECK(may_be_part(c->tensors[i]) ? checkpoint_need(c, c->tensors[i]) : GRAIL_OK);
    }
    CHECK(join_packed(c));
    CHECK(join_groups(c));
    for (int64_t i = 0; i < c->count; i++) { /* those that are none */
        checkpoint_release(c, c->tensors[i]);
    }
    return GRAIL_OK;
}

grail_status checkpoint_open_memory(const grail_memory_model *memory, checkpoint **out)
{
    grail_status status = GRAIL_OK;
    checkpoint *c = NULL;
    TRY(memory_new(&c, 1, sizeof *c));
    TRY(memory_copy_string(&c->path, memory_model_name(memory)));
    TRY(memory_documents_copy(memory, &c->documents));
    TRY(open_memory(memory, c));
    *out = c;
    c = NULL;
out:
    checkpoint_close(c);
    return status;
}

grail_status checkpoint_load(checkpoint *c)
{
    for (int f = 0; f < c->file_count; f++) {
        CHECK(error_in(tensor_file_load(c->files[f].tensors), "%s/%s", c->directory,
                       c->files[f].name));
    }
    return load_groups(c);
}

void checkpoint_close(checkpoint *c)
{
    if (c == NULL) {
        return;
    }
    for (int f = 0; f < c->file_count; f++) {
        tensor_file_close(c->files[f].tensors);
        memory_free(c->files[f].name);
    }
    free_groups(c);
    tensor_names_fini(&c->names);
    packed_pairs_fini(&c->packed);
    memory_documents_fini(&c->documents);
    memory_free(c->files);
    memory_free(c->tensors);
    memory_free(c->file_of);
    memory_free(c->index_name);
    memory_free(c->directory);
    memory_free(c->path);
    memory_free(c);
}

const char *checkpoint_path(const checkpoint *c)
{
    return c->path;
}

const char *checkpoint_directory(const checkpoint *c)
{
    return c->directory;
}

const memory_documents *checkpoint_documents(const checkpoint *c)
{
    return c->directory == NULL ? &c->documents : NULL;
}

const weights_format *checkpoint_format(const checkpoint *c)
{
    const char *name = c->files[0].name;
    return checkpoint_is_safetensors_name(name) ? &weights_format_safetensors
           : checkpoint_is_gguf_name(name)      ? &weights_format_gguf
                                                : &weights_format_torch;
}

const gguf_metadata *checkpoint_metadata(const checkpoint *c)
{
    return checkpoint_format(c) == &weights_format_gguf ? gguf_metadata_of(c->files[0].tensors)
                                                        : NULL;
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
    return tensor_names_index(&c->names, name);
}

const char *checkpoint_plain_name(const checkpoint *c, int64_t i)
{
    return i >= 0 && i < c->count ? tensor_names_plain(&c->names, i) : NULL;
}

grail_status checkpoint_set_prefix(checkpoint *c, const char *base, const char *prefix)
{
    return tensor_names_set_prefix(&c->names, base, prefix);
}

const char *checkpoint_prefix(const checkpoint *c)
{
    return c->names.prefix == NULL ? "" : c->names.prefix;
}

int64_t checkpoint_place_of(const checkpoint *c, const char *name)
{
    return tensor_names_place(&c->names, name);
}

const tensor_view *checkpoint_find(const checkpoint *c, const char *name)
{
    return checkpoint_at(c, checkpoint_place_of(c, name));
}

const char *checkpoint_own_name(const checkpoint *c, int64_t i)
{
    return i >= 0 && i < c->count ? tensor_names_own(&c->names, i) : NULL;
}

bool checkpoint_is_inside(const checkpoint *c, int64_t i)
{
    return tensor_names_is_inside(&c->names, i);
}

size_t checkpoint_own_begin(const checkpoint *c, int64_t i)
{
    return tensor_names_own_begin(&c->names, i);
}

grail_status checkpoint_need(checkpoint *c, const tensor_view *tensor)
{
    if (tensor->data != NULL || tensor->bytes == 0) {
        return GRAIL_OK;
    }
    const int64_t i = checkpoint_index_of(c, tensor->name);
    const tensor_file *file = i < 0 ? NULL : c->files[c->file_of[i]].tensors;
    return file != NULL && file->need != NULL ? tensor_file_need(file, c->tensors[i])
                                              : checkpoint_load(c);
}

void checkpoint_release(const checkpoint *c, const tensor_view *tensor)
{
    const int64_t i = checkpoint_index_of(c, tensor->name);
    if (i >= 0) {
        tensor_file_release(c->files[c->file_of[i]].tensors, c->tensors[i]);
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

file_identity checkpoint_file_identity(const checkpoint *c, int file)
{
    return c->files[file].tensors->map.identity;
}

int checkpoint_file_of(const checkpoint *c, int64_t i)
{
    return i >= 0 && i < c->count ? c->file_of[i] : -1;
}

bool checkpoint_is_sharded(const checkpoint *c)
{
    return c->index_name != NULL;
}

const char *checkpoint_index_name(const checkpoint *c)
{
    return c->index_name;
}

static const tensor_file *file_at(const checkpoint *c, int file)
{
    return file >= 0 && file < c->file_count ? c->files[file].tensors : NULL;
}

const char *checkpoint_wrapper(const checkpoint *c, int file)
{
    const tensor_file *found = file_at(c, file);
    return found == NULL ? "" : found->wrapper;
}

const char *checkpoint_rival(const checkpoint *c, int file)
{
    const tensor_file *found = file_at(c, file);
    return found == NULL ? "" : found->rival;
}
