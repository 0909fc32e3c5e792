/* Reads pickles: their values, what globals they may name, and the stack machine. */
#include "format/torch/pickle.h"

#include "base/bytes.h"
#include "format/torch/torch_limits.h"

#include <string.h>

/* -- values: their memory, their growth and the check of their nesting ------------------------- */

typedef struct pickle_chunk pickle_chunk;

struct pickle {
    pickle_chunk *chunks; /* the memory of all values, freed at once */
    pickle_value *root;
    int64_t value_count;
    size_t allocated;
    size_t most_allocated; /* the most that the bytes read so far can need in an honest file */
};

enum { CHUNK_SIZE = 1 << 16, ALIGNMENT = 16, FIRST_CAPACITY = 4 };

struct pickle_chunk {
    pickle_chunk *next;
    size_t used;
    size_t size;
    unsigned char *bytes; /* directly after this struct */
};

/* `bytes` zeroed bytes, aligned for any value, that live as long as `p`. */
static grail_status pickle_allocate(pickle *p, size_t bytes, void *out)
{
    size_t padded = 0;
    size_t size = 0;
    const size_t header = (sizeof *p->chunks + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!size_add(bytes, ALIGNMENT - 1, &padded) || !size_add(padded, header, &size)) {
        return error_set(GRAIL_ERROR_MEMORY, "out of memory: cannot allocate %zu bytes", bytes);
    }
    padded -= padded % ALIGNMENT;
    if (padded > p->most_allocated - p->allocated) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "builds values of more than %zu bytes, far more than a pickle of its size needs",
            p->most_allocated);
    }
    if (p->chunks == NULL || p->chunks->size - p->chunks->used < padded) {
        pickle_chunk *chunk = NULL;
        size = size < CHUNK_SIZE ? CHUNK_SIZE : size;
        CHECK(memory_new(&chunk, size, 1));
        *chunk = (pickle_chunk){
            .next = p->chunks, .size = size - header, .bytes = (unsigned char *)chunk + header};
        p->chunks = chunk;
    }
    void *block = p->chunks->bytes + p->chunks->used;
    p->chunks->used += padded;
    p->allocated += padded;
    memcpy(out, &block, sizeof block);
    return GRAIL_OK;
}

/* A zeroed value of that kind. */
static grail_status pickle_new(pickle *p, pickle_kind kind, pickle_value **out)
{
    if (p->value_count == PICKLE_MOST_VALUES) {
        return error_set(GRAIL_ERROR_FORMAT, "has more than %d values", PICKLE_MOST_VALUES);
    }
    pickle_value *value = NULL;
    CHECK(pickle_allocate(p, sizeof *value, &value));
    value->kind = kind;
    p->value_count++;
    *out = value;
    return GRAIL_OK;
}

/* Appends to a LIST, TUPLE, SET or the items of a DICT. */
static grail_status pickle_append(pickle *p, pickle_value *list, pickle_value *item)
{
    const int64_t count = list->list.count;
    /* The capacity doubles from FIRST_CAPACITY on, so it follows from the count and is not stored.
     */
    if (count == 0 || (count >= FIRST_CAPACITY && (count & (count - 1)) == 0)) {
        pickle_value **items = NULL;
        const size_t capacity = count == 0 ? FIRST_CAPACITY : 2 * (size_t)count;
        CHECK(pickle_allocate(p, capacity * sizeof(items[0]), &items));
        if (count > 0) {
            memcpy(items, list->list.items, (size_t)count * sizeof(items[0]));
        }
        list->list.items = items;
    }
    list->list.items[list->list.count++] = item;
    return GRAIL_OK;
}

void pickle_close(pickle *p)
{
    if (p == NULL) {
        return;
    }
    for (pickle_chunk *chunk = p->chunks; chunk != NULL;) {
        pickle_chunk *next = chunk->next;
        memory_free(chunk);
        chunk = next;
    }
    memory_free(p);
}

/* LIST, TUPLE, SET or DICT. */
static bool pickle_has_items(const pickle_value *value)
{
    return value != NULL && (value->kind == PICKLE_LIST || value->kind == PICKLE_TUPLE ||
                             value->kind == PICKLE_SET || value->kind == PICKLE_DICT);
}

/* `height` during the walk: 0 if the value was not visited yet, WALKING if it is on the path from
 * the root or was refused, otherwise 1 + the largest height of its parts. Each value is visited
 * once, however many references it has. */
enum { WALKING = -1 };

static grail_status measure(pickle_value *value, int depth);

static grail_status measure_part(pickle_value *value, pickle_value *part, int depth, int *highest)
{
    if (part == NULL) {
        return GRAIL_OK;
    }
    if (part->height == WALKING) {
        return error_set(GRAIL_ERROR_FORMAT, "%s contains itself", pickle_kind_text(value));
    }
    if (part->height == 0) {
        CHECK(measure(part, depth + 1));
    }
    *highest = part->height > *highest ? part->height : *highest;
    return GRAIL_OK;
}

