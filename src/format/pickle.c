/* The stack machine of a pickle. Python's pickletools describes the opcodes; which of them are read
 * follows torch/_weights_only_unpickler.py, with those of protocol 4 and Python 2's byte strings
 * added. */
#include "format/pickle_internal.h"

#include <stdlib.h>
#include <string.h>

enum { HIGHEST_PROTOCOL = 5, MEMO_SLACK = 1 << 16, FIRST_STACK = 64 };

typedef struct machine {
    pickle *p;
    const unsigned char *bytes;
    size_t size;
    size_t at;
    bool stopped;
    pickle_value **stack;
    size_t stack_count;
    size_t stack_capacity;
    size_t *marks; /* heights of the stack */
    size_t mark_count;
    size_t mark_capacity;
    pickle_value **memo; /* NULL where nothing was put */
    size_t memo_capacity;
    size_t memo_puts;
} machine;

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

/* An unsigned little-endian operand. */
static grail_status take_unsigned(machine *m, size_t width, uint64_t *out)
{
    const unsigned char *bytes = NULL;
    const grail_status status = take(m, width, &bytes);
    if (status == GRAIL_OK) {
        uint64_t value = 0;
        for (size_t i = width; i-- > 0;) {
            value = value << 8 | bytes[i];
        }
        *out = value;
    }
    return status;
}

static grail_status grow(void *array, size_t needed, size_t size, size_t *capacity)
{
    if (needed <= *capacity) {
        return GRAIL_OK;
    }
    size_t wanted = *capacity == 0 ? FIRST_STACK : 2 * *capacity;
    wanted = wanted < needed ? needed : wanted;
    const grail_status status = memory_resize(array, wanted, size);
    if (status == GRAIL_OK) {
        *capacity = wanted;
    }
    return status;
}

static grail_status push(machine *m, pickle_value *value)
{
    const grail_status status =
        grow(&m->stack, m->stack_count + 1, sizeof m->stack[0], &m->stack_capacity);
    if (status == GRAIL_OK) {
        m->stack[m->stack_count++] = value;
    }
    return status;
}

static grail_status push_new(machine *m, pickle_kind kind, pickle_value **out)
{
    grail_status status = GRAIL_OK;
    pickle_value *value = NULL;
    TRY(pickle_new(m->p, kind, &value));
    TRY(push(m, value));
    *out = value;
out:
    return status;
}

/* Where the values above the last mark begin. */
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

/* Drops the last mark; the values above it stay where they are: stack[*begin .. stack_count-1]. */
static grail_status pop_mark(machine *m, size_t *begin)
{
    if (m->mark_count == 0) {
        return error_set(GRAIL_ERROR_FORMAT, "finds no mark on the stack");
    }
    *begin = m->marks[--m->mark_count];
    return GRAIL_OK;
}

static grail_status read_proto(machine *m)
{
    uint64_t protocol = 0;
    const grail_status status = take_unsigned(m, 1, &protocol);
    if (status == GRAIL_OK && protocol > HIGHEST_PROTOCOL) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "names protocol %d, but the highest known is %d",
                         (int)protocol, HIGHEST_PROTOCOL);
    }
    return status;
}

/* Frames only tell a reader how much to fetch. */
static grail_status read_frame(machine *m)
{
    uint64_t length = 0;
    return take_unsigned(m, 8, &length);
}

static grail_status read_stop(machine *m)
{
    m->stopped = true;
    return GRAIL_OK;
}

static grail_status read_mark(machine *m)
{
    const grail_status status =
        grow(&m->marks, m->mark_count + 1, sizeof m->marks[0], &m->mark_capacity);
    if (status == GRAIL_OK) {
        m->marks[m->mark_count++] = m->stack_count;
    }
    return status;
}

static grail_status push_empty(machine *m, pickle_kind kind)
{
    pickle_value *value = NULL;
    return push_new(m, kind, &value);
}

static grail_status read_none(machine *m)
{
    return push_empty(m, PICKLE_NONE);
}

static grail_status read_empty_tuple(machine *m)
{
    return push_empty(m, PICKLE_TUPLE);
}

static grail_status read_empty_list(machine *m)
{
    return push_empty(m, PICKLE_LIST);
}

static grail_status read_empty_dict(machine *m)
{
    return push_empty(m, PICKLE_DICT);
}

static grail_status read_empty_set(machine *m)
{
    return push_empty(m, PICKLE_SET);
}

