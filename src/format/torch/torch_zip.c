/* The zip format of torch 1.6 and later: one folder with data.pkl and the storages as data/<key>.
 */
#include "format/torch/torch_internal.h"

#include <string.h>

static const char object_name[] = "/data.pkl";

/* Finds the member <root>/data.pkl, where <root> is the name of one folder. */
static grail_status find_object(const zip_reader *zip, const zip_member **out)
{
    const zip_member *found = NULL;
    for (int64_t i = 0; i < zip_reader_count(zip); i++) {
        const zip_member *member = zip_reader_at(zip, i);
        const char *slash = strchr(member->name, '/');
        if (slash == NULL || slash == member->name || strcmp(slash, object_name) != 0) {
            continue;
        }
        if (found != NULL) {
            return error_set(GRAIL_ERROR_FORMAT, "holds both '%s' and '%s'", found->name,
                             member->name);
        }
        found = member;
    }
    if (found == NULL) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "is a zip archive without a data.pkl in a folder, so it is not a torch checkpoint");
    }
    *out = found;
    return GRAIL_OK;
}

static const zip_member *find_beside(const zip_reader *zip, size_t root, const zip_member *object,
                                     const char *name)
{
    char path[ZIP_LONGEST_NAME + 32];
    memcpy(path, object->name, root + 1);
    stpcpy(path + root + 1, name);
    return zip_reader_find(zip, path);
}

static grail_status check_byte_order(const torch_file *file, const zip_member *order)
{
    enum { LONGEST = 64 };
    static const char little[] = "little";
    if (order == NULL ||
        (order->size <= LONGEST && order->size >= sizeof little - 1 &&
         memcmp(file->list->bytes + order->offset, little, sizeof little - 1) == 0)) {
        return GRAIL_OK;
    }
    return error_set(GRAIL_ERROR_UNSUPPORTED,
                     "is not little-endian; load and save it with torch on this machine");
}

static grail_status read_object(torch_file *file, const zip_member *object)
{
    if (object->size > TORCH_LARGEST_PICKLE) {
        return error_set(GRAIL_ERROR_FORMAT, "member '%s' has %zu bytes, more than the allowed %d",
                         object->name, object->size, TORCH_LARGEST_PICKLE);
    }
    return error_in(pickle_read(file->list->bytes + object->offset, object->size, &file->object),
                    "%s", object->name);
}

static grail_status check_kind(const torch_file *file, const zip_member *constants)
{
    if (constants != NULL) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "is a TorchScript archive, which is not read; save its weights in Python, "
                         "torch.save(torch.jit.load(PATH, \"cpu\").state_dict(), \"weights.pth\"), "
                         "or open it with Model.from_torch_file of the Python package");
    }
    for (int64_t i = 0; i < zip_reader_count(file->zip); i++) {
        const zip_member *member = zip_reader_at(file->zip, i);
        if (member->is_compressed) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "member '%s' is compressed, and compressed members are not "
                             "read" TORCH_REMEDY,
                             member->name);
        }
    }
    return GRAIL_OK;
}

/* Lists every member <root>/data/<key>. */
static grail_status list_storages(torch_file *file, const char *root, size_t root_length)
{
    static const char folder[] = "/data/";
    const int64_t members = zip_reader_count(file->zip);
    CHECK(memory_new(&file->storages, (size_t)members, sizeof file->storages[0]));
    for (int64_t i = 0; i < members; i++) {
        const zip_member *member = zip_reader_at(file->zip, i);
        if (strncmp(member->name, root, root_length) != 0 ||
            strncmp(member->name + root_length, folder, sizeof folder - 1) != 0) {
            continue;
        }
        file->storages[file->storage_count++] = (torch_storage){
            .key = member->name + root_length + sizeof folder - 1,
            .data = file->list->bytes + member->offset,
            .bytes = member->size,
        };
    }
    return name_index_init(&file->storage_index, file->storage_count, file->storages,
                           sizeof file->storages[0]);
}

grail_status torch_read_zip(torch_file *file)
{
    const zip_member *object = NULL;
    CHECK(zip_reader_open(file->list->bytes, file->list->size, &file->zip));
    CHECK(find_object(file->zip, &object));
    const size_t root = strlen(object->name) - (sizeof object_name - 1);
    CHECK(check_kind(file, find_beside(file->zip, root, object, "constants.pkl")));
    CHECK(check_byte_order(file, find_beside(file->zip, root, object, "byteorder")));
    CHECK(list_storages(file, object->name, root));
    return read_object(file, object);
}
