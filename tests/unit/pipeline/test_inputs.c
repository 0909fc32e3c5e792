/* Inputs that rank 0 alone has. Ranks are processes that are connected by sockets; all but the
 * first look for the inputs where there are none. A body returns the number of the check that
 * failed, 0 for none. */
#include "lab_model.h"

#include "base/memory.h"
#include "support/ranks.h"
#include "support/support.h"

#include <grail/inputs.h>
#include <grail/model.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %d, line %d: %s\n", comm->rank, __LINE__,                        \
                    grail_error_message());                                                        \
            return __LINE__ % 250 + 1;                                                             \
        }                                                                                          \
    } while (0)

enum { SIZE = 3, LONG = (1 << 23) + 100, HANGS_AFTER = 60 };

/* What rank 0 has, and where copies go. */
typedef struct place_of_inputs {
    char *directory;
    char folder[LAB_PATH], text[LAB_PATH], copies[LAB_PATH];
} place_of_inputs;

static void write_long(const char *directory, const char *name)
{
    char *bytes = NULL;
    assert_ok(memory_new(&bytes, LONG, 1));
    for (int i = 0; i < LONG; i++) {
        bytes[i] = (char)(i * 31 + i / 251);
    }
    support_write_file(directory, name, bytes, LONG);
    memory_free(bytes);
}

static void set_up(place_of_inputs *p)
{
    char path[LAB_PATH + 20];
    p->directory = support_temporary_directory();
    snprintf(p->folder, sizeof p->folder, "%s/images", p->directory);
    snprintf(p->text, sizeof p->text, "%s/text.txt", p->directory);
    snprintf(p->copies, sizeof p->copies, "%s/copies", p->directory);
    assert_int_equal(mkdir(p->copies, 0700), 0);
    assert_int_equal(mkdir(p->folder, 0700), 0);
    support_write_file(p->directory, "text.txt", "some text", 9);
    support_write_file(p->folder, ".hidden", "x", 1);
    support_write_file(p->folder, "empty.txt", "", 0);
    write_long(p->folder, "long \xff.bin");
    snprintf(path, sizeof path, "%s/class a", p->folder);
    assert_int_equal(mkdir(path, 0700), 0);
    support_write_file(path, "1.txt", "one", 3);
    assert_int_equal(symlink("1.txt", strcat(path, "/2.txt")), 0);
    setenv("TMPDIR", p->copies, 1);
}

static int count_entries(const char *path)
{
    int count = 0;
    DIR *list = opendir(path);
    for (const struct dirent *e = list == NULL ? NULL : readdir(list); e != NULL;
         e = readdir(list)) {
        count += e->d_name[0] != '.' ? 1 : 0;
    }
    if (list != NULL) {
        closedir(list);
    }
    return count;
}

/* No copies are left. */
static void tear_down(place_of_inputs *p)
{
    assert_int_equal(count_entries(p->copies), 0);
    unsetenv("TMPDIR");
    support_remove_tree(p->directory);
    memory_free(p->directory);
}

static bool same_file(const char *left, const char *right)
{
    bool same = false;
    struct stat a;
    struct stat b;
    FILE *x = fopen(left, "rb");
    FILE *y = fopen(right, "rb");
    if (x != NULL && y != NULL && fstat(fileno(x), &a) == 0 && fstat(fileno(y), &b) == 0) {
        same = a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
               a.st_mtim.tv_nsec == b.st_mtim.tv_nsec && S_ISREG(b.st_mode);
        for (int c = getc(x); same && c != EOF; c = getc(x)) {
            same = c == getc(y);
        }
    }
    if (x != NULL) {
        fclose(x);
    }
    if (y != NULL) {
        fclose(y);
    }
    return same;
}

static bool same_below(const char *left, const char *right, const char *name)
{
    char a[LAB_PATH * 2];
    char b[LAB_PATH * 2];
    snprintf(a, sizeof a, "%s/%s", left, name);
    snprintf(b, sizeof b, "%s/%s", right, name);
    return same_file(a, b);
}

