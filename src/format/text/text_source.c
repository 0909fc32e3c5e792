#include "format/text/text_source.h"

#include <zlib.h>

enum { PIECE = 1 << 20 };

static grail_status check_size(size_t size)
{
    return size <= TEXT_LARGEST
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_FORMAT, "has %zu bytes, more than the allowed %zu", size,
                           TEXT_LARGEST);
}

grail_status text_source_open(text_source *source, const char *path)
{
    grail_status status = GRAIL_OK;
    file_map map = {0};
    TRY(file_map_open(&map, path));
    TRY(error_in(check_size(map.size), "%s", path));
    text_source_of_bytes(source, map.data, map.size);
    source->map = map;
    map = (file_map){0};
out:
    file_map_close(&map);
    return status;
}

grail_status text_source_open_compressed(text_source *source, const char *path)
{
    grail_status status = GRAIL_OK;
    text_source s = {0};
    TRY(memory_new_unset(&s.piece, PIECE, 1));
    s.stream = gzopen(path, "rbe");
    if (s.stream == NULL) {
        TRY(error_from_errno("cannot open", path));
    }
    *source = s;
    s = (text_source){0};
out:
    text_source_close(&s);
    return status;
}

void text_source_of_bytes(text_source *source, const void *bytes, size_t size)
{
    *source = (text_source){.bytes = bytes, .size = size};
}

void text_source_close(text_source *source)
{
    if (source->stream != NULL) {
        (void)gzclose(source->stream);
    }
    memory_free(source->piece);
    file_map_close(&source->map);
    *source = (text_source){0};
}

/* A gzip file is compared with the compressed bytes that were needed so far, so that a bad one is
 * refused early. */
static grail_status next_of_stream(text_source *source, const unsigned char **piece, size_t *size)
{
    const int got = gzread(source->stream, source->piece, PIECE);
    if (got < 0) {
        int code = Z_OK;
        const char *reason = gzerror(source->stream, &code);
        return error_set(code == Z_MEM_ERROR ? GRAIL_ERROR_MEMORY : GRAIL_ERROR_FORMAT,
                         "cannot decompress: %s", reason);
    }
    if (got == 0) { /* also if the file ends inside a gzip member; only gzclose then fails */
        const int closed = gzclose(source->stream);
        source->stream = NULL;
        source->ended = true;
        return closed == Z_OK
                   ? GRAIL_OK
                   : error_set(GRAIL_ERROR_FORMAT, "the compressed data end early: truncated?");
    }
    *piece = source->piece;
    *size = (size_t)got;
    source->read += (size_t)got;
    const size_t needed = (size_t)gzoffset(source->stream);
    const size_t free_bytes = TEXT_FREE_INFLATED;
    if (source->read > free_bytes && (source->read - free_bytes) / TEXT_MOST_RATIO > needed) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "its first %zu compressed bytes expand to %zu, more than the allowed %d "
                         "times as many; decompress the file if this is right",
                         needed, source->read, TEXT_MOST_RATIO);
    }
    return check_size(source->read);
}

grail_status text_source_next(text_source *source, const unsigned char **piece, size_t *size)
{
    *piece = NULL;
    *size = 0;
    if (source->stream != NULL || source->ended) {
        return source->ended ? GRAIL_OK : next_of_stream(source, piece, size);
    }
    if (source->map.data != NULL && source->read > 0) {
        const size_t last = source->read % PIECE == 0 ? PIECE : source->read % PIECE;
        file_map_release(&source->map, source->read - last, last);
    }
    const size_t left = source->size - source->read;
    *piece = source->bytes + source->read;
    *size = left < PIECE ? left : PIECE;
    source->read += *size;
    return GRAIL_OK;
}
