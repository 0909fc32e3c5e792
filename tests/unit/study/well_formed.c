#include "well_formed.h"

#include "support/support.h"

#include <ctype.h>
#include <string.h>

enum { DEEPEST = 64, LONGEST_NAME = 32 };

typedef struct reader {
    const char *begin, *at;
    char open[DEEPEST][LONGEST_NAME];
    int depth;
} reader;

static void require(const reader *r, int condition, const char *what)
{
    if (!condition) {
        fail_msg("%s at byte %d: %.80s", what, (int)(r->at - r->begin), r->at);
    }
}

static void read_entity(reader *r)
{
    static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strncmp(r->at, known[i], strlen(known[i])) == 0) {
            r->at += strlen(known[i]);
            return;
        }
    }
    require(r, 0, "no entity");
}

static void read_character(reader *r)
{
    const unsigned char c = (unsigned char)*r->at;
    require(r, c >= 0x20 || c == '\n' || c == '\t', "control character");
    if (c == '&') {
        read_entity(r);
    } else {
        r->at++;
    }
}

static void read_name(reader *r, char *name)
{
    int length = 0;
    while (isalnum((unsigned char)*r->at) || *r->at == '-' || *r->at == ':') {
        require(r, length + 1 < LONGEST_NAME, "long name");
        name[length++] = *r->at++;
    }
    name[length] = 0;
    require(r, length > 0, "no name");
}

static void read_attributes(reader *r)
{
    char name[LONGEST_NAME];
    while (*r->at == ' ') {
        r->at++;
        read_name(r, name);
        require(r, strncmp(r->at, "=\"", 2) == 0, "attribute without quotes");
        r->at += 2;
        while (*r->at != '"') {
            require(r, *r->at != '<' && *r->at != 0, "open attribute");
            read_character(r);
        }
        r->at++;
    }
}

static void skip_to(reader *r, const char *end)
{
    const char *found = strstr(r->at, end);
    require(r, found != NULL, "open element");
    r->at = found;
}

static void read_start(reader *r)
{
    char name[LONGEST_NAME];
    r->at++;
    read_name(r, name);
    read_attributes(r);
    if (strncmp(r->at, "/>", 2) == 0) {
        r->at += 2;
        return;
    }
    require(r, *r->at == '>', "open tag");
    r->at++;
    if (strcmp(name, "meta") == 0) {
        return;
    }
    require(r, r->depth < DEEPEST, "deep");
    strcpy(r->open[r->depth++], name);
    if (strcmp(name, "style") == 0) {
        skip_to(r, "</style>");
    } else if (strcmp(name, "script") == 0) {
        skip_to(r, "</script>");
    }
}

static void read_end(reader *r)
{
    char name[LONGEST_NAME];
    r->at += 2;
    read_name(r, name);
    require(r, r->depth > 0 && strcmp(r->open[r->depth - 1], name) == 0, "crossed element");
    require(r, *r->at == '>', "open end tag");
    r->at++;
    r->depth--;
}

void assert_well_formed(const char *text)
{
    reader r = {.begin = text, .at = text};
    if (strncmp(text, "<!doctype html>", 15) == 0) {
        r.at += 15;
    } else if (strncmp(text, "<?xml", 5) == 0) {
        skip_to(&r, "?>");
        r.at += 2;
    }
    while (*r.at != 0) {
        if (strncmp(r.at, "</", 2) == 0) {
            read_end(&r);
        } else if (*r.at == '<') {
            read_start(&r);
        } else {
            read_character(&r);
        }
    }
    require(&r, r.depth == 0, "element left open");
}

int count_of(const char *text, const char *part)
{
    int count = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        count++;
    }
    return count;
}