/* -- copies ------------------------------------------------------------------------------------ */

static int copy_data(const grail_comm *comm, void *user)
{
    const place_of_inputs *p = user;
    const bool lacks = comm->rank > 0;
    const char *folder = lacks ? "nowhere/images" : p->folder;
    const char *text = lacks ? "nowhere/text.txt" : p->text;
    const char *none = NULL;
    const char *missing = "nowhere/at all";
    const grail_input inputs[] = {{&folder, 0}, {&none, 0}, {&text, 0}, {&missing, 0}};
    grail_shared_inputs *copies = NULL;
    EXPECT(grail_inputs_share(comm, inputs, 4, NULL, NULL, &copies) == GRAIL_OK);
    EXPECT(none == NULL && strcmp(missing, "nowhere/at all") == 0);
    EXPECT((copies != NULL) == lacks);
    EXPECT(!lacks || strncmp(folder, p->copies, strlen(p->copies)) == 0);
    EXPECT(strcmp(text + strlen(text) - 9, "/text.txt") == 0);
    EXPECT(same_file(p->text, text));
    EXPECT(same_below(p->folder, folder, "empty.txt"));
    EXPECT(same_below(p->folder, folder, "long \xff.bin"));
    EXPECT(same_below(p->folder, folder, "class a/1.txt"));
    EXPECT(same_below(p->folder, folder, "class a/2.txt"));
    EXPECT(!lacks || count_entries(folder) == 3);
    grail_shared_inputs_close(copies);
    return 0;
}

static void ranks_have_copies_of_what_they_lack(void **state)
{
    (void)state;
    place_of_inputs p;
    set_up(&p);
    for (int size = 1; size <= SIZE; size++) {
        ranks_end_with(size, copy_data, &p, 0);
    }
    tear_down(&p);
}

/* The last rank alone lacks it. */
static int copy_for_one(const grail_comm *comm, void *user)
{
    const place_of_inputs *p = user;
    const bool lacks = comm->rank == comm->size - 1;
    const char *folder = lacks ? "nowhere" : p->folder;
    const grail_input input = {&folder, 0};
    grail_shared_inputs *copies = NULL;
    EXPECT(grail_inputs_share(comm, &input, 1, NULL, NULL, &copies) == GRAIL_OK);
    EXPECT((copies != NULL) == lacks && (folder != p->folder) == lacks);
    EXPECT(same_below(p->folder, folder, "long \xff.bin"));
    grail_shared_inputs_remove_all();
    EXPECT(!lacks || access(folder, F_OK) != 0);
    grail_shared_inputs_close(copies);
    return 0;
}

static void ranks_that_see_the_files_keep_them(void **state)
{
    (void)state;
    place_of_inputs p;
    set_up(&p);
    ranks_end_with(SIZE, copy_for_one, &p, 0);
    tear_down(&p);
}

/* A file of the same name and size is another file. */
static int copy_beside(const grail_comm *comm, void *user)
{
    const place_of_inputs *p = user;
    const char *text = "text.txt";
    const grail_input input = {&text, 0};
    grail_shared_inputs *copies = NULL;
    EXPECT(chdir(comm->rank == 0 ? p->directory : p->folder) == 0);
    EXPECT(grail_inputs_share(comm, &input, 1, NULL, NULL, &copies) == GRAIL_OK);
    EXPECT((copies != NULL) == (comm->rank > 0));
    EXPECT(same_file(p->text, text));
    grail_shared_inputs_close(copies);
    return 0;
}

static void another_file_of_that_name_is_not_taken(void **state)
{
    (void)state;
    place_of_inputs p;
    set_up(&p);
    support_write_file(p.folder, "text.txt", "some TEXT", 9);
    ranks_end_with(2, copy_beside, &p, 0);
    tear_down(&p);
}

