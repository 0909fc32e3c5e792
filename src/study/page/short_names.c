#include "study/page/short_names.h"

#include "base/memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ELLIPSIS "\xE2\x80\xA6"

static bool continues_character(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

/* Bytes up to and with the last dot that all names have in common; none for a single name. */
static size_t common_beginning(const char *const *names, int count)
{
    size_t common = count > 1 ? strlen(names[0]) : 0;
    for (int i = 1; i < count; i++) {
        size_t same = 0;
        while (same < common && names[i][same] == names[0][same]) {
            same++;
        }
        common = same;
    }
    while (common > 0 && names[0][common - 1] != '.') {
        common--;
    }
    return common;
}

/* At most `head` bytes, an ellipsis, and at most `tail` bytes of the end; whole characters. */
static grail_status cut_middle(const char *name, size_t head, size_t tail, char **out)
{
    size_t end = strlen(name) - tail;
    while (head > 0 && continues_character(name[head])) {
        head--;
    }
    while (continues_character(name[end])) {
        end++;
    }
    return memory_format(out, "%.*s" ELLIPSIS "%s", (int)head, name, name + end);
}

static grail_status fill(const char *const *names, size_t most, size_t head, short_names *s)
{
    for (int i = 0; i < s->count; i++) {
        const char *name = names[i] + s->dropped;
        memory_free(s->names[i]);
        s->names[i] = NULL;
        if (strlen(name) <= most) {
            CHECK(memory_copy_string(&s->names[i], name));
        } else {
            CHECK(cut_middle(name, head, most - 1 - head, &s->names[i]));
        }
    }
    return GRAIL_OK;
}

static grail_status number_them(const char *const *names, size_t most, short_names *s)
{
    grail_status status = GRAIL_OK;
    for (int i = 0; i < s->count; i++) {
        const char *name = names[i] + s->dropped;
        const size_t length = strlen(name);
        char *shortened = NULL;
        TRY(cut_middle(name, 0, length < most - 6 ? length : most - 6, &shortened));
        memory_free(s->names[i]);
        s->names[i] = NULL;
        status = memory_format(&s->names[i], "%d%s", i + 1, shortened);
        memory_free(shortened);
        TRY(status);
    }
out:
    return status;
}

/* A name before and after. */
typedef struct pair {
    const char *from, *to;
} pair;

static int compare_pairs(const void *a, const void *b)
{
    const pair *const left = a;
    const pair *const right = b;
    const int order = strcmp(left->to, right->to);
    return order != 0 ? order : strcmp(left->from, right->from);
}

/* Whether names that differ are different after shortening, too. `pairs` has room for all. */
static bool are_distinct(const char *const *names, const short_names *s, pair *pairs)
{
    for (int i = 0; i < s->count; i++) {
        pairs[i] = (pair){names[i], s->names[i]};
    }
    qsort(pairs, (size_t)s->count, sizeof pairs[0], compare_pairs);
    for (int i = 1; i < s->count; i++) {
        if (strcmp(pairs[i - 1].to, pairs[i].to) == 0 &&
            strcmp(pairs[i - 1].from, pairs[i].from) != 0) {
            return false;
        }
    }
    return true;
}

/* Tries cuts from the middle outwards. */
static grail_status shorten(const char *const *names, size_t most, pair *pairs, short_names *s)
{
    const size_t middle = (most - 1) / 2;
    for (size_t i = 0; i < 2 * most; i++) {
        const size_t away = (i + 1) / 2;
        const bool is_inside = i % 2 == 0 ? middle + away < most : away <= middle;
        if (is_inside) {
            CHECK(fill(names, most, i % 2 == 0 ? middle + away : middle - away, s));
            if (are_distinct(names, s, pairs)) {
                return GRAIL_OK;
            }
        }
    }
    return number_them(names, most, s);
}

grail_status short_names_make(const char *const *names, int count, size_t most, short_names *out)
{
    grail_status status = GRAIL_OK;
    short_names s = {.dropped = common_beginning(names, count)};
    pair *pairs = NULL;
    TRY(memory_new(&s.names, (size_t)count, sizeof s.names[0]));
    s.count = count;
    TRY(memory_new(&pairs, (size_t)count, sizeof pairs[0]));
    TRY(shorten(names, most, pairs, &s));
    *out = s;
    s = (short_names){0};
out:
    memory_free(pairs);
    short_names_fini(&s);
    return status;
}

void short_names_fini(short_names *s)
{
    for (int i = 0; i < s->count; i++) {
        memory_free(s->names[i]);
    }
    memory_free(s->names);
    *s = (short_names){0};
}