static grail_status push_integer(machine *m, pickle_kind kind, int64_t integer)
{
    pickle_value *value = NULL;
    const grail_status status = push_new(m, kind, &value);
    if (status == GRAIL_OK) {
        value->integer = integer;
    }
    return status;
}

static grail_status read_true(machine *m)
{
    return push_integer(m, PICKLE_BOOLEAN, 1);
}

static grail_status read_false(machine *m)
{
    return push_integer(m, PICKLE_BOOLEAN, 0);
}

static grail_status read_unsigned_int(machine *m, size_t width)
{
    uint64_t value = 0;
    const grail_status status = take_unsigned(m, width, &value);
    return status == GRAIL_OK ? push_integer(m, PICKLE_INTEGER, (int64_t)value) : status;
}

static grail_status read_binint1(machine *m)
{
    return read_unsigned_int(m, 1);
}

static grail_status read_binint2(machine *m)
{
    return read_unsigned_int(m, 2);
}

static grail_status read_binint(machine *m)
{
    uint64_t value = 0;
    const grail_status status = take_unsigned(m, 4, &value);
    return status == GRAIL_OK ? push_integer(m, PICKLE_INTEGER, (int32_t)(uint32_t)value) : status;
}

/* Two's complement of any length, little-endian; no bytes are 0. */
static grail_status read_long1(machine *m)
{
    grail_status status = GRAIL_OK;
    uint64_t width = 0;
    const unsigned char *bytes = NULL;
    TRY(take_unsigned(m, 1, &width));
    TRY(take(m, (size_t)width, &bytes));
    if (width > sizeof(uint64_t)) {
        return push_integer(m, PICKLE_LARGE_INTEGER, 0);
    }
    uint64_t value = width > 0 && bytes[width - 1] >= 0x80 ? UINT64_MAX : 0;
    for (size_t i = (size_t)width; i-- > 0;) {
        value = value << 8 | bytes[i];
    }
    TRY(push_integer(m, PICKLE_INTEGER, (int64_t)value));
out:
    return status;
}

/* The one big-endian operand. */
static grail_status read_binfloat(machine *m)
{
    grail_status status = GRAIL_OK;
    const unsigned char *bytes = NULL;
    pickle_value *value = NULL;
    uint64_t bits = 0;
    TRY(take(m, sizeof bits, &bytes));
    for (size_t i = 0; i < sizeof bits; i++) {
        bits = bits << 8 | bytes[i];
    }
    TRY(push_new(m, PICKLE_REAL, &value));
    memcpy(&value->real, &bits, sizeof bits);
out:
    return status;
}

/* A length of `width` bytes, then that many bytes. */
static grail_status read_text(machine *m, size_t width, pickle_kind kind)
{
    grail_status status = GRAIL_OK;
    uint64_t length = 0;
    const unsigned char *bytes = NULL;
    pickle_value *value = NULL;
    TRY(take_unsigned(m, width, &length));
    TRY(take(m, length, &bytes));
    TRY(push_new(m, kind, &value));
    value->text = (pickle_span){(const char *)bytes, length};
out:
    return status;
}

static grail_status read_text1(machine *m)
{
    return read_text(m, 1, PICKLE_TEXT);
}

static grail_status read_text4(machine *m)
{
    return read_text(m, 4, PICKLE_TEXT);
}

static grail_status read_text8(machine *m)
{
    return read_text(m, 8, PICKLE_TEXT);
}

static grail_status read_bytes1(machine *m)
{
    return read_text(m, 1, PICKLE_BYTES);
}

static grail_status read_bytes4(machine *m)
{
    return read_text(m, 4, PICKLE_BYTES);
}

static grail_status read_bytes8(machine *m)
{
    return read_text(m, 8, PICKLE_BYTES);
}

/* Moves the values from stack[begin] on into a new value. */
static grail_status gather(machine *m, pickle_kind kind, size_t begin)
{
    grail_status status = GRAIL_OK;
    pickle_value *value = NULL;
    TRY(pickle_new(m->p, kind, &value));
    for (size_t i = begin; i < m->stack_count; i++) {
        TRY(pickle_append(m->p, value, m->stack[i]));
    }
    m->stack_count = begin;
    TRY(push(m, value));
out:
    return status;
}

static grail_status gather_marked(machine *m, pickle_kind kind)
{
    size_t begin = 0;
    const grail_status status = pop_mark(m, &begin);
    return status == GRAIL_OK ? gather(m, kind, begin) : status;
}

static grail_status read_tuple(machine *m)
{
    return gather_marked(m, PICKLE_TUPLE);
}