static int copy_model(const grail_comm *comm, void *user)
{
    const char *const *models = user;
    char digests[2][65];
    for (int i = 0; models[i] != NULL; i++) {
        const char *path = comm->rank == 0 ? models[i] : strrchr(models[i], '/') + 1;
        const grail_input input = {&path, 1};
        grail_shared_inputs *copies = NULL;
        EXPECT(grail_inputs_share(comm, &input, 1, NULL, NULL, &copies) == GRAIL_OK);
        for (int k = 0; k < 2; k++) {
            grail_model *model = NULL;
            EXPECT(grail_model_open(k == 0 ? models[i] : path, &model) == GRAIL_OK);
            EXPECT(grail_model_digest(model, digests[k]) == GRAIL_OK);
            grail_model_close(model);
        }
        EXPECT(strcmp(digests[0], digests[1]) == 0);
        grail_shared_inputs_close(copies);
    }
    return 0;
}

/* A directory, one with shards, one with other files beside what belongs to it, its weights file,
 * and a directory of links. */
static void models_are_opened_from_copies(void **state)
{
    (void)state;
    place_of_inputs p;
    set_up(&p);
    char file[LAB_PATH * 3];
    char beside[LAB_PATH * 2];
    char links[LAB_PATH * 2];
    char shards[LAB_PATH];
    char command[LAB_PATH * 12];
    snprintf(beside, sizeof beside, "%s/model", p.directory);
    snprintf(links, sizeof links, "%s/links", p.directory);
    snprintf(shards, sizeof shards, "%s", lab_golden("llama3-sharded"));
    snprintf(command, sizeof command,
             "cp -r '%s' '%s' && mkdir '%s/runs' '%s' && ln -s '%s'/* '%s'", lab_golden("llama3"),
             beside, beside, links, beside, links);
    assert_int_equal(system(command), 0);
    write_long(beside, "model.onnx");
    snprintf(file, sizeof file, "%s/model.safetensors", beside);
    const char *models[] = {lab_golden("llama3"), shards, beside, file, links, NULL};
    ranks_end_with(2, copy_model, models, 0);
    tear_down(&p);
}

/* -- failures ---------------------------------------------------------------------------------- */

typedef struct failing {
    place_of_inputs p;
    const char *what;
    int64_t successes, *made;
    int victim;
} failing;

static int cancel_or_change(void *user, int64_t done, int64_t total)
{
    const failing *f = user;
    char path[LAB_PATH * 2];
    if (strcmp(f->what, "cancel") == 0) {
        return done < total ? 0 : 1;
    }
    if (strcmp(f->what, "change") == 0 && done < total) {
        snprintf(path, sizeof path, "%s/long \xff.bin", f->p.folder);
        (void)truncate(path, LONG - 1);
    }
    return 0;
}

/* Rank 1 hears other bytes than were sent, of what is long. */
static int spoil(void *context, int root, void *bytes, size_t size)
{
    const grail_comm *whole = context;
    const int code = whole->broadcast(whole->context, root, bytes, size);
    if (whole->rank == 1 && size > 1 << 20) {
        ((char *)bytes)[size / 2] ^= 1;
    }
    return code;
}

static int send_on(void *context, int to, const void *bytes, size_t size)
{
    const grail_comm *whole = context;
    return whole->send(whole->context, to, bytes, size);
}

static int receive_on(void *context, int from, void *bytes, size_t size)
{
    const grail_comm *whole = context;
    return whole->receive(whole->context, from, bytes, size);
}

static int broadcast_on(void *context, int root, void *bytes, size_t size)
{
    const grail_comm *whole = context;
    return whole->broadcast(whole->context, root, bytes, size);
}

