/* Opens torch checkpoints and returns their tensors. The zip format of torch 1.6 and later has one
 * folder with data.pkl and the storages as data/<key>. */
#include "format/torch/torch_internal.h"

#include <string.h>

/* The number that files of torch before 1.6 begin with, as a pickle. Source:
 * torch/serialization.py, MAGIC_NUMBER. */
static const unsigned char legacy_magic[] = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46,
                                             0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, 0x2e};

enum { LONGEST_ORDER = 64, TAR_MAGIC = 257 };

static grail_status check_kind(const torch_file *file)
{
    static const char little[] = "little";
    const zip_member *order = torch_find_member(file, "", (pickle_span){"byteorder", 9});
    if (torch_find_member(file, "", (pickle_span){"constants.pkl", 13}) != NULL) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "is a TorchScript archive, which is not read; save its weights in Python, "
                         "torch.save(torch.jit.load(PATH, \"cpu\").state_dict(), \"weights.pth\"), "
                         "or open it with Model.from_torch_file of the Python package");
    }
    for (int64_t i = 0; i < file->zip->count; i++) {
        if (file->zip->members[i].is_compressed) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "member '%s' is compressed, and compressed members are not "
                             "read" TORCH_REMEDY,
                             file->zip->members[i].name);
        }
    }
    if (order == NULL ||
        (order->size <= LONGEST_ORDER && order->size >= sizeof little - 1 &&
         memcmp(file->list->bytes + order->offset, little, sizeof little - 1) == 0)) {
        return GRAIL_OK;
    }
    return error_set(GRAIL_ERROR_UNSUPPORTED,
                     "is not little-endian; load and save it with torch on this machine");
}

static grail_status read_file(torch_file *file)
{
    const zip_member *object = NULL;
    const unsigned char *bytes = file->list->bytes;
    const size_t size = file->list->size;
    if (size < 4 || memcmp(bytes, "PK\x03\x04", 4) != 0) {
        if (size >= sizeof legacy_magic && memcmp(bytes, legacy_magic, sizeof legacy_magic) == 0) {
            return error_set(
                GRAIL_ERROR_UNSUPPORTED,
                "is in the format of torch before 1.6, which is not read" TORCH_REMEDY);
        }
        /* before that format torch wrote tar archives */
        if (size > TAR_MAGIC + 5 && memcmp(bytes + TAR_MAGIC, "ustar", 5) == 0) {
            return error_set(
                GRAIL_ERROR_UNSUPPORTED,
                "is a tar archive, the format of torch before 0.1.10; load it and save "
                "it again with a newer torch");
        }
        return error_set(GRAIL_ERROR_FORMAT, "is not a torch checkpoint");
    }
    CHECK(zip_reader_open(bytes, size, &file->zip));
    /* Finds the member <root>/data.pkl, where <root> is the name of one folder. */
    const zip_member *found = NULL;
    for (int64_t i = 0; i < file->zip->count; i++) {
        const zip_member *member = &file->zip->members[i];
        const char *slash = strchr(member->name, '/');
        if (slash == NULL || slash == member->name || strcmp(slash, "/data.pkl") != 0) {
            continue;
        }
        if (found != NULL) {
            return error_set(GRAIL_ERROR_FORMAT, "holds both '%s' and '%s'", found->name,
                             member->name);
        }
        found = member;
        file->root = member->name;
        file->root_length = (size_t)(slash - member->name);
    }
    if (found == NULL) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "is a zip archive without a data.pkl in a folder, so it is not a torch checkpoint");
    }
    object = found;
    CHECK(check_kind(file));
    if (object->size > TORCH_LARGEST_PICKLE) {
        return error_set(GRAIL_ERROR_FORMAT, "member '%s' has %zu bytes, more than the allowed %d",
                         object->name, object->size, TORCH_LARGEST_PICKLE);
    }
    CHECK(error_in(pickle_read(bytes + object->offset, object->size, &file->object), "%s",
                   object->name));
    return torch_collect(file);
}

static void free_parts(void *parts)
{
    torch_file *file = parts;
    for (int64_t i = 0; i < file->owned_count; i++) {
        memory_free(file->owned[i]);
    }
    memory_free(file->owned);
    memory_free(file->pending);
    pickle_close(file->object);
    zip_reader_close(file->zip);
    memory_free(file);
}

static grail_status read_tensors(tensor_file *list)
{
    torch_file *file = NULL;
    CHECK(memory_new(&file, 1, sizeof *file));
    file->list = list;
    list->parts = file;
    list->free_parts = free_parts;
    list->load = torch_load;
    return read_file(file);
}

grail_status torch_file_open_bytes(const char *name, const void *bytes, size_t size,
                                   tensor_file **out)
{
    return tensor_file_open_bytes(name, bytes, size, read_tensors, out);
}

grail_status torch_file_open(const char *path, tensor_file **out)
{
    return tensor_file_open(path, read_tensors, out);
}
