#include "base/names.h"

#include "base/status.h"

#include <string.h>

enum { LONGEST = 64 };

bool names_equal(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* One row of the table of distances between the beginnings of two names: that of a[0..i] and every
 * b[0..j], from the two rows before it. */
static void fill_row(const char *a, int i, const char *b, int rows[3][LONGEST + 1])
{
    const int length = (int)strlen(b);
    int *row = rows[i % 3];
    const int *before = rows[(i + 2) % 3];
    const int *earlier = rows[(i + 1) % 3];
    row[0] = i;
    for (int j = 1; j <= length; j++) {
        const bool same = a[i - 1] == b[j - 1];
        const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
        row[j] = least(before[j - 1] + (same ? 0 : 1), 1 + least(before[j], row[j - 1]));
        row[j] = swapped ? least(row[j], earlier[j - 2] + 1) : row[j];
    }
}

/* The optimal string alignment distance of two names of at most LONGEST bytes. */
static int distance(const char *a, const char *b)
{
    int rows[3][LONGEST + 1];
    const int length = (int)strlen(a);
    for (int j = 0; j <= LONGEST; j++) {
        rows[0][j] = j;
    }
    for (int i = 1; i <= length; i++) {
        fill_row(a, i, b, rows);
    }
    return rows[length % 3][strlen(b)];
}

const char *grail_nearest_name(const char *name, grail_name_at name_at, const void *list)
{
    const char *nearest = NULL;
    const size_t length = strlen(name);
    int fewest = (int)((least((int)length, LONGEST + 1) + 1) / 3) + 1;
    for (int i = 0; length <= LONGEST && name_at(list, i) != NULL; i++) {
        const char *known = name_at(list, i);
        const int edits = strlen(known) > LONGEST ? fewest : distance(name, known);
        nearest = edits < fewest ? known : nearest;
        fewest = least(fewest, edits);
    }
    return nearest;
}

void error_append_names(const char *name, grail_name_at name_at, const void *list)
{
    const char *nearest = name == NULL ? NULL : grail_nearest_name(name, name_at, list);
    for (int i = 0; name_at(list, i) != NULL; i++) {
        error_append("%s %s", i == 0 ? "" : ",", name_at(list, i));
    }
    if (nearest != NULL) {
        error_append("; did you mean '%s'?", nearest);
    }
}

static const char *array_at(const void *list, int i)
{
    const char *const *known = list;
    return known[i];
}

void error_append_known(const char *name, const char *const known[])
{
    error_append_names(name, array_at, known);
}
