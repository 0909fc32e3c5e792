/* Reads Python pickles as plain values. Nothing is executed or imported: a call that a pickle asks
 * for becomes a value that holds the function and its arguments.
 *
 * The reader accepts the opcodes of torch's weights_only unpickler, those that protocol 4 adds, and
 * the byte strings of Python 2; the message about any other opcode names it. Globals that act on
 * the machine (os.system, builtins.eval, everything in sys, subprocess, ...) are refused, and the
 * message names them. The few globals that have a meaning here (OrderedDict, _codecs.encode,
 * torch.Size, ...) are applied. All others stay opaque, and so do the objects that they make. A
 * value that contains itself, nests too deep or has too many parts is refused; if this is true only
 * of the state of an opaque object, the state is dropped.
 *
 * Walking the values, with a CIFAR batch as the example:
 *
 *     const pickle_value *batch = pickle_root(file);               PICKLE_DICT
 *     const pickle_value *labels = pickle_find(batch, "labels");   NULL when absent; the key may be
 *                                                                  a str or a byte string
 *     for (int64_t i = 0; i < pickle_count(labels); i++) {         0 for anything without items
 *         int64_t label = 0;
 *         if (!pickle_integer(pickle_item(labels, i), &label)) ... not an int
 *     }
 *     pickle_array data;
 *     TRY(pickle_read_array(pickle_find(batch, "data"), &data));   a numpy array, in place
 *
 * Every function below takes NULL for a value and treats it as a value of the wrong kind, so
 * lookups can be chained. */
#ifndef GRAIL_FORMAT_TORCH_PICKLE_H
#define GRAIL_FORMAT_TORCH_PICKLE_H

#include "base/memory.h"

typedef enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOLEAN,
    PICKLE_INTEGER,
    PICKLE_LARGE_INTEGER, /* does not fit 64 bits; its value is not kept */
    PICKLE_REAL,
    PICKLE_TEXT,  /* str: UTF-8 that was not checked */
    PICKLE_BYTES, /* bytes, bytearray, and str of Python 2 */
    PICKLE_LIST,
    PICKLE_TUPLE, /* torch.Size, too */
    PICKLE_SET,
    PICKLE_DICT, /* OrderedDict, Counter, defaultdict, too; its pairs in the order they were set */
    PICKLE_GLOBAL,    /* a class or function, which was not looked up */
    PICKLE_CALL,      /* the result that a class or function would have made of its arguments */
    PICKLE_PERSISTENT /* a reference to data outside the pickle, for example a torch storage */
} pickle_kind;

typedef struct pickle_value pickle_value;

/** Bytes inside the pickle; not terminated. */
typedef struct pickle_span {
    const char *data;
    size_t size;
} pickle_span;

typedef struct pickle_name {
    pickle_span module;
    pickle_span name;
} pickle_name;

struct pickle_value {
    pickle_kind kind;
    int height; /* levels of values from this one down; only for the reader */
    union {
        int64_t integer; /* INTEGER, BOOLEAN */
        double real;
        pickle_span text; /* TEXT, BYTES */
        struct {
            pickle_value **items; /* LIST, TUPLE, SET: [count]; DICT: key, value, key, ... */
            int64_t count;        /* of items; twice the pairs of a DICT */
        } list;
        const pickle_name *global;
        struct {
            pickle_value *function;  /* GLOBAL or PERSISTENT */
            pickle_value *arguments; /* TUPLE */
            pickle_value *state;     /* set after the call (__setstate__), or NULL */
        } call;
        pickle_value *persistent; /* what identifies it */
    };
};

typedef struct pickle pickle;

/**
 * Reads one pickle, which takes all of `bytes`; they must outlive *out, since texts point into
 * them. Messages name the offset and the opcode or global, not the file. *out is owned:
 * pickle_close.
 */
grail_status pickle_read(const void *bytes, size_t size, pickle **out) GRAIL_MUST_CHECK;
void pickle_close(pickle *p); /* NULL is allowed */

/** The outermost value; like all others, borrowed until close. Never NULL. */
const pickle_value *pickle_root(const pickle *p);

/** The kind as a text like "a dict", for messages. */
const char *pickle_kind_text(const pickle_value *value);

/** Items of a list, tuple or set, pairs of a dict; 0 for anything else. */
int64_t pickle_count(const pickle_value *value);
/** Item i of a list, tuple or set, or the value of pair i of a dict; NULL outside. */
const pickle_value *pickle_item(const pickle_value *value, int64_t i);
/** The key of pair i of a dict. */
const pickle_value *pickle_key(const pickle_value *dict, int64_t i);
/** The value under a text or byte-string key; NULL when there is none. */
const pickle_value *pickle_find(const pickle_value *dict, const char *key);

/** False when the value is no int (a bool counts) or does not fit. */
bool pickle_integer(const pickle_value *value, int64_t *out);
/** False when the value is no str or byte string. */
bool pickle_text(const pickle_value *value, pickle_span *out);
bool pickle_text_is(const pickle_value *value, const char *text);
bool pickle_span_is(pickle_span span, const char *text);
/** Whether the value is the global `module.name`. A NULL name means any global of the module. */
bool pickle_is_global(const pickle_value *value, const char *module, const char *name);
/** Whether the value is a call of that global. */
bool pickle_is_call(const pickle_value *value, const char *module, const char *name);

enum { PICKLE_ARRAY_MOST_RANK = 8 };

/** A numpy array of plain numbers, row-major. */
typedef struct pickle_array {
    char kind;        /* numpy's: 'u' unsigned, 'i' signed, 'f' real, 'b' bool */
    int element_size; /* bytes; little-endian */
    int rank;
    int64_t shape[PICKLE_ARRAY_MOST_RANK];
    const unsigned char *data; /* borrowed until close; may be unaligned */
    size_t bytes;              /* product of shape times element_size */
} pickle_array;

/** Reads a numpy array. A value that is not an array of plain numbers, is big-endian, is in Fortran
 * order, or has too few or too many bytes is GRAIL_ERROR_FORMAT. */
grail_status pickle_read_array(const pickle_value *value, pickle_array *out) GRAIL_MUST_CHECK;

#endif
