/* Opens a model's tensors. The index and the shards must list the same tensors, so that every
 * tensor has exactly one place. */
#include "format/weights/checkpoint_internal.h"

#include "base/file.h"
#include "base/json.h"
#include "base/name_list.h"
#include "format/torch/torch_file.h"
#include "format/weights/checkpoint_locate.h"
#include "format/weights/packed_groups.h"
#include "format/weights/weights_format.h"
#include "tensor/packed.h"

#include <string.h>

static const char weight_map_key[] = "weight_map";

static grail_status open_tensors(const char *path, const char *name, tensor_file **out)
{
    if (checkpoint_is_safetensors_name(name)) {
        return safetensors_open(path, out);
    }
    if (checkpoint_is_gguf_name(name)) {
        return gguf_open(path, out);
    }
    if (checkpoint_is_onnx_name(name)) {
        return onnx_weights_open(path, out);
    }
    const grail_status status = torch_file_open(path, out);
    if (status == GRAIL_ERROR_FORMAT && !checkpoint_is_torch_name(path)) {
        error_append(" (the name of a safetensors file must end in .safetensors, that of an ONNX "
                     "file in .onnx)");
    }
    return status;
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

/* Opens each file named in the weight map once, in name order. */
static grail_status open_shards(checkpoint *c, json_t *weight_map)
{
    grail_status status = GRAIL_OK;
    const char **places = NULL; /* file names of the weight map, one per tensor, borrowed from it */
    const char *tensor = NULL;
    json_t *value = NULL;
    size_t listed = 0;
    name_index sorted = {0};
    const size_t count = json_object_size(weight_map);
    TRY(memory_new(&places, count, sizeof *places));
    json_object_foreach (weight_map, tensor, value) {
        const char *file = json_string_value(value);
        if (file == NULL) {
            FAIL(GRAIL_ERROR_FORMAT, "%s/%s: the file of tensor '%s' is not a string", c->directory,
                 c->index_name, tensor);
        }
        if (file[0] == 0 || strchr(file, '/') != NULL || strcmp(file, ".") == 0 ||
            strcmp(file, "..") == 0) {
            FAIL(GRAIL_ERROR_FORMAT,
                 "%s/%s: the file of tensor '%s', '%s', is not a plain file name", c->directory,
                 c->index_name, tensor, file);
        }
        places[listed++] = file;
    }
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

static grail_status gather_tensors(checkpoint *c)
{
    memory_free(c->tensors);
    memory_free(c->file_of);
    c->tensors = NULL;
    c->file_of = NULL;
    c->count = 0;
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
    return checkpoint_index_tensors(c);
}

/* -- matrices that several tensors hold, which become one tensor each -------------------------- */

static const char group_ending[] = ".weight_packed";
static const char pair_ending[] = "_blocks";

/* Files that are not mapped have no data yet. */
static bool begins_pair(const tensor_view *t)
{
    return t->dtype == GRAIL_DTYPE_U8 && t->data != NULL && strlen(t->name) >= sizeof pair_ending &&
           name_ends_with(t->name, pair_ending);
}

static bool begins_group(const checkpoint *c, const tensor_view *t)
{
    return checkpoint_format(c) == &weights_format_safetensors &&
           name_ends_with(t->name, group_ending);
}

static grail_status find_part(const checkpoint *c, const char *base, const char *suffix,
                              int64_t *out)
{
    char *name = NULL;
    CHECK(memory_format(&name, "%s%s", base, suffix));
    *out = name_index_find(&c->stored, name);
    memory_free(name);
    return GRAIL_OK;
}

/* NAME_blocks U8 [matrices, out, in / 32, 16] and NAME_scales U8 [matrices, out, in / 32] are seen
 * as one tensor, NAME [matrices, in, out], packed as MXFP4 (tensor/packed.h). */
static grail_status describe_pair(const checkpoint *c, const tensor_view *blocks, bool *is_part,
                                  joined_tensor *j)
{
    enum { BLOCK_BYTES = PACKED_BLOCK / 2, BLOCKS_RANK = 4, SCALES_RANK = 3 };
    static const char scales_ending[] = "_scales";
    char of_blocks[64];
    char of_scales[64];
    int64_t at = -1;
    int64_t plain = -1;
    CHECK(find_part(c, j->name, scales_ending, &at));
    CHECK(find_part(c, j->name, "", &plain));
    if (at < 0 || plain >= 0) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: tensor '%s' has weights in MXFP4, but %s '%s%s'",
                         c->path, blocks->name,
                         at < 0 ? "the checkpoint lacks" : "beside it the checkpoint has", j->name,
                         at < 0 ? scales_ending : "");
    }
    is_part[at] = true;
    const tensor_view *scales = c->tensors[at];
    if (blocks->rank != BLOCKS_RANK || scales->rank != SCALES_RANK ||
        blocks->shape[3] != BLOCK_BYTES || scales->dtype != GRAIL_DTYPE_U8 ||
        memcmp(blocks->shape, scales->shape, SCALES_RANK * sizeof blocks->shape[0]) != 0) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "%s: tensors '%s' %s and '%s' %s (%s) do not fit each other as weights in MXFP4: "
            "expected [n, out, in / 32, 16] and [n, out, in / 32] (U8)",
            c->path, blocks->name,
            shape_text(blocks->rank, blocks->shape, of_blocks, sizeof of_blocks), scales->name,
            shape_text(scales->rank, scales->shape, of_scales, sizeof of_scales),
            grail_dtype_name(scales->dtype));
    }
    if (blocks->shape[2] > INT64_MAX / PACKED_BLOCK) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: tensor '%s' is too large to address", c->path,
                         blocks->name);
    }
    j->whole = (tensor_view){
        .name = j->name,
        .dtype = GRAIL_DTYPE_F4,
        .rank = SCALES_RANK,
        .shape = {blocks->shape[0], blocks->shape[2] * PACKED_BLOCK, blocks->shape[1]},
        .data = blocks->data,
        .bytes = blocks->bytes,
        .scales = scales->data,
    };
    return GRAIL_OK;
}