static grail_status measure_parts(pickle_value *value, int depth, int *highest)
{
    if (value->kind == PICKLE_PERSISTENT) {
        CHECK(measure_part(value, value->persistent, depth, highest));
    } else if (value->kind == PICKLE_CALL) {
        CHECK(measure_part(value, value->call.arguments, depth, highest));
        /* States often refer to the parents of the object. They are opaque, so nothing is lost if
         * they are dropped. */
        if (measure_part(value, value->call.state, depth, highest) != GRAIL_OK) {
            value->call.state = NULL;
        }
    } else if (pickle_has_items(value)) {
        for (int64_t i = 0; i < value->list.count; i++) {
            CHECK(measure_part(value, value->list.items[i], depth, highest));
        }
    }
    return GRAIL_OK;
}

static grail_status measure(pickle_value *value, int depth)
{
    int highest = 0;
    value->height = WALKING;
    if (depth <= PICKLE_DEEPEST) {
        CHECK(measure_parts(value, depth, &highest));
    }
    if (depth > PICKLE_DEEPEST || highest >= PICKLE_DEEPEST) {
        return error_set(GRAIL_ERROR_FORMAT, "nests deeper than %d levels", PICKLE_DEEPEST);
    }
    value->height = highest + 1;
    return GRAIL_OK;
}

/* Refuses values that contain themselves or nest deeper than PICKLE_DEEPEST. If only the state of
 * an opaque object does, the state is dropped. */
static grail_status pickle_check_nesting(pickle_value *root)
{
    return measure(root, 1);
}

/* -- looking at values ---------------------------------------------------------------------------
 */

const pickle_value *pickle_root(const pickle *p)
{
    return p->root;
}

const char *pickle_kind_text(const pickle_value *value)
{
    static const char *const texts[] = {
        [PICKLE_NONE] = "None",           [PICKLE_BOOLEAN] = "a bool",
        [PICKLE_INTEGER] = "an int",      [PICKLE_LARGE_INTEGER] = "a large int",
        [PICKLE_REAL] = "a float",        [PICKLE_TEXT] = "a str",
        [PICKLE_BYTES] = "a byte string", [PICKLE_LIST] = "a list",
        [PICKLE_TUPLE] = "a tuple",       [PICKLE_SET] = "a set",
        [PICKLE_DICT] = "a dict",         [PICKLE_GLOBAL] = "a class or function",
        [PICKLE_CALL] = "an object",      [PICKLE_PERSISTENT] = "a reference to outside the pickle",
    };
    return value == NULL ? "nothing" : texts[value->kind];
}

int64_t pickle_count(const pickle_value *value)
{
    if (!pickle_has_items(value)) {
        return 0;
    }
    return value->kind == PICKLE_DICT ? value->list.count / 2 : value->list.count;
}

const pickle_value *pickle_item(const pickle_value *value, int64_t i)
{
    if (i < 0 || i >= pickle_count(value)) {
        return NULL;
    }
    return value->list.items[value->kind == PICKLE_DICT ? 2 * i + 1 : i];
}

const pickle_value *pickle_key(const pickle_value *dict, int64_t i)
{
    const bool inside = dict != NULL && dict->kind == PICKLE_DICT && i >= 0;
    return inside && i < pickle_count(dict) ? dict->list.items[2 * i] : NULL;
}

/* Searches from the end, since the value set last under a key counts. */
const pickle_value *pickle_find(const pickle_value *dict, const char *key)
{
    for (int64_t i = pickle_count(dict) - 1; i >= 0; i--) {
        if (pickle_text_is(pickle_key(dict, i), key)) {
            return pickle_item(dict, i);
        }
    }
    return NULL;
}

bool pickle_integer(const pickle_value *value, int64_t *out)
{
    if (value == NULL || (value->kind != PICKLE_INTEGER && value->kind != PICKLE_BOOLEAN)) {
        return false;
    }
    *out = value->integer;
    return true;
}

bool pickle_text(const pickle_value *value, pickle_span *out)
{
    if (value == NULL || (value->kind != PICKLE_TEXT && value->kind != PICKLE_BYTES)) {
        return false;
    }
    *out = value->text;
    return true;
}

bool pickle_span_is(pickle_span span, const char *text)
{
    return span.size == strlen(text) && memcmp(span.data, text, span.size) == 0;
}

bool pickle_text_is(const pickle_value *value, const char *text)
{
    pickle_span span = {0};
    return pickle_text(value, &span) && pickle_span_is(span, text);
}

bool pickle_is_global(const pickle_value *value, const char *module, const char *name)
{
    return value != NULL && value->kind == PICKLE_GLOBAL &&
           pickle_span_is(value->global->module, module) &&
           (name == NULL || pickle_span_is(value->global->name, name));
}

bool pickle_is_call(const pickle_value *value, const char *module, const char *name)
{
    return value != NULL && value->kind == PICKLE_CALL &&
           pickle_is_global(value->call.function, module, name);
}

/* -- classes and functions that a pickle may name -------------------------------------------------
 *
 * The few known ones are applied to their arguments. Nothing is looked up or called, so an unknown
 * name does no harm here. Modules are refused if a file that names them was made to do harm, or
 * would do harm in the next program that loads it. */

/* These modules and everything below them are refused, except for plain_builtins. torch's
 * weights_only unpickler always refuses the first four. */
