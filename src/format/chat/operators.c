#include "format/chat/operators.h"

#include "format/chat/limits.h"

#include <string.h>

static grail_status not_for(chat_text sign, chat_value a, chat_value b)
{
    return error_set(GRAIL_ERROR_UNSUPPORTED, "the operator %.*s is not understood for %s and %s",
                     (int)sign.size, sign.bytes, chat_kind_of(a), chat_kind_of(b));
}

/* -- texts and lists --------------------------------------------------------------------------- */

grail_status chat_join(chat_memory *m, chat_text a, chat_text b, chat_value *out)
{
    char *bytes = NULL;
    CHECK(chat_work(m, a.size));
    CHECK(chat_work(m, b.size));
    CHECK(chat_take(m, &bytes, a.size + b.size, 1)); /* each is below CHAT_MOST_BYTES */
    if (a.size > 0) {
        memcpy(bytes, a.bytes, a.size);
    }
    if (b.size > 0) {
        memcpy(bytes + a.size, b.bytes, b.size);
    }
    *out = chat_string(bytes, a.size + b.size);
    return GRAIL_OK;
}

static grail_status join_lists(chat_memory *m, const chat_list *a, const chat_list *b,
                               chat_value *out)
{
    CHECK(chat_new_list(m, out));
    for (size_t i = 0; i < a->count; i++) {
        CHECK(chat_push(m, out->as.list, a->items[i]));
    }
    for (size_t i = 0; i < b->count; i++) {
        CHECK(chat_push(m, out->as.list, b->items[i]));
    }
    return GRAIL_OK;
}

grail_status chat_search(chat_memory *m, chat_text text, size_t from, chat_text part, size_t *out)
{
    const char *begin = text.bytes + from;
    const char *found = begin;
    const size_t left = text.size - from;
    if (part.size > 0) {
        found = part.size > left ? NULL : memmem(begin, left, part.bytes, part.size);
    }
    *out = found == NULL ? text.size + 1 : from + (size_t)(found - begin);
    return chat_work(m, found == NULL ? left : (size_t)(found - begin) + part.size);
}

static grail_status contains(chat_memory *m, chat_value of, chat_value value, bool *out)
{
    chat_value found = {0};
    size_t place = 0;
    *out = false;
    if (of.type == CHAT_STRING && value.type == CHAT_STRING) {
        CHECK(chat_search(m, of.as.text, 0, value.as.text, &place));
        *out = place <= of.as.text.size;
    } else if (chat_is_object(of) && value.type == CHAT_STRING) {
        CHECK(chat_find(m, of.as.object, value.as.text, &found));
        *out = found.type != CHAT_UNDEFINED;
    } else if (of.type == CHAT_LIST) {
        for (size_t i = 0; !*out && i < of.as.list->count; i++) {
            CHECK(chat_equal(m, of.as.list->items[i], value, out));
        }
    } else if (of.type != CHAT_UNDEFINED) {
        return not_for((chat_text){"in", 2}, value, of);
    }
    return GRAIL_OK;
}

/* -- numbers and order ------------------------------------------------------------------------- */

/* Python rounds quotients down, so that a remainder has the sign of b. */
static int64_t remainder_of(int64_t a, int64_t b)
{
    const int64_t rest = a % b;
    return rest + (rest != 0 && (rest < 0) != (b < 0) ? b : 0);
}

static int64_t quotient(int64_t a, int64_t b)
{
    return a / b - (a % b != remainder_of(a, b) ? 1 : 0);
}

static grail_status calculate(chat_text sign, chat_value left, chat_value right, chat_value *out)
{
    const int64_t a = left.as.integer;
    const int64_t b = right.as.integer;
    int64_t result = 0;
    bool fails = false;
    if (chat_text_is(sign, "+")) {
        fails = __builtin_add_overflow(a, b, &result);
    } else if (chat_text_is(sign, "-")) {
        fails = __builtin_sub_overflow(a, b, &result);
    } else if (chat_text_is(sign, "*")) {
        fails = __builtin_mul_overflow(a, b, &result);
    } else if (chat_text_is(sign, "/")) {
        return not_for(sign, left, right);
    } else if (b == 0 || (a == INT64_MIN && b == -1)) {
        fails = true;
    } else {
        result = sign.bytes[0] == '%' ? remainder_of(a, b) : quotient(a, b);
    }
    *out = chat_integer(result);
    return fails ? error_set(GRAIL_ERROR_UNSUPPORTED, "%lld %.*s %lld has no result in 64 bits",
                             (long long)a, (int)sign.size, sign.bytes, (long long)b)
                 : GRAIL_OK;
}