static grail_status read_frozenset(machine *m)
{
    return gather_marked(m, PICKLE_SET);
}

static grail_status read_short_tuple(machine *m, size_t count)
{
    if (m->stack_count - stack_floor(m) < count) {
        return error_set(GRAIL_ERROR_FORMAT, "finds fewer than %zu values on the stack", count);
    }
    return gather(m, PICKLE_TUPLE, m->stack_count - count);
}

static grail_status read_tuple1(machine *m)
{
    return read_short_tuple(m, 1);
}

static grail_status read_tuple2(machine *m)
{
    return read_short_tuple(m, 2);
}

static grail_status read_tuple3(machine *m)
{
    return read_short_tuple(m, 3);
}

/* Appends stack[begin ..] to the container below, which stays on the stack. What is put into an
 * opaque object is dropped. */
static grail_status extend(machine *m, pickle_kind kind, size_t begin)
{
    grail_status status = GRAIL_OK;
    pickle_value *container = NULL;
    const size_t end = m->stack_count;
    m->stack_count = begin;
    TRY(top(m, &container));
    if (container->kind != kind && container->kind != PICKLE_CALL) {
        FAIL(GRAIL_ERROR_FORMAT, "finds %s to put values into", pickle_kind_text(container));
    }
    if (kind == PICKLE_DICT && (end - begin) % 2 != 0) {
        FAIL(GRAIL_ERROR_FORMAT, "finds a key without a value");
    }
    for (size_t i = begin; i < end && container->kind == kind; i++) {
        TRY(pickle_append(m->p, container, m->stack[i]));
    }
out:
    return status;
}

static grail_status extend_marked(machine *m, pickle_kind kind)
{
    size_t begin = 0;
    const grail_status status = pop_mark(m, &begin);
    return status == GRAIL_OK ? extend(m, kind, begin) : status;
}

static grail_status read_append(machine *m)
{
    pickle_value *item = NULL;
    const grail_status status = top(m, &item);
    return status == GRAIL_OK ? extend(m, PICKLE_LIST, m->stack_count - 1) : status;
}

static grail_status read_appends(machine *m)
{
    return extend_marked(m, PICKLE_LIST);
}

static grail_status read_additems(machine *m)
{
    return extend_marked(m, PICKLE_SET);
}

static grail_status read_setitem(machine *m)
{
    if (m->stack_count - stack_floor(m) < 3) {
        return error_set(GRAIL_ERROR_FORMAT, "finds fewer than 3 values on the stack");
    }
    return extend(m, PICKLE_DICT, m->stack_count - 2);
}

