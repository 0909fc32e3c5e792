#include "format/onnx/onnx_layout.h"

#include "base/file.h"
#include "format/onnx/onnx_fields.h"
#include "format/onnx/onnx_message.h"

#include <string.h>
#include <unistd.h>

enum {
    LARGEST_TEXT = 1 << 30, /* of what is not copied from elsewhere */
    PAGE = 4096             /* alignment of values in another file, so that they can be mapped */
};

typedef struct piece {
    const unsigned char *bytes; /* NULL: from `at` in the text on */
    size_t at, size;
    onnx_place *place; /* of values; NULL: bytes */
} piece;

void onnx_layout_init(onnx_layout *l)
{
    *l = (onnx_layout){.model = {.descriptor = -1}};
    buffer_init(&l->text, LARGEST_TEXT);
}

void onnx_layout_fini(onnx_layout *l)
{
    for (int64_t i = 0; i < l->file_count; i++) {
        output_file_fini(&l->files[i].file);
        memory_free(l->files[i].location);
    }
    output_file_fini(&l->model);
    buffer_fini(&l->text);
    memory_free(l->pieces);
    memory_free(l->files);
}

void onnx_layout_restart(onnx_layout *l)
{
    l->text.size = 0;
    l->taken = 0;
    l->piece_count = 0;
    l->size = 0;
}

static grail_status add_piece(onnx_layout *l, piece p)
{
    piece *last = l->piece_count == 0 ? NULL : &l->pieces[l->piece_count - 1];
    if (!size_add(l->size, p.size, &l->size)) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the model takes more bytes than a file can hold");
    }
    if (last != NULL && p.bytes != NULL && last->bytes != NULL &&
        last->bytes + last->size == p.bytes) {
        last->size += p.size;
        return GRAIL_OK;
    }
    CHECK(memory_reserve(&l->pieces, l->piece_count + 1, sizeof p));
    l->pieces[l->piece_count++] = p;
    return GRAIL_OK;
}

grail_status onnx_layout_keep(onnx_layout *l, byte_range bytes)
{
    return bytes.size == 0 ? GRAIL_OK : add_piece(l, (piece){bytes.bytes, .size = bytes.size});
}

grail_status onnx_layout_text(onnx_layout *l)
{
    const size_t at = l->taken;
    l->taken = l->text.size;
    return add_piece(l, (piece){.at = at, .size = l->text.size - at});
}

grail_status onnx_layout_values(onnx_layout *l, size_t bytes, onnx_place *place)
{
    place->is_laid = true;
    if (place->file >= 0) {
        const char *location = l->files[place->file].location;
        CHECK(onnx_put_location(&l->text, location, place->offset, bytes));
        return onnx_layout_text(l);
    }
    CHECK(protobuf_put_header(&l->text, TENSOR_RAW, bytes));
    CHECK(onnx_layout_text(l));
    return add_piece(l, (piece){.size = bytes, .place = place});
}

/* An empty piece, which becomes the header when the size is known. */
grail_status onnx_layout_begin(onnx_layout *l, onnx_open_field *out)
{
    CHECK(add_piece(l, (piece){0}));
    *out = (onnx_open_field){l->piece_count - 1, l->size};
    return GRAIL_OK;
}

grail_status onnx_layout_end(onnx_layout *l, uint32_t field, onnx_open_field open)
{
    piece *header = &l->pieces[open.piece];
    header->at = l->text.size;
    CHECK(protobuf_put_header(&l->text, field, l->size - open.size));
    header->size = l->text.size - header->at;
    l->taken = l->text.size;
    l->size += header->size;
    return GRAIL_OK;
}

grail_status onnx_layout_add_file(onnx_layout *l, const char *path, const char *location,
                                  int64_t *out)
{
    const char *slash = path == NULL ? NULL : strrchr(path, '/');
    CHECK(memory_reserve(&l->files, (size_t)l->file_count + 1, sizeof *l->files));
    onnx_beside *f = &l->files[l->file_count];
    *f = (onnx_beside){.file = {.descriptor = -1}};
    CHECK(location != NULL
              ? memory_copy_string(&f->location, location)
              : memory_format(&f->location, "%s.data", slash == NULL ? path : slash + 1));
    *out = l->file_count++;
    return GRAIL_OK;
}

void onnx_layout_move(onnx_layout *l, int64_t file, size_t bytes, onnx_place *out)
{
    onnx_beside *f = &l->files[file];
    *out = (onnx_place){.file = file, .offset = f->end, .is_laid = true};
    f->end += ((uint64_t)bytes + PAGE - 1) / PAGE * PAGE;
}

