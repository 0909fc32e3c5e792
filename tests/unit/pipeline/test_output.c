/* The output of a run: what is copied from the model and what is refused, a model that changes
 * meanwhile, and weights that no later failure takes away. */
#include "lab.h"

#include "base/file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What an observer does when the last block is finished. */
typedef struct last_block {
    const lab *l;
    void (*act)(const lab *l);
    int calls;
} last_block;

static int observe(void *user, const grail_site_report *site, int block, int blocks,
                   double seconds_left)
{
    last_block *b = user;
    b->calls++;
    if (b->act != NULL && site == NULL && block == blocks - 1) {
        b->act(b->l);
    }
    return 0;
}

static grail_status run_and_act(grail_compress_options options, last_block *b)
{
    options.run.observer = observe;
    options.run.observer_user = b;
    return lab_compress(&options);
}

/* A copy of a golden model, in the laboratory, that may be changed. */
static const char *copied_model(const lab *l, char path[LAB_PATH])
{
    snprintf(path, LAB_PATH, "%s", lab_f32(l, "llama3", "model"));
    return path;
}

static void link_in(const lab *l, const char *target, const char *name)
{
    unlink(lab_path(l, name));
    assert_int_equal(symlink(target, lab_path(l, name)), 0);
}

/* -- companions -------------------------------------------------------------------------------- */

static void assert_refused_before_the_first_block(const lab *l, const char *model,
                                                  grail_status code, const char *text)
{
    last_block b = {.l = l};
    assert_fails(run_and_act(lab_options(l, model, lab_path(l, "out")), &b), code, text);
    assert_int_equal(b.calls, 0);
    assert_false(file_exists(lab_path(l, "out.partial")));
}

LAB_TEST(what_cannot_be_copied_is_refused_before_the_first_block)
{
    char model[LAB_PATH];
    copied_model(l, model);
    link_in(l, "nowhere", "model/extra.json");
    assert_refused_before_the_first_block(
        l, model, GRAIL_ERROR_IO,
        "model/extra.json' is a symbolic link to a file that does not exist");
    support_write_file(l->directory, "secret.txt", "secret", 6);
    link_in(l, "../secret.txt", "model/extra.json");
    assert_refused_before_the_first_block(l, model, GRAIL_ERROR_ARGUMENT,
                                          "which lies outside the model's directory");
    assert_int_equal(unlink(lab_path(l, "model/extra.json")), 0);
    assert_int_equal(mkdir(lab_path(l, "model/extra.json"), 0777), 0);
    assert_refused_before_the_first_block(l, model, GRAIL_ERROR_IO, "not a regular file");
    assert_int_equal(rmdir(lab_path(l, "model/extra.json")), 0);
    support_write_file(model, "extra.json", "{}", 2);
    assert_int_equal(truncate(lab_path(l, "model/extra.json"), ((off_t)1 << 28) + 1), 0);
    assert_refused_before_the_first_block(l, model, GRAIL_ERROR_FORMAT, "has 268435457 bytes");
}

static void assert_copied(const lab *l, const char *name, const char *expected)
{
    OWNED(buffer) bytes = {0};
    assert_ok(file_read(lab_path(l, name), 1 << 20, &bytes));
    assert_string_equal((const char *)bytes.bytes, expected);
}

LAB_TEST(links_inside_the_model_are_copied_as_files)
{
    char model[LAB_PATH];
    struct stat info;
    copied_model(l, model);
    assert_int_equal(mkdir(lab_path(l, "model/files"), 0777), 0);
    support_write_file(lab_path(l, "model/files"), "notes", "notes", 5);
    link_in(l, "files/notes", "model/notes.txt");
    const grail_compress_options options = lab_options(l, model, lab_path(l, "out"));
    assert_ok(lab_compress(&options));
    assert_copied(l, "out/notes.txt", "notes");
    assert_int_equal(lstat(lab_path(l, "out/notes.txt"), &info), 0);
    assert_true(S_ISREG(info.st_mode));
    assert_false(file_exists(lab_path(l, "out/files")));
}