static grail_status read_setitems(machine *m)
{
    return extend_marked(m, PICKLE_DICT);
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

static grail_status push_global(machine *m, pickle_span module, pickle_span name)
{
    pickle_value *value = NULL;
    const grail_status status = pickle_new_global(m->p, module, name, &value);
    return status == GRAIL_OK ? push(m, value) : status;
}

static grail_status read_global(machine *m)
{
    grail_status status = GRAIL_OK;
    pickle_span module = {0};
    pickle_span name = {0};
    TRY(take_line(m, &module));
    TRY(take_line(m, &name));
    TRY(push_global(m, module, name));
out:
    return status;
}

static grail_status read_stack_global(machine *m)
{
    grail_status status = GRAIL_OK;
    pickle_value *module = NULL;
    pickle_value *name = NULL;
    TRY(pop(m, &name));
    TRY(pop(m, &module));
    if (module->kind != PICKLE_TEXT || name->kind != PICKLE_TEXT) {
        FAIL(GRAIL_ERROR_FORMAT, "finds %s and %s instead of names", pickle_kind_text(module),
             pickle_kind_text(name));
    }
    TRY(push_global(m, module->text, name->text));
out:
    return status;
}

/* REDUCE and NEWOBJ: what would be made is the same to a reader that makes nothing. */
static grail_status read_call(machine *m)
{
    grail_status status = GRAIL_OK;
    pickle_value *function = NULL;
    pickle_value *arguments = NULL;
    pickle_value *made = NULL;
    TRY(pop(m, &arguments));
    TRY(pop(m, &function));
    TRY(pickle_new_call(m->p, function, arguments, &made));
    TRY(push(m, made));
out:
    return status;
}

/* With keyword arguments, which say nothing to us. */
static grail_status read_newobj_ex(machine *m)
{
    pickle_value *keywords = NULL;
    const grail_status status = pop(m, &keywords);
    return status == GRAIL_OK ? read_call(m) : status;
}

/* Attributes of dicts (an OrderedDict's _metadata) are dropped. */
static grail_status read_build(machine *m)
{
    grail_status status = GRAIL_OK;
    pickle_value *state = NULL;
    pickle_value *object = NULL;
    TRY(pop(m, &state));
    TRY(top(m, &object));
    if (object->kind == PICKLE_CALL) {
        object->call.state = state;
    } else if (object->kind != PICKLE_DICT) {
        FAIL(GRAIL_ERROR_FORMAT, "gives a state to %s", pickle_kind_text(object));
    }
out:
    return status;
}

static grail_status read_binpersid(machine *m)
{
    grail_status status = GRAIL_OK;
    pickle_value *value = NULL;
    pickle_value *identity = NULL;
    TRY(pop(m, &identity));
    TRY(push_new(m, PICKLE_PERSISTENT, &value));
    value->persistent = identity;
    TRY(pickle_append(m->p, m->p->persistents, value));
out:
    return status;
}

/* Writers number what they remember, so a number far above the count of what was put is made to
 * take memory. */
static grail_status memo_put(machine *m, uint64_t index)
{
    grail_status status = GRAIL_OK;
    pickle_value *value = NULL;
    TRY(top(m, &value));
    if (index > 2 * m->memo_puts + MEMO_SLACK) {
        FAIL(GRAIL_ERROR_FORMAT, "puts at %llu of the memo, into which %zu values were put so far",
             (unsigned long long)index, m->memo_puts);
    }
    const size_t before = m->memo_capacity;
    TRY(grow(&m->memo, (size_t)index + 1, sizeof m->memo[0], &m->memo_capacity));
    memset(m->memo + before, 0, (m->memo_capacity - before) * sizeof m->memo[0]);
    m->memo[index] = value;
    m->memo_puts++;
out:
    return status;
}

static grail_status memo_get(machine *m, uint64_t index)
{
    if (index >= m->memo_capacity || m->memo[index] == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "gets %llu of the memo, where nothing was put",
                         (unsigned long long)index);
    }
    return push(m, m->memo[index]);
}

static grail_status read_put(machine *m, size_t width)
{
    uint64_t index = 0;
    const grail_status status = take_unsigned(m, width, &index);
    return status == GRAIL_OK ? memo_put(m, index) : status;
}

static grail_status read_binput(machine *m)
{
    return read_put(m, 1);
}

static grail_status read_long_binput(machine *m)
{
    return read_put(m, 4);
}

static grail_status read_memoize(machine *m)
{
    return memo_put(m, m->memo_puts);
}

static grail_status read_get(machine *m, size_t width)
{
    uint64_t index = 0;
    const grail_status status = take_unsigned(m, width, &index);
    return status == GRAIL_OK ? memo_get(m, index) : status;
}

static grail_status read_binget(machine *m)
{
    return read_get(m, 1);
}

static grail_status read_long_binget(machine *m)
{
    return read_get(m, 4);
}

typedef struct opcode {
    const char *name;
    grail_status (*read)(machine *m); /* NULL: known to Python, refused here */
} opcode;

