/* The format that torch wrote before 1.6: five pickles (magic number, protocol, facts about the
 * machine, the object, the keys of its storages), then each storage as a count of elements and the
 * elements. Source: torch/serialization.py, _legacy_save and _legacy_load. */
#include "format/torch/torch_internal.h"

#include "base/bytes.h"

#include <string.h>

enum { PROTOCOL = 1001, COUNT_SIZE = 8 };

/* The first pickle: 0x1950a86a20f9469cfc6c. */
static const unsigned char magic[] = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46,
                                      0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, 0x2e};

bool torch_is_legacy(const void *bytes, size_t size)
{
    return size >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0;
}

/* Reads the next pickle of the file. */
static grail_status next_pickle(const torch_file *file, size_t *at, const char *what, pickle **out)
{
    size_t used = 0;
    const size_t left = file->list->size - *at;
    const grail_status status = pickle_read(file->list->bytes + *at, left, &used, out);
    if (status != GRAIL_OK) {
        error_prefix("%s, which begins at byte %zu", what, *at);
    } else {
        *at += used;
    }
    return status;
}

static grail_status check_protocol(const torch_file *file, size_t *at)
{
    grail_status status = GRAIL_OK;
    int64_t protocol = 0;
    pickle *number = NULL;
    TRY(next_pickle(file, at, "its protocol", &number));
    if (!pickle_integer(pickle_root(number), &protocol) || protocol != PROTOCOL) {
        FAIL(GRAIL_ERROR_UNSUPPORTED, "its protocol is not %d", PROTOCOL);
    }
out:
    pickle_close(number);
    return status;
}

static grail_status check_machine(const torch_file *file, size_t *at)
{
    grail_status status = GRAIL_OK;
    int64_t little_endian = 1;
    pickle *facts = NULL;
    TRY(next_pickle(file, at, "its facts about its machine", &facts));
    (void)pickle_integer(pickle_find(pickle_root(facts), "little_endian"), &little_endian);
    if (little_endian != 1) {
        FAIL(GRAIL_ERROR_UNSUPPORTED,
             "is not little-endian; load and save it with torch on this machine");
    }
out:
    pickle_close(facts);
    return status;
}

static grail_status copy_key(torch_file *file, pickle_span key, const char **out)
{
    char *copy = NULL;
    CHECK(memory_new(&copy, key.size + 1, 1));
    memcpy(copy, key.data, key.size);
    *out = copy;
    return torch_own(file, copy);
}

static grail_status list_keys(torch_file *file, const pickle_value *keys)
{
    const int64_t count = pickle_count(keys);
    if (keys->kind != PICKLE_LIST) {
        return error_set(GRAIL_ERROR_FORMAT, "its list of storages is %s", pickle_kind_text(keys));
    }
    CHECK(memory_new(&file->storages, (size_t)count, sizeof file->storages[0]));
    file->storage_count = count;
    for (int64_t i = 0; i < count; i++) {
        pickle_span key = {0};
        if (!pickle_text(pickle_item(keys, i), &key) || memchr(key.data, 0, key.size) != NULL) {
            return error_set(GRAIL_ERROR_FORMAT, "the key of storage %lld is not text",
                             (long long)i);
        }
        CHECK(copy_key(file, key, &file->storages[i].key));
    }
    CHECK(name_index_init(&file->storage_index, count, file->storages, sizeof file->storages[0]));
    const char *twice = name_index_twice(&file->storage_index);
    if (twice != NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "storage '%s' is listed twice", twice);
    }
    return GRAIL_OK;
}

/* The size of a storage, as stated in the object. */
typedef struct storage_size {
    int64_t elements;
    size_t element_size; /* 0: not stated */
} storage_size;

/* Only the references to a storage state the size of its elements. */
static grail_status size_storages(const torch_file *file, storage_size sizes[])
{
    for (int64_t i = 0; i < pickle_persistent_count(file->object); i++) {
        torch_reference reference = {0};
        bool is_storage = false;
        CHECK(torch_read_reference(pickle_persistent_at(file->object, i), &is_storage, &reference));
        const torch_storage *storage = is_storage ? torch_find_storage(file, reference.key) : NULL;
        if (storage == NULL) {
            continue;
        }
        storage_size *known = &sizes[storage - file->storages];
        const storage_size said = {reference.elements, reference.type->element_size};
        if (known->element_size != 0 &&
            (known->element_size != said.element_size || known->elements != said.elements)) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "the tensors give different sizes for storage '%s'", storage->key);
        }
        *known = said;
    }
    return GRAIL_OK;
}

/* Reads one storage at `*at`: the count of its elements, then the elements. */
static grail_status place_storage(torch_file *file, int64_t i, storage_size size, size_t *at)
{
    size_t bytes = 0;
    const char *key = file->storages[i].key;
    if (size.element_size == 0) {
        return error_set(GRAIL_ERROR_FORMAT, "storage '%s' is listed, but no tensor refers to it",
                         key);
    }
    if (file->list->size - *at < COUNT_SIZE) {
        return error_set(GRAIL_ERROR_FORMAT, "ends before storage '%s': truncated?", key);
    }
    const int64_t elements = (int64_t)load_little(file->list->bytes + *at, COUNT_SIZE);
    *at += COUNT_SIZE;
    if (elements != size.elements) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "storage '%s' has %lld elements, but the tensors expect %lld", key,
                         (long long)elements, (long long)size.elements);
    }
    if (!size_multiply((size_t)elements, size.element_size, &bytes) ||
        bytes > file->list->size - *at) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "storage '%s' has %lld elements of %zu bytes, but %zu bytes are left: "
                         "truncated?",
                         key, (long long)elements, size.element_size, file->list->size - *at);
    }
    file->storages[i] =
        (torch_storage){.key = key, .data = file->list->bytes + *at, .bytes = bytes};
    *at += bytes;
    return GRAIL_OK;
}

static grail_status place_storages(torch_file *file, size_t at)
{
    grail_status status = GRAIL_OK;
    storage_size *sizes = NULL;
    TRY(memory_new(&sizes, (size_t)file->storage_count, sizeof sizes[0]));
    TRY(size_storages(file, sizes));
    for (int64_t i = 0; i < file->storage_count; i++) {
        TRY(place_storage(file, i, sizes[i], &at));
    }
    if (at != file->list->size) {
        FAIL(GRAIL_ERROR_FORMAT, "its storages end at byte %zu, but the file has %zu bytes", at,
             file->list->size);
    }
out:
    memory_free(sizes);
    return status;
}

grail_status torch_read_legacy(torch_file *file)
{
    grail_status status = GRAIL_OK;
    pickle *keys = NULL;
    size_t at = sizeof magic;
    TRY(check_protocol(file, &at));
    TRY(check_machine(file, &at));
    TRY(next_pickle(file, &at, "its object", &file->object));
    TRY(next_pickle(file, &at, "its list of storages", &keys));
    TRY(list_keys(file, pickle_root(keys)));
    TRY(place_storages(file, at));
out:
    pickle_close(keys);
    return status;
}