static const char *const acting_modules[] = {
    "os",          "posix",     "nt",     "sys",       "subprocess", "shutil",    "socket",
    "pty",         "importlib", "imp",    "runpy",     "ctypes",     "pickle",    "_pickle",
    "cPickle",     "marshal",   "code",   "codeop",    "commands",   "popen2",    "webbrowser",
    "operator",    "_operator", "signal", "threading", "_thread",    "asyncio",   "multiprocessing",
    "pdb",         "bdb",       "timeit", "profile",   "cProfile",   "trace",     "pip",
    "urllib",      "requests",  "http",   "ftplib",    "smtplib",    "telnetlib", "tempfile",
    "io",          "_io",       "pydoc",  "inspect",   "gc",         "platform",  "builtins",
    "__builtin__",
};

/* What is not refused of builtins: classes, and functions that compute a value of their arguments
 * and call nothing that is given to them. */
static const char *const plain_builtins[] = {
    "bool",    "bytearray", "bytes",  "complex",    "dict",       "float", "frozenset", "int",
    "list",    "long",      "object", "range",      "set",        "slice", "str",       "tuple",
    "unicode", "xrange",    "abs",    "all",        "any",        "bin",   "chr",       "divmod",
    "hash",    "hex",       "id",     "isinstance", "issubclass", "len",   "max",       "min",
    "oct",     "ord",       "pow",    "round",      "sum",
};

static bool is_among(pickle_span text, size_t count, const char *const list[])
{
    for (size_t i = 0; i < count; i++) {
        if (pickle_span_is(text, list[i])) {
            return true;
        }
    }
    return false;
}

static bool acts(pickle_span module, pickle_span name)
{
    const size_t modules = sizeof acting_modules / sizeof acting_modules[0];
    const size_t builtins = sizeof plain_builtins / sizeof plain_builtins[0];
    const char *dot = memchr(module.data, '.', module.size);
    const pickle_span top = {module.data, dot == NULL ? module.size : (size_t)(dot - module.data)};
    const bool is_builtins =
        pickle_span_is(module, "builtins") || pickle_span_is(module, "__builtin__");
    return is_among(top, modules, acting_modules) &&
           !(is_builtins && is_among(name, builtins, plain_builtins));
}

/* Whether a message can quote the name. */
static bool is_readable(pickle_span text)
{
    for (size_t i = 0; i < text.size; i++) {
        const unsigned char c = (unsigned char)text.data[i];
        if (c <= ' ' || c == 0x7f) {
            return false;
        }
    }
    return text.size > 0 && text.size <= PICKLE_LONGEST_GLOBAL;
}

/* Makes a GLOBAL; refuses globals that act on the machine. */
static grail_status pickle_new_global(pickle *p, pickle_span module, pickle_span name,
                                      pickle_value **out)
{
    pickle_value *value = NULL;
    pickle_name *global = NULL;
    if (!is_readable(module) || !is_readable(name)) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "the name of a class or function is empty, unreadable or longer "
                         "than %d bytes",
                         PICKLE_LONGEST_GLOBAL);
    }
    if (acts(module, name)) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "names '%.*s.%.*s', which can run commands or change files on the machine that loads "
            "it; do not load this file with another program either",
            (int)module.size, module.data, (int)name.size, name.data);
    }
    CHECK(pickle_new(p, PICKLE_GLOBAL, &value));
    CHECK(pickle_allocate(p, sizeof *global, &global));
    *global = (pickle_name){.module = module, .name = name};
    value->global = global;
    *out = value;
    return GRAIL_OK;
}

/* A class or function that makes plain values. */
typedef struct known_call known_call;

struct known_call {
    const char *module, *name;
    grail_status (*make)(pickle *p, const known_call *call, const pickle_value *arguments,
                         pickle_value **out);
    pickle_kind kind; /* of the value that it makes */
    int64_t from;     /* the argument with its items */
};

static grail_status copy_items(pickle *p, const pickle_value *from, pickle_value *to)
{
    for (int64_t i = 0; i < from->list.count; i++) {
        CHECK(pickle_append(p, to, from->list.items[i]));
    }
    return GRAIL_OK;
}

/* dict(), dict(dict) or dict([(key, value), ...]), the last from Python 2. Also
 * defaultdict(factory, dict). */
static grail_status make_dict(pickle *p, const known_call *call, const pickle_value *arguments,
                              pickle_value **out)
{
    const pickle_value *from = pickle_item(arguments, call->from);
    pickle_value *made = NULL;
    CHECK(pickle_new(p, call->kind, &made));
    *out = made;
    if (from != NULL && from->kind == PICKLE_DICT) {
        return copy_items(p, from, made);
    }
    if (from != NULL && from->kind != PICKLE_LIST && from->kind != PICKLE_TUPLE) {
        return error_set(GRAIL_ERROR_FORMAT, "cannot make a dict of %s", pickle_kind_text(from));
    }
    for (int64_t i = 0; i < pickle_count(from); i++) {
        const pickle_value *pair = pickle_item(from, i);
        if (!pickle_has_items(pair) || pair->kind == PICKLE_DICT || pickle_count(pair) != 2) {
            return error_set(GRAIL_ERROR_FORMAT, "makes a dict of items that are not pairs");
        }
        CHECK(copy_items(p, pair, made));
    }
    return GRAIL_OK;
}

