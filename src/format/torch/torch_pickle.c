/* Writes only opcodes that torch 1.13's restricted unpickler reads, and no memo, which is optional
 * (torch's serialization.py and _weights_only_unpickler.py). */
#include "format/torch/torch_pickle.h"

#include "base/bytes.h"
#include "format/torch/torch_dtypes.h"

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
static grail_status append_tensor(buffer *out, const tensor_view *tensor, int64_t key)
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

grail_status torch_pickle_append(const char *wrapper, int64_t count, const tensor_view tensors[],
                                 buffer *out)
{
    const bool is_wrapped = wrapper[0] != 0;
    CHECK(buffer_append_string(out, "\x80\x02"));
    if (is_wrapped) {
        CHECK(buffer_append_string(out, "}"));
        CHECK(append_text(out, wrapper));
    }
    CHECK(buffer_format(out, "%s(", empty_ordered_dict));
    for (int64_t i = 0; i < count; i++) {
        CHECK(append_text(out, tensors[i].name));
        CHECK(append_tensor(out, &tensors[i], i));
    }
    return buffer_append_string(out, is_wrapped ? "us." : "u.");
}
