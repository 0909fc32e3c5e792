#include "pipeline/output/kept_result.h"

#include "tensor/groups.h"

#include <string.h>

grail_status kept_result_open(const calibration_network *network, bool keep_non_finite,
                              kept_result **out)
{
    CHECK(memory_new(out, 1, sizeof **out));
    kept_result *kept = *out;
    kept->network = network;
    return result_tensors_init(network->request, keep_non_finite, &kept->tensors);
}

void kept_result_clear(kept_result *kept)
{
    for (int64_t i = 0; kept->parts != NULL && i < kept->tensors.map.tensor_count; i++) {
        written_parts_fini(&kept->parts[i]);
    }
    memory_free(kept->parts);
    memory_free(kept->listed);
    memory_free(kept->places);
    kept->parts = NULL;
    kept->listed = NULL;
    kept->places = NULL;
    kept->count = 0;
    memory_documents_fini(&kept->documents);
    source_files_fini(&kept->sources);
}

void kept_result_free(kept_result *kept)
{
    if (kept == NULL) {
        return;
    }
    kept_result_clear(kept);
    result_tensors_fini(&kept->tensors);
    memory_free(kept);
}

/* -- listing ----------------------------------------------------------------------------------- */

/* Those that hold tensor i of the model, with their bytes. */
static grail_status find_parts(kept_result *kept, int64_t i)
{
    tensor_view *shape = &kept->tensors.shapes[i];
    int64_t elements = 0;
    if (!shape_elements(shape->rank, shape->shape, &elements) ||
        !dtype_bytes(shape->dtype, elements, &shape->bytes)) {
        return error_set(GRAIL_ERROR_SHAPE, "tensor '%s' is too large to address", shape->name);
    }
    return written_parts_find(kept->network->request->model->checkpoint, i, shape, &kept->parts[i]);
}

static grail_status list_parts(kept_result *kept, int64_t i)
{
    const written_parts *parts = &kept->parts[i];
    const size_t all = (size_t)(kept->count + parts->count);
    CHECK(memory_reserve(&kept->listed, all, sizeof kept->listed[0]));
    CHECK(memory_reserve(&kept->places, all, sizeof kept->places[0]));
    for (int k = 0; k < parts->count; k++) {
        const tensor_view *one = &parts->of[k];
        kept->places[kept->count] = (kept_place){.tensor = i, .part = k};
        kept->listed[kept->count++] = (grail_tensor){
            .name = one->name, .dtype = one->dtype, .rank = one->rank, .shape = one->shape};
    }
    return GRAIL_OK;
}

grail_status kept_result_take(void *kept, const char *name, const void *bytes, size_t size)
{
    kept_result *k = kept;
    const grail_document document = {.name = name, .bytes = bytes, .size = (int64_t)size};
    return memory_documents_add(&k->documents, &document);
}

grail_status kept_result_list(kept_result *kept)
{
    const result_tensors *tensors = &kept->tensors;
    const companion_files companions = {
        .request = kept->network->request, .sources = &kept->sources, .shapes = tensors->shapes};
    CHECK(source_files_find(kept->network->request->model, &kept->sources));
    CHECK(memory_new(&kept->parts, (size_t)tensors->map.tensor_count, sizeof kept->parts[0]));
    for (int64_t i = 0; i < tensors->map.tensor_count; i++) {
        if (tensors->map.names[i] != NULL) {
            CHECK(find_parts(kept, i));
            CHECK(list_parts(kept, i));
        }
    }
    return companions_write(&companions, kept_result_take, kept);
}

/* -- giving tensors ---------------------------------------------------------------------------- */

/* Where the bytes of one tensor of the result go. */
typedef struct kept_target {
    kept_result *kept;
    kept_place place;
    void *bytes;
} kept_target;

static grail_status copy_part(const kept_target *target, const void *blocks)
{
    grail_status status = GRAIL_OK;
    void *data[PACKED_PARTS] = {NULL};
    written_parts *parts = &target->kept->parts[target->place.tensor];
    TRY(written_parts_split(parts, &target->kept->tensors.shapes[target->place.tensor], blocks,
                            data));
    memcpy(target->bytes, data[target->place.part], parts->of[target->place.part].bytes);
out:
    written_parts_free(data);
    return status;
}

static grail_status copy_tensor(void *user, const char *name, const void *data, size_t bytes)
{
    const kept_target *target = user;
    const tensor_view *shape = &target->kept->tensors.shapes[target->place.tensor];
    if (bytes != shape->bytes) {
        return error_set(GRAIL_ERROR_INTERNAL, "tensor '%s' has %zu bytes, expected %zu", name,
                         bytes, shape->bytes);
    }
    if (group_bits(shape->dtype) != 0) {
        return copy_part(target, data);
    }
    if (bytes > 0) {
        memcpy(target->bytes, data, bytes);
    }
    return GRAIL_OK;
}

static grail_status give(void *user, int64_t tensor, void *bytes, int64_t size)
{
    kept_result *kept = user;
    if (tensor < 0 || tensor >= kept->count) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "the result has %lld tensors, and none of number %lld",
                         (long long)kept->count, (long long)tensor);
    }
    kept_target target = {.kept = kept, .place = kept->places[tensor], .bytes = bytes};
    const tensor_view *part = &kept->parts[target.place.tensor].of[target.place.part];
    if (size < 0 || (size_t)size != part->bytes || (bytes == NULL && size > 0)) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "tensor '%s' of the result takes %zu bytes, and the caller has room for "
                         "%lld",
                         part->name, part->bytes, bytes == NULL ? 0LL : (long long)size);
    }
    return tensors_give(kept->network, &kept->tensors.map, target.place.tensor, copy_tensor,
                        &target);
}

grail_memory_model kept_result_model(kept_result *kept, const char *name)
{
    return (grail_memory_model){.name = name,
                                .tensors = kept->listed,
                                .tensor_count = kept->count,
                                .documents = kept->documents.items,
                                .document_count = kept->documents.count,
                                .load = give,
                                .user = kept};
}