static grail_status make_list(pickle *p, const known_call *call, const pickle_value *arguments,
                              pickle_value **out)
{
    pickle_value *made = NULL;
    const pickle_value *from = pickle_item(arguments, call->from);
    if (from != NULL && (!pickle_has_items(from) || from->kind == PICKLE_DICT)) {
        return error_set(GRAIL_ERROR_FORMAT, "cannot make a %s of %s",
                         call->kind == PICKLE_SET ? "set" : "torch.Size", pickle_kind_text(from));
    }
    CHECK(pickle_new(p, call->kind, &made));
    CHECK(from == NULL ? GRAIL_OK : copy_items(p, from, made));
    *out = made;
    return GRAIL_OK;
}

/* One byte per code point below U+0100; false for any other code point, and for invalid UTF-8. */
static bool text_to_latin1(pickle_span text, unsigned char *out, size_t *out_size)
{
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        const unsigned char c = (unsigned char)text.data[i];
        if (c < 0x80) {
            out[size++] = c;
            continue;
        }
        const unsigned char next = i + 1 < text.size ? (unsigned char)text.data[++i] : 0;
        if ((c != 0xc2 && c != 0xc3) || (next & 0xc0) != 0x80) {
            return false;
        }
        out[size++] = (unsigned char)((c << 6 & 0xc0) | (next & 0x3f));
    }
    *out_size = size;
    return true;
}

/* bytes(), bytes(text, 'latin1') and _codecs.encode(text, 'latin1'): the forms in which Python 3
 * writes bytes in protocol 2. */
static grail_status make_bytes(pickle *p, const known_call *call, const pickle_value *arguments,
                               pickle_value **out)
{
    pickle_value *made = NULL;
    pickle_span text = {"", 0};
    unsigned char *bytes = NULL;
    size_t size = 0;
    const pickle_value *encoding = pickle_item(arguments, 1);
    const bool latin1 = pickle_text_is(encoding, "latin1") || pickle_text_is(encoding, "latin-1");
    if (pickle_count(arguments) > 0 &&
        (!pickle_text(pickle_item(arguments, 0), &text) || (encoding != NULL && !latin1))) {
        return error_set(GRAIL_ERROR_FORMAT, "makes bytes of a value that is not latin1 text");
    }
    CHECK(pickle_new(p, call->kind, &made));
    made->text = text;
    if (latin1) {
        CHECK(pickle_allocate(p, text.size, &bytes));
        if (!text_to_latin1(text, bytes, &size)) {
            return error_set(GRAIL_ERROR_FORMAT, "makes bytes of text that is not latin1");
        }
        made->text = (pickle_span){(const char *)bytes, size};
    }
    *out = made;
    return GRAIL_OK;
}

static const known_call known_calls[] = {
    {"collections", "OrderedDict", make_dict, PICKLE_DICT, 0},
    {"collections", "Counter", make_dict, PICKLE_DICT, 0},
    {"collections", "defaultdict", make_dict, PICKLE_DICT, 1},
    {"torch", "Size", make_list, PICKLE_TUPLE, 0},
    {"_codecs", "encode", make_bytes, PICKLE_BYTES, 0},
    {"builtins", "bytes", make_bytes, PICKLE_BYTES, 0},
    {"__builtin__", "bytes", make_bytes, PICKLE_BYTES, 0},
    {"builtins", "bytearray", make_bytes, PICKLE_BYTES, 0},
    {"__builtin__", "bytearray", make_bytes, PICKLE_BYTES, 0},
    {"builtins", "set", make_list, PICKLE_SET, 0},
    {"__builtin__", "set", make_list, PICKLE_SET, 0},
    {"builtins", "frozenset", make_list, PICKLE_SET, 0},
    {"__builtin__", "frozenset", make_list, PICKLE_SET, 0},
};

/* Calls `function` with the tuple `arguments`. *out is the result if the function is known,
 * otherwise a CALL. */
static grail_status pickle_new_call(pickle *p, pickle_value *function, pickle_value *arguments,
                                    pickle_value **out)
{
    if (function->kind != PICKLE_GLOBAL && function->kind != PICKLE_PERSISTENT) {
        return error_set(GRAIL_ERROR_FORMAT, "calls %s", pickle_kind_text(function));
    }
    if (arguments->kind != PICKLE_TUPLE) {
        return error_set(GRAIL_ERROR_FORMAT, "calls a function with %s, expected a tuple",
                         pickle_kind_text(arguments));
    }
    for (size_t i = 0; i < sizeof known_calls / sizeof known_calls[0]; i++) {
        if (pickle_is_global(function, known_calls[i].module, known_calls[i].name)) {
            return known_calls[i].make(p, &known_calls[i], arguments, out);
        }
    }
    pickle_value *call = NULL;
    CHECK(pickle_new(p, PICKLE_CALL, &call));
    call->call.function = function;
    call->call.arguments = arguments;
    *out = call;
    return GRAIL_OK;
}

/* -- the stack machine ---------------------------------------------------------------------------
 *
 * Python's pickletools describes the opcodes. This reader accepts those of
 * torch/_weights_only_unpickler.py, of protocol 4, and of Python 2's byte strings. */

enum { HIGHEST_PROTOCOL = 5, MEMO_SLACK = 1 << 16, FREE_MEMORY = 1 << 16 };

typedef struct opcode opcode;

