/* Writes only opcodes that torch 1.13's restricted unpickler reads, and no memo, which is optional
 * (torch's serialization.py and _weights_only_unpickler.py). */
#include "format/torch/torch_pickle.h"

#include "format/torch/torch_dtypes.h"

#include <stdio.h>
#include <string.h>

static const char empty_ordered_dict[] = "ccollections\nOrderedDict\n)R";

/* BINUNICODE */
static grail_status append_text(buffer *out, const char *text)
{
    const size_t length = strlen(text);
    const unsigned char head[] = {'X', (unsigned char)length, (unsigned char)(length >> 8),
                                  (unsigned char)(length >> 16), (unsigned char)(length >> 24)};
    const grail_status status = buffer_append(out, head, sizeof head);
    return status == GRAIL_OK ? buffer_append_string(out, text) : status;
}

/* BININT1, BININT or LONG1; the value is not negative. */
static grail_status append_count(buffer *out, int64_t value)
{
    unsigned char bytes[10] = {0x8a, 8};
    if (value < 1 << 8) {
        return buffer_append(out, (const unsigned char[]){'K', (unsigned char)value}, 2);
    }
    for (size_t i = 0; i < 8; i++) {
        bytes[2 + i] = (unsigned char)((uint64_t)value >> (8 * i));
    }
    if (value > INT32_MAX) {
        return buffer_append(out, bytes, sizeof bytes);
    }
    bytes[1] = 'J';
    return buffer_append(out, bytes + 1, 5);
}

/* MARK counts TUPLE */
static grail_status append_counts(buffer *out, int count, const int64_t values[])
{
    grail_status status = GRAIL_OK;
    TRY(buffer_append_string(out, "("));
    for (int i = 0; i < count; i++) {
        TRY(append_count(out, values[i]));
    }
    TRY(buffer_append_string(out, "t"));
out:
    return status;
}

/* ('storage', class, key, 'cpu', elements), as a persistent reference */
static grail_status append_storage(buffer *out, const torch_dtype *type, int64_t key,
                                   int64_t elements)
{
    grail_status status = GRAIL_OK;
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)key);
    TRY(buffer_append_string(out, "("));
    TRY(append_text(out, "storage"));
    if (type->storage_class != NULL) {
        TRY(buffer_format(out, "ctorch\n%s\n", type->storage_class));
    } else {
        TRY(buffer_append_string(out, "ctorch.storage\nUntypedStorage\n"));
        elements *= (int64_t)type->element_size;
    }
    TRY(append_text(out, digits));
    TRY(append_text(out, "cpu"));
    TRY(append_count(out, elements));
    TRY(buffer_append_string(out, "tQ"));
out:
    return status;
}

/* _rebuild_tensor_v2(storage, 0, shape, strides, requires_grad = False, hooks = OrderedDict()), or
 * _v3 with the dtype at the end, for dtypes that have no storage class. */
static grail_status append_tensor(buffer *out, const tensor_view *tensor, int64_t key)
{
    grail_status status = GRAIL_OK;
    const torch_dtype *type = torch_dtype_for(tensor->dtype);
    int64_t strides[TENSOR_MAX_RANK];
    int64_t elements = 1;
    for (int d = tensor->rank - 1; d >= 0; d--) {
        strides[d] = elements;
        elements *= tensor->shape[d];
    }
    TRY(buffer_format(out, "ctorch._utils\n_rebuild_tensor_v%d\n(",
                      type->storage_class != NULL ? 2 : 3));
    TRY(append_storage(out, type, key, elements));
    TRY(append_count(out, 0));
    TRY(append_counts(out, tensor->rank, tensor->shape));
    TRY(append_counts(out, tensor->rank, strides));
    TRY(buffer_format(out, "\x89%s", empty_ordered_dict));
    if (type->storage_class == NULL) {
        TRY(buffer_format(out, "ctorch\n%s\n", type->name));
    }
    TRY(buffer_append_string(out, "tR"));
out:
    return status;
}

grail_status torch_pickle_append(const char *wrapper, int64_t count, const tensor_view tensors[],
                                 buffer *out)
{
    grail_status status = GRAIL_OK;
    const bool is_wrapped = wrapper[0] != 0;
    TRY(buffer_append_string(out, "\x80\x02"));
    if (is_wrapped) {
        TRY(buffer_append_string(out, "}"));
        TRY(append_text(out, wrapper));
    }
    TRY(buffer_format(out, "%s(", empty_ordered_dict));
    for (int64_t i = 0; i < count; i++) {
        TRY(append_text(out, tensors[i].name));
        TRY(append_tensor(out, &tensors[i], i));
    }
    TRY(buffer_append_string(out, is_wrapped ? "us." : "u."));
out:
    return status;
}
