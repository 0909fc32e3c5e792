/* Classes and functions that a pickle may name.
 *
 * The few known ones are applied to their arguments. Nothing is looked up or called, so an unknown
 * name does no harm here. Modules are refused if a file that names them was made to do harm, or
 * would do harm in the next program that loads it. */
#include "format/torch/pickle_internal.h"

#include <string.h>

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

grail_status pickle_new_global(pickle *p, pickle_span module, pickle_span name, pickle_value **out)
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

grail_status pickle_new_call(pickle *p, pickle_value *function, pickle_value *arguments,
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