static grail_status describe_group(checkpoint *c, bool *is_part, joined_tensor *j)
{
    static const struct {
        const char *suffix, *why;
    } refused[] = {
        {"", "and its packed form, too"},
        {"_zero_point", "but grail reads groups without zero points (symmetric) alone"},
        {"_g_idx", "but grail reads groups of neighbours alone"},
    };
    int64_t at = -1;
    for (size_t k = 0; k < sizeof refused / sizeof refused[0]; k++) {
        CHECK(find_part(c, j->name, refused[k].suffix, &at));
        if (at >= 0) {
            return error_set(GRAIL_ERROR_UNSUPPORTED, "%s: tensor '%s' is there, %s", c->path,
                             c->tensors[at]->name, refused[k].why);
        }
    }
    for (int k = 0; k < PACKED_PARTS; k++) {
        CHECK(find_part(c, j->name, packed_groups_suffixes[k], &at));
        if (at < 0) {
            return error_set(GRAIL_ERROR_FORMAT, "%s: tensor '%s%s' is missing beside '%s%s'",
                             c->path, j->name, packed_groups_suffixes[k], j->name,
                             packed_groups_suffixes[0]);
        }
        is_part[at] = true;
        CHECK(checkpoint_need(c, c->tensors[at])); /* and it is kept, as it leaves the list */
        j->parts[k] = *c->tensors[at];
    }
    return error_in(packed_groups_describe(j->parts, &j->whole), "%s", c->path);
}

static grail_status join(checkpoint *c)
{
    grail_status status = GRAIL_OK;
    bool *is_part = NULL;
    int64_t count = 0;
    int64_t left = 0;
    for (int64_t i = 0; i < c->count; i++) {
        count += begins_pair(c->tensors[i]) || begins_group(c, c->tensors[i]) ? 1 : 0;
    }
    if (count == 0) {
        return GRAIL_OK;
    }
    TRY(memory_new(&is_part, (size_t)c->count, sizeof is_part[0]));
    TRY(memory_new(&c->joined, (size_t)count, sizeof c->joined[0]));
    for (int64_t i = 0; i < c->count; i++) {
        const tensor_view *t = c->tensors[i];
        const bool is_pair = begins_pair(t);
        if (is_pair || begins_group(c, t)) {
            const char *ending = is_pair ? pair_ending : packed_groups_suffixes[0];
            joined_tensor *j = &c->joined[c->joined_count++];
            TRY(memory_format(&j->name, "%.*s", (int)(strlen(t->name) - strlen(ending)), t->name));
            j->whole.name = j->name;
            TRY(is_pair ? describe_pair(c, t, is_part, j) : describe_group(c, is_part, j));
        }
    }
    for (int64_t i = 0, next = 0; i < c->count; i++) {
        const bool begins = begins_pair(c->tensors[i]) || begins_group(c, c->tensors[i]);
        if (begins || !is_part[i]) {
            c->tensors[left] = begins ? &c->joined[next++].whole : c->tensors[i];
            c->file_of[left++] = c->file_of[i];
        }
    }
    c->count = left;
    TRY(checkpoint_index_tensors(c));
out:
    memory_free(is_part);
    return status;
}

