/* An ONNX model as it will be written: pieces one after another, fields around them, and files of
 * values beside it. Sizes come before what they are of, so all is laid out before a byte is
 * written, and values are written to their places, in any order, by whoever has them. */
#ifndef GRAIL_FORMAT_ONNX_ONNX_LAYOUT_H
#define GRAIL_FORMAT_ONNX_ONNX_LAYOUT_H

#include "base/output_file.h"
#include "format/onnx/protobuf.h"
#include "format/tensor_writer.h"

/** Where the values of a tensor go. */
typedef struct onnx_place {
    int64_t file;    /* of the layout's, -1: the model itself */
    uint64_t offset; /* of the first value; in the model once it is written */
    bool is_laid;    /* whether they are written at all */
} onnx_place;

/** A file beside the model. */
typedef struct onnx_beside {
    char *location; /* owned */
    output_file file;
    uint64_t end; /* of the values that were moved there */
} onnx_beside;

typedef struct onnx_layout {
    buffer text; /* what is appended becomes a piece by onnx_layout_text */
    size_t taken;
    struct piece *pieces;
    size_t piece_count;
    size_t size; /* of all pieces */
    onnx_beside *files;
    int64_t file_count;
    output_file model;
} onnx_layout;

/** An empty layout; onnx_layout_fini removes files that were not committed. */
void onnx_layout_init(onnx_layout *l);
void onnx_layout_fini(onnx_layout *l);
/** Forgets all pieces, but not the files. */
void onnx_layout_restart(onnx_layout *l);

/** Adds bytes, which must stay until the model is written. */
grail_status onnx_layout_keep(onnx_layout *l, byte_range bytes) GRAIL_MUST_CHECK;
/** Adds what was appended to the text since the last piece. */
grail_status onnx_layout_text(onnx_layout *l) GRAIL_MUST_CHECK;
/** Adds the values of a tensor, its last fields: bytes in the model, or where they are. */
grail_status onnx_layout_values(onnx_layout *l, size_t bytes, onnx_place *place) GRAIL_MUST_CHECK;

/** Begins a field of the pieces that follow, and ends it. */
typedef struct onnx_open_field {
    size_t piece, size;
} onnx_open_field;

grail_status onnx_layout_begin(onnx_layout *l, onnx_open_field *out) GRAIL_MUST_CHECK;
grail_status onnx_layout_end(onnx_layout *l, uint32_t field, onnx_open_field open) GRAIL_MUST_CHECK;

/** Adds a file beside the model; NULL: one of its name and ".data". */
grail_status onnx_layout_add_file(onnx_layout *l, const char *path, const char *location,
                                  int64_t *out) GRAIL_MUST_CHECK;
/** Gives values the next page of a file. */
void onnx_layout_move(onnx_layout *l, int64_t file, size_t bytes, onnx_place *out);

/** Values among the bytes that are kept, which are written anew, and where they go. */
typedef struct onnx_hole {
    byte_range values; /* not empty */
    size_t *at;
} onnx_hole;

/** *out <- all pieces but the values and the holes, which are sorted by their addresses, for a
 * model of one file whose values are written later. Without its first byte, which is the seal, no
 * reader opens it. file_layout_fini, even after a failure. */
grail_status onnx_layout_describe(onnx_layout *l, size_t count, const onnx_hole holes[],
                                  file_layout *out) GRAIL_MUST_CHECK;

/** Opens the files under temporary names, and writes all pieces but the values. A file that exists
 * already is GRAIL_ERROR_EXISTS. */
grail_status onnx_layout_write(onnx_layout *l, const char *path) GRAIL_MUST_CHECK;
/** bytes[size] <- all pieces but the values, whose places are told. */
void onnx_layout_gather(onnx_layout *l, unsigned char *bytes);
grail_status onnx_layout_put(const onnx_layout *l, const onnx_place *place, uint64_t at,
                             const void *bytes, size_t size) GRAIL_MUST_CHECK;
/** Flushes and gives the files their names, that of the model last; of a failure none is left. */
grail_status onnx_layout_commit(onnx_layout *l) GRAIL_MUST_CHECK;

#endif
