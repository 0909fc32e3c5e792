#include "base/machine_memory.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_PATH = 4096 };

static FILE *open_below(const char *root, const char *path)
{
    char full[LONGEST_PATH];
    const int length = snprintf(full, sizeof full, "%s%s", root, path);
    return length < 0 || (size_t)length >= sizeof full ? NULL : fopen(full, "re");
}

/* The number behind `key` at the start of a line, -1 without one. */
static int64_t read_field(const char *root, const char *path, const char *key)
{
    char line[512];
    int64_t value = -1;
    FILE *file = open_below(root, path);
    while (file != NULL && value < 0 && fgets(line, sizeof line, file) != NULL) {
        char *end = NULL;
        const size_t length = strlen(key);
        if (strncmp(line, key, length) == 0) {
            const long long number = strtoll(line + length, &end, 10);
            value = end == line + length || number < 0 ? -1 : (int64_t)number;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return value;
}

static int64_t read_kibibytes(const char *root, const char *key)
{
    const int64_t value = read_field(root, "/proc/meminfo", key);
    return value < 0 || value > INT64_MAX / 1024 ? -1 : value * 1024;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* The files of a version of control groups. */
typedef struct group_files {
    const char *mount, *limit, *usage, *inactive;
} group_files;

static const group_files version_1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                      "memory.usage_in_bytes", "total_inactive_file "};
static const group_files version_2 = {"/sys/fs/cgroup", "memory.max", "memory.current",
                                      "inactive_file "};

static int64_t read_of_group(const char *root, const group_files *files, const char *group,
                             const char *name, const char *key)
{
    char path[LONGEST_PATH];
    const int length = snprintf(path, sizeof path, "%s%s/%s", files->mount, group, name);
    return length < 0 || (size_t)length >= sizeof path ? -1 : read_field(root, path, key);
}

/* Cached files that were not used lately make room. A limit "max" is no number. */
static void apply_group(const char *root, const group_files *files, const char *group,
                        machine_memory *m)
{
    const int64_t limit = read_of_group(root, files, group, files->limit, "");
    const int64_t usage = read_of_group(root, files, group, files->usage, "");
    const int64_t inactive = read_of_group(root, files, group, "memory.stat", files->inactive);
    if (limit < 0 || usage < 0) {
        return;
    }
    const int64_t used = usage - (inactive > 0 && inactive < usage ? inactive : 0);
    m->total = smaller(m->total, limit);
    m->available = smaller(m->available, limit > used ? limit - used : 0);
}

/* The group of the process and all above it; group is "/a/b" or "/". */
static void apply_groups(const char *root, const group_files *files, char *group, machine_memory *m)
{
    for (char *slash = strrchr(group, '/'); slash != NULL; slash = strrchr(group, '/')) {
        apply_group(root, files, strcmp(group, "/") == 0 ? "" : group, m);
        *slash = 0;
    }
    apply_group(root, files, "", m);
}

machine_memory machine_memory_read(const char *root)
{
    char line[LONGEST_PATH];
    machine_memory m = {.total = read_kibibytes(root, "MemTotal:"),
                        .available = read_kibibytes(root, "MemAvailable:")};
    FILE *groups = open_below(root, "/proc/self/cgroup");
    while (groups != NULL && fgets(line, sizeof line, groups) != NULL) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':');
        char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        if (group != NULL && group[1] == '/') {
            *group++ = 0;
            const bool unified = controllers[1] == 0;
            if (unified || strcmp(controllers + 1, "memory") == 0) {
                apply_groups(root, unified ? &version_2 : &version_1, group, &m);
            }
        }
    }
    if (groups != NULL) {
        fclose(groups);
    }
    return m;
}