/* -- opening ----------------------------------------------------------------------------------- */

/* The index and the shards list the same tensors, each once. */
static grail_status check_places(const checkpoint *c, json_t *weight_map)
{
    const char *tensor = NULL;
    json_t *value = NULL;
    const int64_t twice = name_index_duplicate(&c->stored);
    if (twice >= 0) {
        const name_entry *entries = &c->stored.entries[twice];
        return error_set(GRAIL_ERROR_FORMAT, "%s: tensor '%s' is in both '%s' and '%s'",
                         c->directory, entries[0].name, c->files[c->file_of[entries[0].item]].name,
                         c->files[c->file_of[entries[1].item]].name);
    }
    json_object_foreach (weight_map, tensor, value) {
        const char *listed = json_string_value(value);
        const int64_t i = name_index_find(&c->stored, tensor);
        if (i < 0) {
            return error_set(GRAIL_ERROR_FORMAT, "%s: %s lists tensor '%s', but '%s' lacks it",
                             c->directory, c->index_name, tensor, listed);
        }
        const char *place = c->files[c->file_of[i]].name;
        if (strcmp(place, listed) != 0) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: %s lists tensor '%s' in '%s', but '%s' has it", c->directory,
                             c->index_name, tensor, listed, place);
        }
    }
    for (int64_t i = 0; i < c->count; i++) {
        if (json_object_get(weight_map, c->tensors[i]->name) == NULL) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: '%s' has tensor '%s', but %s does not list it", c->directory,
                             c->files[c->file_of[i]].name, c->tensors[i]->name, c->index_name);
        }
    }
    return GRAIL_OK;
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
    char *path = NULL;
    json_t *document = NULL;
    bool is_index = false;
    TRY(memory_copy_string(&c->directory, c->path));
    TRY(checkpoint_locate(c->directory, &name, &is_index));
    if (is_index) {
        c->index_name = name;
        name = NULL;
        TRY(path_join(&path, c->directory, c->index_name));
        TRY(read_index(path, &document));
        json_t *weight_map = json_object_get(document, weight_map_key);
        TRY(open_shards(c, weight_map));
        TRY(gather_tensors(c));
        TRY(check_places(c, weight_map));
    } else {
        TRY(open_single(c, name));
    }
out:
    json_decref(document);
    memory_free(path);
    memory_free(name);
    return status;
}

/* Refuses a shard here, since opening it alone would only report that some tensor is missing. */
static grail_status refuse_shard(const checkpoint *c, const char *name)
{
    static const char *const indexes[] = {CHECKPOINT_INDEX_NAME, CHECKPOINT_TORCH_INDEX_NAME};
    grail_status status = GRAIL_OK;
    char *path = NULL;
    json_t *document = NULL;
    const char *tensor = NULL;
    json_t *file = NULL;
    for (size_t i = 0; i < sizeof indexes / sizeof indexes[0]; i++) {
        memory_free(path);
        json_decref(document);
        path = NULL;
        document = NULL;
        TRY(path_find(&path, c->directory, indexes[i]));
        if (path == NULL) {
            continue;
        }
        TRY(read_index(path, &document));
        json_t *weight_map = json_object_get(document, weight_map_key);
        json_object_foreach (weight_map, tensor, file) {
            if (json_is_string(file) && strcmp(json_string_value(file), name) == 0) {
                FAIL(GRAIL_ERROR_ARGUMENT,
                     "'%s' is one of the shards that %s lists; give the directory '%s'", c->path,
                     indexes[i], c->directory);
            }
        }
    }
out:
    json_decref(document);
    memory_free(path);
    return status;
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
    if (checkpoint_is_index_name(name)) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "'%s' is an index of shards; give the directory '%s'", c->path,
                         c->directory);
    }
    CHECK(checkpoint_is_usual_name(name) ? GRAIL_OK : refuse_shard(c, name));
    return open_single(c, name);
}