/* The status, or 200 where the message is not `expected`, or paths changed. */
static int fail_to_share(const grail_comm *comm, void *user)
{
    static const struct {
        const char *what, *expected;
    } texts[] = {{"cancel", "cancelled after "},
                 {"change", "long"},
                 {"room", "copies of the inputs take 83887"},
                 {"spoil", "did not arrive as rank 0 sent them"},
                 {"inputs", "other inputs here than on rank 0"},
                 {"count", "other inputs here than on rank 0"},
                 {"tmpdir", "cannot make a directory like"},
                 {"path", "input 1 of 2 has no path of the caller's"}};
    const failing *f = user;
    const bool is_second = comm->rank == 1;
    grail_comm used = *comm;
    used.context = (void *)(uintptr_t)comm;
    used.send = send_on;
    used.receive = receive_on;
    used.broadcast = strcmp(f->what, "spoil") == 0 ? spoil : broadcast_on;
    const char *folder = comm->rank == 0 ? f->p.folder : "nowhere";
    const char *text = is_second && strcmp(f->what, "inputs") == 0 ? NULL : f->p.text;
    const char *given = folder;
    const bool pathless = is_second && strcmp(f->what, "path") == 0;
    const grail_input inputs[] = {{&folder, 0}, {pathless ? NULL : &text, 0}};
    grail_shared_inputs *copies = NULL;
    alarm(HANGS_AFTER);
    if (is_second && strcmp(f->what, "room") == 0) {
        const struct rlimit limit = {LONG - 1, LONG - 1};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
    }
    if (is_second && strcmp(f->what, "tmpdir") == 0) {
        setenv("TMPDIR", "/nowhere/at/all", 1);
    }
    const int count = is_second && strcmp(f->what, "count") == 0 ? 1 : 2;
    const grail_status status =
        grail_inputs_share(&used, inputs, count, cancel_or_change, (void *)(uintptr_t)f, &copies);
    bool told = false;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        told = told || (strcmp(texts[i].what, f->what) == 0 &&
                        strstr(grail_error_message(), texts[i].expected) != NULL);
    }
    if (!told) {
        fprintf(stderr, "rank %d, %s: %s\n", comm->rank, f->what, grail_error_message());
    }
    return told && copies == NULL && folder == given ? (int)status : 200;
}

static void failures_end_all_and_leave_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        grail_status status;
    } cases[] = {{"cancel", GRAIL_ERROR_CANCELLED}, {"room", GRAIL_ERROR_SPACE},
                 {"spoil", GRAIL_ERROR_IO},         {"inputs", GRAIL_ERROR_ARGUMENT},
                 {"count", GRAIL_ERROR_ARGUMENT},   {"tmpdir", GRAIL_ERROR_IO},
                 {"change", GRAIL_ERROR_IO},        {"path", GRAIL_ERROR_ARGUMENT}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        failing f = {.what = cases[i].what};
        set_up(&f.p);
        ranks_end_with(SIZE, fail_to_share, &f, (int)cases[i].status);
        tear_down(&f.p);
    }
}

/* The status, or 200 where paths and copies are not as it says. */
static int lack_memory(const grail_comm *comm, void *user)
{
    const failing *f = user;
    const char *folder = comm->rank == 0 ? f->p.folder : "nowhere";
    const char *model = comm->rank == 0 ? lab_golden("llama3") : "nowhere";
    const char *given = folder;
    const grail_input inputs[] = {{&folder, 0}, {&model, 1}};
    grail_shared_inputs *copies = NULL;
    alarm(HANGS_AFTER);
    memory_fail_after(comm->rank == f->victim ? f->successes : -1);
    const grail_status status = grail_inputs_share(comm, inputs, 2, NULL, NULL, &copies);
    if (comm->rank == f->victim) {
        *f->made = memory_allocation_count();
    }
    memory_fail_after(-1);
    const bool changed = folder != given;
    const bool fits =
        changed == (status == GRAIL_OK && comm->rank > 0) && (copies != NULL) == changed;
    grail_shared_inputs_close(copies);
    return fits ? (int)status : 200;
}