typedef struct machine {
    pickle *p;
    const opcode *current;
    uint64_t operand; /* of the opcode, unsigned */
    size_t begin;     /* first of the values on the stack that it takes */
    const unsigned char *bytes;
    size_t size;
    size_t at;
    bool stopped;
    pickle_value **stack;
    size_t stack_count;
    size_t *marks; /* stack heights */
    size_t mark_count;
    pickle_value **memo; /* NULL where nothing was put */
    size_t memo_count;
    size_t memo_puts;
} machine;

/* The name and the action of an opcode. Before the action its operand is read, `width` bytes, and
 * the values that it takes are found: `taken` of them, or those above the last mark. */
struct opcode {
    const char *name;
    grail_status (*read)(machine *m); /* NULL: Python has this opcode, but it is refused here */
    pickle_kind kind;                 /* of the value that it makes or extends */
    size_t width;
    int taken;
};

enum { ABOVE_MARK = -1 };

static grail_status take(machine *m, size_t count, const unsigned char **out)
{
    if (count > m->size - m->at) {
        return error_set(GRAIL_ERROR_FORMAT, "needs %zu more bytes, but %zu are left: truncated?",
                         count, m->size - m->at);
    }
    *out = m->bytes + m->at;
    m->at += count;
    return GRAIL_OK;
}

static grail_status push(machine *m, pickle_value *value)
{
    if (m->stack_count == PICKLE_MOST_VALUES) {
        return error_set(GRAIL_ERROR_FORMAT, "puts more than %d values on the stack",
                         PICKLE_MOST_VALUES);
    }
    CHECK(memory_reserve(&m->stack, m->stack_count + 1, sizeof m->stack[0]));
    m->stack[m->stack_count++] = value;
    return GRAIL_OK;
}

static grail_status push_new(machine *m, pickle_kind kind, pickle_value **out)
{
    pickle_value *value = NULL;
    CHECK(pickle_new(m->p, kind, &value));
    CHECK(push(m, value));
    *out = value;
    return GRAIL_OK;
}

/* Index of the first value above the last mark. */
static size_t stack_floor(const machine *m)
{
    return m->mark_count == 0 ? 0 : m->marks[m->mark_count - 1];
}

static grail_status top(const machine *m, pickle_value **out)
{
    if (m->stack_count == stack_floor(m)) {
        return error_set(GRAIL_ERROR_FORMAT, "finds no value on the stack");
    }
    *out = m->stack[m->stack_count - 1];
    return GRAIL_OK;
}

static grail_status pop(machine *m, pickle_value **out)
{
    const grail_status status = top(m, out);
    m->stack_count -= status == GRAIL_OK ? 1 : 0;
    return status;
}

static grail_status read_proto(machine *m)
{
    return m->operand <= HIGHEST_PROTOCOL
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_UNSUPPORTED,
                           "names protocol %d, but the highest known is %d", (int)m->operand,
                           HIGHEST_PROTOCOL);
}

/* A frame's length only tells a reader how much to fetch. */
static grail_status read_nothing(machine *m)
{
    (void)m;
    return GRAIL_OK;
}

static grail_status read_stop(machine *m)
{
    m->stopped = true;
    return GRAIL_OK;
}

static grail_status read_mark(machine *m)
{
    if (m->mark_count == PICKLE_MOST_MARKS) {
        return error_set(GRAIL_ERROR_FORMAT, "nests more than %d marks", PICKLE_MOST_MARKS);
    }
    CHECK(memory_reserve(&m->marks, m->mark_count + 1, sizeof m->marks[0]));
    m->marks[m->mark_count++] = m->stack_count;
    return GRAIL_OK;
}

/* None, False, and empty containers. */
static grail_status read_empty(machine *m)
{
    pickle_value *value = NULL;
    return push_new(m, m->current->kind, &value);
}

static grail_status push_integer(machine *m, pickle_kind kind, int64_t integer)
{
    pickle_value *value = NULL;
    CHECK(push_new(m, kind, &value));
    value->integer = integer;
    return GRAIL_OK;
}

/* True; False is the zeroed value. */
static grail_status read_true(machine *m)
{
    return push_integer(m, PICKLE_BOOLEAN, 1);
}

static grail_status read_unsigned_int(machine *m)
{
    return push_integer(m, PICKLE_INTEGER, (int64_t)m->operand);
}

static grail_status read_int(machine *m)
{
    return push_integer(m, PICKLE_INTEGER, (int32_t)(uint32_t)m->operand);
}

/* Two's complement of any length, little-endian; no bytes are 0. */
static grail_status read_long1(machine *m)
{
    const size_t width = m->operand;
    const unsigned char *bytes = NULL;
    CHECK(take(m, width, &bytes));
    if (width > sizeof(uint64_t)) {
        return push_integer(m, PICKLE_LARGE_INTEGER, 0);
    }
    const bool negative = width > 0 && bytes[width - 1] >= 0x80;
    const uint64_t extension = negative && width < sizeof(uint64_t) ? UINT64_MAX << 8 * width : 0;
    return push_integer(m, PICKLE_INTEGER, (int64_t)(extension | load_little(bytes, width)));
}

