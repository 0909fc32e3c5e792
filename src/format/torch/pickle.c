/* Reads pickles: the stack machine.
 *
 * Python's pickletools describes the opcodes. This reader accepts those of
 * torch/_weights_only_unpickler.py, of protocol 4, and of Python 2's byte strings. */
#include "format/torch/pickle_internal.h"

#include "base/bytes.h"

#include <string.h>

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
