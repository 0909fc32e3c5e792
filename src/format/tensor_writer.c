#include "format/tensor_writer.h"

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/file.h"
#include "base/utf8.h"
#include "format/tensor_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static grail_status fill_slot(const tensor_view *tensor, tensor_slot *slot)
{
    const size_t length = strlen(tensor->name);
    const size_t valid = utf8_valid_prefix(tensor->name, length);
    if (length > TENSOR_LONGEST_NAME) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the name has more than %d bytes",
                         TENSOR_LONGEST_NAME);
    }
    if (valid != length) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the name is not UTF-8 at byte %zu", valid);
    }
    if (tensor->rank < 0 || tensor->rank > TENSOR_MAX_RANK) {
        return error_set(GRAIL_ERROR_ARGUMENT, "rank %d is not in 0 .. %d", tensor->rank,
                         TENSOR_MAX_RANK);
    }
    CHECK(memory_copy_string(&slot->name, tensor->name));
    slot->dtype = tensor->dtype;
    slot->rank = tensor->rank;
    memcpy(slot->shape, tensor->shape, (size_t)tensor->rank * sizeof tensor->shape[0]);
    tensor_view measured = *tensor;
    CHECK(tensor_measure(&measured, GRAIL_ERROR_ARGUMENT));
    slot->bytes = measured.bytes;
    return GRAIL_OK;
}

static grail_status declare(tensor_writer *writer, int64_t count, const tensor_view tensors[])
{
    if (count < 0 || count > TENSOR_MOST_IN_FILE) {
        return error_set(GRAIL_ERROR_ARGUMENT, "%lld tensors are not in 0 .. %d", (long long)count,
                         TENSOR_MOST_IN_FILE);
    }
    CHECK(memory_new(&writer->items, (size_t)count, sizeof *writer->items));
    for (int64_t i = 0; i < count; i++) {
        writer->count = i + 1; /* before filling, so that a partly filled slot is freed too */
        CHECK(error_in(fill_slot(&tensors[i], &writer->items[i]), "tensor '%s'", tensors[i].name));
    }
    return GRAIL_OK;
}

/* After the layout, which may sort the tensors. */
static grail_status index_tensors(tensor_writer *writer)
{
    CHECK(name_index_init(&writer->index, writer->count, writer->items, sizeof writer->items[0]));
    const char *twice = name_index_twice(&writer->index);
    return twice == NULL ? GRAIL_OK
                         : error_set(GRAIL_ERROR_ARGUMENT, "tensor '%s' is given twice", twice);
}

/* If the file system cannot reserve space, the file only gets its size, and a full disk shows at a
 * later write. */
static grail_status reserve_space(int descriptor, const char *path, size_t bytes)
{
    int code = 0;
    do {
        code = posix_fallocate(descriptor, 0, (off_t)bytes);
    } while (code == EINTR);
    if ((code == EOPNOTSUPP || code == EINVAL) && ftruncate(descriptor, (off_t)bytes) == 0) {
        return GRAIL_OK;
    }
    if (code == 0) {
        return GRAIL_OK;
    }
    errno = code;
    const grail_status status = error_from_errno("cannot reserve space for", path);
    error_append(" (%zu bytes needed)", bytes);
    return status;
}

static grail_status write_piece(const tensor_writer *w, const layout_piece *piece)
{
    return file_write_at(w->descriptor, w->path, w->layout.bytes.bytes + piece->at, piece->size,
                         piece->begin);
}

static grail_status write_layout(const tensor_writer *w)
{
    CHECK(reserve_space(w->descriptor, w->path, w->layout.file_size));
    for (int64_t i = 0; i < w->layout.piece_count; i++) {
        CHECK(write_piece(w, &w->layout.pieces[i]));
    }
    return file_flush(w->descriptor, w->path);
}

static grail_status check_layout(const tensor_writer *w)
{
    grail_status status = GRAIL_OK;
    unsigned char *found = NULL;
    bool same = lseek(w->descriptor, 0, SEEK_END) == (off_t)w->layout.file_size;
    for (int64_t i = 0; same && i < w->layout.piece_count; i++) {
        const layout_piece *piece = &w->layout.pieces[i];
        TRY(memory_resize(&found, piece->size, 1));
        TRY(file_read_at(w->descriptor, w->path, found, piece->size, piece->begin));
        same = memcmp(found, w->layout.bytes.bytes + piece->at, piece->size) == 0;
    }
    if (!same) {
        FAIL(GRAIL_ERROR_EXISTS,
             "cannot continue '%s': it is damaged, or was prepared for other tensors; remove it to "
             "start anew",
             w->path);
    }
out:
    memory_free(found);
    return status;
}