static void a_rank_that_lacks_memory_ends_all(void **state)
{
    (void)state;
    failing f = {.made = ranks_shared(sizeof *f.made)};
    set_up(&f.p);
    for (f.victim = 0; f.victim < 2; f.victim++) {
        int ended[RANKS_MOST] = {GRAIL_ERROR_MEMORY, GRAIL_ERROR_MEMORY};
        for (f.successes = 0; ended[f.victim] != GRAIL_OK;
             f.successes += 1 + f.successes / (support_walks_failures() ? 6 : 3)) {
            ranks_run(2, lack_memory, &f, ended);
            assert_int_equal(ended[0], ended[1]);
            assert_int_equal(ended[f.victim],
                             *f.made > f.successes ? GRAIL_ERROR_MEMORY : GRAIL_OK);
            assert_int_equal(count_entries(f.p.copies), 0);
        }
    }
    tear_down(&f.p);
}

/* Rank 1 ends where the first piece is sent, and removes nothing. */
static int end_or_break(void *context, int root, void *bytes, size_t size)
{
    const grail_comm *whole = context;
    if (whole->rank == 1 && size > 1 << 20) {
        _exit(9);
    }
    return whole->broadcast(whole->context, root, bytes, size);
}

static int lose_a_rank(const grail_comm *comm, void *user)
{
    const failing *f = user;
    const char *folder = comm->rank == 0 ? f->p.folder : "nowhere";
    const grail_input input = {&folder, 0};
    grail_shared_inputs *copies = NULL;
    grail_comm used = *comm;
    used.context = (void *)(uintptr_t)comm;
    used.send = send_on;
    used.receive = receive_on;
    used.broadcast = end_or_break;
    alarm(HANGS_AFTER);
    return (int)grail_inputs_share(&used, &input, 1, NULL, NULL, &copies);
}

static void a_rank_that_ends_ends_all(void **state)
{
    (void)state;
    failing f = {.what = ""};
    int ended[RANKS_MOST];
    set_up(&f.p);
    ranks_run(SIZE, lose_a_rank, &f, ended);
    assert_int_equal(ended[0], GRAIL_ERROR_IO);
    assert_int_equal(ended[1], 9);
    assert_int_equal(ended[2], GRAIL_ERROR_IO);
    /* of rank 1 there are names, but nothing of what is long */
    char command[LAB_PATH * 4];
    snprintf(command, sizeof command,
             "test -n \"$(ls '%s')\" -a -z \"$(find '%s' -type f -size +1k)\" && rm -r '%s'/*",
             f.p.copies, f.p.copies, f.p.copies);
    assert_int_equal(system(command), 0);
    tear_down(&f.p);
}

static void one_process_shares_nothing(void **state)
{
    (void)state;
    const char *path = "nowhere";
    const grail_input input = {&path, 1};
    grail_shared_inputs *copies = (grail_shared_inputs *)&path;
    const grail_comm wrong = {.rank = 2, .size = 2};
    assert_fails(grail_inputs_share(&wrong, &input, 1, NULL, NULL, &copies), GRAIL_ERROR_ARGUMENT,
                 "rank 2 of 2");
    assert_null(copies);
    assert_ok(grail_inputs_share(NULL, &input, 1, NULL, NULL, &copies));
    assert_null(copies);
    assert_string_equal(path, "nowhere");
    grail_shared_inputs_close(NULL);
    grail_shared_inputs_remove_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_have_copies_of_what_they_lack),
        cmocka_unit_test(ranks_that_see_the_files_keep_them),
        cmocka_unit_test(another_file_of_that_name_is_not_taken),
        cmocka_unit_test(models_are_opened_from_copies),
        cmocka_unit_test(failures_end_all_and_leave_nothing),
        cmocka_unit_test(a_rank_that_lacks_memory_ends_all),
        cmocka_unit_test(a_rank_that_ends_ends_all),
        cmocka_unit_test(one_process_shares_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