static grail_status open_files(onnx_layout *l, const char *path)
{
    grail_status status = GRAIL_OK;
    char *directory = NULL;
    char *name = NULL;
    TRY(path_parent(&directory, path));
    for (int64_t i = 0; i < l->file_count; i++) {
        memory_free(name);
        name = NULL;
        TRY(path_join(&name, directory, l->files[i].location));
        TRY(output_file_open(name, false, &l->files[i].file));
    }
    TRY(output_file_open(path, false, &l->model));
out:
    memory_free(name);
    memory_free(directory);
    return status;
}

grail_status onnx_layout_write(onnx_layout *l, const char *path)
{
    const output_file *f = &l->model;
    uint64_t offset = 0;
    CHECK(open_files(l, path));
    for (size_t i = 0; i < l->piece_count; i++) {
        const piece *p = &l->pieces[i];
        if (p->place != NULL) {
            p->place->offset = offset;
        } else {
            CHECK(file_write_at(f->descriptor, f->path,
                                p->bytes != NULL ? p->bytes : l->text.bytes + p->at, p->size,
                                offset));
        }
        offset += p->size;
    }
    return GRAIL_OK;
}

/* Kept bytes come in the order of the file, as do the holes in them. */
static grail_status describe_around(file_layout *out, const piece *p, size_t at, size_t count,
                                    const onnx_hole holes[], size_t *next)
{
    const unsigned char *from = p->bytes;
    const unsigned char *end = p->bytes + p->size;
    while (*next < count && holes[*next].values.bytes < p->bytes) {
        ++*next;
    }
    while (*next < count && holes[*next].values.bytes < end) {
        const byte_range *values = &holes[*next].values;
        const size_t place = at + (size_t)(values->bytes - p->bytes);
        CHECK(file_layout_add(out, from, (size_t)(values->bytes - from),
                              at + (size_t)(from - p->bytes)));
        *holes[*next].at = place;
        from = values->bytes + values->size;
        ++*next;
    }
    return file_layout_add(out, from, (size_t)(end - from), at + (size_t)(from - p->bytes));
}

grail_status onnx_layout_describe(onnx_layout *l, size_t count, const onnx_hole holes[],
                                  file_layout *out)
{
    size_t at = 0;
    size_t next = 0;
    buffer_init(&out->bytes, SIZE_MAX / 4);
    for (size_t i = 0; i < l->piece_count; i++) {
        const piece *p = &l->pieces[i];
        if (p->place != NULL) {
            p->place->offset = at;
        } else if (p->bytes == NULL) {
            CHECK(file_layout_add(out, l->text.bytes + p->at, p->size, at));
        } else {
            CHECK(describe_around(out, p, at, count, holes, &next));
        }
        at += p->size;
    }
    out->file_size = at;
    out->seal = (layout_piece){.size = 1};
    out->pieces[0].begin++;
    out->pieces[0].at++;
    out->pieces[0].size--;
    return GRAIL_OK;
}

void onnx_layout_gather(onnx_layout *l, unsigned char *bytes)
{
    size_t at = 0;
    for (size_t i = 0; i < l->piece_count; i++) {
        const piece *p = &l->pieces[i];
        if (p->place != NULL) {
            p->place->offset = at;
        } else if (p->size > 0) {
            memcpy(bytes + at, p->bytes != NULL ? p->bytes : l->text.bytes + p->at, p->size);
        }
        at += p->size;
    }
}

grail_status onnx_layout_put(const onnx_layout *l, const onnx_place *place, uint64_t at,
                             const void *bytes, size_t size)
{
    const output_file *f = place->file < 0 ? &l->model : &l->files[place->file].file;
    return file_write_at(f->descriptor, f->path, bytes, size, place->offset + at);
}

/* A file may have appeared although its commit failed. */
static void take_back(const output_file *f)
{
    if (f->path != NULL && f->temporary == NULL) {
        unlink(f->path);
    }
}

grail_status onnx_layout_commit(onnx_layout *l)
{
    grail_status status = GRAIL_OK;
    for (int64_t i = 0; i < l->file_count && status == GRAIL_OK; i++) {
        status = output_file_commit(&l->files[i].file);
    }
    status = status == GRAIL_OK ? output_file_commit(&l->model) : status;
    if (status != GRAIL_OK) {
        take_back(&l->model);
        for (int64_t i = 0; i < l->file_count; i++) {
            take_back(&l->files[i].file);
        }
    }
    return status;
}
