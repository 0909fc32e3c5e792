/* GGUF files, versions 2 and 3, little-endian: metadata, then tensors, which may be stored in
 * blocks.
 *
 * Layout (ggml, docs/gguf.md and src/gguf.cpp): "GGUF", u32 version, u64 number of tensors, u64
 * number of keys; for each key its name, u32 type, value; for each tensor its name, u32 number of
 * dimensions, u64 each (innermost first), u32 type, u64 offset; zeros to the alignment; the data.
 * A text is its u64 length and its bytes; an array its element type, u64 count and elements. */
#ifndef GRAIL_FORMAT_GGUF_GGUF_H
#define GRAIL_FORMAT_GGUF_GGUF_H

#include "format/tensor_file.h"

/* Limits, in addition to those for every file of tensors (format/tensor_limits.h). The table in
 * docs/formats.md lists them. */
enum {
    GGUF_MOST_KEYS = 65536,
    GGUF_LONGEST_KEY = 65535,
    GGUF_MOST_DIMENSIONS = 4,
    GGUF_USUAL_ALIGNMENT = 32
};

/** Types of values, numbered as in the file. */
typedef enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_TEXT,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPE_COUNT
} gguf_type;

/** A key and its value, which lies in the file. */
typedef struct gguf_value {
    char *key;      /* owned */
    gguf_type type; /* of an array that of its elements */
    bool is_array;
    uint64_t count;             /* of elements; 1 without an array */
    const unsigned char *bytes; /* the elements */
    size_t size;
} gguf_value;

typedef struct gguf_metadata {
    gguf_value *values; /* in the order of the file, owned */
    int64_t count;
    name_index index;
    size_t alignment;
} gguf_metadata;

/** Maps and checks a file, whose tensors come in its order; *out is owned: tensor_file_close.
 * Messages name file, key and tensor. */
grail_status gguf_open(const char *path, tensor_file **out) GRAIL_MUST_CHECK;
/** Checks bytes in memory (for fuzzing and tests); `bytes` must outlive *out. */
grail_status gguf_open_bytes(const char *name, const void *bytes, size_t size,
                             tensor_file **out) GRAIL_MUST_CHECK;

/** The metadata of a file that was opened here. */
const gguf_metadata *gguf_metadata_of(const tensor_file *file);

/* -- values. Messages name the key, not the file ----------------------------------------------- */

/** NULL where there is no such key. */
const gguf_value *gguf_find(const gguf_metadata *m, const char *key);
/** An integer of any type; `fallback` without the key. */
grail_status gguf_get_integer(const gguf_metadata *m, const char *key, int64_t fallback,
                              int64_t *out) GRAIL_MUST_CHECK;
/** A number of any type; `fallback` without the key. */
grail_status gguf_get_real(const gguf_metadata *m, const char *key, double fallback,
                           double *out) GRAIL_MUST_CHECK;
grail_status gguf_get_boolean(const gguf_metadata *m, const char *key, bool fallback,
                              bool *out) GRAIL_MUST_CHECK;
/** *out, owned, is NULL without the key. A text with NUL bytes or that is no UTF-8 is
 * GRAIL_ERROR_FORMAT. */
grail_status gguf_get_text(const gguf_metadata *m, const char *key, char **out) GRAIL_MUST_CHECK;

/** Element i, which exists, of an array of integers, or the only one of a value that is none. */
grail_status gguf_integer_at(const gguf_value *value, uint64_t i, int64_t *out) GRAIL_MUST_CHECK;
/** Likewise of numbers. */
grail_status gguf_real_at(const gguf_value *value, uint64_t i, double *out) GRAIL_MUST_CHECK;

/** Walks over the texts of an array; zeroed `at` begins. */
typedef struct gguf_walk {
    const gguf_value *value;
    size_t at;
} gguf_walk;

/** The next text, any bytes, borrowed; false at the end. */
bool gguf_walk_next(gguf_walk *walk, const char **bytes, size_t *size);

typedef struct gguf_type_facts {
    const char *name;
    unsigned char width; /* bytes of a value; 0 for texts and arrays */
    bool is_integer, is_signed;
} gguf_type_facts;

/* -- types of tensors
 * ------------------------------------------------------------------------------ */

/** The reverse; false if GGUF has no such type. */
bool gguf_tensor_number(grail_dtype dtype, uint32_t *out);

#endif