/* The one big-endian operand. */
static grail_status read_binfloat(machine *m)
{
    const unsigned char *bytes = NULL;
    pickle_value *value = NULL;
    uint64_t bits = 0;
    CHECK(take(m, sizeof bits, &bytes));
    for (size_t i = 0; i < sizeof bits; i++) {
        bits = bits << 8 | bytes[i];
    }
    CHECK(push_new(m, PICKLE_REAL, &value));
    memcpy(&value->real, &bits, sizeof bits);
    return GRAIL_OK;
}

/* A length, then that many bytes. */
static grail_status read_text(machine *m)
{
    const size_t length = m->operand;
    const unsigned char *bytes = NULL;
    pickle_value *value = NULL;
    CHECK(take(m, length, &bytes));
    CHECK(push_new(m, m->current->kind, &value));
    value->text = (pickle_span){(const char *)bytes, length};
    return GRAIL_OK;
}

/* Moves the values that it takes into a new one. */
static grail_status gather(machine *m)
{
    pickle_value *value = NULL;
    CHECK(pickle_new(m->p, m->current->kind, &value));
    for (size_t i = m->begin; i < m->stack_count; i++) {
        CHECK(pickle_append(m->p, value, m->stack[i]));
    }
    m->stack_count = m->begin;
    return push(m, value);
}

/* Appends the values that it takes to the container below them, which stays on the stack. If the
 * container is an opaque object, the values are dropped. */
static grail_status extend(machine *m)
{
    const pickle_kind kind = m->current->kind;
    pickle_value *container = NULL;
    const size_t end = m->stack_count;
    m->stack_count = m->begin;
    CHECK(top(m, &container));
    if (container->kind != kind && container->kind != PICKLE_CALL) {
        return error_set(GRAIL_ERROR_FORMAT, "cannot put values into %s",
                         pickle_kind_text(container));
    }
    if (kind == PICKLE_DICT && (end - m->begin) % 2 != 0) {
        return error_set(GRAIL_ERROR_FORMAT, "finds a key without a value");
    }
    for (size_t i = m->begin; i < end && container->kind == kind; i++) {
        CHECK(pickle_append(m->p, container, m->stack[i]));
    }
    return GRAIL_OK;
}

static grail_status take_line(machine *m, pickle_span *out)
{
    const unsigned char *begin = m->bytes + m->at;
    const unsigned char *end = memchr(begin, '\n', m->size - m->at);
    if (end == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "has no end of line: truncated?");
    }
    *out = (pickle_span){(const char *)begin, (size_t)(end - begin)};
    m->at += out->size + 1;
    return GRAIL_OK;
}

static grail_status read_global(machine *m)
{
    pickle_span module = {0};
    pickle_span name = {0};
    pickle_value *value = NULL;
    CHECK(take_line(m, &module));
    CHECK(take_line(m, &name));
    CHECK(pickle_new_global(m->p, module, name, &value));
    return push(m, value);
}

static grail_status read_stack_global(machine *m)
{
    pickle_value *module = NULL;
    pickle_value *name = NULL;
    pickle_value *value = NULL;
    CHECK(pop(m, &name));
    CHECK(pop(m, &module));
    if (module->kind != PICKLE_TEXT || name->kind != PICKLE_TEXT) {
        return error_set(GRAIL_ERROR_FORMAT, "finds %s and %s, expected two names",
                         pickle_kind_text(module), pickle_kind_text(name));
    }
    CHECK(pickle_new_global(m->p, module->text, name->text, &value));
    return push(m, value);
}

/* REDUCE and NEWOBJ. They differ in how they make an object; this reader makes none. */
static grail_status read_call(machine *m)
{
    pickle_value *function = NULL;
    pickle_value *arguments = NULL;
    pickle_value *made = NULL;
    CHECK(pop(m, &arguments));
    CHECK(pop(m, &function));
    CHECK(pickle_new_call(m->p, function, arguments, &made));
    return push(m, made);
}

/* Attributes of dicts (an OrderedDict's _metadata) are dropped. */
static grail_status read_build(machine *m)
{
    pickle_value *state = NULL;
    pickle_value *object = NULL;
    CHECK(pop(m, &state));
    CHECK(top(m, &object));
    if (object->kind == PICKLE_CALL) {
        object->call.state = state;
    } else if (object->kind != PICKLE_DICT) {
        return error_set(GRAIL_ERROR_FORMAT, "cannot give a state to %s", pickle_kind_text(object));
    }
    return GRAIL_OK;
}

/* NEWOBJ_EX. The keyword arguments are ignored. */
static grail_status read_newobj_ex(machine *m)
{
    pickle_value *keywords = NULL;
    CHECK(pop(m, &keywords));
    return read_call(m);
}

static grail_status read_binpersid(machine *m)
{
    pickle_value *value = NULL;
    pickle_value *identity = NULL;
    CHECK(pop(m, &identity));
    CHECK(push_new(m, PICKLE_PERSISTENT, &value));
    value->persistent = identity;
    return GRAIL_OK;
}

/* Writers number memo entries in order and put a value once. An index far above the count of puts,
 * or more puts than values, only serves to exhaust memory, so both are refused. */