/* UTF-8 is ordered as its codepoints are. */
static int order_of_texts(chat_text a, chat_text b)
{
    const size_t shorter = a.size < b.size ? a.size : b.size;
    const int order = shorter == 0 ? 0 : memcmp(a.bytes, b.bytes, shorter);
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static grail_status compare(chat_memory *m, chat_text sign, chat_value a, chat_value b,
                            chat_value *out)
{
    int order = 0;
    if (a.type == CHAT_INTEGER && b.type == CHAT_INTEGER) {
        order = (a.as.integer > b.as.integer) - (a.as.integer < b.as.integer);
    } else if (a.type == CHAT_STRING && b.type == CHAT_STRING) {
        CHECK(chat_work(m, a.as.text.size));
        order = order_of_texts(a.as.text, b.as.text);
    } else {
        return not_for(sign, a, b);
    }
    const bool strict = sign.bytes[0] == '<' ? order < 0 : order > 0;
    *out = chat_boolean(strict || (sign.size == 2 && order == 0));
    return GRAIL_OK;
}

static grail_status add_or_calculate(chat_memory *m, chat_text sign, chat_value a, chat_value b,
                                     chat_value *out)
{
    const bool adds = chat_text_is(sign, "+");
    if (adds && a.type == CHAT_STRING && b.type == CHAT_STRING) {
        return chat_join(m, a.as.text, b.as.text, out);
    }
    if (adds && a.type == CHAT_LIST && b.type == CHAT_LIST) {
        return join_lists(m, a.as.list, b.as.list, out);
    }
    return a.type == CHAT_INTEGER && b.type == CHAT_INTEGER ? calculate(sign, a, b, out)
                                                            : not_for(sign, a, b);
}

grail_status chat_binary(chat_memory *m, chat_text sign, chat_value a, chat_value b,
                         chat_value *out)
{
    bool holds = false;
    chat_text left = {0};
    chat_text right = {0};
    if (chat_text_is(sign, "==") || chat_text_is(sign, "!=")) {
        CHECK(chat_equal(m, a, b, &holds));
        *out = chat_boolean(holds == (sign.bytes[0] == '='));
        return GRAIL_OK;
    }
    if (chat_text_is(sign, "in")) {
        CHECK(contains(m, b, a, &holds));
        *out = chat_boolean(holds);
        return GRAIL_OK;
    }
    if (sign.bytes[0] == '<' || sign.bytes[0] == '>') {
        return compare(m, sign, a, b, out);
    }
    if (sign.bytes[0] == '~') {
        CHECK(chat_print(m, a, &left));
        CHECK(chat_print(m, b, &right));
        return chat_join(m, left, right, out);
    }
    return add_or_calculate(m, sign, a, b, out);
}

grail_status chat_minus(chat_value of, chat_value *out)
{
    const chat_value zero = chat_integer(0);
    const chat_text sign = {"-", 1};
    return of.type == CHAT_INTEGER ? calculate(sign, zero, of, out) : not_for(sign, zero, of);
}

/* -- parts ------------------------------------------------------------------------------------- */

grail_status chat_attribute(chat_memory *m, chat_value of, chat_text name, chat_value *out)
{
    *out = (chat_value){.type = CHAT_UNDEFINED};
    if (of.type == CHAT_UNDEFINED) {
        return error_set(GRAIL_ERROR_FORMAT, "asks for '%.*s' of something that is not defined",
                         (int)name.size, name.bytes);
    }
    return chat_is_object(of) ? chat_find(m, of.as.object, name, out) : GRAIL_OK;
}

/* The byte at which a codepoint begins. */
static size_t byte_of(chat_text text, size_t codepoint)
{
    size_t i = 0;
    size_t seen = 0;
    for (; i < text.size; i++) {
        const bool begins = ((unsigned char)text.bytes[i] & 0xC0) != 0x80;
        if (begins && seen++ == codepoint) {
            break;
        }
    }
    return i;
}

static chat_text codepoint_at(chat_text text, size_t at)
{
    const size_t begin = byte_of(text, at);
    const chat_text rest = {text.bytes + begin, text.size - begin};
    return (chat_text){rest.bytes, byte_of(rest, 1)};
}

grail_status chat_index(chat_memory *m, chat_value of, chat_value at, chat_value *out)
{
    const bool is_text = of.type == CHAT_STRING;
    *out = (chat_value){.type = CHAT_UNDEFINED};
    if (of.type == CHAT_UNDEFINED || at.type == CHAT_STRING) {
        return chat_attribute(m, of, at.type == CHAT_STRING ? at.as.text : (chat_text){"[]", 2},
                              out);
    }
    if (at.type != CHAT_INTEGER || (!is_text && of.type != CHAT_LIST)) {
        return GRAIL_OK; /* as in Jinja */
    }
    CHECK(chat_work(m, is_text ? 2 * of.as.text.size : 1));
    const int64_t size = (int64_t)(is_text ? chat_text_length(of.as.text) : of.as.list->count);
    const int64_t i = at.as.integer < 0 ? at.as.integer + size : at.as.integer;
    if (i >= 0 && i < size && is_text) {
        const chat_text found = codepoint_at(of.as.text, (size_t)i);
        *out = chat_string(found.bytes, found.size);
    } else if (i >= 0 && i < size) {
        *out = of.as.list->items[i];
    }
    return GRAIL_OK;
}

/* The indices begin, begin + step, ... before end. */
typedef struct slice_range {
    int64_t begin, end, step;
} slice_range;

/* A bound between `least` and `most`; those below 0 count from the end of `size` elements. */
static int64_t bound_of(chat_value bound, int64_t otherwise, int64_t size, int64_t least,
                        int64_t most)
{
    if (bound.type != CHAT_INTEGER) {
        return otherwise;
    }
    const int64_t i = bound.as.integer < 0 ? bound.as.integer + size : bound.as.integer;
    return i < least ? least : i > most ? most : i;
}

static grail_status range_of(const chat_value bounds[3], size_t size, slice_range *out)
{
    const int64_t count = (int64_t)size;
    for (int i = 0; i < 3; i++) {
        if (bounds[i].type != CHAT_UNDEFINED && bounds[i].type != CHAT_INTEGER &&
            bounds[i].type != CHAT_NONE) {
            return error_set(GRAIL_ERROR_UNSUPPORTED, "%s is no bound of a part",
                             chat_kind_of(bounds[i]));
        }
    }
    const int64_t step = bounds[2].type == CHAT_INTEGER ? bounds[2].as.integer : 1;
    const bool forward = step > 0;
    if (step == 0 || step < -count - 1 || step > count + 1) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "a part of every %lld-th of %lld is not "
                         "understood",
                         (long long)step, (long long)count);
    }
    *out = (slice_range){
        .begin = bound_of(bounds[0], forward ? 0 : count - 1, count, forward ? 0 : -1,
                          forward ? count : count - 1),
        .end = bound_of(bounds[1], forward ? count : -1, count, forward ? 0 : -1,
                        forward ? count : count - 1),
        .step = step,
    };
    return GRAIL_OK;
}

