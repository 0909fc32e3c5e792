#include "arch/onnx_letters.h"

#include <string.h>

void onnx_letters(const onnx_known *x, char *text)
{
    const char *usual = x->rank == FLAT_RANK ? "N,C" : x->one ? "N,C,," : "N,C,Y,X";
    memcpy(text, x->layout, ONNX_LAYOUT_SIZE);
    if (x->layout[0] == '\0') {
        memcpy(text, usual, strlen(usual) + 1);
    }
}

bool onnx_has_layout(const onnx_known *x)
{
    return x->layout[0] != '\0';
}

bool onnx_ends_in_channels(const onnx_known *x)
{
    char text[ONNX_LAYOUT_SIZE];
    onnx_letters(x, text);
    const size_t length = strlen(text);
    return length > 1 && text[length - 1] == 'C' && text[length - 2] == ',';
}

/* The letters but those of positions. */
static void letters_without_positions(const onnx_known *x, char *text)
{
    char all[ONNX_LAYOUT_SIZE];
    size_t length = 0;
    onnx_letters(x, all);
    for (const char *at = all; *at != '\0'; at++) {
        if (strchr("TYX", *at) == NULL) {
            text[length++] = *at;
        }
    }
    text[length] = '\0';
}

bool onnx_is_moved(const onnx_known *x)
{
    return x->windows.height > 0 || x->roll.height > 0 || x->roll.width > 0;
}

bool onnx_moves_alike(const onnx_known *x, const onnx_known *y)
{
    return x->windows.height == y->windows.height && x->windows.width == y->windows.width &&
           x->roll.height == y->roll.height && x->roll.width == y->roll.width;
}

bool onnx_agree(const onnx_known *x, const onnx_known *y)
{
    char texts[2][ONNX_LAYOUT_SIZE];
    letters_without_positions(x, texts[0]);
    letters_without_positions(y, texts[1]);
    return onnx_moves_alike(x, y) && (strcmp(x->layout, y->layout) == 0 ||
                                      (x->one != y->one && strcmp(texts[0], texts[1]) == 0));
}

/* Where dimension k, which is there, begins. */
static size_t dimension_at(const char *layout, int k)
{
    size_t at = 0;
    for (; k > 0 && layout[at] != '\0'; at++) {
        k -= layout[at] == ',' ? 1 : 0;
    }
    return at;
}

void onnx_dimension_text(const char *layout, int k, char *text)
{
    const char *at = layout + dimension_at(layout, k);
    const size_t size = strcspn(at, ",");
    memcpy(text, at, size);
    text[size] = '\0';
}

void onnx_replace_dimension(char *layout, int k, const char *letters)
{
    const size_t begin = dimension_at(layout, k);
    char *at = layout + begin;
    char *end = at + strcspn(at, ",");
    if (letters != NULL) {
        const size_t size = strlen(letters);
        memmove(at + size, end, strlen(end) + 1);
        memcpy(at, letters, size);
    } else if (*end == ',') {
        memmove(at, end + 1, strlen(end));
    } else {
        layout[begin > 0 ? begin - 1 : 0] = '\0';
    }
}

void onnx_set_layout(onnx_known *x, const char *text)
{
    const bool is_image = strcmp(text, x->one ? "N,C,," : "N,C,Y,X") == 0;
    const bool is_usual = is_image || (x->one && strcmp(text, "N,C") == 0);
    x->rank = 1;
    for (const char *at = text; *at != '\0'; at++) {
        x->rank += *at == ',' ? 1 : 0;
    }
    memmove(x->layout, is_usual ? "" : text, is_usual ? 1 : strlen(text) + 1);
}

int onnx_axis_of(int64_t axis, int rank)
{
    const int64_t counted = axis < 0 ? axis + rank : axis;
    return counted < 0 || counted >= rank ? -1 : (int)counted;
}

int64_t onnx_bound_of(int64_t at, int64_t all)
{
    const int64_t from = at < 0 ? at + all : at;
    return from < 0 ? 0 : from > all ? all : from;
}

onnx_channels onnx_channels_of(const onnx_known *x)
{
    return (onnx_channels){.value = x->value, .linear = x->linear, .outer = true, .second = true};
}
