#include "torch_bytes.h"

#include "support/support.h"

#include "format/torch/zip.h"

#include <string.h>

static void put(buffer *out, const char *text)
{
    assert_ok(buffer_append_string(out, text));
}

void torch_bytes_text(buffer *out, const char *text)
{
    const unsigned char head[] = {'X', (unsigned char)strlen(text), 0, 0, 0};
    assert_ok(buffer_append(out, head, sizeof head));
    put(out, text);
}

/* LONG1, so that every number takes the same place */
void torch_bytes_integer(buffer *out, int64_t value)
{
    assert_ok(buffer_append(out, "\x8a\x08", 2));
    assert_ok(buffer_append(out, &value, sizeof value));
}

static void put_tuple(buffer *out, int count, const int64_t values[])
{
    put(out, "(");
    for (int i = 0; i < count; i++) {
        torch_bytes_integer(out, values[i]);
    }
    put(out, "t");
}

static void put_storage(buffer *out, const torch_tensor_bytes *tensor)
{
    const char *class = tensor->class == NULL ? "FloatStorage" : tensor->class;
    put(out, "(");
    torch_bytes_text(out, "storage");
    assert_ok(buffer_format(out, "ctorch\n%s\n", class));
    torch_bytes_text(out, tensor->key == NULL ? "0" : tensor->key);
    torch_bytes_text(out, "cpu");
    torch_bytes_integer(out, tensor->elements);
    put(out, "tQ");
}

void torch_bytes_tensor(buffer *out, const torch_tensor_bytes *tensor)
{
    const char *function = tensor->function == NULL ? "_rebuild_tensor_v2" : tensor->function;
    assert_ok(buffer_format(out, "ctorch._utils\n%s\n(", function));
    put_storage(out, tensor);
    torch_bytes_integer(out, tensor->offset);
    put_tuple(out, tensor->rank, tensor->shape);
    put_tuple(out, tensor->strides == 0 ? tensor->rank : tensor->strides, tensor->stride);
    put(out, "\x89"
             "ccollections\nOrderedDict\n)R");
    if (tensor->dtype != NULL) {
        assert_ok(buffer_format(out, "ctorch\n%s\n", tensor->dtype));
    }
    put(out, "tR");
}

void torch_bytes_item(buffer *out, const torch_tensor_bytes *tensor)
{
    torch_bytes_text(out, tensor->name);
    torch_bytes_tensor(out, tensor);
}

void torch_bytes_dict(buffer *out, int count, const torch_tensor_bytes tensors[])
{
    put(out, "\x80\x02}(");
    for (int i = 0; i < count; i++) {
        torch_bytes_item(out, &tensors[i]);
    }
    put(out, "u.");
}

void torch_bytes_zip(int count, const torch_member members[], buffer *out)
{
    static const unsigned char zeros[4096];
    OWNED(zip_layout) layout;
    zip_layout_init(&layout);
    for (int i = 0; i < count; i++) {
        assert_ok(zip_layout_add(&layout, members[i].name, members[i].data, members[i].size));
    }
    assert_ok(zip_layout_finish(&layout));
    while (out->size < layout.file.file_size) {
        const size_t left = layout.file.file_size - out->size;
        assert_ok(buffer_append(out, zeros, left < sizeof zeros ? left : sizeof zeros));
    }
    for (int64_t i = 0; i <= layout.file.piece_count; i++) {
        const layout_piece *piece =
            i < layout.file.piece_count ? &layout.file.pieces[i] : &layout.file.seal;
        memcpy(out->bytes + piece->begin, layout.file.bytes.bytes + piece->at, piece->size);
    }
}