static grail_status slice_text(chat_memory *m, chat_text text, const chat_value bounds[3],
                               chat_value *out)
{
    slice_range range = {0};
    CHECK(chat_work(m, 3 * text.size));
    CHECK(range_of(bounds, chat_text_length(text), &range));
    if (range.step != 1) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "a part of a text with a step is not understood");
    }
    const size_t begin = byte_of(text, (size_t)range.begin);
    const size_t end = byte_of(text, (size_t)range.end);
    *out = chat_string(text.bytes + begin, end > begin ? end - begin : 0);
    return GRAIL_OK;
}

grail_status chat_slice(chat_memory *m, chat_value of, const chat_value bounds[3], chat_value *out)
{
    slice_range range = {0};
    if (of.type == CHAT_STRING) {
        return slice_text(m, of.as.text, bounds, out);
    }
    if (of.type != CHAT_LIST) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "a part [:] of %s is not understood",
                         chat_kind_of(of));
    }
    CHECK(range_of(bounds, of.as.list->count, &range));
    CHECK(chat_new_list(m, out));
    for (int64_t i = range.begin; range.step > 0 ? i < range.end : i > range.end; i += range.step) {
        CHECK(chat_push(m, out->as.list, of.as.list->items[i]));
    }
    return GRAIL_OK;
}
