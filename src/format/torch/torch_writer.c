/* Writes torch checkpoints in the zip format: archive/data.pkl, byteorder and version, then a
 * storage for every tensor. The pickle has only opcodes that torch 1.13's restricted unpickler
 * reads, and no memo, which is optional (torch's serialization.py and _weights_only_unpickler.py).
 */
#include "base/bytes.h"
#include "format/torch/torch_dtypes.h"
#include "format/torch/torch_file.h"
#include "format/torch/zip.h"

#include <stdio.h>
#include <string.h>

static const char empty_ordered_dict[] = "ccollections\nOrderedDict\n)R";

/* BINUNICODE */
static grail_status append_text(buffer *out, const char *text)
{
    const size_t length = strlen(text);
    unsigned char head[5] = {'X'};
    store_little(head + 1, 4, length);
    CHECK(buffer_append(out, head, sizeof head));
    return buffer_append_string(out, text);
}

/* BININT1, BININT or LONG1; the value is not negative. */
static grail_status append_count(buffer *out, int64_t value)
{
    unsigned char bytes[10] = {0x8a, 8};
    if (value < 1 << 8) {
        return buffer_append(out, (const unsigned char[]){'K', (unsigned char)value}, 2);
    }
    store_little(bytes + 2, 8, (uint64_t)value);
    if (value > INT32_MAX) {
        return buffer_append(out, bytes, sizeof bytes);
    }
    bytes[1] = 'J';
    return buffer_append(out, bytes + 1, 5);
}

/* MARK counts TUPLE */
static grail_status append_counts(buffer *out, int count, const int64_t values[])
{
    CHECK(buffer_append_string(out, "("));
    for (int i = 0; i < count; i++) {
        CHECK(append_count(out, values[i]));
    }
    return buffer_append_string(out, "t");
}

/* ('storage', class, key, 'cpu', elements), as a persistent reference */
static grail_status append_storage(buffer *out, const torch_dtype *type, int64_t key,
                                   int64_t elements)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)key);
    CHECK(buffer_append_string(out, "("));
    CHECK(append_text(out, "storage"));
    if (type->storage_class != NULL) {
        CHECK(buffer_format(out, "ctorch\n%s\n", type->storage_class));
    } else {
        CHECK(buffer_append_string(out, "ctorch.storage\nUntypedStorage\n"));
        elements *= (int64_t)type->element_size;
    }
    CHECK(append_text(out, digits));
    CHECK(append_text(out, "cpu"));
    CHECK(append_count(out, elements));
    return buffer_append_string(out, "tQ");
}

/* _rebuild_tensor_v2(storage, 0, shape, strides, requires_grad = False, hooks = OrderedDict()), or
 * _v3 with the dtype at the end, for dtypes that have no storage class. */
static grail_status append_tensor(buffer *out, const tensor_slot *tensor, int64_t key)
{
    const torch_dtype *type = torch_dtype_for(tensor->dtype);
    int64_t strides[TENSOR_MAX_RANK];
    int64_t elements = 1;
    for (int d = tensor->rank - 1; d >= 0; d--) {
        strides[d] = elements;
        elements *= tensor->shape[d];
    }
    CHECK(buffer_format(out, "ctorch._utils\n_rebuild_tensor_v%d\n(",
                        type->storage_class != NULL ? 2 : 3));
    CHECK(append_storage(out, type, key, elements));
    CHECK(append_count(out, 0));
    CHECK(append_counts(out, tensor->rank, tensor->shape));
    CHECK(append_counts(out, tensor->rank, strides));
    CHECK(buffer_format(out, "\x89%s", empty_ordered_dict));
    if (type->storage_class == NULL) {
        CHECK(buffer_format(out, "ctorch\n%s\n", type->name));
    }
    return buffer_append_string(out, "tR");
}

static grail_status add_members(zip_layout *zip, const tensor_writer *writer, const char *wrapper)
{
    grail_status status = GRAIL_OK;
    buffer object = {0};
    char name[48];
    buffer_init(&object, TORCH_LARGEST_PICKLE);
    /* {name: tensor}, under the key `wrapper` of another dictionary unless `wrapper` is "". Tensor
     * i takes all of storage i. */
    const bool is_wrapped = wrapper[0] != 0;
    TRY(buffer_append_string(&object, "\x80\x02"));
    if (is_wrapped) {
        TRY(buffer_append_string(&object, "}"));
        TRY(append_text(&object, wrapper));
    }
    TRY(buffer_format(&object, "%s(", empty_ordered_dict));
    for (int64_t j = 0; j < writer->count; j++) {
        TRY(append_text(&object, writer->items[j].name));
        TRY(append_tensor(&object, &writer->items[j], j));
    }
    TRY(buffer_append_string(&object, is_wrapped ? "us." : "u."));
    TRY(zip_layout_add(zip, "archive/data.pkl", object.bytes, object.size));
    TRY(zip_layout_add(zip, "archive/byteorder", "little", 6));
    TRY(zip_layout_add(zip, "archive/version", "3\n", 2));
    for (int64_t i = 0; i < writer->count; i++) {
        snprintf(name, sizeof name, "archive/data/%lld", (long long)i);
        TRY(zip_layout_add(zip, name, NULL, writer->items[i].bytes));
    }
    TRY(zip_layout_finish(zip));
out:
    buffer_fini(&object);
    return status;
}

/* Tensor i is storage i, and the last members are the storages. */
static grail_status lay_out(tensor_writer *writer, const void *wrapper)
{
    grail_status status = GRAIL_OK;
    zip_layout zip;
    zip_layout_init(&zip);
    for (int64_t i = 0; i < writer->count; i++) {
        if (torch_dtype_for(writer->items[i].dtype) == NULL) {
            FAIL(GRAIL_ERROR_UNSUPPORTED,
                 "tensor '%s': torch has no dtype for %s; write safetensors", writer->items[i].name,
                 grail_dtype_name(writer->items[i].dtype));
        }
    }
    TRY(add_members(&zip, writer, wrapper));
    for (int64_t i = 0; i < writer->count; i++) {
        const zip_place *place = &zip.members[zip.count - writer->count + i];
        tensor_slot *slot = &writer->items[i];
        slot->place = place->data;
        slot->checksums[0] = place->header_crc;
        slot->checksums[1] = place->directory_crc;
    }
    writer->layout = zip.file;
    zip.file = (file_layout){0};
out:
    zip_layout_fini(&zip);
    return status;
}

grail_status torch_writer_open(const char *path, const char *wrapper, int64_t count,
                               const tensor_view tensors[], layout_start start, tensor_writer **out)
{
    return tensor_writer_open(path, lay_out, wrapper, count, tensors, start, out);
}