/* REPOSITORY/snapshots/REVISION/notes.txt -> ../../blobs/HASH */
LAB_TEST(links_of_a_hugging_face_cache_are_followed)
{
    char model[LAB_PATH];
    assert_int_equal(mkdir(lab_path(l, "snapshots"), 0777), 0);
    assert_int_equal(mkdir(lab_path(l, "blobs"), 0777), 0);
    copied_model(l, model);
    const char *revision = lab_path(l, "snapshots/abc");
    assert_int_equal(rename(model, revision), 0);
    support_write_file(lab_path(l, "blobs"), "0123", "from the blobs", 14);
    link_in(l, "../../blobs/0123", "snapshots/abc/notes.txt");
    const grail_compress_options options = lab_options(l, revision, lab_path(l, "out"));
    assert_ok(lab_compress(&options));
    assert_copied(l, "out/notes.txt", "from the blobs");
    support_write_file(l->directory, "0123", "beside", 6);
    link_in(l, "../../0123", "snapshots/abc/notes.txt");
    const grail_compress_options again = lab_options(l, revision, lab_path(l, "again"));
    assert_fails(lab_compress(&again), GRAIL_ERROR_ARGUMENT, "outside the model's directory");
}

static void name_modules(const lab *l, const char *text)
{
    support_write_file(lab_path(l, "model"), "modules.json", text, strlen(text));
}

static void make_module(const lab *l, const char *folder)
{
    char path[LAB_PATH];
    snprintf(path, sizeof path, "model/%s", folder);
    assert_int_equal(mkdir(lab_path(l, path), 0777), 0);
    support_write_file(lab_path(l, path), "config.json", folder, strlen(folder));
}

/* Those of the folders beside the weights are copied that modules.json names, as far as they are
 * JSON. */
LAB_TEST(settings_of_other_modules_are_copied)
{
    char model[LAB_PATH];
    copied_model(l, model);
    make_module(l, "1_Pooling");
    make_module(l, "2_Dense");
    make_module(l, "notes");
    support_write_file(lab_path(l, "model/2_Dense"), "model.safetensors", "x", 1);
    support_write_file(lab_path(l, "model/2_Dense"), ".config.json", "x", 1);
    assert_int_equal(mkdir(lab_path(l, "model/1_Pooling/inner"), 0777), 0);
    name_modules(l, "[{\"path\": \"\"}, {\"path\": \"1_Pooling\"}, {\"path\": \"1_Pooling\"},"
                    " {\"path\": \"2_Dense\"}, {\"path\": \"3_Normalize\"}, {}, 7]");
    const grail_compress_options options = lab_options(l, model, lab_path(l, "out"));
    assert_ok(lab_compress(&options));
    assert_copied(l, "out/1_Pooling/config.json", "1_Pooling");
    assert_copied(l, "out/2_Dense/config.json", "2_Dense");
    assert_true(file_exists(lab_path(l, "out/modules.json")));
    static const char *const missing[] = {"out/2_Dense/model.safetensors",
                                          "out/2_Dense/.config.json", "out/1_Pooling/inner",
                                          "out/3_Normalize", "out/notes"};
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++) {
        assert_false(file_exists(lab_path(l, missing[i])));
    }
    name_modules(l, "{\"path\": \"../x\"}"); /* no list of modules */
    const grail_compress_options again = lab_options(l, model, lab_path(l, "again"));
    assert_ok(lab_compress(&again));
    assert_false(file_exists(lab_path(l, "again/1_Pooling")));
}

LAB_TEST(a_list_of_modules_that_lies_is_refused)
{
    static const char *const wrong[] = {"..",   ".",      "/etc",       "../model",   "a/b",
                                        ".git", "a\\\\b", "1_Pooling/", "./1_Pooling"};
    char model[LAB_PATH];
    char text[1 << 13];
    copied_model(l, model);
    make_module(l, "1_Pooling");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(text, sizeof text, "[{\"path\": \"1_Pooling\"}, {\"path\": \"%s\"}]", wrong[i]);
        name_modules(l, text);
        assert_refused_before_the_first_block(l, model, GRAIL_ERROR_FORMAT,
                                              "is not the name of a folder beside the weights");
    }
    name_modules(l, "[{\"path\": \"config.json\"}]");
    assert_refused_before_the_first_block(l, model, GRAIL_ERROR_ARGUMENT, "is not a folder;");
    link_in(l, "1_Pooling", "model/2_Link");
    name_modules(l, "[{\"path\": \"2_Link\"}]");
    assert_refused_before_the_first_block(l, model, GRAIL_ERROR_ARGUMENT, "a symbolic link");
    support_write_file(l->directory, "secret.json", "secret", 6);
    link_in(l, "../../secret.json", "model/1_Pooling/more.json");
    name_modules(l, "[{\"path\": \"1_Pooling\"}]");
    assert_refused_before_the_first_block(l, model, GRAIL_ERROR_ARGUMENT,
                                          "which lies outside the model's directory");
    name_modules(l, "[");
    assert_refused_before_the_first_block(l, model, GRAIL_ERROR_FORMAT, "modules.json");
    size_t used = (size_t)snprintf(text, sizeof text, "[{}");
    for (int i = 0; i < 64; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, ", {}");
    }
    snprintf(text + used, sizeof text - used, "]");
    name_modules(l, text);
    assert_refused_before_the_first_block(l, model, GRAIL_ERROR_FORMAT, "65 modules");
    assert_int_equal(truncate(lab_path(l, "model/modules.json"), (1 << 20) + 1), 0);
    assert_refused_before_the_first_block(l, model, GRAIL_ERROR_FORMAT, "modules.json");
}