grail_status checkpoint_open(const char *path, checkpoint **out)
{
    grail_status status = GRAIL_OK;
    checkpoint *c = NULL;
    TRY(memory_new(&c, 1, sizeof *c));
    TRY(memory_copy_string(&c->path, path));
    TRY(file_is_directory(path) ? open_directory(c) : open_file(c));
    TRY(join(c));
    *out = c;
    c = NULL;
out:
    checkpoint_close(c);
    return status;
}

grail_status checkpoint_open_memory(const grail_memory_model *memory, checkpoint **out)
{
    grail_status status = GRAIL_OK;
    checkpoint *c = NULL;
    TRY(memory_new(&c, 1, sizeof *c));
    TRY(memory_copy_string(&c->path, memory_model_name(memory)));
    TRY(memory_documents_copy(memory, &c->documents));
    TRY(memory_new(&c->files, 1, sizeof *c->files));
    c->file_count = 1;
    TRY(memory_copy_string(&c->files[0].name, CHECKPOINT_SINGLE_NAME));
    TRY(memory_file_open(memory, &c->files[0].tensors));
    TRY(gather_tensors(c));
    for (int64_t i = 0; i < c->count; i++) { /* what may be a part of several that are one matrix */
        TRY(c->tensors[i]->dtype == GRAIL_DTYPE_U8 ? checkpoint_need(c, c->tensors[i]) : GRAIL_OK);
    }
    TRY(join(c));
    for (int64_t i = 0; i < c->count; i++) { /* those that are none */
        checkpoint_release(c, c->tensors[i]);
    }
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
    for (int64_t i = 0; i < c->joined_count; i++) {
        joined_tensor *j = &c->joined[i];
        if (j->whole.data == NULL) {
            CHECK(memory_new_unset(&j->blocks, j->whole.bytes, 1));
            packed_groups_join(j->parts, &j->whole, j->blocks);
            j->whole.data = j->blocks;
        }
    }
    return GRAIL_OK;
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
    for (int64_t i = 0; i < c->joined_count; i++) {
        memory_free(c->joined[i].blocks);
        memory_free(c->joined[i].name);
    }
    memory_free(c->joined);
    checkpoint_free_names(c);
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
           : checkpoint_is_onnx_name(name)      ? &weights_format_onnx
                                                : &weights_format_torch;
}

const gguf_metadata *checkpoint_metadata(const checkpoint *c)
{
    return checkpoint_format(c) == &weights_format_gguf ? gguf_metadata_of(c->files[0].tensors)
                                                        : NULL;
}

const onnx_file *checkpoint_onnx(const checkpoint *c)
{
    return checkpoint_format(c) == &weights_format_onnx ? onnx_weights_model(c->files[0].tensors)
                                                        : NULL;
}

grail_status checkpoint_fold_onnx(checkpoint *c, unsigned char *bytes, size_t size)
{
    const grail_status status = onnx_weights_fold(c->path, bytes, size, &c->files[0].tensors);
    if (status != GRAIL_OK) {
        memory_free(bytes);
        return status;
    }
    return gather_tensors(c);
}

bool checkpoint_is_computed(const checkpoint *c, int64_t i)
{
    return checkpoint_onnx(c) != NULL &&
           tensor_file_find(onnx_weights_source(c->files[0].tensors), c->tensors[i]->name) == NULL;
}

const onnx_copy_list *checkpoint_onnx_copies(const checkpoint *c)
{
    return onnx_weights_copies(c->files[0].tensors);
}

int64_t checkpoint_count(const checkpoint *c)
{
    return c->count;
}

const tensor_view *checkpoint_at(const checkpoint *c, int64_t i)
{
    return i >= 0 && i < c->count ? c->tensors[i] : NULL;
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
    const tensor_file *tensors = c->files[file].tensors;
    return (checkpoint_onnx(c) == NULL ? tensors : onnx_weights_source(tensors))->map.identity;
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

const char *checkpoint_wrapper(const checkpoint *c, int file)
{
    return c->files[file].tensors->wrapper;
}

const char *checkpoint_rival(const checkpoint *c, int file)
{
    return c->files[file].tensors->rival;
}
