/* Values of pickles: their memory, their growth, the check of their nesting, and looking at them.
 */
#include "format/torch/pickle_internal.h"

#include <string.h>

enum { CHUNK_SIZE = 1 << 16, ALIGNMENT = 16, FIRST_CAPACITY = 4 };

struct pickle_chunk {
    pickle_chunk *next;
    size_t used;
    size_t size;
    unsigned char *bytes; /* directly after this struct */
};

grail_status pickle_allocate(pickle *p, size_t bytes, void *out)
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

grail_status pickle_new(pickle *p, pickle_kind kind, pickle_value **out)
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

grail_status pickle_append(pickle *p, pickle_value *list, pickle_value *item)
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

bool pickle_has_items(const pickle_value *value)
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

grail_status pickle_check_nesting(pickle_value *root)
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