/* -- a model that changes ---------------------------------------------------------------------- */

static void touch_weights(const lab *l)
{
    const struct timespec earlier[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, lab_path(l, "model/model.safetensors"), earlier, 0), 0);
}

static void replace_config(const lab *l)
{
    const char *from = lab_path(l, "model/config.json");
    assert_int_equal(rename(from, lab_path(l, "model/old")), 0);
    support_write_file(lab_path(l, "model"), "config.json", "{}", 2);
}

TEST(a_model_that_changes_during_the_run_is_noticed)
{
    static void (*const changes[])(const lab *) = {touch_weights, replace_config};
    static const char *const texts[] = {"model.safetensors' changed during the run: it was "
                                        "modified or replaced",
                                        "config.json' changed during the run: it had "};
    for (int i = 0; i < 2; i++) {
        OWNED(lab) l;
        char model[LAB_PATH];
        lab_open(&l);
        copied_model(&l, model);
        last_block b = {.l = &l, .act = changes[i]};
        assert_fails(run_and_act(lab_options(&l, model, lab_path(&l, "out")), &b), GRAIL_ERROR_IO,
                     texts[i]);
        assert_false(file_exists(lab_path(&l, "out")));
    }
}

/* -- complete weights -------------------------------------------------------------------------- */

static void make_output(const lab *l)
{
    assert_int_equal(mkdir(lab_path(l, "out"), 0777), 0);
}

/* Runs whose blocks finish one by one, and only all together. */
TEST(weights_that_are_complete_stay_when_the_output_appears_meanwhile)
{
    for (int open_loop = 0; open_loop < 2; open_loop++) {
        OWNED(lab) l;
        lab_open(&l);
        grail_compress_options options =
            lab_options(&l, lab_golden("llama3-sharded"), lab_path(&l, "whole"));
        options.fit.open_loop = open_loop;
        assert_ok(lab_compress(&options));
        const char *output = lab_path(&l, "out");
        options.output.path = output;
        last_block b = {.l = &l, .act = make_output};
        assert_fails(run_and_act(options, &b), GRAIL_ERROR_EXISTS,
                     "' appeared during the run; move it away; all weights are written in '");
        options.output.resume = 1;
        b = (last_block){.l = &l};
        assert_fails(run_and_act(options, &b), GRAIL_ERROR_EXISTS, "holds an interrupted run)");
        assert_int_equal(rmdir(output), 0);
        assert_ok(run_and_act(options, &b));
        assert_int_equal(b.calls, 0); /* nothing was computed again */
        assert_same_checkpoint(lab_path(&l, "whole"), output);
        assert_false(file_exists(lab_path(&l, "out.partial")));
        OWNED(json_t) *report = read_json(output, "report.json");
        OWNED(json_t) *before = read_json(lab_path(&l, "whole"), "report.json");
        const json_t *site = json_array_get(json_object_get(report, "sites"), 0);
        const json_t *same = json_array_get(json_object_get(before, "sites"), 0);
        assert_true(
            json_equal(json_object_get(site, "kept_units"), json_object_get(same, "kept_units")));
    }
}

LAB_TEST(unfinished_weights_do_not_open_as_a_model)
{
    grail_compression *c = NULL;
    OWNED(grail_model) *m = NULL;
    const grail_compress_options options = lab_options(l, lab_golden("llama3"), lab_path(l, "out"));
    assert_ok(grail_compression_open(&options, &c));
    assert_ok(grail_compression_run(c));
    assert_fails(grail_model_open(lab_path(l, "out.partial"), &m), GRAIL_ERROR_FORMAT,
                 "holds an interrupted run, not a model; resume that run, or delete it");
    assert_fails(grail_model_open(lab_path(l, "out.partial/result"), &m), GRAIL_ERROR_FORMAT,
                 "is unfinished: the length of its header is 0");
    assert_ok(grail_compression_finish(c));
    grail_compression_close(c);
    assert_ok(grail_model_open(lab_path(l, "out"), &m));
}