static const opcode opcodes[256] = {
    [0x80] = {"PROTO", read_proto},
    [0x95] = {"FRAME", read_frame},
    ['.'] = {"STOP", read_stop},
    ['('] = {"MARK", read_mark},
    ['N'] = {"NONE", read_none},
    [0x88] = {"NEWTRUE", read_true},
    [0x89] = {"NEWFALSE", read_false},
    ['J'] = {"BININT", read_binint},
    ['K'] = {"BININT1", read_binint1},
    ['M'] = {"BININT2", read_binint2},
    [0x8a] = {"LONG1", read_long1},
    ['G'] = {"BINFLOAT", read_binfloat},
    ['X'] = {"BINUNICODE", read_text4},
    [0x8c] = {"SHORT_BINUNICODE", read_text1},
    [0x8d] = {"BINUNICODE8", read_text8},
    ['T'] = {"BINSTRING", read_bytes4},
    ['U'] = {"SHORT_BINSTRING", read_bytes1},
    ['B'] = {"BINBYTES", read_bytes4},
    ['C'] = {"SHORT_BINBYTES", read_bytes1},
    [0x8e] = {"BINBYTES8", read_bytes8},
    [0x96] = {"BYTEARRAY8", read_bytes8},
    [')'] = {"EMPTY_TUPLE", read_empty_tuple},
    ['t'] = {"TUPLE", read_tuple},
    [0x85] = {"TUPLE1", read_tuple1},
    [0x86] = {"TUPLE2", read_tuple2},
    [0x87] = {"TUPLE3", read_tuple3},
    [']'] = {"EMPTY_LIST", read_empty_list},
    ['a'] = {"APPEND", read_append},
    ['e'] = {"APPENDS", read_appends},
    ['}'] = {"EMPTY_DICT", read_empty_dict},
    ['s'] = {"SETITEM", read_setitem},
    ['u'] = {"SETITEMS", read_setitems},
    [0x8f] = {"EMPTY_SET", read_empty_set},
    [0x90] = {"ADDITEMS", read_additems},
    [0x91] = {"FROZENSET", read_frozenset},
    ['c'] = {"GLOBAL", read_global},
    [0x93] = {"STACK_GLOBAL", read_stack_global},
    ['R'] = {"REDUCE", read_call},
    [0x81] = {"NEWOBJ", read_call},
    [0x92] = {"NEWOBJ_EX", read_newobj_ex},
    ['b'] = {"BUILD", read_build},
    ['Q'] = {"BINPERSID", read_binpersid},
    ['q'] = {"BINPUT", read_binput},
    ['r'] = {"LONG_BINPUT", read_long_binput},
    [0x94] = {"MEMOIZE", read_memoize},
    ['h'] = {"BINGET", read_binget},
    ['j'] = {"LONG_BINGET", read_long_binget},
    ['I'] = {"INT", NULL},
    ['L'] = {"LONG", NULL},
    [0x8b] = {"LONG4", NULL},
    ['F'] = {"FLOAT", NULL},
    ['S'] = {"STRING", NULL},
    ['V'] = {"UNICODE", NULL},
    ['l'] = {"LIST", NULL},
    ['d'] = {"DICT", NULL},
    ['0'] = {"POP", NULL},
    ['1'] = {"POP_MARK", NULL},
    ['2'] = {"DUP", NULL},
    ['g'] = {"GET", NULL},
    ['p'] = {"PUT", NULL},
    ['i'] = {"INST", NULL},
    ['o'] = {"OBJ", NULL},
    ['P'] = {"PERSID", NULL},
    [0x82] = {"EXT1", NULL},
    [0x83] = {"EXT2", NULL},
    [0x84] = {"EXT4", NULL},
    [0x97] = {"NEXT_BUFFER", NULL},
    [0x98] = {"READONLY_BUFFER", NULL},
};

static grail_status step(machine *m)
{
    const size_t at = m->at;
    if (at == m->size) {
        return error_set(GRAIL_ERROR_FORMAT, "the pickle ends without STOP: truncated?");
    }
    const unsigned char byte = m->bytes[m->at++];
    const opcode *o = &opcodes[byte];
    if (o->name == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "byte %zu of the pickle, 0x%02x, is no opcode", at,
                         byte);
    }
    if (o->read == NULL) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "byte %zu of the pickle is opcode %s (0x%02x), which is not allowed", at,
                         o->name, byte);
    }
    const grail_status status = o->read(m);
    if (status != GRAIL_OK) {
        error_prefix("byte %zu of the pickle: %s", at, o->name);
    }
    return status;
}

static grail_status run(machine *m)
{
    grail_status status = GRAIL_OK;
    while (!m->stopped) {
        TRY(step(m));
    }
    if (m->stack_count != 1 || m->mark_count != 0) {
        FAIL(GRAIL_ERROR_FORMAT, "the pickle stops with %zu values instead of one", m->stack_count);
    }
    m->p->root = m->stack[0];
    status = pickle_check_nesting(m->p->root);
    if (status != GRAIL_OK) {
        error_prefix("the pickle");
    }
out:
    return status;
}

grail_status pickle_read(const void *bytes, size_t size, size_t *used, pickle **out)
{
    grail_status status = GRAIL_OK;
    machine m = {.bytes = bytes, .size = size};
    TRY(memory_new(&m.p, 1, sizeof *m.p));
    if (!size_multiply(size, PICKLE_MOST_GROWTH, &m.p->most_allocated) ||
        !size_add(m.p->most_allocated, 1 << 16, &m.p->most_allocated)) {
        FAIL(GRAIL_ERROR_FORMAT, "a pickle of %zu bytes is too long", size);
    }
    TRY(pickle_new(m.p, PICKLE_LIST, &m.p->persistents));
    TRY(run(&m));
    if (used == NULL && m.at != size) {
        FAIL(GRAIL_ERROR_FORMAT, "the pickle ends at byte %zu, but %zu were given", m.at, size);
    }
    if (used != NULL) {
        *used = m.at;
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
