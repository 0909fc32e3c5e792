#include "format/gguf/gguf_write.h"

#include "base/bytes.h"

#include <string.h>

enum { VERSION = 3, LARGEST_BEGIN = 1 << 30, WORD = 4 };

void gguf_pairs_init(gguf_pairs *pairs)
{
    *pairs = (gguf_pairs){.alignment = GGUF_USUAL_ALIGNMENT};
    buffer_init(&pairs->bytes, LARGEST_BEGIN);
}

void gguf_pairs_fini(gguf_pairs *pairs)
{
    buffer_fini(&pairs->bytes);
}

static grail_status append_number(buffer *b, size_t width, uint64_t value)
{
    unsigned char bytes[8];
    store_little(bytes, width, value);
    return buffer_append(b, bytes, width);
}

static grail_status append_text(buffer *b, const char *bytes, size_t size)
{
    CHECK(append_number(b, 8, size));
    return buffer_append(b, bytes, size);
}

static grail_status begin(gguf_pairs *pairs, const char *key, gguf_type type)
{
    CHECK(append_text(&pairs->bytes, key, strlen(key)));
    pairs->count++;
    return append_number(&pairs->bytes, 4, type);
}

grail_status gguf_append_integer(gguf_pairs *pairs, gguf_type type, int64_t value)
{
    const bool wide = type == GGUF_U64 || type == GGUF_I64;
    return append_number(&pairs->bytes, wide ? 8 : 4, (uint64_t)value);
}

grail_status gguf_append_real(gguf_pairs *pairs, double value)
{
    const float single = (float)value;
    return buffer_append(&pairs->bytes, &single, sizeof single);
}

grail_status gguf_append_text(gguf_pairs *pairs, const char *bytes, size_t size)
{
    return append_text(&pairs->bytes, bytes, size);
}

grail_status gguf_put_integer(gguf_pairs *pairs, const char *key, gguf_type type, int64_t value)
{
    CHECK(begin(pairs, key, type));
    return gguf_append_integer(pairs, type, value);
}

grail_status gguf_put_real(gguf_pairs *pairs, const char *key, double value)
{
    CHECK(begin(pairs, key, GGUF_F32));
    return gguf_append_real(pairs, value);
}

grail_status gguf_put_boolean(gguf_pairs *pairs, const char *key, bool value)
{
    CHECK(begin(pairs, key, GGUF_BOOL));
    return append_number(&pairs->bytes, 1, value ? 1 : 0);
}

grail_status gguf_put_text(gguf_pairs *pairs, const char *key, const char *text)
{
    CHECK(begin(pairs, key, GGUF_TEXT));
    return append_text(&pairs->bytes, text, strlen(text));
}

grail_status gguf_put_array(gguf_pairs *pairs, const char *key, gguf_type type, uint64_t count)
{
    CHECK(begin(pairs, key, GGUF_ARRAY));
    CHECK(append_number(&pairs->bytes, 4, type));
    return append_number(&pairs->bytes, 8, count);
}

grail_status gguf_put_value(gguf_pairs *pairs, const char *key, const gguf_value *value)
{
    if (value->is_array) {
        CHECK(gguf_put_array(pairs, key, value->type, value->count));
    } else {
        CHECK(begin(pairs, key, value->type));
    }
    if (strcmp(key, "general.alignment") == 0) {
        pairs->alignment = (size_t)load_little(value->bytes, 4);
    }
    return buffer_append(&pairs->bytes, value->bytes, value->size);
}

/* -- laying out -------------------------------------------------------------------------------- */

static grail_status append_tensor(const tensor_slot *slot, size_t offset, buffer *b)
{
    uint32_t type = 0;
    if (!gguf_tensor_number(slot->dtype, &type)) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "tensor '%s' has dtype %s, which GGUF lacks",
                         slot->name, grail_dtype_name(slot->dtype));
    }
    if (slot->rank > GGUF_MOST_DIMENSIONS) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "tensor '%s' has %d dimensions; GGUF files hold at most %d", slot->name,
                         slot->rank, GGUF_MOST_DIMENSIONS);
    }
    CHECK(append_text(b, slot->name, strlen(slot->name)));
    CHECK(append_number(b, 4, (uint64_t)slot->rank));
    for (int d = slot->rank - 1; d >= 0; d--) {
        CHECK(append_number(b, 8, (uint64_t)slot->shape[d]));
    }
    CHECK(append_number(b, 4, type));
    return append_number(b, 8, offset);
}

static bool round_up(size_t *size, size_t alignment)
{
    const size_t rest = *size % alignment;
    return !__builtin_add_overflow(*size, rest == 0 ? 0 : alignment - rest, size);
}

static grail_status lay_out(tensor_writer *writer, const void *own)
{
    const gguf_pairs *pairs = own;
    file_layout *layout = &writer->layout;
    size_t data = 0;
    buffer_init(&layout->bytes, SIZE_MAX / 4);
    /* All before the data, without the first word; the slots get their offsets in the data. */
    buffer *b = &writer->layout.bytes;
    CHECK(append_number(b, 4, VERSION));
    CHECK(append_number(b, 8, (uint64_t)writer->count));
    CHECK(append_number(b, 8, pairs->count));
    CHECK(buffer_append(b, pairs->bytes.bytes, pairs->bytes.size));
    data = 0;
    for (int64_t j = 0; j < writer->count; j++) {
        tensor_slot *slot = &writer->items[j];
        CHECK(append_tensor(slot, data, b));
        slot->place = data;
        if (__builtin_add_overflow(data, slot->bytes, &data) ||
            !round_up(&data, pairs->alignment)) {
            return error_set(GRAIL_ERROR_ARGUMENT, "the tensors take more than 2^64 bytes");
        }
    }
    const size_t described = layout->bytes.size;
    size_t begin_of_data = WORD + described;
    if (!round_up(&begin_of_data, pairs->alignment) ||
        __builtin_add_overflow(begin_of_data, data, &layout->file_size)) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the tensors take more than 2^64 bytes");
    }
    for (int64_t i = 0; i < writer->count; i++) {
        writer->items[i].place += begin_of_data;
    }
    CHECK(buffer_append(&layout->bytes, "GGUF", WORD));
    CHECK(memory_new(&layout->pieces, 1, sizeof layout->pieces[0]));
    layout->pieces[0] = (layout_piece){.begin = WORD, .size = described};
    layout->piece_count = 1;
    layout->seal = (layout_piece){.at = described, .size = WORD};
    return GRAIL_OK;
}

grail_status gguf_writer_open(const char *path, const gguf_pairs *pairs, int64_t count,
                              const tensor_view tensors[], layout_start start, tensor_writer **out)
{
    return tensor_writer_open(path, lay_out, pairs, count, tensors, start, out);
}
