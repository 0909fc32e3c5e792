/* Available memory, on made-up machines: trees with the files that /proc and /sys would have. */
#include "support/support.h"

#include "base/machine_memory.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MEBIBYTE = 1 << 20 };

typedef struct machine {
    char *root;
} machine;

/* Makes the directories of `path`, then the file. */
static void add(const machine *m, const char *path, const char *text)
{
    char full[4096];
    snprintf(full, sizeof full, "%s%s", m->root, path);
    for (char *slash = strchr(full + strlen(m->root) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(full, 0777);
        *slash = '/';
    }
    FILE *file = fopen(full, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static machine begin(void)
{
    const machine m = {.root = support_temporary_directory()};
    add(&m, "/proc/meminfo",
        "MemTotal:       16384000 kB\nMemFree:          102400 kB\n"
        "MemAvailable:    8192000 kB\nBuffers:            1024 kB\n");
    return m;
}

static void end(machine *m)
{
    support_remove_tree(m->root);
    memory_free(m->root);
}

OWNS(machine, end)

static void assert_memory(const machine *m, int64_t total, int64_t available)
{
    const machine_memory found = machine_memory_read(m->root);
    assert_int_equal(found.total, total);
    assert_int_equal(found.available, available);
}

/* A warm page cache leaves few free pages, but can be given up. */
TEST(the_page_cache_counts_as_available)
{
    OWNED(machine) m = begin();
    assert_memory(&m, 16384000LL * 1024, 8192000LL * 1024);
}

TEST(a_limit_of_a_group_counts)
{
    OWNED(machine) m = begin();
    add(&m, "/proc/self/cgroup", "0::/user/job\n");
    add(&m, "/sys/fs/cgroup/user/job/memory.max", "1073741824\n");
    add(&m, "/sys/fs/cgroup/user/job/memory.current", "629145600\n");
    assert_memory(&m, 1024LL * MEBIBYTE, 424LL * MEBIBYTE);
    add(&m, "/sys/fs/cgroup/user/job/memory.stat",
        "anon 1000\ninactive_anon 7\ninactive_file 104857600\nactive_file 5\n");
    assert_memory(&m, 1024LL * MEBIBYTE, 524LL * MEBIBYTE);
}

TEST(limits_above_the_own_group_count)
{
    OWNED(machine) m = begin();
    add(&m, "/proc/self/cgroup", "0::/user/job\n");
    add(&m, "/sys/fs/cgroup/user/job/memory.max", "max\n");
    add(&m, "/sys/fs/cgroup/user/job/memory.current", "1048576\n");
    add(&m, "/sys/fs/cgroup/user/memory.max", "2147483648\n");
    add(&m, "/sys/fs/cgroup/user/memory.current", "1048576\n");
    assert_memory(&m, 2048LL * MEBIBYTE, 2047LL * MEBIBYTE);
}

/* In a container the own group is the root of what is mounted. */
TEST(a_container_sees_its_limit_at_the_root)
{
    OWNED(machine) m = begin();
    add(&m, "/proc/self/cgroup", "0::/\n");
    add(&m, "/sys/fs/cgroup/memory.max", "536870912\n");
    add(&m, "/sys/fs/cgroup/memory.current", "536870913\n");
    assert_memory(&m, 512LL * MEBIBYTE, 0);
}

TEST(groups_of_the_first_version_count)
{
    OWNED(machine) m = begin();
    add(&m, "/proc/self/cgroup",
        "12:cpu,cpuacct:/x\n5:memory:/docker/0123\n1:name=systemd:/x\n0::/x\n");
    add(&m, "/sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes", "1073741824\n");
    add(&m, "/sys/fs/cgroup/memory/docker/0123/memory.usage_in_bytes", "104857600\n");
    add(&m, "/sys/fs/cgroup/memory/docker/0123/memory.stat",
        "inactive_file 1\ntotal_inactive_file 52428800\n");
    add(&m, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    add(&m, "/sys/fs/cgroup/memory/memory.usage_in_bytes", "104857600\n");
    assert_memory(&m, 1024LL * MEBIBYTE, 974LL * MEBIBYTE);
}

TEST(what_cannot_be_read_is_unknown)
{
    OWNED(machine) m = {.root = support_temporary_directory()};
    assert_memory(&m, -1, -1);
    add(&m, "/proc/meminfo", "MemTotal: many kB\nMemAvailable: -7 kB\n");
    add(&m, "/proc/self/cgroup", "0\n0:\n0::\n0::relative\n:::::\n\n");
    assert_memory(&m, -1, -1);
    add(&m, "/proc/meminfo", "MemTotal: 99999999999999999999 kB\n");
    assert_memory(&m, -1, -1);
}

TEST(this_machine_has_memory)
{
    const machine_memory m = machine_memory_read("");
    if (m.total < 0) {
        skip();
    }
    assert_true(m.total > MEBIBYTE);
    assert_true(m.available >= 0 && m.available <= m.total);
}