static grail_status open_file(tensor_writer *w, layout_start start)
{
    const int creates = start == LAYOUT_NEW ? O_CREAT | O_EXCL : 0;
    const int follows = start == LAYOUT_EMPTY ? 0 : O_NOFOLLOW; /* a way to a file without a name */
    w->descriptor = file_open(AT_FDCWD, w->path, O_RDWR | follows | creates);
    if (w->descriptor < 0) {
        return errno == EEXIST
                   ? error_set(GRAIL_ERROR_EXISTS, "'%s' already exists; remove it first", w->path)
                   : error_from_errno(start == LAYOUT_NEW ? "cannot create" : "cannot open",
                                      w->path);
    }
    const grail_status status = start == LAYOUT_CONTINUED ? check_layout(w) : write_layout(w);
    if (status != GRAIL_OK && start == LAYOUT_NEW) {
        unlink(w->path);
    }
    return status;
}

grail_status tensor_writer_open(const char *path, tensor_layout lay_out, const void *own,
                                int64_t count, const tensor_view tensors[], layout_start start,
                                tensor_writer **out)
{
    grail_status status = GRAIL_OK;
    tensor_writer *writer = NULL;
    TRY(memory_new(&writer, 1, sizeof *writer));
    writer->descriptor = -1;
    TRY(memory_copy_string(&writer->path, path));
    TRY(error_in(declare(writer, count, tensors), "%s", path));
    TRY(error_in(lay_out(writer, own), "%s", path));
    TRY(error_in(index_tensors(writer), "%s", path));
    TRY(open_file(writer, start));
    *out = writer;
    writer = NULL;
out:
    tensor_writer_close(writer);
    return status;
}

/* The item of a declared tensor of that size. */
static grail_status find(const tensor_writer *writer, const char *name, size_t bytes,
                         tensor_slot **out)
{
    const int64_t i = name_index_find(&writer->index, name);
    if (i < 0) {
        return error_set(GRAIL_ERROR_ARGUMENT, "%s: has no place for a tensor '%s'", writer->path,
                         name);
    }
    if (bytes != writer->items[i].bytes) {
        return error_set(GRAIL_ERROR_SHAPE, "%s: tensor '%s' takes %zu bytes, but %zu are given",
                         writer->path, name, writer->items[i].bytes, bytes);
    }
    *out = &writer->items[i];
    return GRAIL_OK;
}

/* The bytes, then their checksum. A run that is interrupted in between writes the tensor again when
 * it is resumed. */
grail_status tensor_writer_put(tensor_writer *writer, const char *name, const void *data,
                               size_t bytes)
{
    tensor_slot *slot = NULL;
    CHECK(find(writer, name, bytes, &slot));
    if (slot->written) {
        return error_set(GRAIL_ERROR_ARGUMENT, "%s: tensor '%s' is written a second time",
                         writer->path, name);
    }
    CHECK(file_write_at(writer->descriptor, writer->path, data, slot->bytes, slot->place));
    for (int i = 0; i < 2 && slot->checksums[i] > 0; i++) {
        unsigned char checksum[4];
        store_little(checksum, sizeof checksum, checksum_crc32(data, slot->bytes));
        CHECK(file_write_at(writer->descriptor, writer->path, checksum, sizeof checksum,
                            slot->checksums[i]));
    }
    slot->written = true;
    return GRAIL_OK;
}

grail_status tensor_writer_get(const tensor_writer *writer, const char *name, void *data,
                               size_t bytes)
{
    tensor_slot *slot = NULL;
    CHECK(find(writer, name, bytes, &slot));
    return file_read_at(writer->descriptor, writer->path, data, bytes, slot->place);
}

grail_status tensor_writer_flush(const tensor_writer *writer)
{
    return file_flush(writer->descriptor, writer->path);
}

grail_status tensor_writer_seal(const tensor_writer *writer)
{
    CHECK(tensor_writer_flush(writer));
    CHECK(write_piece(writer, &writer->layout.seal));
    return tensor_writer_flush(writer);
}

grail_status file_layout_add(file_layout *layout, const void *bytes, size_t size, size_t begin)
{
    const size_t count = (size_t)layout->piece_count;
    if (size == 0) {
        return GRAIL_OK;
    }
    CHECK(memory_reserve(&layout->pieces, count + 1, sizeof layout->pieces[0]));
    layout->pieces[layout->piece_count++] = (layout_piece){begin, layout->bytes.size, size};
    return buffer_append(&layout->bytes, bytes, size);
}

void file_layout_fini(file_layout *layout)
{
    buffer_fini(&layout->bytes);
    memory_free(layout->pieces);
    *layout = (file_layout){0};
}

void tensor_writer_close(tensor_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    for (int64_t i = 0; i < writer->count; i++) {
        memory_free(writer->items[i].name);
    }
    memory_free(writer->items);
    name_index_fini(&writer->index);
    if (writer->descriptor >= 0) {
        close(writer->descriptor);
    }
    file_layout_fini(&writer->layout);
    memory_free(writer->path);
    memory_free(writer);
}