static grail_status memo_put(machine *m, uint64_t index)
{
    pickle_value *value = NULL;
    CHECK(top(m, &value));
    if (index > 2 * m->memo_puts + MEMO_SLACK) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "puts a value at index %llu of the memo after only %zu earlier puts",
                         (unsigned long long)index, m->memo_puts);
    }
    if (m->memo_puts > (size_t)m->p->value_count + MEMO_SLACK) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "puts a value into the memo for the %zuth time, but only %lld values were made so far",
            m->memo_puts + 1, (long long)m->p->value_count);
    }
    CHECK(memory_reserve(&m->memo, (size_t)index + 1, sizeof m->memo[0]));
    while (m->memo_count <= index) {
        m->memo[m->memo_count++] = NULL;
    }
    m->memo[index] = value;
    m->memo_puts++;
    return GRAIL_OK;
}

static grail_status read_put(machine *m)
{
    return memo_put(m, m->operand);
}

static grail_status read_memoize(machine *m)
{
    return memo_put(m, m->memo_puts);
}

static grail_status read_get(machine *m)
{
    if (m->operand >= m->memo_count || m->memo[m->operand] == NULL) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "reads index %llu of the memo, but nothing was put there",
                         (unsigned long long)m->operand);
    }
    return push(m, m->memo[m->operand]);
}

static const opcode opcodes[256] = {
    [0x80] = {"PROTO", read_proto, PICKLE_NONE, 1, 0},
    [0x95] = {"FRAME", read_nothing, PICKLE_NONE, 8, 0},
    ['.'] = {"STOP", read_stop, PICKLE_NONE, 0, 0},
    ['('] = {"MARK", read_mark, PICKLE_NONE, 0, 0},
    ['N'] = {"NONE", read_empty, PICKLE_NONE, 0, 0},
    [0x88] = {"NEWTRUE", read_true, PICKLE_BOOLEAN, 0, 0},
    [0x89] = {"NEWFALSE", read_empty, PICKLE_BOOLEAN, 0, 0},
    ['J'] = {"BININT", read_int, PICKLE_NONE, 4, 0},
    ['K'] = {"BININT1", read_unsigned_int, PICKLE_INTEGER, 1, 0},
    ['M'] = {"BININT2", read_unsigned_int, PICKLE_INTEGER, 2, 0},
    [0x8a] = {"LONG1", read_long1, PICKLE_NONE, 1, 0},
    ['G'] = {"BINFLOAT", read_binfloat, PICKLE_NONE, 0, 0},
    ['X'] = {"BINUNICODE", read_text, PICKLE_TEXT, 4, 0},
    [0x8c] = {"SHORT_BINUNICODE", read_text, PICKLE_TEXT, 1, 0},
    [0x8d] = {"BINUNICODE8", read_text, PICKLE_TEXT, 8, 0},
    ['T'] = {"BINSTRING", read_text, PICKLE_BYTES, 4, 0},
    ['U'] = {"SHORT_BINSTRING", read_text, PICKLE_BYTES, 1, 0},
    ['B'] = {"BINBYTES", read_text, PICKLE_BYTES, 4, 0},
    ['C'] = {"SHORT_BINBYTES", read_text, PICKLE_BYTES, 1, 0},
    [0x8e] = {"BINBYTES8", read_text, PICKLE_BYTES, 8, 0},
    [0x96] = {"BYTEARRAY8", read_text, PICKLE_BYTES, 8, 0},
    [')'] = {"EMPTY_TUPLE", read_empty, PICKLE_TUPLE, 0, 0},
    ['t'] = {"TUPLE", gather, PICKLE_TUPLE, 0, ABOVE_MARK},
    [0x85] = {"TUPLE1", gather, PICKLE_TUPLE, 0, 1},
    [0x86] = {"TUPLE2", gather, PICKLE_TUPLE, 0, 2},
    [0x87] = {"TUPLE3", gather, PICKLE_TUPLE, 0, 3},
    [']'] = {"EMPTY_LIST", read_empty, PICKLE_LIST, 0, 0},
    ['a'] = {"APPEND", extend, PICKLE_LIST, 0, 1},
    ['e'] = {"APPENDS", extend, PICKLE_LIST, 0, ABOVE_MARK},
    ['}'] = {"EMPTY_DICT", read_empty, PICKLE_DICT, 0, 0},
    ['s'] = {"SETITEM", extend, PICKLE_DICT, 0, 2},
    ['u'] = {"SETITEMS", extend, PICKLE_DICT, 0, ABOVE_MARK},
    [0x8f] = {"EMPTY_SET", read_empty, PICKLE_SET, 0, 0},
    [0x90] = {"ADDITEMS", extend, PICKLE_SET, 0, ABOVE_MARK},
    [0x91] = {"FROZENSET", gather, PICKLE_SET, 0, ABOVE_MARK},
    ['c'] = {"GLOBAL", read_global, PICKLE_NONE, 0, 0},
    [0x93] = {"STACK_GLOBAL", read_stack_global, PICKLE_NONE, 0, 0},
    ['R'] = {"REDUCE", read_call, PICKLE_NONE, 0, 0},
    [0x81] = {"NEWOBJ", read_call, PICKLE_NONE, 0, 0},
    [0x92] = {"NEWOBJ_EX", read_newobj_ex, PICKLE_NONE, 0, 0},
    ['b'] = {"BUILD", read_build, PICKLE_NONE, 0, 0},
    ['Q'] = {"BINPERSID", read_binpersid, PICKLE_NONE, 0, 0},
    ['q'] = {"BINPUT", read_put, PICKLE_NONE, 1, 0},
    ['r'] = {"LONG_BINPUT", read_put, PICKLE_NONE, 4, 0},
    [0x94] = {"MEMOIZE", read_memoize, PICKLE_NONE, 0, 0},
    ['h'] = {"BINGET", read_get, PICKLE_NONE, 1, 0},
    ['j'] = {"LONG_BINGET", read_get, PICKLE_NONE, 4, 0},
    ['I'] = {"INT", NULL, PICKLE_NONE, 0, 0},
    ['L'] = {"LONG", NULL, PICKLE_NONE, 0, 0},
    [0x8b] = {"LONG4", NULL, PICKLE_NONE, 0, 0},
    ['F'] = {"FLOAT", NULL, PICKLE_NONE, 0, 0},
    ['S'] = {"STRING", NULL, PICKLE_NONE, 0, 0},
    ['V'] = {"UNICODE", NULL, PICKLE_NONE, 0, 0},
    ['l'] = {"LIST", NULL, PICKLE_NONE, 0, 0},
    ['d'] = {"DICT", NULL, PICKLE_NONE, 0, 0},
    ['0'] = {"POP", NULL, PICKLE_NONE, 0, 0},
    ['1'] = {"POP_MARK", NULL, PICKLE_NONE, 0, 0},
    ['2'] = {"DUP", NULL, PICKLE_NONE, 0, 0},
    ['g'] = {"GET", NULL, PICKLE_NONE, 0, 0},
    ['p'] = {"PUT", NULL, PICKLE_NONE, 0, 0},
    ['i'] = {"INST", NULL, PICKLE_NONE, 0, 0},
    ['o'] = {"OBJ", NULL, PICKLE_NONE, 0, 0},
    ['P'] = {"PERSID", NULL, PICKLE_NONE, 0, 0},
    [0x82] = {"EXT1", NULL, PICKLE_NONE, 0, 0},
    [0x83] = {"EXT2", NULL, PICKLE_NONE, 0, 0},
    [0x84] = {"EXT4", NULL, PICKLE_NONE, 0, 0},
    [0x97] = {"NEXT_BUFFER", NULL, PICKLE_NONE, 0, 0},
    [0x98] = {"READONLY_BUFFER", NULL, PICKLE_NONE, 0, 0},
};

/* Reads the operand, and finds the values that the opcode takes, which stay on the stack: the mark
 * below them goes. */
static grail_status apply(machine *m)
{
    const int taken = m->current->taken;
    const unsigned char *bytes = NULL;
    CHECK(take(m, m->current->width, &bytes));
    m->operand = load_little(bytes, m->current->width);
    if (taken == ABOVE_MARK && m->mark_count == 0) {
        return error_set(GRAIL_ERROR_FORMAT, "finds no mark on the stack");
    }
    const int needed = taken + (m->current->read == extend ? 1 : 0); /* with the container */
    if (taken > 0 && m->stack_count - stack_floor(m) < (size_t)needed) {
        return error_set(GRAIL_ERROR_FORMAT, "finds fewer than %d values on the stack", needed);
    }
    m->begin = taken == ABOVE_MARK ? m->marks[--m->mark_count] : m->stack_count - (size_t)taken;
    return m->current->read(m);
}

static grail_status step(machine *m)
{
    const size_t at = m->at;
    if (at == m->size) {
        return error_set(GRAIL_ERROR_FORMAT, "the pickle ends without STOP: truncated?");
    }
    const unsigned char byte = m->bytes[m->at++];
    const opcode *o = &opcodes[byte];
    if (o->name == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "byte %zu of the pickle, 0x%02x, is not an opcode", at,
                         byte);
    }
    if (o->read == NULL) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "byte %zu of the pickle is opcode %s (0x%02x), which is not allowed", at,
                         o->name, byte);
    }
    m->current = o;
    const size_t most = FREE_MEMORY + PICKLE_MOST_GROWTH * m->at;
    m->p->most_allocated = most < PICKLE_MOST_MEMORY ? most : PICKLE_MOST_MEMORY;
    return error_in(apply(m), "byte %zu of the pickle: %s", at, o->name);
}

static grail_status run(machine *m)
{
    while (!m->stopped) {
        CHECK(step(m));
    }
    if (m->stack_count != 1 || m->mark_count != 0) {
        return error_set(GRAIL_ERROR_FORMAT, "the pickle stops with %zu values instead of one",
                         m->stack_count);
    }
    m->p->root = m->stack[0];
    return error_in(pickle_check_nesting(m->p->root), "the pickle");
}

grail_status pickle_read(const void *bytes, size_t size, pickle **out)
{
    grail_status status = GRAIL_OK;
    machine m = {.bytes = bytes, .size = size};
    TRY(memory_new(&m.p, 1, sizeof *m.p));
    m.p->most_allocated = PICKLE_MOST_GROWTH;
    TRY(run(&m));
    if (m.at != size) {
        FAIL(GRAIL_ERROR_FORMAT, "the pickle ends at byte %zu, but %zu bytes were given", m.at,
             size);
    }
    *out = m.p;
    m.p = NULL;
out:
    pickle_close(m.p);
    memory_free(m.stack);
    memory_free(m.marks);
    memory_free(m.memo);
    return status;
}
